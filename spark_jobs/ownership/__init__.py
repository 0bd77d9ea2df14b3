"""Which instance owns which task: the log that instances write, its history, and the state of their group."""
