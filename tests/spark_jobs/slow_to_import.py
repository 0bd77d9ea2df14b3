"""A module whose import does not end."""

import sys
import threading

print("importing for ever", file=sys.stderr)
threading.Event().wait()
