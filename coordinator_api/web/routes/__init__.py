"""The addresses of the page, one file for each view."""
