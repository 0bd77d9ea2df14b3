"""Services of the operating system: private files, files that appear as a whole, limits, forks."""
