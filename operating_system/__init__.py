"""Functions for the operating system: private files, files that are written completely or not at all, limits, and
forks.
"""
