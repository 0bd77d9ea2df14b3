"""What the commands share of the terminal: exit codes, output formats, talk on stderr."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import NoReturn

import typer

EXIT_NO = 1
EXIT_UNUSABLE = 2


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


def say(text: str) -> None:
    """Talk, not result."""
    print(text, file=sys.stderr)


def as_line(document: object) -> str:
    """One JSON document in one line."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def leave(code: int) -> NoReturn:
    raise typer.Exit(code)
