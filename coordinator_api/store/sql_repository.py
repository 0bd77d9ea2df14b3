"""The repository on an SQL database. See `repository` for what each method promises.

A write takes one transaction. On SQLite one write is made at a time (`write_turns`); on PostgreSQL those of different
groups go on at one time, and of two writes of one group the second waits for the group's row. Reads go on beside them.

Nothing that was written is answered before the file has been found where it was (`database_file`), and nothing that was
read before its checksums were compared (`stored_logs`). `groups.stored_bytes` changes in the transaction that changes
what it counts: the characters of a group's records, which are ASCII, and the bytes of its recorded rebalances.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import ColumnElement, Integer, bindparam, delete, event, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from coordinator_api.store.database_file import DatabaseFile
from coordinator_api.store.engine import (
    at_one_moment,
    begin_writing,
    connection_of,
    is_damage,
    kind_of,
    reason,
    sqlite_file,
)
from coordinator_api.store.errors import ConcurrentWriter, NotOwner, StoreError
from coordinator_api.store.file_damage import FileDamage
from coordinator_api.store.log_rows import highest_recorded_generation, read_log
from coordinator_api.store.repository import GroupLog, Recording, RecordingNote, Repository, Written
from coordinator_api.store.stored_logs import StoredLog, before_next_log, checked_log, checksum, first_number
from coordinator_api.store.tables import group_records, groups, metadata, rebalances, store_checks
from coordinator_api.store.token_store import SqlTokenStore
from coordinator_api.store.write_turns import WriteTurns

_CHECK = 1
"""The one row that is written to see whether the store can be written."""


class _ExpectedGroup(NamedTuple):
    """What a writer takes a group for."""

    group_id: str
    sequence: int
    epoch: int
    owner: str | None

    def parameters(self) -> dict[str, object]:
        """Of a statement about `_ROW`."""
        return {f"at_{name}": value for name, value in self._asdict().items()}


_ROW = (
    (groups.c.group_id == bindparam("at_group_id"))
    & (groups.c.sequence == bindparam("at_sequence"))
    & (groups.c.epoch == bindparam("at_epoch"))
    & groups.c.owner.is_not_distinct_from(bindparam("at_owner"))
)
"""The row of a group, if the group is what its writer takes it for. The owner counts as well as the epoch: a group that
was deleted and made again is in its first epoch again.
"""

_DELETED = delete(groups).where(_ROW)
_CHANGED = (
    update(groups)
    .where(_ROW)
    .values(
        sequence=bindparam("last"),
        stored_bytes=groups.c.stored_bytes + bindparam("added"),
        members=func.coalesce(bindparam("members_now", type_=Integer), groups.c.members),
    )
    .returning(groups.c.stored_bytes)
)
"""Made once, since every commit of a group executes it."""


class SqlRepository(Repository):
    """`retained_rebalances`: how many recorded rebalances are kept for each group (`rebalances.retained.count`)."""

    def __init__(self, engine: AsyncEngine, retained_rebalances: int) -> None:
        self._engine = engine
        self._engine_for_reading = at_one_moment(engine)
        self._begin = begin_writing(engine)
        if engine.dialect.name == "sqlite":
            self._begin = WriteTurns().around(self._begin)
        self._retained_rebalances = retained_rebalances
        self._coordinator_id: str | None = None
        file = sqlite_file(engine.url)
        self._file = None if file is None else DatabaseFile(file)
        self._damage = None if file is None else FileDamage(file)
        if self._file is not None:
            self._file.check()
            # a new connection would make a new database where there is none, and remove the old one's newest writes
            event.listen(engine.sync_engine, "do_connect", lambda *_: self._check_file())
        self.tokens = SqlTokenStore(self._reading, self._writing)

    def owned_by(self, coordinator_id: str | None) -> None:
        self._coordinator_id = coordinator_id

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Within the block, `check` tells of damage to an SQLite file that has come since it was entered."""
        if self._damage is None:
            yield
            return
        async with self._damage.watched():
            yield

    async def check(self) -> None:
        async with self._writing() as connection:
            for table in metadata.sorted_tables:  # each has to be there; others find out which rows are damaged
                await connection.execute(select(table).limit(0))
            is_it = store_checks.c.id == _CHECK
            counted = update(store_checks).where(is_it).values(number=store_checks.c.number + 1)
            written = (await connection.execute(counted.returning(store_checks.c.number))).scalar()
            if written is None:
                written = 1
                await connection.execute(insert(store_checks).values(id=_CHECK, number=written))
            found = (await connection.execute(select(store_checks.c.number).where(is_it))).scalar()
        if found != written:
            raise StoreError(f"the database (setting database.url) does not give back what it took: {found!r}")
        if self._damage is not None:
            await self._damage.check()

    async def group_ids(self) -> list[str]:
        async with self._reading() as connection:
            return list((await connection.execute(select(groups.c.group_id).order_by(groups.c.group_id))).scalars())

    async def stored_bytes(self) -> Mapping[str, int]:
        async with self._reading() as connection:
            rows = await connection.execute(select(groups.c.group_id, groups.c.stored_bytes))
            return {row.group_id: row.stored_bytes for row in rows}

    async def load_group(self, group_id: str) -> GroupLog:
        async with self._reading() as connection:
            stored = await read_log(connection, group_id, self._first_epoch)
        return GroupLog(group_id, stored.sequence, checked_log(stored), stored.stored_bytes, stored.epoch)

    async def stored_log(self, group_id: str) -> StoredLog:
        async with self._reading() as connection:
            stored = await read_log(connection, group_id, self._first_epoch)
            generation = await highest_recorded_generation(connection, group_id)
        return replace(stored, recorded_generation=generation)

    async def append(
        self,
        group_id: str,
        expected: int,
        records: Sequence[str],
        recording: Recording | None = None,
        notes: Sequence[RecordingNote] = (),
        *,
        epoch: int,
        members: int | None = None,
    ) -> Written:
        place = self._place(group_id, expected, epoch)
        async with self._writing(group_id) as connection:
            for note in notes:
                await self._note(connection, group_id, note)
            return await self._write(connection, place, records, recording, members=members)

    async def replace(self, group_id: str, expected: int, snapshot: Sequence[str], *, epoch: int) -> Written:
        place = self._place(group_id, expected, epoch)
        try:
            async with self._writing(group_id) as connection:
                present = group_records.c.sequence.between(first_number(expected), expected)
                old = (group_records.c.group_id == group_id) & present
                return await self._write_in_place_of(connection, place, snapshot, old)
        except StoreError as error:
            if not _is_damage(error):
                raise
        return await self._renew(place, snapshot)

    async def renew(self, group_id: str, expected: int, snapshot: Sequence[str], *, epoch: int) -> Written:
        return await self._renew(self._place(group_id, expected, epoch), snapshot)

    async def _renew(self, place: _ExpectedGroup, snapshot: Sequence[str]) -> Written:
        begins_after = before_next_log(place.sequence)
        try:
            async with self._writing(place.group_id) as connection:
                old = (group_records.c.group_id == place.group_id) & (group_records.c.sequence <= begins_after)
                return await self._write_in_place_of(connection, place, snapshot, old, begins_after)
        except StoreError as error:
            if not _is_damage(error):
                raise
        # the old records stay, and take their bytes
        async with self._writing(place.group_id) as connection:
            return await self._write(connection, place, snapshot, None, begins_after=begins_after)

    async def _write_in_place_of(
        self,
        connection: AsyncConnection,
        place: _ExpectedGroup,
        snapshot: Sequence[str],
        old: ColumnElement[bool],
        begins_after: int | None = None,
    ) -> Written:
        freed = await _total_length(connection, group_records.c.body, old)
        written = await self._write(connection, place, snapshot, None, freed, begins_after)
        await connection.execute(delete(group_records).where(old))
        return written

    async def delete(self, group_id: str, expected: int, *, epoch: int) -> None:
        place = self._place(group_id, expected, epoch)
        try:
            async with self._writing(group_id) as connection:
                if (await connection.execute(_DELETED, place.parameters())).rowcount != 1:
                    raise _refusal(place, await _owner_of(connection, place.group_id))
        except StoreError as error:
            if not _is_damage(error):
                raise
            await self._delete_what_can_be(place)

    async def _delete_what_can_be(self, place: _ExpectedGroup) -> None:
        try:
            async with self._writing(place.group_id) as connection:
                recorded = rebalances.c.group_id == place.group_id
                freed = await _total_length(connection, rebalances.c.document, recorded)
                await self._change(connection, place, place.sequence, -freed, None)
                await connection.execute(delete(rebalances).where(recorded))
        except StoreError as error:
            if not _is_damage(error):
                raise
        await self._renew(place, ())

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

    @property
    def _first_epoch(self) -> int:
        """Of a group that is made now."""
        return 0 if self._coordinator_id is None else 1

    def _place(self, group_id: str, sequence: int, epoch: int) -> _ExpectedGroup:
        return _ExpectedGroup(group_id, sequence, epoch, self._coordinator_id)

    async def _write(
        self,
        connection: AsyncConnection,
        place: _ExpectedGroup,
        records: Sequence[str],
        recording: Recording | None,
        freed: int = 0,
        begins_after: int | None = None,
        members: int | None = None,
    ) -> Written:
        """`freed`: the bytes that the same transaction removes elsewhere. `begins_after`: the number after which the
        records are written, if it is not the expected one.
        """
        group_id = place.group_id
        before = place.sequence if begins_after is None else begins_after
        last = before + len(records)
        added = sum(map(len, records)) - freed
        if recording is not None:
            recording, replaced_bytes = await self._in_place_of(connection, group_id, recording)
            added -= replaced_bytes
        too_old = None if recording is None else self._too_old(group_id)
        if recording is not None and too_old is not None:
            added += len(recording.document) - await _total_length(connection, rebalances.c.document, too_old)
        if place.sequence == 0:
            there = await _owner_of(connection, group_id)
            if there is not None:
                raise _refusal(place, there)
            made = {"group_id": group_id, "sequence": last, "owner": place.owner, "epoch": place.epoch}
            counts = {"stored_bytes": added, "members": members or 0}
            await connection.execute(insert(groups).values({**made, **counts}))
            stored_bytes = added
        else:
            stored_bytes = await self._change(connection, place, last, added, members)
        rows = [
            {
                "group_id": group_id,
                "sequence": sequence,
                "body": record,
                "checksum": checksum(group_id, sequence, record),
                "ends_commit": sequence == last,
            }
            for sequence, record in enumerate(records, start=before + 1)
        ]
        if rows:
            await connection.execute(insert(group_records), rows)
        if recording is not None and too_old is not None:
            await connection.execute(delete(rebalances).where(too_old))
            await self._keep(connection, group_id, recording)
        return Written(last, stored_bytes)

    async def _change(
        self, connection: AsyncConnection, place: _ExpectedGroup, last: int, added: int, members: int | None
    ) -> int:
        """The group's row. Returns what the group takes then. Raises ConcurrentWriter, NotOwner."""
        changes = {"last": last, "added": added, "members_now": members}
        stored_bytes = (await connection.execute(_CHANGED, {**place.parameters(), **changes})).scalar()
        if stored_bytes is None:
            raise _refusal(place, await _owner_of(connection, place.group_id))
        return int(stored_bytes)

    def _too_old(self, group_id: str) -> ColumnElement[bool]:
        """The rebalances of the group that are no longer kept beside another one, which is newer than all of them.

        They are counted, not computed: a restored group has a gap in its generations.
        """
        of_group = rebalances.c.group_id == group_id
        beside_it = self._retained_rebalances - 1
        if not beside_it:
            return of_group
        newest_first = select(rebalances.c.generation_id).where(of_group).order_by(rebalances.c.generation_id.desc())
        oldest_kept = newest_first.offset(beside_it - 1).limit(1).scalar_subquery()
        return of_group & (rebalances.c.generation_id < oldest_kept)

    async def _in_place_of(
        self, connection: AsyncConnection, group_id: str, recording: Recording
    ) -> tuple[Recording, int]:
        """Remove the recording of the same generation, if there is one: a rebalance that waited for approval, was
        discarded, and is computed anew. Returns the new one, which says so, and the bytes of the old document.
        """
        same = (rebalances.c.group_id == group_id) & (rebalances.c.generation_id == recording.generation_id)
        query = select(rebalances.c.summary, func.length(rebalances.c.document)).where(same)
        old = (await connection.execute(query)).one_or_none()
        waited = None if old is None else json.loads(old[0]).get("hold")
        if old is None or waited is None:
            return recording, 0
        await connection.execute(delete(rebalances).where(same))
        summary = {**json.loads(recording.summary), "hold": waited}
        return replace(recording, summary=json.dumps(summary)), int(old[1])

    async def _note(self, connection: AsyncConnection, group_id: str, note: RecordingNote) -> None:
        chosen = (rebalances.c.group_id == group_id) & (rebalances.c.generation_id == note.generation_id)
        old = (await connection.execute(select(rebalances.c.summary).where(chosen))).scalar()
        if old is None:
            return
        summary = json.loads(old)
        summary["outcome"] = summary["outcome"] if note.outcome is None else note.outcome
        summary["hold"] = {**(summary.get("hold") or {}), **note.hold}
        await connection.execute(update(rebalances).where(chosen).values(summary=json.dumps(summary)))

    async def _keep(self, connection: AsyncConnection, group_id: str, recording: Recording) -> None:
        values = {
            "group_id": group_id,
            "generation_id": recording.generation_id,
            "now_ms": recording.now_ms,
            "summary": recording.summary,
            "document": recording.document,
        }
        await connection.execute(insert(rebalances).values(values))

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with connection_of(self._engine_for_reading) as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            self._check_file()  # what SQLite calls damage, where it is another file or a shorter one
            problem = f"the database (setting database.url) cannot be read: {reason(error)}"
            raise kind_of(error)(problem) from error
        self._check_file()

    @asynccontextmanager
    async def _writing(self, group_id: str | None = None) -> AsyncIterator[AsyncConnection]:
        """One transaction. `group_id`: whose log is written, None for what is nobody's."""
        try:
            async with self._begin() as connection:
                yield connection
                # before the commit: what is refused must not be there when the file is put back
                self._check_file()
        except (SQLAlchemyError, OSError) as error:
            if isinstance(error, IntegrityError) and group_id is not None:
                raise ConcurrentWriter(f"{_written_elsewhere(group_id)}: {reason(error)}") from error
            self._check_file()
            problem = f"the database (setting database.url) cannot be written: {reason(error)}"
            raise kind_of(error)(problem) from error
        self._check_file()

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()


