"""The rows of a versioned store's segments. A row has the older versions of one key, in one segment.

The versions of a row follow each other without gaps: each version is valid until the next version begins. A deletion is
a version without value. A row consists of these parts, with big-endian numbers:

    the time at which the newest version ends, and the time at which the oldest version begins (8 bytes each)
    for each version, newest first: the time at which it begins (8 bytes), and the size of its value (4 bytes); the size
    of a deletion is -1
    the values, oldest first

A row does not contain the number of its versions. The last version of a row is the version that begins at the second
time of the row.

If a key is deleted that has no older version, the row has only the deletion, which begins and ends at the same time.
Such a row is called degenerate, as in Kafka. A degenerate row contains no time, so `find` never finds anything in it.
Source: `RocksDBVersionedStoreSegmentValueFormatter`; KIP-889.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TIMES = struct.Struct(">qq")
_ENTRY = struct.Struct(">qi")
_DELETION_SIZE = -1

Entry = tuple[int, bytes | None]
"""The time at which a version begins, and its value. The value None is a deletion."""


class Version(NamedTuple):
    """A version of a row. `position`: the place in the row; the newest version has the position 0. `valid_to_ms`: the
    time at which the version ends. This time does not belong to the version any more.
    """

    position: int
    valid_from_ms: int
    valid_to_ms: int
    value: bytes | None


class SegmentValue:
    """A row of a segment, which can be changed. `data`: the row as bytes. `next_ms`: the time at which the newest
    version ends. `min_ms`: the time at which the oldest version begins.
    """

    __slots__ = ("data", "min_ms", "next_ms")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.next_ms, self.min_ms = _TIMES.unpack_from(data)

    @classmethod
    def of(cls, value: bytes | None, valid_from_ms: int, valid_to_ms: int) -> "SegmentValue":
        """Returns a row with one version. If both times are equal, the row is degenerate."""
        return cls(_joined(valid_to_ms, valid_from_ms, [(valid_from_ms, value)]))

    def versions(self) -> Iterator[Version]:
        """Returns the versions, newest first."""
        data, valid_to_ms, end, position = self.data, self.next_ms, len(self.data), 0
        while True:
            valid_from_ms, size = _ENTRY.unpack_from(data, _TIMES.size + position * _ENTRY.size)
            start = end - max(size, 0)
            yield Version(position, valid_from_ms, valid_to_ms, None if size < 0 else data[start:end])
            if valid_from_ms == self.min_ms:
                return
            valid_to_ms, end, position = valid_from_ms, start, position + 1

    def find(self, time_ms: int) -> Version:
        """Returns the version that is valid at a time. The time must be at least `min_ms`, and lower than `next_ms`."""
        return next(version for version in self.versions() if version.valid_from_ms <= time_ms)

    def insert(self, position: int, entry: Entry) -> None:
        """Inserts a version before the version with this position."""
        self._splice(position, 0, [entry])

    def replace(self, position: int, entry: Entry) -> None:
        """Replaces the version with this position."""
        self._splice(position, 1, [entry])

    def insert_as_latest(self, valid_from_ms: int, valid_to_ms: int, value: bytes | None) -> None:
        """Inserts the newest version. If the row ends before the version begins, a deletion fills the gap."""
        if valid_from_ms < self.next_ms:
            self._truncate(valid_from_ms)
        entries: list[Entry] = [(valid_from_ms, value)]
        if self.next_ms != valid_from_ms:
            entries.append((self.next_ms, None))
        if self.next_ms == self.min_ms:  # the new versions replace the deletion of a degenerate row
            self._set(_joined(valid_to_ms, entries[-1][0], entries))
            return
        self.next_ms = valid_to_ms
        self._splice(0, 0, entries)

    def insert_as_earliest(self, valid_from_ms: int, value: bytes | None) -> None:
        """Inserts the oldest version. It is valid until the version begins that was the oldest before."""
        if self.next_ms == self.min_ms:
            self._set(SegmentValue.of(value, valid_from_ms, self.next_ms).data)
        else:
            self._splice(sum(1 for _ in self.versions()), 0, [(valid_from_ms, value)])

    def _truncate(self, time_ms: int) -> None:
        """Removes all versions that begin at this time or later, so that the row ends at this time.

        Without transactions, a crash between two writes of a put can leave a version in two rows. The versions of the
        newer row are the right ones.
        """
        if time_ms <= self.min_ms:
            self._set(SegmentValue.of(None, time_ms, time_ms).data)
            return
        found = self.find(time_ms)
        self.next_ms = time_ms
        self._splice(0, found.position + (found.valid_from_ms == time_ms), [])

    def _set(self, data: bytes) -> None:
        self.data = data
        self.next_ms, self.min_ms = _TIMES.unpack_from(data)

    def _splice(self, position: int, removed: int, added: Sequence[Entry]) -> None:
        """Replaces `removed` versions from `position` on by the versions `added`, which are sorted newest first."""
        data, end = self.data, len(self.data)
        begin_ms = None
        for each in range(position):
            begin_ms, size = _ENTRY.unpack_from(data, _TIMES.size + each * _ENTRY.size)
            end -= max(size, 0)
        start = end
        for each in range(position, position + removed):
            begin_ms, size = _ENTRY.unpack_from(data, _TIMES.size + each * _ENTRY.size)
            start -= max(size, 0)
        if begin_ms == self.min_ms:  # the last version of the row is replaced, or versions are added after it
            self.min_ms = added[-1][0]
        before, after = _TIMES.size + position * _ENTRY.size, _TIMES.size + (position + removed) * _ENTRY.size
        entries, values = _parts(added)
        times = _TIMES.pack(self.next_ms, self.min_ms)
        self.data = b"".join((times, data[_TIMES.size : before], entries, data[after:start], values, data[end:]))


def _joined(next_ms: int, min_ms: int, entries: Sequence[Entry]) -> bytes:
    return b"".join((_TIMES.pack(next_ms, min_ms), *_parts(entries)))


def _parts(entries: Sequence[Entry]) -> tuple[bytes, bytes]:
    """Returns the times and sizes of versions, and their values."""
    heads = [_ENTRY.pack(time_ms, _DELETION_SIZE if value is None else len(value)) for time_ms, value in entries]
    return b"".join(heads), b"".join(value for _, value in reversed(entries) if value)
