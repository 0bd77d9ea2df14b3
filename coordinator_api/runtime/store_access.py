"""The store as callers of the service reach it, beside what groups write: whether it can be used, and recordings.

- Readiness is a write and a read, for as many askers as there are, at most once a second.
- Recorded rebalances are read, unpacked and sent in pieces, by few at one time. Hundreds of callers may ask at once,
  and read as slowly as they like. So a caller waits for its turn to be read for, and for each piece; it keeps no turn
  while it reads. Each piece is made in a thread when the one before has been sent: the whole may be very long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from coordinator_api.store.recorded_documents import expanded
from coordinator_api.store.repository import Repository
from coordinator_api.store.store_errors import StoreError

WITHIN_S = 2.0
"""How long an asker waits for the store."""

SCRAPE_WITHIN_S = 0.5
"""How long a scrape of metrics waits for it. A scrape that takes too long is given up as a whole."""

HOLDS_FOR_S = 1.0
"""How long others get the result of the last check. Health checks are open to everybody, and each check is a write."""


class StoreReadiness:
    """Of one service, on its event loop."""

    def __init__(self, repository: Repository, within_s: float = WITHIN_S, holds_for_s: float = HOLDS_FOR_S) -> None:
        self._repository = repository
        self._within_s = within_s
        self._holds_for_s = holds_for_s
        self._check: asyncio.Task[None] | None = None
        self._looked_at_s: float | None = None
        self._problem: str | None = None

    async def problem(self, within_s: float | None = None) -> str | None:
        """What keeps the store from being used, in words for everybody; None when nothing does.

        `within_s`: how long this asker waits, when it is not as long as others do.
        """
        within_s = self._within_s if within_s is None else within_s
        now_s = asyncio.get_running_loop().time()
        if self._check is None:
            if self._looked_at_s is not None and now_s - self._looked_at_s < self._holds_for_s:
                return self._problem
            self._check = asyncio.create_task(self._check_store())
        await asyncio.wait((self._check,), timeout=within_s)
        if self._check is not None:
            return f"it has not answered for {within_s:g} s"
        return self._problem

    async def _check_store(self) -> None:
        try:
            await self._repository.check()
            self._problem = None
        except StoreError as error:
            self._problem = error.in_public
        finally:
            self._looked_at_s = asyncio.get_running_loop().time()
            self._check = None


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
