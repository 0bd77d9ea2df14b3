"""Keeps the state of one group in memory and its records in the store. Several events are applied one by one, and then
committed together.

`apply` runs `Group.handle` and `Group.apply` in memory. `apply` may run any number of times before a commit. `commit`
writes the records of all calls of `apply`, and the recording of a rebalance, in ONE transaction. After the commit,
`image` includes the records.

Between `apply` and `commit`, `group` is newer than `image`. `group` is used only to handle events and requests. All
other code sees `image`, which is never newer than the store. The result of a write is unknown if the store did not
answer, or if another process wrote to the group's log. A group is called uncertain after a write with an unknown
result. An uncertain group is read from the store again before its next event. If the group's log becomes long, it is
rewritten as one snapshot.

Each write names the epoch in which this coordinator owns the group. The epoch is set when this coordinator acquires or
creates the group, and then does not change. A successful write proves that this coordinator still owned the group at
that time. The lease is checked before each commit, even if the commit writes no records.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field, replace

from assignor.errors import InputError
from coordinator_api.clock import ServiceClock
from coordinator_api.group.events import DeclareGroup, DeleteGroup, Event, Join, ReportRebalance
from coordinator_api.group.group import Group
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import Outcome, Response
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import CoordinatorRecord, HeldRebalanceEnded, IllegalTransition, RebalanceCompleted
from coordinator_api.group.snapshot import snapshot_records
from coordinator_api.lease.owned_groups import GroupLease, not_here
from coordinator_api.metrics import Metrics
from coordinator_api.runtime.admission import Backlog, Quotas
from coordinator_api.runtime.held_requests import GroupsOfConnections, Watching
from coordinator_api.runtime.store_access import StoreReadiness
from coordinator_api.runtime.telemetry import GroupTelemetry
from coordinator_api.store.repository import GroupLog, Recording, RecordingNote, Repository
from coordinator_api.store.store_errors import DamagedLog, NotOwner, StoreError


@dataclass(frozen=True, slots=True)
class GroupEnvironment:
    """The objects that all groups of one service share.

    `compaction_bytes`: the size from which a group's log is rewritten as one snapshot. `metadata_max_age_ms`: the
    interval at which a group's cluster is polled. `readiness`: checks the store after a commit has failed; None if
    nobody has to know.
    """

    repository: Repository
    clock: ServiceClock
    limits: GroupLimits
    compaction_bytes: int
    metadata_max_age_ms: int = 30_000
    metrics: Metrics = field(default_factory=Metrics)
    backlog: Backlog = field(default_factory=Backlog)
    connections: GroupsOfConnections = field(default_factory=GroupsOfConnections)
    quotas: Quotas = field(default_factory=Quotas)
    watching: Watching = field(default_factory=Watching)
    readiness: StoreReadiness | None = None


RecordingFor = Callable[[Response], Recording | None]
"""A function that receives the group's answer to an event, and returns the recording to store with the event.
The function is called in a thread.
"""

ENCODED_IN_A_THREAD = 64
"""If a commit has at least this number of records, a thread encodes the records."""

UNREADABLE = (DamagedLog, InputError, IllegalTransition)
"""The errors that mean that a group's log is damaged, or that this release cannot replay it."""

REPLAYED_IN_A_THREAD_BYTES = 65_536
"""A group's log of at least this size is replayed in a thread, so that other groups are served meanwhile."""


_Records = tuple[CoordinatorRecord, ...]


