"""Appends to the logs of groups, reads and shortens the logs, and stores recorded rebalances.

The state of a group is the result of replaying its records. The store has no other form of a group's state. Every write
names the last sequence number that the writer knows. Every write also names the epoch of the writer's coordinator. If
two processes write one group, one of the writes is refused, so that the writes never interleave.

A write is one transaction. On SQLite, writes run one at a time. On PostgreSQL, writes of different groups run
concurrently. A second write of the same group waits until the first write releases its lock on the group's row. Reads
run concurrently with writes. After each transaction, `sqlite.OpenFile` checks the SQLite file. The caller continues
only after this check. The checksums of a log are checked when the log is loaded (`stored_logs`).

`groups.stored_bytes` is the size of a group's records and recorded rebalances, in bytes. Records are ASCII. Each
transaction that changes records or recorded rebalances updates `groups.stored_bytes`.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Integer, bindparam, delete, event, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from coordinator_api.store.engine import at_one_moment, begin_writing, connection_of, sqlite_file
from coordinator_api.store.schema import group_records, groups, metadata, rebalances, store_checks
from coordinator_api.store.sqlite import FileDamage, OpenFile, WriteTurns
from coordinator_api.store.store_errors import ConcurrentWriter, DamagedDatabase, NotOwner, StoreError, reason, unusable
from coordinator_api.store.stored_logs import (
    StoredLog,
    before_next_log,
    checked_log,
    first_number,
    highest_recorded_generation,
    read_log,
    rows_of_log,
)
from coordinator_api.store.token_store import TokenStore


@dataclass(frozen=True, slots=True)
class Recording:
    """One rebalance to record. `document`: the packed rebalance/1 (`recorded_documents`). `summary`: the JSON object
    that stands for the rebalance in lists of rebalances.
    """

    generation_id: int
    now_ms: int
    summary: str
    document: bytes


HELD = "held"
"""The outcome of a recorded rebalance that waits for approval. If another rebalance replaces a waiting rebalance, the
replaced rebalance keeps this outcome. No member got the assignments of a rebalance with this outcome.
"""


@dataclass(frozen=True, slots=True)
class RecordingNote:
    """A change to the recording of a rebalance that waited for approval.

    `outcome`: the final outcome; None if the outcome does not change. `hold`: new values for some keys of the summary's
    `hold`.
    """

    generation_id: int
    outcome: str | None
    hold: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class GroupLog:
    """The log of a group. `sequence`: the number of the last record, which the next write has to name. `records`: the
    records, the oldest first. `stored_bytes`: the size of the group's records and recorded rebalances. `epoch`: the
    epoch that the next write has to name.
    """

    group_id: str
    sequence: int
    records: tuple[str, ...]
    stored_bytes: int = field(default=0, compare=False)
    epoch: int = field(default=0, compare=False)


class Written(NamedTuple):
    """The result of a write. `sequence`: the number of the group's last record. `stored_bytes`: the size of the group's
    log and recordings.
    """

    sequence: int
    stored_bytes: int


class _ExpectedGroup(NamedTuple):
    """The values that a writer expects in the group's row."""

    group_id: str
    sequence: int
    epoch: int
    owner: str | None

    def parameters(self) -> dict[str, object]:
        """The parameters of a statement with `_EXPECTED_ROW`."""
        return {f"expected_{name}": value for name, value in self._asdict().items()}


_EXPECTED_ROW = (
    (groups.c.group_id == bindparam("expected_group_id"))
    & (groups.c.sequence == bindparam("expected_sequence"))
    & (groups.c.epoch == bindparam("expected_epoch"))
    & groups.c.owner.is_not_distinct_from(bindparam("expected_owner"))
)
"""The condition that selects the group's row if the row has all values of an `_ExpectedGroup`. A comparison of the
epoch alone is not enough. If a group is deleted and created again, it starts with the first epoch again.
"""

