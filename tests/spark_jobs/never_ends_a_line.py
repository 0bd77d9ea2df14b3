"""A module that writes on and on while it is imported, without an end of line."""

import sys

while True:
    sys.stderr.write("." * 1_000)
