"""Functions for names: legal names, short names, suggestions for misspelt names, printable names, and names of
modules.
"""