# build these statements only once, because building them takes a third of the time of a commit
_DELETE = delete(groups).where(_EXPECTED_ROW)
_CHANGE = (
    update(groups)
    .where(_EXPECTED_ROW)
    .values(
        sequence=bindparam("last"),
        stored_bytes=groups.c.stored_bytes + bindparam("added"),
        members=func.coalesce(bindparam("members_now", type_=Integer), groups.c.members),
    )
    .returning(groups.c.stored_bytes)
)


class Repository:
    """Reads and writes the store of one coordinator. Every method raises StoreError when the store cannot be used.

    If ConcurrentWriter, NotOwner or StoreBusy is raised, nothing was written. After any other StoreError, the write may
    have been committed, and the caller has to read the group again.

    The `epoch` of a write is set when the group is taken or created. The epoch does not change while the coordinator
    owns the group. On SQLite, where one process has all groups, the epoch is always 0.

    `retained_rebalances`: the number of recorded rebalances to keep for each group (`rebalances.retained.count`).
    """

    def __init__(self, engine: AsyncEngine, retained_rebalances: int) -> None:
        self._engine = engine
        self._engine_for_reading = at_one_moment(engine)
        self._begin = begin_writing(engine)
        if engine.dialect.name == "sqlite":
            self._begin = WriteTurns(self._begin).begin
        self._retained_rebalances = retained_rebalances
        self._coordinator_id: str | None = None
        file = sqlite_file(engine.url)
        self._file = None if file is None else OpenFile(file)
        self._damage = None if file is None else FileDamage(file)
        self._check_file()
        if self._file is not None:
            # a new connection to a missing file would create a new database and delete the old write-ahead log
            event.listen(engine.sync_engine, "do_connect", lambda *_: self._check_file())
        self.tokens = TokenStore(self._reading, self._writing)

    def owned_by(self, coordinator_id: str | None) -> None:
        """Set the coordinator for which the repository writes. This coordinator owns the groups that it creates. Before
        the first call of `owned_by`, created groups have no owner.
        """
        self._coordinator_id = coordinator_id

    def watched(self) -> AbstractAsyncContextManager[None]:
        """Within the block, `check` raises DamagedDatabase if the SQLite file was damaged after the beginning of the
        block.
        """
        return nullcontext() if self._damage is None else self._damage.watched()

    async def check(self) -> None:
        """Check that the store works: write a number, and read the number again."""
        async with self._writing() as connection:
            # this query only checks that the table exists; other code finds damaged rows
            for table in metadata.sorted_tables:
                await connection.execute(select(table).limit(0))
            counted = update(store_checks).values(number=store_checks.c.number + 1).returning(store_checks.c.number)
            written = (await connection.execute(counted)).scalar()
            if written is None:  # this row is missing if somebody copied only the tables of groups into the database
                written = 1
                await connection.execute(insert(store_checks).values(id=1, number=written))
            found = (await connection.execute(select(store_checks.c.number))).scalar()
        if found is None or found != written:
            raise StoreError(f"the database (setting database.url) does not give back what it took: {found!r}")
        if self._damage is not None:
            await self._damage.check()

    # --- reads

    async def stored_bytes(self) -> Mapping[str, int]:
        """For each group, the size of its log and its recorded rebalances. The keys are the group ids. The result
        includes groups with unreadable logs.
        """
        async with self._reading() as connection:
            query = select(groups.c.group_id, groups.c.stored_bytes).order_by(groups.c.group_id)
            return {row.group_id: row.stored_bytes for row in await connection.execute(query)}

    async def load_group(self, group_id: str) -> GroupLog:
        """Reads one group. If the group does not exist, the result has sequence 0, no records, and the epoch of a new
        group.

        Raises DamagedLog.
        """
        async with self._reading() as connection:
            stored = await read_log(connection, group_id, self._first_epoch)
        return GroupLog(group_id, stored.sequence, checked_log(stored), stored.stored_bytes, stored.epoch)

    async def stored_log(self, group_id: str) -> StoredLog:
        """Reads all rows of the group's log, including damaged rows. If the group does not exist, the result has
        sequence 0 and no records.
        """
        async with self._reading() as connection:
            stored = await read_log(connection, group_id, self._first_epoch)
            generation = await highest_recorded_generation(connection, group_id)
        return replace(stored, recorded_generation=generation)

    async def list_rebalances(self, group_id: str, before: int | None, limit: int) -> list[Mapping[str, object]]:
        """Returns at most `limit` summaries, newest first. `before`: return only summaries of generations below this
        number.
        """
        query = select(rebalances.c.summary).where(rebalances.c.group_id == group_id)
        if before is not None:
            query = query.where(rebalances.c.generation_id < before)
        query = query.order_by(rebalances.c.generation_id.desc()).limit(limit)
        async with self._reading() as connection:
            rows = (await connection.execute(query)).scalars()
            return [json.loads(summary) for summary in rows]

    async def rebalance(self, group_id: str, generation_id: int) -> bytes | None:
        """Returns the stored form of a recorded rebalance/1 (`recorded_documents`). Returns None if the rebalance was
        never recorded, or if its recording was deleted.
        """
        query = select(rebalances.c.document).where(_recorded(group_id, generation_id))
        async with self._reading() as connection:
            document: bytes | None = (await connection.execute(query)).scalar()
        return document

    # --- writes

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
        """Write `records` and `recording` in one transaction.

        `expected`: the number of the last stored record; 0 for a new group. If a recording of the same generation
        waited for approval, `recording` replaces it. The value of `hold` stays the same. `notes`: changes of earlier
        recordings. If an earlier recording was deleted, its note has no effect. `members`: the present number of
        members; None if the number has not changed. Raises ConcurrentWriter or NotOwner.
        """
        group = self._expected(group_id, expected, epoch)
        async with self._writing(group_id) as connection:
            for note in notes:
                await _note(connection, group_id, note)
            return await self._write(connection, group, records, recording=recording, members=members)

    async def replace(self, group_id: str, expected: int, snapshot: Sequence[str], *, epoch: int) -> Written:
        """Replace the whole log by `snapshot`, which replays to the same state. If the file is so damaged that the old
        records cannot be deleted, `replace` calls `renew` instead.

        Raises ConcurrentWriter or NotOwner.
        """
        group = self._expected(group_id, expected, epoch)
        present = group_records.c.sequence.between(first_number(expected), expected)
        try:
            return await self._write_in_place_of(present, group, snapshot, after=expected)
        except DamagedDatabase:
            return await self.renew(group_id, expected, snapshot, epoch=epoch)

    async def renew(self, group_id: str, expected: int, snapshot: Sequence[str], *, epoch: int) -> Written:
        """In one transaction, begin a new log with `snapshot`. The old log may be damaged.

        Raises ConcurrentWriter or NotOwner. The file may be so damaged that old records cannot be deleted. Records that
        cannot be deleted stay in the file, but are never read again.
        """
        group = self._expected(group_id, expected, epoch)
        after = before_next_log(group.sequence)
        try:
            return await self._write_in_place_of(group_records.c.sequence <= after, group, snapshot, after)
        except DamagedDatabase:  # the old records are still in the file, so `stored_bytes` still includes them
            async with self._writing(group_id) as connection:
                return await self._write(connection, group, snapshot, after=after)

    async def _write_in_place_of(
        self, old: ColumnElement[bool], group: _ExpectedGroup, snapshot: Sequence[str], after: int
    ) -> Written:
        old_records = (group_records.c.group_id == group.group_id) & old
        async with self._writing(group.group_id) as connection:
            freed = await _total_length(connection, group_records.c.body, old_records)
            written = await self._write(connection, group, snapshot, freed=freed, after=after)
            await connection.execute(delete(group_records).where(old_records))
            return written

    async def delete(self, group_id: str, expected: int, *, epoch: int) -> None:
        """Delete the group, its log and its recorded rebalances. Raises ConcurrentWriter or NotOwner.

        The file may be so damaged that records cannot be deleted. If its records cannot be deleted, the group gets a
        new, empty log instead.
        """
        group = self._expected(group_id, expected, epoch)
        try:
            async with self._writing(group_id) as connection:
                if (await connection.execute(_DELETE, group.parameters())).rowcount != 1:
                    raise _refusal(group, await _owner_of(connection, group_id))
        except DamagedDatabase:
            with suppress(DamagedDatabase):
                async with self._writing(group_id) as connection:
                    recorded = rebalances.c.group_id == group_id
                    freed = await _total_length(connection, rebalances.c.document, recorded)
                    await _change(connection, group, group.sequence, -freed, None)
                    await connection.execute(delete(rebalances).where(recorded))
            await self.renew(group_id, expected, (), epoch=epoch)

    @property
    def _first_epoch(self) -> int:
        """The epoch of a group that is created now."""
        return 0 if self._coordinator_id is None else 1

    def _expected(self, group_id: str, sequence: int, epoch: int) -> _ExpectedGroup:
        return _ExpectedGroup(group_id, sequence, epoch, self._coordinator_id)

    async def _write(
        self,
        connection: AsyncConnection,
        group: _ExpectedGroup,
        records: Sequence[str],
        *,
        after: int | None = None,
        freed: int = 0,
        recording: Recording | None = None,
        members: int | None = None,
    ) -> Written:
        """`after`: the record number before the first written record; None for `group.sequence`. `freed`: the number of
        stored bytes that the caller deletes in the same transaction.
        """
        group_id = group.group_id
        before = group.sequence if after is None else after
        last = before + len(records)
        added = sum(map(len, records)) - freed
        dropped = None
        if recording is not None:
            waited = await _summary(connection, group_id, recording.generation_id) or {}
            # An earlier rebalance of this generation waited for approval and was discarded. The rebalance was then
            # computed again.
            held = waited.get("hold")
            if held is not None:
                recording = replace(recording, summary=json.dumps({**json.loads(recording.summary), "hold": held}))
            dropped = self._dropped_for(group_id, recording, replaces=held is not None)
            added += len(recording.document) - await _total_length(connection, rebalances.c.document, dropped)
        if group.sequence == 0:
            owner = await _owner_of(connection, group_id)
            if owner is not None:
                raise _refusal(group, owner)
            made = {"group_id": group_id, "sequence": last, "owner": group.owner, "epoch": group.epoch}
            counts = {"stored_bytes": added, "members": members or 0}
            await connection.execute(insert(groups).values({**made, **counts}))
            stored_bytes = added
        else:
            stored_bytes = await _change(connection, group, last, added, members)
        if records:
            await connection.execute(insert(group_records), rows_of_log(group_id, before, records))
        if recording is not None and dropped is not None:
            await connection.execute(delete(rebalances).where(dropped))
            await connection.execute(insert(rebalances).values(group_id=group_id, **asdict(recording)))
        return Written(last, stored_bytes)

    def _dropped_for(self, group_id: str, recording: Recording, *, replaces: bool) -> ColumnElement[bool]:
        """Returns the condition that selects the old recordings of the group. The old recordings are deleted when a new
        recording is added.

        A fixed number of the newest recordings is retained: the condition does not select them. A condition on
        generations would be wrong, because the generations of a restored group have a gap. `replaces`: True to delete
        the earlier recording of the same generation, too.
        """
        of_group, generation = rebalances.c.group_id == group_id, rebalances.c.generation_id
        others = select(generation).where(of_group, generation != recording.generation_id)
        kept = others.order_by(generation.desc()).limit(self._retained_rebalances - 1)
        dropped = of_group & generation.not_in(kept)
        return dropped if replaces else dropped & (generation != recording.generation_id)

    # --- transactions

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with connection_of(self._engine_for_reading) as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            # First check whether the file was replaced or cut short. SQLite may report a replaced or short file as
            # damage.
            self._check_file()
            raise unusable("cannot be read", error) from error
        self._check_file()

    @asynccontextmanager
    async def _writing(self, group_id: str | None = None) -> AsyncIterator[AsyncConnection]:
        """Begins one write transaction. `group_id`: the group whose log is written; None if no log is written."""
        try:
            async with self._begin() as connection:
                yield connection
                # Check before the commit. A file that was moved away may be put back later. When the file is put back,
                # it must not contain a refused write.
                self._check_file()
        except (SQLAlchemyError, OSError) as error:
            if isinstance(error, IntegrityError) and group_id is not None:
                raise ConcurrentWriter(f"{_written_elsewhere(group_id)}: {reason(error)}") from error
            self._check_file()
            raise unusable("cannot be written", error) from error
        self._check_file()

    def _check_file(self) -> None:
        if self._file is None:
            return
        try:
            self._file.check()
        except OSError as error:
            raise unusable("is out of reach", error) from error


