"""Windows in memory by their start: a dict of buckets, and the starts in order. Source: `InMemoryWindowStore`.

The task's thread changes it, any thread reads it: what takes two steps is done under a lock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from threading import Lock
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

Bucket = dict[bytes, Entry]
"""The windows of one start, by key."""


class WindowBuckets(Generic[Entry]):
    """Adding costs least in order of time, as records mostly come."""

    __slots__ = ("_by_start", "_lock", "_starts")

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_start: dict[int, Bucket[Entry]] = {}
        self._starts: list[int] = []

    def find(self, start_ms: int) -> Bucket[Entry] | None:
        return self._by_start.get(start_ms)

    def find_or_add(self, start_ms: int) -> Bucket[Entry]:
        bucket = self._by_start.get(start_ms)
        if bucket is None:
            bucket = {}
            with self._lock:
                self._by_start[start_ms] = bucket
                if not self._starts or start_ms > self._starts[-1]:
                    self._starts.append(start_ms)
                else:
                    insort(self._starts, start_ms)
        return bucket

    def remove(self, start_ms: int) -> None:
        with self._lock:
            if self._by_start.pop(start_ms, None) is not None:
                del self._starts[bisect_left(self._starts, start_ms)]

    def remove_before(self, start_ms: int) -> None:
        with self._lock:
            count = bisect_left(self._starts, start_ms)
            for expired_ms in self._starts[:count]:
                del self._by_start[expired_ms]
            del self._starts[:count]

    def between(self, from_ms: int, to_ms: int) -> list[tuple[int, Bucket[Entry]]]:
        """Both ends taken in, in order of time."""
        with self._lock:
            starts = self._starts[bisect_left(self._starts, from_ms) : bisect_right(self._starts, to_ms)]
            return [(start_ms, self._by_start[start_ms]) for start_ms in starts]