async def _total_length(
    connection: AsyncConnection, column: ColumnElement[str] | ColumnElement[bytes], chosen: ColumnElement[bool]
) -> int:
    total = select(func.coalesce(func.sum(func.length(column)), 0)).where(chosen)
    return int((await connection.execute(total)).scalar_one())


def _is_damage(error: StoreError) -> bool:
    return isinstance(error.__cause__, SQLAlchemyError) and is_damage(error.__cause__)


async def _owner_of(connection: AsyncConnection, group_id: str) -> tuple[str | None, int] | None:
    """With the epoch; None when there is no such group."""
    query = select(groups.c.owner, groups.c.epoch).where(groups.c.group_id == group_id)
    found = (await connection.execute(query)).one_or_none()
    return None if found is None else (found.owner, found.epoch)


def _refusal(place: _ExpectedGroup, found: tuple[str | None, int] | None) -> StoreError:
    """Why nothing was written. `found`: who owns the group, and in which epoch."""
    if found is None or found == (place.owner, place.epoch):
        return ConcurrentWriter(
            f"{_written_elsewhere(place.group_id)}: its log does not end at record {place.sequence}"
        )
    owner, epoch = found
    return NotOwner(
        f"nothing of group {place.group_id} was written: in epoch {epoch}, {owner or 'nobody'} owns it, and not "
        f"{place.owner or 'nobody'} in epoch {place.epoch}"
    )


def _written_elsewhere(group_id: str) -> str:
    return f"another process wrote group {group_id}, so nothing was written"
