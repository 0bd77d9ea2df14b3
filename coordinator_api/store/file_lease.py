"""The lease of an SQLite file: only its holder uses the file, and it never expires while the holder lives.

The lease is a lock on a file beside the database. The operating system drops it when the process dies, so a new process
can take over at once after `kill -9`. While the holder lives, a second process is refused.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from assignor.access.private_files import open_lock
from assignor.operating_system import advice_of
from coordinator_api.store.database_file import lock_file_of
from coordinator_api.store.engine import sqlite_file
from coordinator_api.store.errors import StoreInUse, UnusableDatabase
from coordinator_api.store.lease_rows import NEVER_EXPIRES, CoordinatorRow, GroupOwner, LeaseStore, LeaseView


class FileLeaseStore(LeaseStore):
    """The holder of the lock owns every group, in the epoch 0 in which all groups of a file are stored.

    `group_ids`: of all groups in the file.
    """

    times = NEVER_EXPIRES

    def __init__(self, group_ids: Callable[[], Awaitable[list[str]]]) -> None:
        self._group_ids = group_ids
        self._rows: dict[str, CoordinatorRow] = {}

    async def enter(self, coordinator_id: str, url: str, release: str) -> None:
        self._rows = {coordinator_id: CoordinatorRow(coordinator_id, url, 0, release)}

    async def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        ids = await self._group_ids()
        return LeaseView(self._rows, {group_id: GroupOwner(group_id, coordinator_id, 0) for group_id in ids})

    async def end(self, coordinator_id: str, renewals: int) -> bool:
        return coordinator_id not in self._rows

    async def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> int | None:
        return epoch

    async def hand_over(self, group_id: str, epoch: int, by: str, to: str) -> bool:
        return False

    async def leave(self, coordinator_id: str) -> None:
        self._rows = {}


@contextmanager
def file_lease(engine: AsyncEngine) -> Iterator[None]:
    """Hold the lease of the engine's database, if it is a file. Raises StoreInUse when another process holds it."""
    file = sqlite_file(engine.url)
    if file is None:
        yield
        return
    with _locked_file(file):
        yield


@contextmanager
def _locked_file(database: Path) -> Iterator[None]:
    path = lock_file_of(database)
    try:
        handle = os.fdopen(open_lock(path, database), "r+", encoding="utf-8")
    except OSError as error:
        raise UnusableDatabase(
            f"database.url: the lock file {path} beside the database cannot be opened: {error.strerror}: "
            f"{advice_of(error) or 'name a file in another directory'}"
        ) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            holder = handle.readline().strip() or "unknown"
            raise StoreInUse(
                f"{database} is in use by another coordinator (process {holder}): "
                "stop that one, or name another database"
            ) from None
        handle.seek(0)
        _, _, notes = handle.read().partition("\n")  # which `database_file` has left there
        handle.seek(0)
        handle.truncate()
        handle.write(f"{os.getpid()}\n{notes}")
        handle.flush()
        yield