async def _change(
    connection: AsyncConnection, group: _ExpectedGroup, last: int, added: int, members: int | None
) -> int:
    """Change the group's row. Returns the new size of the group in bytes. Raises ConcurrentWriter or NotOwner."""
    changes = {"last": last, "added": added, "members_now": members}
    stored_bytes = (await connection.execute(_CHANGE, {**group.parameters(), **changes})).scalar()
    if stored_bytes is None:
        raise _refusal(group, await _owner_of(connection, group.group_id))
    return int(stored_bytes)


def _recorded(group_id: str, generation_id: int) -> ColumnElement[bool]:
    return (rebalances.c.group_id == group_id) & (rebalances.c.generation_id == generation_id)


async def _summary(connection: AsyncConnection, group_id: str, generation_id: int) -> dict[str, Any] | None:
    """The summary of the recorded rebalance; None if no rebalance was recorded."""
    query = select(rebalances.c.summary).where(_recorded(group_id, generation_id))
    stored = (await connection.execute(query)).scalar()
    return None if stored is None else dict(json.loads(stored))


async def _note(connection: AsyncConnection, group_id: str, note: RecordingNote) -> None:
    summary = await _summary(connection, group_id, note.generation_id)
    if summary is None:
        return
    if note.outcome is not None:
        summary["outcome"] = note.outcome
    summary["hold"] = {**(summary.get("hold") or {}), **note.hold}
    noted = update(rebalances).where(_recorded(group_id, note.generation_id))
    await connection.execute(noted.values(summary=json.dumps(summary)))


