"""Names: legal names, short names for people, suggestions for misspelt names, printable text, names of packages."""
