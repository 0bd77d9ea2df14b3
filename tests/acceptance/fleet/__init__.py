"""Very many members in one process: each speaks the HTTP contract, owns tasks, and writes down what it saw."""
