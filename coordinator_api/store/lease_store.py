"""Stores the owners of groups: `SqlLeaseStore` in rows of PostgreSQL, `FileLeaseStore` for an SQLite file. `LeaseStore`
describes each method.

On PostgreSQL each statement is its own transaction, on a connection that is only for leases. Renewals therefore do not
wait for writes of groups. If a statement gets no answer in time, its connection is closed, and the method raises
StoreError.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import ColumnElement, Exists, Row, Select, UpdateBase, delete, exists, insert, select, text, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from coordinator_api.store.engine import connection_of
from coordinator_api.store.lease_rows import (
    NEVER_EXPIRES,
    CoordinatorRow,
    GroupOwner,
    LeaseStore,
    LeaseView,
    lease_times,
)
from coordinator_api.store.schema import coordinators, groups
from coordinator_api.store.store_errors import UnusableDatabase, unusable

_POLL = text(
    "WITH renewed AS ("
    "UPDATE coordinators SET renewals = renewals + :more, takes = :takes WHERE coordinator_id = :me "
    "RETURNING coordinator_id, url, renewals, release, takes"
    "), present AS ("
    "SELECT CAST(SUM(hashtextextended(CAST(ROW(group_id, owner, epoch, members) AS text), 0)) AS text) AS digest "
    "FROM groups"
    ") "
    "SELECT coordinator_id, url, renewals, release, takes, CAST(NULL AS integer) AS members, "
    "(SELECT digest FROM present) FROM renewed "
    "UNION ALL "
    "SELECT coordinator_id, url, renewals, release, takes, NULL, NULL FROM coordinators "
    "WHERE coordinator_id <> :me AND EXISTS (SELECT 1 FROM renewed) "
    "UNION ALL "
    "SELECT group_id, owner, epoch, NULL, NULL, members, NULL FROM groups "
    "WHERE EXISTS (SELECT 1 FROM renewed) AND (SELECT digest FROM present) IS DISTINCT FROM :known"
)
"""Renews and reads the row of this coordinator, and reads a digest of all groups. The statement also reads the rows of
the other coordinators and the rows of all groups. The rows of groups are left out if their digest equals `known`.
Leaving out the groups saves work, because polls are frequent and groups seldom change. `members` is set only in the
rows of groups.

No part of the statement sees the changes of another part. Because of this, the renewed row of this coordinator is read
from `renewed`, and not from the table.
"""


class SqlLeaseStore(LeaseStore):
    """Reads and changes the rows on PostgreSQL. `engine`: an engine of `create_lease_engine`. `lease_ms`: this
    coordinator's `lease.timeout.ms`. `entered`: a function that is called with this coordinator's id after its row was
    inserted.
    """

    def __init__(self, engine: AsyncEngine, lease_ms: int, entered: Callable[[str], None]) -> None:
        self.times = lease_times(lease_ms)
        self._engine = engine
        self._lease_ms = lease_ms
        self._entered = entered
        self._groups: tuple[str | None, Mapping[str, GroupOwner]] = (None, {})

    async def enter(self, coordinator_id: str, url: str, release: str) -> None:
        """Inserts the row as `LeaseStore.enter` describes. Raises UnusableDatabase if another coordinator has a
        different value of `lease.timeout.ms`. If the values differed, a coordinator with a shorter timeout could take
        groups for which another coordinator still answers.
        """
        row = {"coordinator_id": coordinator_id, "url": url, "release": release, "takes": False}
        has_another = coordinators.c.lease_ms != self._lease_ms
        async with self._connection() as connection:
            before = await rows_of(connection, has_another)
            found = await renewing(connection, has_another, before)
            if found is None:
                await connection.execute(insert(coordinators).values(**row, renewals=0, lease_ms=self._lease_ms))
                found = _renewed(before, await rows_of(connection, has_another))
        if found is not None:
            await self.leave(coordinator_id)
            raise UnusableDatabase(
                f"lease.timeout.ms is {self._lease_ms} here, and {found.lease_ms} at the coordinator {found.url} of "
                "the same database: all of them need the same value"
            )
        self._entered(coordinator_id)

    async def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        known, owners = self._groups
        values = {"me": coordinator_id, "known": known, "takes": takes, "more": int(renews)}
        async with self._connection() as connection:
            rows = (await connection.execute(_POLL, values)).all()
        if not rows:
            return None
        of_coordinators = [row for row in rows if row.members is None]
        found = {row.coordinator_id: CoordinatorRow(*row[:5]) for row in of_coordinators}
        digest = next(row.digest for row in of_coordinators if row.coordinator_id == coordinator_id)
        if digest != known:
            in_rows = (row for row in rows if row.members is not None)
            owners = {name: GroupOwner(name, owner, epoch, members) for name, owner, epoch, _, _, members, _ in in_rows}
            self._groups = (digest, owners)
        return LeaseView(found, owners)

    async def end(self, coordinator_id: str, renewals: int) -> bool:
        as_seen = (coordinators.c.coordinator_id == coordinator_id) & (coordinators.c.renewals == renewals)
        return await self._changed(delete(coordinators).where(as_seen))

    async def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> int | None:
        seen = groups.alias()
        as_seen = (seen.c.group_id == group_id) & (seen.c.epoch == epoch) & seen.c.owner.is_not_distinct_from(owner)
        # The row may already name the new owner for two reasons: a hand-over, or a lost answer to an earlier `take`.
        is_free = (seen.c.owner == by) | ~_has_row(seen.c.owner).correlate(seen)
        # Skip a row that the former owner still locks. No renewal may wait for a write of the former owner. For a
        # locked row, `take` returns None, and this coordinator tries again after a later poll.
        free = select(seen.c.group_id).where(as_seen, is_free, _has_row(by)).with_for_update(skip_locked=True, of=seen)
        taken = update(groups).where(groups.c.group_id.in_(free), groups.c.epoch == epoch)
        return epoch + 1 if await self._changed(taken.values(owner=by, epoch=epoch + 1)) else None

    async def hand_over(self, group_id: str, epoch: int, by: str, to: str) -> bool:
        owned = (groups.c.group_id == group_id) & (groups.c.epoch == epoch) & (groups.c.owner == by)
        return await self._changed(update(groups).where(owned, _has_row(to)).values(owner=to, epoch=epoch + 1))

    async def leave(self, coordinator_id: str) -> None:
        await self._changed(delete(coordinators).where(coordinators.c.coordinator_id == coordinator_id))

    async def _changed(self, statement: UpdateBase) -> bool:
        """Executes the statement. Returns True if the statement has changed one row."""
        async with self._connection() as connection:
            return (await connection.execute(statement)).rowcount == 1

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with connection_of(self._engine) as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise unusable("cannot say who owns a group", error) from error


Rows = Mapping[str, Row[Any]]
"""Rows of the table `coordinators`, by the coordinator's id."""


