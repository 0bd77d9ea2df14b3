"""The text of a config's value as Kafka reads it: whole numbers, and lists.

Source: `ConfigDef.parseType`, whose values are trimmed as `String.trim` does, `Integer.parseInt`, `Long.parseLong`.
"""

from __future__ import annotations

import re

_TRIMMED = "".join(map(chr, range(0x21)))
"""`String.trim` takes away every control character, and no other space than the blank."""

_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,4000}")
_COMMA = re.compile(r"[ \t\n\v\f\r]*,[ \t\n\v\f\r]*")
_FIRST_PAIR = "\U00010000"
"""A digit that Java writes as two chars is none to `Character.digit(char)`."""


def trimmed(text: str) -> str:
    """`text.trim()`."""
    return text.strip(_TRIMMED)


def whole_number(text: str) -> int | None:
    """Decimal digits of any script, with a sign or without; None for anything else."""
    text = trimmed(text)
    if _WHOLE_NUMBER.fullmatch(text) is None or max(text) >= _FIRST_PAIR:
        return None
    return int(text)


def listed(text: str) -> list[str]:
    """The entries between commas, which may be empty; no entry at all for an empty text."""
    text = trimmed(text)
    return _COMMA.split(text) if text else []
