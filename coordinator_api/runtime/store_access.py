"""Limits two uses of the store by callers: the readiness check, and reads of recorded rebalances.

- The readiness check is a write and a read. The check runs at most once a second, and all callers share its result.
  After a failed check or a failed commit, the check is repeated until the store can be used again.
- Recorded rebalances are read for few callers at one time, and are unpacked and sent in pieces. Callers share a few
  slots, because hundreds of callers may request recordings at the same time and receive the pieces slowly. A caller
  needs a slot to read from the database and to unpack each piece. While a caller receives a piece, the caller needs no
  slot. A thread makes each piece only after the previous piece was sent, because a whole recording may be very long.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import NamedTuple

from coordinator_api.store.recorded_documents import expanded
from coordinator_api.store.repository import Repository
from coordinator_api.store.store_errors import StoreError

WITHIN_S = 2.0
"""The longest time for which a caller waits for the store."""

SCRAPE_WITHIN_S = 0.5
"""The longest time for which a metrics scrape waits for the store. The time is short, because Prometheus discards all
metrics of a scrape that takes too long.
"""

HOLDS_FOR_S = 1.0
"""The time for which the result of a readiness check is reused. The reuse limits the number of writes to the store.
Each check is a write, and a caller needs no token to request a check.
"""


class StoreProblem(NamedTuple):
    """The reason why the store cannot be used, without secrets, and the time since which this is known."""

    text: str
    since_ms: int


class StoreReadiness:
    """Checks whether the store of a service is ready. Use `StoreReadiness` on the service's event loop. `now_ms`: the
    clock of the service. `known`: the problem that the last check has found; None if it found none.
    """

    def __init__(
        self,
        repository: Repository,
        now_ms: Callable[[], int],
        within_s: float = WITHIN_S,
        holds_for_s: float = HOLDS_FOR_S,
    ) -> None:
        self.known: StoreProblem | None = None
        self._repository = repository
        self._now_ms = now_ms
        self._watch: asyncio.Task[None] | None = None
        self._within_s = within_s
        self._holds_for_s = holds_for_s
        self._check: asyncio.Task[None] | None = None
        self._checked_at_s: float | None = None
        self._problem: str | None = None

    async def problem(self, within_s: float | None = None) -> str | None:
        """Returns the reason why the store cannot be used, as a text without secrets. Returns None if the store can be
        used.

        `within_s`: the longest wait of this caller, if it differs from the default.
        """
        within_s = self._within_s if within_s is None else within_s
        now_s = asyncio.get_running_loop().time()
        if self._check is None:
            if self._checked_at_s is not None and now_s - self._checked_at_s < self._holds_for_s:
                return self._problem
            self._check = asyncio.create_task(self._check_store())
        await asyncio.wait((self._check,), timeout=within_s)
        if self._check is not None:
            silent = f"it has not answered for {within_s:g} s"
            self._found(silent)
            return silent
        return self._problem

    def suspect(self) -> None:
        """Check the store now, because a commit has failed, and repeat the check until the store can be used."""
        if self._watch is None:
            self._checked_at_s = None
            self._watch = asyncio.create_task(self._repeat(0.0))

    def close(self) -> None:
        """Stop repeating the check."""
        if self._watch is not None:
            self._watch.cancel()

    async def _repeat(self, pause_s: float) -> None:
        try:
            is_usable = False
            while not is_usable:
                await asyncio.sleep(pause_s)
                is_usable = await self.problem() is None
                pause_s = HOLDS_FOR_S
        finally:
            self._watch = None

    def _found(self, problem: str) -> None:
        self.known = StoreProblem(problem, self._now_ms() if self.known is None else self.known.since_ms)
        if self._watch is None:
            self._watch = asyncio.create_task(self._repeat(HOLDS_FOR_S))

    async def _check_store(self) -> None:
        try:
            await self._repository.check()
            self._problem = self.known = None
        except StoreError as error:
            self._problem = error.in_public
            self._found(self._problem)
        finally:
            self._checked_at_s = asyncio.get_running_loop().time()
            self._check = None


PIECE_BYTES = 65_536
"""The minimum size of every piece except the last. Chunks of a few bytes are joined into larger pieces, because each
piece needs a call in a thread.
"""

AT_ONE_TIME = 2
"""The largest number of callers for which recordings are read or unpacked at one time. More callers would slow down the
service: unpacking holds the interpreter lock, and reads use database connections that commits need.
"""


class Recordings:
    """Reads the recorded rebalances of one service. Use `Recordings` on the service's event loop."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._turns = asyncio.Semaphore(AT_ONE_TIME)

    async def stored(self, group_id: str, generation_id: int) -> bytes | None:
        """Returns the stored form of a recorded rebalance. Raises StoreError."""
        async with self._turns:
            return await self._repository.rebalance(group_id, generation_id)

    async def pieces(self, stored: bytes) -> AsyncIterator[bytes]:
        """Yields the JSON of the recorded rebalance in pieces. Raises InputError, DecodeError."""
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