async def rows_of(connection: AsyncConnection, which: ColumnElement[bool]) -> Rows:
    """Reads the rows of coordinators. Raises SQLAlchemyError."""
    table = coordinators.c
    query: Select[Any] = select(table.coordinator_id, table.url, table.renewals, table.lease_ms).where(which)
    return {row.coordinator_id: row for row in await connection.execute(query)}


async def renewing(connection: AsyncConnection, which: ColumnElement[bool], before: Rows) -> Row[Any] | None:
    """Observes rows of coordinators for a time. Returns the first row that is inserted or renewed in this time, or
    None. `which`: the condition for the observed rows. `before`: the rows at the start. The observation lasts as long
    as the longest lease of the rows in `before`. If `before` is empty, nothing is observed. The transaction of
    `connection` must see later commits of other coordinators. Raises SQLAlchemyError.
    """
    loop = asyncio.get_running_loop()
    lease_ms = max((row.lease_ms for row in before.values()), default=0)
    until_s = loop.time() + lease_ms / 1000
    while loop.time() < until_s:
        await asyncio.sleep(lease_times(lease_ms).renewal_ms / 1000)
        found = _renewed(before, await rows_of(connection, which))
        if found is not None:
            return found
    return None


def _renewed(before: Rows, now: Rows) -> Row[Any] | None:
    return next((row for name, row in now.items() if before.get(name) != row), None)


def _has_row(coordinator_id: str | ColumnElement[str | None]) -> Exists:
    rows = coordinators.alias()
    return exists().where(rows.c.coordinator_id == coordinator_id)


class FileLeaseStore(LeaseStore):
    """The lease store of an SQLite file. Only the coordinator that holds the file's lock (`opening.file_lease`) uses
    the file. This coordinator owns every group, and the epoch of every group is 0. `groups`: a function that returns
    the ids of all groups in the file.
    """

    times = NEVER_EXPIRES

    def __init__(self, groups: Callable[[], Awaitable[Iterable[str]]]) -> None:
        self._groups = groups
        self._rows: dict[str, CoordinatorRow] = {}

    async def enter(self, coordinator_id: str, url: str, release: str) -> None:
        self._rows = {coordinator_id: CoordinatorRow(coordinator_id, url, 0, release)}

    async def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        found = await self._groups()
        return LeaseView(self._rows, {group_id: GroupOwner(group_id, coordinator_id, 0) for group_id in found})

    async def end(self, coordinator_id: str, renewals: int) -> bool:
        return False

    async def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> int | None:
        return epoch

    async def hand_over(self, group_id: str, epoch: int, by: str, to: str) -> bool:
        return False

    async def leave(self, coordinator_id: str) -> None:
        self._rows = {}