@dataclass(eq=False)
class DurableGroup:
    """A group and its log of records. The caller must not run two of `apply`, `commit`, `reload` and `compact_if_long`
    at one time.

    `image`: the committed state. The image is immutable, so it may be read anywhere at any time. `committed_sessions`:
    the sessions before the first uncommitted event. `committed_sessions` still includes the sessions of members that
    uncommitted events removed. `stored_bytes`: the size of the group's log and recorded rebalances, as committed.
    `is_uncertain`: True if the store may have more or fewer records than this process knows.

    `stored`: the stored log of the group. The log of a new group has sequence 0 and no records. `replayed`: the group
    that was replayed from the log; None if the log has not been replayed yet.
    """

    stored: InitVar[GroupLog]
    _environment: GroupEnvironment
    _telemetry: GroupTelemetry
    _lease: GroupLease
    replayed: InitVar[Group | None] = None

    def __post_init__(self, stored: GroupLog, replayed: Group | None) -> None:
        self._repository = self._environment.repository
        self.is_uncertain = self._renews = False
        self._load(stored, replayed or replay_log(stored, self._environment))

    def _load(self, stored: GroupLog, replayed: Group) -> None:
        self.group = replayed
        self.image = self._applied_image = self.group.image
        self.committed_sessions = self.group.sessions
        self._applied: list[CoordinatorRecord] = []
        self._deleted = False
        self._sequence = stored.sequence
        self._log_bytes = sum(map(len, stored.records))
        self._snapshot_bytes = 0
        self.stored_bytes = stored.stored_bytes
        self._note_use()

    def reload_before_next_event(self) -> None:
        """Make the group uncertain, so that it is read from the store again before the next event."""
        self.is_uncertain = True

    async def reload(self) -> None:
        """Read the group from the store again. The next event after `reload` has to be `Recovered`.

        Raises StoreError. Raises DamagedLog, InputError or IllegalTransition if the log cannot be read. Raises NotOwner
        if the group has another epoch in the store.
        """
        stored = await self._repository.load_group(self.group.group_id)
        if stored.sequence and stored.epoch != self._lease.epoch:
            self._lease.was_lost()
            raise not_here(stored.group_id)
        self._load(stored, await replayed_log(stored, self._environment))
        self.is_uncertain = False
        self._telemetry.logger.warning("group_reloaded", sequence=stored.sequence)

    def apply(self, event: Event, now_ms: int, tenant: str = "") -> Outcome:
        """Apply the event in memory, and return its outcome. The caller may carry out the outcome only after `commit`
        has returned. `tenant`: the tenant whose quotas apply.

        Raises the errors of `Group.handle` and `Group.apply`. After an error of `Group.handle`, the event has no effect
        and the group stays usable. After an error of `Group.apply`, the group is uncertain.
        """
        outcome = self.group.handle(self._within_quotas(event, tenant) if tenant else event, now_ms)
        if not self._applied:
            self.committed_sessions = self.group.sessions
        try:
            self.group.apply(outcome.records, now_ms)
        except BaseException:
            self.reload_before_next_event()
            raise
        self._applied.extend(outcome.records)
        self._applied_image = self.group.image
        if outcome.records:
            self._note_use()
        self._deleted = self._deleted or (isinstance(event, DeleteGroup) and bool(outcome.records))
        return outcome

    async def commit(self, response: Response, recording_for: RecordingFor | None) -> _Records:
        """Write the records that were applied since the last commit, in one transaction. Returns the records that it
        wrote.

        `response`: the answer to the last applied event. `recording_for`: the function that returns the recording of
        this event. Raises StoreError if the records could not be committed. If there were records to write, the group
        is uncertain after any error.
        """
        image, applied, deleted = self._applied_image, tuple(self._applied), self._deleted
        self._applied, self._deleted = [], False
        if not applied:
            # without a write, only the lease can show that this coordinator still owns the group
            self._lease.check()
            return ()
        try:
            self._lease.check()
            await self._write(applied, response, recording_for, deleted)
        except NotOwner:
            self.reload_before_next_event()
            self._lease.was_lost()
            raise
        except BaseException:  # after any kind of error, the store may have the records
            self.reload_before_next_event()
            raise
        self.image = image
        self._note_use()
        return applied

    def renew(self) -> None:
        """Make the next call of `compact_if_long` write a new log, even if the present log is short. The new log
        replaces a damaged log.
        """
        self._renews = True

    async def compact_if_long(self) -> None:
        """Rewrite the group's log as one snapshot if the log is long. After a failed write, the group is uncertain.

        The snapshot is made from the committed image and encoded in a thread. Heartbeats and fetches do not wait for
        the snapshot. The next commit waits for the snapshot.
        """
        # The snapshot of a large group may itself exceed the limit. So the log must also be twice as long as the last
        # snapshot.
        is_long = self._log_bytes >= max(self._environment.compaction_bytes, 2 * self._snapshot_bytes)
        if not is_long and not self._renews:
            return
        image = self.image
        try:
            lines = await asyncio.to_thread(lambda: [encode_record(record) for record in snapshot_records(image)])
        # an error here is a bug; the group stays usable, because the long log can still be replayed
        except Exception as error:
            self._telemetry.logger.warning("compaction_failed", error=str(error))
            self._snapshot_bytes = self._log_bytes
            return
        write = self._repository.renew if self._renews else self._repository.replace
        self._renews = False
        try:
            written = await write(self.group.group_id, self._sequence, lines, epoch=self._lease.epoch)
        except StoreError as error:
            self._telemetry.logger.warning("compaction_failed", error=str(error))
            self.reload_before_next_event()
            if isinstance(error, NotOwner):
                self._lease.was_lost()
            return
        self._sequence, self.stored_bytes = written
        self._log_bytes = self._snapshot_bytes = sum(map(len, lines))
        self._note_use()

    def _within_quotas(self, event: Event, tenant: str) -> Event:
        """Returns the event. If a quota refuses the event, the field `no_room` of the result has the reason. No other
        asyncio task may run between the check of a quota and the call that applies the event. If another asyncio task
        ran in between, two members could both get the last free place.
        """
        quotas, no_room = self._environment.quotas, None
        match event:
            case Join():
                no_room = quotas.no_room_for_member(tenant, self.group.group_id, self._members(joining=1))
            case DeclareGroup() | ReportRebalance():
                no_room = quotas.no_room(tenant, "bytes", len(event.input_json))
            case _:
                return event
        return event if no_room is None else replace(event, no_room=no_room)

    def _note_use(self) -> None:
        self._environment.quotas.note(self.group.group_id, self._members(), self.stored_bytes)

    def _members(self, joining: int = 0) -> int:
        """Returns the number of members for the quotas. The result is the larger of two numbers: the committed members,
        and the members after the applied events. When a member leaves, its place is free only after the commit. The
        number is 0 if the group has an outside leader, because its members did not join here.
        """
        applied = self._applied_image
        return 0 if applied.led_by is not None else max(len(self.image.members), len(applied.members) + joining)

    async def _write(
        self, applied: _Records, response: Response, recording_for: RecordingFor | None, deleted: bool
    ) -> None:
        # encoding a rebalance of a large group and packing its recording take time
        recording = None if recording_for is None else await asyncio.to_thread(recording_for, response)
        in_thread = recording is not None or len(applied) >= ENCODED_IN_A_THREAD
        lines = await asyncio.to_thread(_encoded, applied) if in_thread else _encoded(applied)
        group_id = self.group.group_id
        with self._telemetry.metrics.commit_latency.time():
            if deleted:
                await self._repository.delete(group_id, self._sequence, epoch=self._lease.epoch)
                self.stored_bytes = 0
                return
            notes = _notes_of(applied)
            writing = self._repository.append(
                group_id,
                self._sequence,
                lines,
                recording,
                notes,
                epoch=self._lease.epoch,
                members=0 if self._applied_image.led_by is not None else len(self._applied_image.members),
            )
            # The write runs as a separate asyncio task. Each I/O of the store then resumes only this short asyncio
            # task, and not the whole stack of callers.
            written = await asyncio.create_task(writing)
        self._sequence, self.stored_bytes = written
        self._log_bytes += sum(map(len, lines))


