"""Documents that the HTTP calls answer with, as rows and sentences. The terminal and the page print them.

Pure: no HTTP, no clock, no templates.
"""
