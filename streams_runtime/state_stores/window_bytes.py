"""What the layers above (serdes, change logging) ask of a window store of bytes, on disk or in memory.

Source: `WindowStore<Bytes, byte[]>`. Differs from Kafka: `put` gives the sequence number it used, so that the changelog
gets the same one. Kafka counts twice, and the two numbers drift apart when a duplicate is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from streams_runtime.state_stores.base import StateStore


class WindowBytesStore(StateStore, Protocol):
    """Window starts are in milliseconds, and not negative in `put`. Ranges include both ends, which may be negative.

    A window is readable while its start is above observed stream time minus retention. Observed stream time is the
    highest start that was put or restored since the store was opened.
    """

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> int | None:
        """Gives the sequence number to log the change with (0 without duplicates). None: there is nothing to log.

        The value None deletes; in a store with duplicates it does nothing. What is put into a window that the store
        keeps no more is dropped, and the context hears of it: on disk that is a window of a deleted segment.
        """
        ...

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        """With duplicates: the value with the highest sequence number."""
        ...

    def fetch_range(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[tuple[int, bytes]]:
        """Start and value in order of time. Duplicates are in order of their sequence numbers."""
        ...

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
        """Key, start and value, in an order that depends on the store."""
        ...
