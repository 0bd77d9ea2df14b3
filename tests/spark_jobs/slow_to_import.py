"""A module whose import does not end."""

from __future__ import annotations

import sys
import threading

print("importing for ever", file=sys.stderr)
threading.Event().wait()
