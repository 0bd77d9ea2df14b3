"""Whether a write-ahead log that an earlier process left has every commit in it that was answered.

    header (32 bytes), then frames: frame header (24 bytes), page        all numbers big-endian

When SQLite opens a database, it takes the frames up to the first one whose checksum does not fit, because that is what
a write looks like that a power loss has cut short. Bytes that were changed later look the same. It then goes back to
older data without a word, and overwrites the rest. What tells them apart: each frame's checksum continues that of the
frame before, and a commit is synced before the next one begins. So when a frame that SQLite does not take is, or is
followed by, a commit that further frames continue, then that commit was complete, and has been answered. Damage within
the very last commit cannot be told from a write that was cut short.

Source: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC_LITTLE, _MAGIC_BIG = 0x377F0682, 0x377F0683
"""Which order the words have over which checksums are made."""

_WORD = 0xFFFFFFFF
_LARGEST_PAGE = 65_536

Sums = tuple[int, int]


class _Frame(NamedTuple):
    is_commit: bool
    fits: bool
    continues: bool
    """Its checksum continues the one that the frame before it says it has, whether that one fits or not."""


def damage(file: Path) -> str | None:
    """What is wrong with the write-ahead log `file`, when commits are lost by it; None when none is. Raises OSError."""
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return None
    with opened:
        header = opened.read(_HEADER.size)
        if not opened.read(1):
            return None  # no frame follows
        opened.seek(_HEADER.size)
        magic, _, page_size, _, *salts_and_sums = _HEADER.unpack(header)
        order = {_MAGIC_LITTLE: "<", _MAGIC_BIG: ">"}.get(magic)
        sums = (salts_and_sums[2], salts_and_sums[3])
        if order is None or not 512 <= page_size <= _LARGEST_PAGE or _continued((0, 0), header[:24], order) != sums:
            return "its header is damaged"
        salts = (salts_and_sums[0], salts_and_sums[1])
        return _lost_commit(_frames(opened, page_size, salts, sums, order))


def _lost_commit(frames: Iterator[_Frame]) -> str | None:
    """A commit that other frames continue, at or after the first frame that does not fit."""
    broken_at, after_commit = 0, False
    for number, frame in enumerate(frames, start=1):
        if broken_at and after_commit and frame.continues:
            return f"frame {broken_at} of it is damaged, and commits come after that"
        if not broken_at and not frame.fits:
            broken_at = number
        after_commit = frame.is_commit
    return None


def _frames(opened: BinaryIO, page_size: int, salts: Sums, sums: Sums, order: str) -> Iterator[_Frame]:
    """Each complete one in the file. Those of an earlier use of the file have other salts, and fit nothing."""
    fits = True
    while len(header := opened.read(_FRAME.size)) == _FRAME.size:
        page = opened.read(page_size)
        if len(page) < page_size:
            return
        _, pages_after_commit, *its_salts_and_sums = _FRAME.unpack(header)
        said = (its_salts_and_sums[2], its_salts_and_sums[3])
        is_ours = (its_salts_and_sums[0], its_salts_and_sums[1]) == salts
        continues = is_ours and _continued(_continued(sums, header[:8], order), page, order) == said
        fits = fits and continues
        yield _Frame(pages_after_commit != 0, fits, continues)
        sums = said


def _continued(sums: Sums, content: bytes, order: str) -> Sums:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & _WORD
        second = (second + two + first) & _WORD
    return first, second
