"""Recorded lines in one file, compressed: the driver writes what the chunks need, and they read it where they run.

So a chunk carries a place in this file instead of the lines. The file lies with the output, which every executor
reaches. A record is its length in four bytes, then the line as zlib wrote it.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from assignor.errors import InputError

_LENGTH_BYTES = 4
_LEVEL = 1


@dataclass(frozen=True, slots=True)
class SpooledLines:
    """`count` records that follow each other from `offset` on."""

    path: str
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class SpooledRecord:
    """The place of one record, with its length in front."""

    offset: int
    length: int


class SpoolWriter:
    """Appends to `stream`, an empty file that is open for writing."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._end = 0
        self._sha256 = hashlib.sha256()

    @property
    def end(self) -> int:
        return self._end

    def digest(self) -> str:
        """Of everything written: the same lines in the same order have the same one."""
        return self._sha256.hexdigest()

    def add(self, line: bytes) -> SpooledRecord:
        packed = zlib.compress(line, _LEVEL)
        return self._append(len(packed).to_bytes(_LENGTH_BYTES, "big") + packed)

    def copy(self, source: BinaryIO, record: SpooledRecord) -> SpooledRecord:
        """Append a record of another file."""
        source.seek(record.offset)
        return self._append(source.read(record.length))

    def _append(self, content: bytes) -> SpooledRecord:
        self._stream.write(content)
        self._sha256.update(content)
        record = SpooledRecord(self._end, len(content))
        self._end += len(content)
        return record


def read_spooled(lines: SpooledLines) -> Iterator[bytes]:
    """Raises InputError when the file is not there, because the executors do not share the output directory."""
    try:
        with open(lines.path, "rb") as stream:
            stream.seek(lines.offset)
            for _ in range(lines.count):
                length = int.from_bytes(stream.read(_LENGTH_BYTES), "big")
                yield zlib.decompress(stream.read(length))
    except (OSError, zlib.error) as error:
        reason = f"cannot be read where the work is done ({error}); --output has to be shared with executors"
        raise InputError(reason, lines.path) from None
