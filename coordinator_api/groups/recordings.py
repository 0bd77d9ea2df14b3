"""Recorded rebalances on their way to callers: read, unpacked and sent in pieces, by few at one time.

Hundreds of callers may ask at once, and read as slowly as they like. So a caller waits for its turn to be read for,
and for each piece; it keeps no turn while it reads. Each piece is made in a thread when the one before has been sent:
the whole may be very long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from coordinator_api.recorded_documents import expanded
from coordinator_api.store.repository import Repository

PIECE_BYTES = 65_536
"""A piece has at least so many, unless it is the last one: a thread for each member's few bytes costs far more."""

AT_ONE_TIME = 2
"""Threads that unpack share the interpreter lock with the event loop, and connections to the database with commits."""


class Recordings:
    """Of one service, on its event loop."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._turns = asyncio.Semaphore(AT_ONE_TIME)

    async def stored(self, group_id: str, generation_id: int) -> bytes | None:
        """As the repository has it. Raises StoreError."""
        async with self._turns:
            return await self._repository.rebalance(group_id, generation_id)

    async def pieces(self, stored: bytes) -> AsyncIterator[bytes]:
        """The document as JSON. Raises InputError, DecodeError."""
        chunks = expanded(stored)
        while True:
            async with self._turns:
                piece = await asyncio.to_thread(_next_piece, chunks)
            if not piece:
                return
            yield piece


def _next_piece(chunks: Iterator[bytes]) -> bytes:
    piece = bytearray()
    for chunk in chunks:
        piece += chunk
        if len(piece) >= PIECE_BYTES:
            break
    return bytes(piece)
