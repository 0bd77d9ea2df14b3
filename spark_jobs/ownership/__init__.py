"""The owners of tasks: the ownership log that instances write, its history, and the state of the group."""
