"""Escapes text that comes from outside this program, such as names of members, for a terminal or a log file.

Unescaped text can do harm. An escape sequence can colour or clear the terminal. A line end can forge another line of a
log file. A bidirectional override can show a name in another order. Control characters and other unprintable characters
are replaced by Python's escapes: `\\x1b`, `\\n`, `\\u202e`. Printable characters of all scripts stay as they are.
"""

import json
import re

_MAY_HARM = re.compile(r"[^\x20-\x7e]")
_MAY_HARM_IN_LINES = re.compile(r"[^\x20-\x7e\n]")


def one_line(text: str) -> str:
    """Escapes text for one line: a table cell, a name in a sentence, or a line of a log file."""
    return text if text.isprintable() else _MAY_HARM.sub(_escaped, text)


def lines(text: str) -> str:
    """Escapes text of several lines; the line ends are not escaped."""
    return text if text.replace("\n", "").isprintable() else _MAY_HARM_IN_LINES.sub(_escaped, text)


def json_text(text: str) -> str:
    """Returns printable JSON text with the same meaning."""
    return text if text.isprintable() else _MAY_HARM_IN_LINES.sub(_escaped_as_json, text)


def shown_address(text: str) -> str:
    """Returns an address for an error message. The part before the last @ is left out, because it may contain a user
    name and a password.
    """
    _, at, rest = text.rpartition("@")
    return f"...@{rest}" if at else text


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    return letter if letter.isprintable() else ascii(letter)[1:-1]


def _escaped_as_json(found: re.Match[str]) -> str:
    letter = found[0]
    return letter if letter.isprintable() else json.dumps(letter)[1:-1]
