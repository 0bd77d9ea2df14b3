"""The text of a checkpoint file: up to which changelog offset the state on disk is complete.

The first line is the format version, 0. The second one is the number of entries. Then follows one line per entry:
`topic partition offset`. Source: `OffsetCheckpoint`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from assignor.errors import DecodeError, IllegalStateError
from assignor.types import TopicPartition

OFFSET_UNKNOWN = -4
"""The offset of state that is on disk, but nobody knows up to which record."""

_VERSION = 0
_WHITESPACE = re.compile(r"[ \t\n\v\f\r]+")
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_NUMBER = re.compile(r"[+-]?[0-9]+\Z")


def format_checkpoint(offsets: Mapping[TopicPartition, int]) -> str | None:
    """The text of the file, in the order of `offsets`; None when there are none, since then there is no file.

    Raises IllegalStateError for a negative offset other than OFFSET_UNKNOWN.
    """
    if not offsets:
        return None
    lines = [str(_VERSION), str(len(offsets))]
    for (topic, partition), offset in offsets.items():
        if not _is_valid(offset):
            raise IllegalStateError("Attempted to write a negative offset to the checkpoint file")
        lines.append(f"{topic} {partition} {offset}")
    return "\n".join(lines) + "\n"


def parse_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file, without entries whose offset may not be written.

    Raises DecodeError, whose `reason` is Kafka's message, for any other text. Differs from Kafka: numbers are ASCII
    digits only, where Java reads the digits of any script; Kafka writes only ASCII digits.
    """
    lines = _Lines(data)
    version = lines.number(32)
    if version != _VERSION:
        raise lines.error(f"Unknown offset checkpoint version: {version}")
    expected = lines.number(32)
    offsets: dict[TopicPartition, int] = {}
    while (line := lines.next()) is not None:
        topic, partition, offset = lines.entry(line)
        if _is_valid(offset):
            offsets[TopicPartition(topic, partition)] = offset
        else:
            expected -= 1
    if len(offsets) != expected:
        raise lines.error(f"Expected {expected} entries but found only {len(offsets)}")
    return offsets


def _is_valid(offset: int) -> bool:
    return offset >= 0 or offset == OFFSET_UNKNOWN


class _Lines:
    """The lines of the file as `BufferedReader.readLine` splits them, and the place where the current one starts."""

    __slots__ = ("_at", "_lines", "_text")

    def __init__(self, data: bytes) -> None:
        try:
            self._text = data.decode()
        except UnicodeDecodeError as error:
            raise DecodeError("OffsetCheckpoint", "not UTF-8", error.start) from error
        self._lines = _LINE.finditer(self._text)
        self._at = 0

    def error(self, reason: str) -> DecodeError:
        return DecodeError("OffsetCheckpoint", reason, len(self._text[: self._at].encode()))

    def next(self) -> str | None:
        match = next(self._lines)
        self._at = match.start()
        return None if self._at == len(self._text) else match[1]

    def number(self, bits: int) -> int:
        line = self.next()
        if line is None:
            raise self.error("File ended prematurely.")
        return self._parse(line, bits)

    def entry(self, line: str) -> tuple[str, int, int]:
        pieces = _WHITESPACE.split(line)
        while len(pieces) > 1 and not pieces[-1]:  # Java's split drops empty pieces at the end
            pieces.pop()
        if len(pieces) != 3:
            raise self.error(f"Malformed line in offset checkpoint file: '{line}'.")
        return pieces[0], self._parse(pieces[1], 32), self._parse(pieces[2], 64)

    def _parse(self, text: str, bits: int) -> int:
        limit = 1 << (bits - 1)
        # no number of these sizes takes more digits, and int() of very long ones is slow
        if _NUMBER.match(text) is None or len(text.lstrip("+-").lstrip("0")) > 19:
            raise self.error(f'For input string: "{text}"')
        value = int(text)
        if not -limit <= value < limit:
            raise self.error(f'For input string: "{text}"')
        return value
