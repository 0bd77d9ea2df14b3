"""What the serdes and change logging layers ask of a window store of bytes, be it on disk or in memory.

Source: `WindowStore<Bytes, byte[]>`. Differs from Kafka: `put` tells the sequence number it used, so that the
changelog gets the same one; Kafka counts twice and the two drift apart when a duplicate is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from streams_runtime.state_stores.base import StateStore


class WindowBytesStore(StateStore, Protocol):
    """Window starts are milliseconds, not negative in `put`; ranges of them take both ends in and may be any integers.

    A window is readable while its start is above observed stream time - retention; observed stream time is the highest
    start that came in by `put` or `restore` since the store was opened.
    """

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> int | None:
        """The sequence number to log the change with (0 without duplicates); None when there is nothing to log.

        None as value deletes; in a store with duplicates it does nothing. An expired window is dropped.
        """
        ...

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        """With duplicates: the one with the highest sequence number."""
        ...

    def fetch_range(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[tuple[int, bytes]]:
        """Start and value in order of time; duplicates in that of their sequence numbers."""
        ...

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
        """Key, start and value; the order is the store's own."""
        ...
