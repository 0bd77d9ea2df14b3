"""Lines of an input that can be read only once or only here (a pipe, a database), in a file for those who run the
chunks.

Each line of the file is the place of the recorded line as JSON text, a tab, and the recorded line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from assignor.errors import InputError
from rebalance_analysis.reading.sources import RawLine

_TAB = b"\t"  # JSON text never contains a raw tab


def write_spool(lines: Iterable[RawLine], path: Path) -> None:
    """Raises InputError when the file cannot be written, and any error of `lines`; earlier lines are kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as target:
            for where, content in lines:
                # in valid JSON a line break is white space between tokens
                target.write(
                    json.dumps(where).encode() + _TAB + content.removesuffix(b"\n").replace(b"\n", b" ") + b"\n"
                )
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None


def spooled_line(content: bytes) -> RawLine:
    """One line of the file."""
    where, _, line = content.partition(_TAB)
    return RawLine(json.loads(where), line)


def digest(path: Path) -> str:
    """The sha256 of the file, which identifies its lines."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
