"""The repository on an SQL database. See `repository` for what each method promises.

A write takes one transaction, and one write is made at a time (`write_turns`). Reads go on beside it. Nothing that was
written is answered before the file has been found where it was (`database_file`), and nothing that was read before its
checksums were compared (`stored_logs`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from coordinator_api.store.database_file import DatabaseFile
from coordinator_api.store.engine import Begin, is_locked, reason, sqlite_file
from coordinator_api.store.errors import ConcurrentWriter, StoreBusy, StoreError
from coordinator_api.store.repository import GroupLog, Recording, Repository
from coordinator_api.store.stored_logs import StoredRecord, checked_log, checksum
from coordinator_api.store.tables import group_records, groups, rebalances, store_checks
from coordinator_api.store.write_turns import WriteTurns

_CHECK = 1
"""The one row that is written to see whether the store can be written."""


class SqlRepository(Repository):
    """`retained_rebalances`: how many recorded rebalances are kept for each group (`rebalances.retained.count`).

    `begin`: begins a transaction that writes, as whoever holds the lease of the database has it.
    """

    def __init__(self, engine: AsyncEngine, retained_rebalances: int, begin: Begin) -> None:
        self._engine = engine
        self._begin = begin
        self._retained_rebalances = retained_rebalances
        self._turns = WriteTurns()
        file = sqlite_file(engine.url)
        self._file = None if file is None else DatabaseFile(file)

    async def check(self) -> None:
        async with self._writing() as connection:
            number = select(store_checks.c.number).where(store_checks.c.id == _CHECK)
            before = (await connection.execute(number)).scalar()
            if before is None:
                await connection.execute(insert(store_checks).values(id=_CHECK, number=1))
            else:
                changed = update(store_checks).where(store_checks.c.id == _CHECK)
                await connection.execute(changed.values(number=store_checks.c.number + 1))
            after = (await connection.execute(number)).scalar()
        if after != (before or 0) + 1:
            raise StoreError(f"the database (setting database.url) does not give back what it took: {after!r}")

    async def group_ids(self) -> list[str]:
        async with self._reading() as connection:
            return list((await connection.execute(select(groups.c.group_id).order_by(groups.c.group_id))).scalars())

    async def load_group(self, group_id: str) -> GroupLog:
        async with self._reading() as connection:
            return await self._read_log(connection, group_id)

    async def _read_log(self, connection: AsyncConnection, group_id: str) -> GroupLog:
        sequence = select(groups.c.sequence).where(groups.c.group_id == group_id)
        columns = (group_records.c.sequence, group_records.c.body, group_records.c.checksum)
        records = select(*columns).where(group_records.c.group_id == group_id).order_by(group_records.c.sequence)
        last = (await connection.execute(sequence)).scalar() or 0
        rows = [StoredRecord(*row) for row in await connection.execute(records)]
        return GroupLog(group_id, last, checked_log(group_id, last, rows))

    async def append(
        self, group_id: str, expected: int, records: Sequence[str], recording: Recording | None = None
    ) -> int:
        async with self._writing(group_id) as connection:
            return await self._write(connection, group_id, expected, records, recording)

    async def replace(self, group_id: str, expected: int, snapshot: Sequence[str]) -> int:
        async with self._writing(group_id) as connection:
            last = await self._write(connection, group_id, expected, snapshot, None)
            old = (group_records.c.group_id == group_id) & (group_records.c.sequence <= expected)
            await connection.execute(delete(group_records).where(old))
            return last

    async def delete(self, group_id: str, expected: int) -> None:
        async with self._writing(group_id) as connection:
            at_expected = (groups.c.group_id == group_id) & (groups.c.sequence == expected)
            result = await connection.execute(delete(groups).where(at_expected))
            if result.rowcount != 1:
                raise _out_of_date(group_id, expected)

    async def list_rebalances(self, group_id: str, before: int | None, limit: int) -> list[Mapping[str, object]]:
        query = select(rebalances.c.summary).where(rebalances.c.group_id == group_id)
        if before is not None:
            query = query.where(rebalances.c.generation_id < before)
        query = query.order_by(rebalances.c.generation_id.desc()).limit(limit)
        async with self._reading() as connection:
            rows = (await connection.execute(query)).scalars()
            return [json.loads(summary) for summary in rows]

    async def rebalance(self, group_id: str, generation_id: int) -> bytes | None:
        chosen = (rebalances.c.group_id == group_id) & (rebalances.c.generation_id == generation_id)
        async with self._reading() as connection:
            document: bytes | None = (await connection.execute(select(rebalances.c.document).where(chosen))).scalar()
        return document

    async def _write(
        self,
        connection: AsyncConnection,
        group_id: str,
        expected: int,
        records: Sequence[str],
        recording: Recording | None,
    ) -> int:
        last = expected + len(records)
        if expected == 0:
            await connection.execute(insert(groups).values(group_id=group_id, sequence=last))
        else:
            at_expected = (groups.c.group_id == group_id) & (groups.c.sequence == expected)
            result = await connection.execute(update(groups).where(at_expected).values(sequence=last))
            if result.rowcount != 1:
                raise _out_of_date(group_id, expected)
        rows = [
            {
                "group_id": group_id,
                "sequence": sequence,
                "body": record,
                "checksum": checksum(group_id, sequence, record),
            }
            for sequence, record in enumerate(records, start=expected + 1)
        ]
        if rows:
            await connection.execute(insert(group_records), rows)
        if recording is not None:
            await self._keep(connection, group_id, recording)
        return last

    async def _keep(self, connection: AsyncConnection, group_id: str, recording: Recording) -> None:
        values = {
            "group_id": group_id,
            "generation_id": recording.generation_id,
            "now_ms": recording.now_ms,
            "summary": recording.summary,
            "document": recording.document,
        }
        await connection.execute(insert(rebalances).values(values))
        oldest = recording.generation_id - self._retained_rebalances
        too_old = (rebalances.c.group_id == group_id) & (rebalances.c.generation_id <= oldest)
        await connection.execute(delete(rebalances).where(too_old))

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with self._engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise StoreError(f"the database (setting database.url) cannot be read: {reason(error)}") from error
        self._check_file()

    @asynccontextmanager
    async def _writing(self, group_id: str | None = None) -> AsyncIterator[AsyncConnection]:
        """One transaction. `group_id`: whose log is written, None for what is nobody's."""
        try:
            async with AsyncExitStack() as write:
                await write.enter_async_context(self._turns.turn())
                with self._turns.waiting_for_lock():
                    connection = await write.enter_async_context(self._begin())
                yield connection
        except (SQLAlchemyError, OSError) as error:
            if isinstance(error, IntegrityError) and group_id is not None:
                raise ConcurrentWriter(f"{_written_elsewhere(group_id)}: {reason(error)}") from error
            kind = StoreBusy if is_locked(error) else StoreError
            raise kind(f"the database (setting database.url) cannot be written: {reason(error)}") from error
        self._check_file()

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()


def _out_of_date(group_id: str, expected: int) -> ConcurrentWriter:
    return ConcurrentWriter(f"{_written_elsewhere(group_id)}: its log no longer ends at record {expected}")


def _written_elsewhere(group_id: str) -> str:
    return (
        f"another process wrote group {group_id}, so nothing was written "
        "(only one coordinator may use a database: stop the other one)"
    )