def _encoded(records: _Records) -> list[str]:
    return [encode_record(record) for record in records]


def replay_log(stored: GroupLog, environment: GroupEnvironment) -> Group:
    """Replays the group from its log. Raises InputError or IllegalTransition if the log cannot be read."""
    records = [decode_record(line) for line in stored.records]
    group = Group.replay(stored.group_id, environment.limits, records, environment.clock.now_ms())
    if records and group.image.input_json is None:
        raise IllegalTransition(f"group {stored.group_id}: its log does not begin with its declaration")
    return group


async def replayed_log(stored: GroupLog, environment: GroupEnvironment) -> Group:
    """Replays the group from its log like `replay_log`, but replays a long log in a thread. The sessions begin after
    the end of the replay.
    """
    if sum(map(len, stored.records)) < REPLAYED_IN_A_THREAD_BYTES:
        return replay_log(stored, environment)
    group = await asyncio.to_thread(replay_log, stored, environment)
    group.begin_sessions(environment.clock.now_ms())
    return group


def _notes_of(records: Iterable[CoordinatorRecord]) -> tuple[RecordingNote, ...]:
    """Returns the changes to recorded rebalances whose wait for approval has ended.

    A rebalance is recorded when its wait begins. The recording has the outcome `held` and the start of the wait. The
    recording allows operators to inspect the held rebalance, even after a crash. The transaction that ends the wait
    also changes the recording. The change adds the end of the wait, the caller, the time and the reason. If the
    rebalance is carried out, the recording gets the outcome of the computation instead of `held`. After a discard, a
    new rebalance of the same generation keeps every task in place. Its recording replaces the earlier recording. The
    new recording still shows that the first rebalance was discarded. If a new rebalance replaced the held rebalance,
    the outcome of the recording stays `held`.
    """
    ended: dict[int, HeldRebalanceEnded] = {}
    outcomes: dict[int, str] = {}
    for record in records:
        if isinstance(record, HeldRebalanceEnded):
            ended[record.generation_id] = record
        elif isinstance(record, RebalanceCompleted):
            outcomes[record.generation_id] = str(record.end.outcome)
    return tuple(
        RecordingNote(generation_id, outcomes.get(generation_id), _hold(record))
        for generation_id, record in ended.items()
    )


def _hold(record: HeldRebalanceEnded) -> dict[str, object]:
    decision = record.decision
    return {"ended": str(record.end), "by": decision.by, "at_ms": decision.at_ms, "reason": decision.reason}
