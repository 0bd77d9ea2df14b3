"""The start of the program `assignor`: Ctrl-C ends it without a traceback, even while it is still being imported.

Importing the commands and their libraries takes a second, and many seconds on a busy machine. During this time, Python
would print a traceback.
"""

import signal


def main() -> None:
    """Entry point; always raises SystemExit."""
    # if SIGINT is ignored, as in a background job of a shell, it stays ignored
    waits_for_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if waits_for_python:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from assignor_cli import app

    if waits_for_python:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app.main()
