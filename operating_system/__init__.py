"""Services of the operating system: private files, files that are written as a whole or not at all, limits, forks."""
