"""Starts the program `assignor`. Ctrl-C ends the program without a traceback, even while its modules are being
imported.

Importing the commands and their libraries takes a second, and many seconds on a busy machine. Without this module,
Python would print a traceback on Ctrl-C during the import.
"""

import signal


def main() -> None:
    """The entry point of the program; always raises SystemExit."""
    # if SIGINT was ignored at the start, as in a background job of a shell, it stays ignored
    waits_for_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if waits_for_python:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from assignor_cli import app

    if waits_for_python:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app.main()
