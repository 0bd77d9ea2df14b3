"""Where the program `assignor` begins: Ctrl-C ends it without a word, also while it is still being imported.

The commands and what they stand on take a second to import, many on a busy machine. Python would show where it was.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Entry point. Leaves by SystemExit."""
    # a program that finds SIGINT ignored, as a shell's background job does, leaves it so
    waits_for_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if waits_for_python:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from assignor_cli import app

    if waits_for_python:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app.main()
