"""Names: which are legal, short forms for people, near misses, text that is safe to print; public names of packages."""
