"""The repository on an SQL database. See `repository` for what each method promises.

A write takes one transaction, and one write is made at a time. Reads go on beside it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from coordinator_api.store.engine import Begin, reason
from coordinator_api.store.errors import ConcurrentWriter, StoreError
from coordinator_api.store.repository import GroupLog, Recording, Repository
from coordinator_api.store.tables import group_records, groups, rebalances


class SqlRepository(Repository):
    """`retained_rebalances`: how many recorded rebalances are kept for each group (`rebalances.retained.count`).

    `begin`: begins a transaction that writes, as whoever holds the lease of the database has it.
    """

    def __init__(self, engine: AsyncEngine, retained_rebalances: int, begin: Begin) -> None:
        self._engine = engine
        self._begin = begin
        self._retained_rebalances = retained_rebalances
        self._writing = asyncio.Lock()

    async def ping(self) -> None:
        try:
            # as a write does it: whoever lost the lease is not ready
            async with self._writing, self._begin() as connection:
                await connection.execute(text("SELECT 1"))
        except (SQLAlchemyError, OSError) as error:
            raise StoreError(f"the database (setting database.url) does not answer: {reason(error)}") from error

    async def group_ids(self) -> list[str]:
        async with self._reading() as connection:
            return list((await connection.execute(select(groups.c.group_id).order_by(groups.c.group_id))).scalars())

    async def load_group(self, group_id: str) -> GroupLog:
        async with self._reading() as connection:
            return await self._read_log(connection, group_id)

    async def _read_log(self, connection: AsyncConnection, group_id: str) -> GroupLog:
        sequence = select(groups.c.sequence).where(groups.c.group_id == group_id)
        records = (
            select(group_records.c.body).where(group_records.c.group_id == group_id).order_by(group_records.c.sequence)
        )
        last = (await connection.execute(sequence)).scalar()
        return GroupLog(group_id, last or 0, tuple((await connection.execute(records)).scalars()))

    async def append(
        self, group_id: str, expected: int, records: Sequence[str], recording: Recording | None = None
    ) -> int:
        async with self._writing_to(group_id) as connection:
            return await self._write(connection, group_id, expected, records, recording)

    async def replace(self, group_id: str, expected: int, snapshot: Sequence[str]) -> int:
        async with self._writing_to(group_id) as connection:
            last = await self._write(connection, group_id, expected, snapshot, None)
            old = (group_records.c.group_id == group_id) & (group_records.c.sequence <= expected)
            await connection.execute(delete(group_records).where(old))
            return last

    async def delete(self, group_id: str, expected: int) -> None:
        async with self._writing_to(group_id) as connection:
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
            {"group_id": group_id, "sequence": expected + number, "body": record}
            for number, record in enumerate(records, start=1)
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

    @asynccontextmanager
    async def _writing_to(self, group_id: str) -> AsyncIterator[AsyncConnection]:
        try:
            async with self._writing, self._begin() as connection:
                yield connection
        except IntegrityError as error:
            raise ConcurrentWriter(f"{_written_elsewhere(group_id)}: {reason(error)}") from error
        except (SQLAlchemyError, OSError) as error:
            raise StoreError(f"the database (setting database.url) cannot be written: {reason(error)}") from error


def _out_of_date(group_id: str, expected: int) -> ConcurrentWriter:
    return ConcurrentWriter(f"{_written_elsewhere(group_id)}: its log no longer ends at record {expected}")


def _written_elsewhere(group_id: str) -> str:
    return (
        f"another process wrote group {group_id}, so nothing was written "
        "(only one coordinator may use a database: stop the other one)"
    )
