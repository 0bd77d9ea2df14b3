"""What `--help` shows below the options of a command."""

from __future__ import annotations

_KEEP_LINES = "\b"
"""Before lines that the help must not wrap together."""


def example(*command_lines: str) -> str:
    """The epilog of a command: how it is called, without the program's name. A test parses every one of them."""
    title = "Example:" if len(command_lines) == 1 else "Examples:"
    return "\n".join([_KEEP_LINES, title, *(f"  assignor {line}" for line in command_lines)])
