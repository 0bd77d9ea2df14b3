"""One write of SQLite at a time, and what becomes of the others while somebody else has locked the database.

    turn taken -> the database's write lock -> the write -> turn given to the next one

Rule: while one write waits for a lock of somebody else for long, the others do not wait behind it; they are refused
with StoreBusy. So a locked database holds up one call, and everybody else may try again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from sqlalchemy.ext.asyncio import AsyncConnection

from coordinator_api.store.engine import Begin
from coordinator_api.store.errors import StoreBusy

PATIENCE_S = 0.5
"""How long one write waits for the lock before the others stop waiting for it."""


class WriteTurns:
    """For all writes of one process. It belongs to one event loop."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._is_taken = False
        self._is_locked = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def around(self, begin: Begin) -> Begin:
        """Begins the transactions that `begin` does, each in its turn."""

        @asynccontextmanager
        async def in_turn() -> AsyncIterator[AsyncConnection]:
            async with AsyncExitStack() as write:
                await write.enter_async_context(self.turn())
                with self.waiting_for_lock():
                    connection = await write.enter_async_context(begin())
                yield connection

        return in_turn

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """In the order in which they ask. Raises StoreBusy while a write waits for somebody else's lock for long."""
        if self._is_locked:
            raise _busy()
        if self._is_taken:
            await self._wait()
        self._is_taken = True
        try:
            yield
        finally:
            self._give_back()

    @contextmanager
    def waiting_for_lock(self) -> Iterator[None]:
        """The block, within a turn, waits for the database's write lock."""
        timer = asyncio.get_running_loop().call_later(self._patience_s, self._lose_patience)
        try:
            yield
        finally:
            timer.cancel()
            self._is_locked = False

    async def _wait(self) -> None:
        given = asyncio.get_running_loop().create_future()
        self._waiting.append(given)
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled() and given.exception() is None:
                self._give_back()  # the caller went away in the moment in which it was given the turn
            raise

    def _give_back(self) -> None:
        self._is_taken = False
        while self._waiting:
            given = self._waiting.popleft()
            if not given.done():  # its caller may have gone away
                self._is_taken = True
                given.set_result(None)
                return

    def _lose_patience(self) -> None:
        self._is_locked = True
        while self._waiting:
            given = self._waiting.popleft()
            if not given.done():
                given.set_exception(_busy())


def _busy() -> StoreBusy:
    return StoreBusy(
        "the database (setting database.url) is locked by another program, and one write is waiting for it already: "
        "end that program, or try again"
    )
