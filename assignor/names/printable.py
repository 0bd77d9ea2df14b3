"""Text from elsewhere on a terminal or in a log: names that members choose must not be able to do anything there.

An escape sequence colours the terminal or clears it, a line end forges another line, and a bidirectional override shows
a name in another order than it has. All of them are shown as Python writes them in a string: `\\x1b`, `\\n`, `\\u202e`.
Letters and signs of all scripts stay as they are.
"""

from __future__ import annotations

import json
import re

_MAY_HARM = re.compile(r"[^\x20-\x7e]")
_MAY_HARM_IN_LINES = re.compile(r"[^\x20-\x7e\n]")


def one_line(text: str) -> str:
    """For a cell, a name in a sentence, a line of a log."""
    return text if text.isprintable() else _MAY_HARM.sub(_escaped, text)


def lines(text: str) -> str:
    """For text of several lines, whose line ends are its own."""
    return text if text.replace("\n", "").isprintable() else _MAY_HARM_IN_LINES.sub(_escaped, text)


def json_text(text: str) -> str:
    """JSON with the same meaning, which can be printed."""
    return text if text.isprintable() else _MAY_HARM_IN_LINES.sub(_escaped_as_json, text)


def shown_address(text: str) -> str:
    """For errors: without what stands before its last @, which may be a user with a password."""
    _, at, rest = text.rpartition("@")
    return f"...@{rest}" if at else text


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    return letter if letter.isprintable() else ascii(letter)[1:-1]


def _escaped_as_json(found: re.Match[str]) -> str:
    letter = found[0]
    return letter if letter.isprintable() else json.dumps(letter)[1:-1]
