"""The text that `--help` shows below the options of a command."""

_KEEP_LINES = "\b"
"""Click's mark of a paragraph whose lines the help must not rewrap."""


def example(*command_lines: str) -> str:
    """The epilog of a command, with example calls. `command_lines`: without the program's name. A test parses them."""
    title = "Example:" if len(command_lines) == 1 else "Examples:"
    return "\n".join([_KEEP_LINES, title, *(f"  assignor {line}" for line in command_lines)])
