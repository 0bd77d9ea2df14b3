"""Functions for the operating system: creation of private files, complete writes of files, limits, and forks."""
