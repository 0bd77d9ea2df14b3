"""The text that `--help` shows below the options of a command."""

_KEEP_LINES = "\b"
"""If a paragraph of a help text begins with this character, click keeps the line breaks of the paragraph."""


def example(*command_lines: str) -> str:
    """Returns the epilog of a command, with example calls. `command_lines`: the example calls, without the name of the
    program. A test parses every example call.
    """
    title = "Example:" if len(command_lines) == 1 else "Examples:"
    return "\n".join([_KEEP_LINES, title, *(f"  assignor {line}" for line in command_lines)])