async def _total_length(
    connection: AsyncConnection, column: ColumnElement[str] | ColumnElement[bytes], chosen: ColumnElement[bool]
) -> int:
    total = select(func.coalesce(func.sum(func.length(column)), 0)).where(chosen)
    return int((await connection.execute(total)).scalar_one())


async def _owner_of(connection: AsyncConnection, group_id: str) -> tuple[str | None, int] | None:
    """The owner and epoch of the group; None when there is no such group."""
    query = select(groups.c.owner, groups.c.epoch).where(groups.c.group_id == group_id)
    found = (await connection.execute(query)).one_or_none()
    return None if found is None else (found.owner, found.epoch)


def _refusal(group: _ExpectedGroup, found: tuple[str | None, int] | None) -> StoreError:
    """Returns the error for a refused write. `found`: the owner and epoch in the store."""
    if found is None or found == (group.owner, group.epoch):
        return ConcurrentWriter(
            f"{_written_elsewhere(group.group_id)}: its log does not end at record {group.sequence}"
        )
    owner, epoch = found
    return NotOwner(
        f"nothing of group {group.group_id} was written: in epoch {epoch}, {owner or 'nobody'} owns it, and not "
        f"{group.owner or 'nobody'} in epoch {group.epoch}"
    )


def _written_elsewhere(group_id: str) -> str:
    return f"another process wrote group {group_id}, so nothing was written"
