"""Services of the operating system: private files, files written as a whole or not at all, limits, forks."""
