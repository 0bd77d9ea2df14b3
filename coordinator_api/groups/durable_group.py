"""One group and its records in the store, kept equal: many events are taken in memory, then committed together.

    take: Group.handle -> Group.apply, in memory        any number of times
    commit: all their records (and the recording of a rebalance) in ONE transaction        then `image` shows them

Between the two, `group` is ahead of `image`. Everybody but the next event sees `image`, which is never ahead of the
store. A write whose end is not known (the store did not answer, or another process wrote) makes the group uncertain:
it is read from the store again before it takes the next event. A log that has grown long is rewritten as one snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from coordinator_api.group.events import DeleteGroup, Event
from coordinator_api.group.group import Group
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import Session
from coordinator_api.group.outcome import Outcome, Response
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.group.snapshot import snapshot_records
from coordinator_api.groups.group_environment import GroupEnvironment
from coordinator_api.store.errors import StoreError
from coordinator_api.store.repository import GroupLog, Recording
from coordinator_api.telemetry import GroupTelemetry

RecordingFor = Callable[[Response], Recording | None]
"""What to store beside an event's records, once the group's answer to it is known. Called in a thread."""

ENCODED_IN_A_THREAD = 64
"""As many records as this are encoded beside the event loop."""


class DurableGroup:
    """The caller sees to it that no two of `take`, `commit`, `reload` and `compact_if_long` run at once."""

    group: Group
    image: GroupImage
    """The state that is committed. Immutable, so it may be read anywhere at any time."""
    sessions_then: Mapping[str, Session]
    """Of the members of `image`, as they were when the first event after it was taken."""
    _sequence: int
    _log_bytes: int
    _snapshot_bytes: int
    _taken: list[CoordinatorRecord]
    _taken_image: GroupImage
    _deleted: bool

    def __init__(self, stored: GroupLog, environment: GroupEnvironment, telemetry: GroupTelemetry) -> None:
        """`stored`: what the store has of the group, sequence 0 and no records for a new one."""
        self._repository = environment.repository
        self._environment = environment
        self._telemetry = telemetry
        self._uncertain = False
        self._load(stored)

    @property
    def is_uncertain(self) -> bool:
        """Whether the store may have more, or less, than this process knows."""
        return self._uncertain

    def distrust(self) -> None:
        """Have the group read from the store again before the next event."""
        self._uncertain = True

    async def reload(self) -> None:
        """Become what the store has. `Recovered` has to be the next event. Raises StoreError."""
        stored = await self._repository.load_group(self.group.group_id)
        self._load(stored)
        self._uncertain = False
        self._telemetry.reloaded(stored.sequence)

    def take(self, event: Event, now_ms: int) -> Outcome:
        """What the event leads to, in memory. It counts when `commit` has returned.

        An event that `Group.handle` fails on leaves no trace, and the group goes on. One whose records cannot be
        applied leaves the group uncertain. Raises what they raise.
        """
        outcome = self.group.handle(event, now_ms)
        if not self._taken:
            self.sessions_then = self.group.sessions
        try:
            self.group.apply(outcome.records, now_ms)
        except BaseException:
            self.distrust()
            raise
        self._taken.extend(outcome.records)
        self._taken_image = self.group.image
        self._deleted = self._deleted or (isinstance(event, DeleteGroup) and bool(outcome.records))
        return outcome

    async def commit(self, response: Response, recording_for: RecordingFor | None) -> tuple[CoordinatorRecord, ...]:
        """Write what was taken since the last commit, in one transaction. Returns the records.

        `response`, `recording_for`: of the last event that was taken. Raises StoreError when it could not be committed;
        whatever it raises, the group is uncertain.
        """
        image, taken, deleted = self._taken_image, tuple(self._taken), self._deleted
        self._taken, self._deleted = [], False
        if not taken:
            return ()
        try:
            await self._write(taken, response, recording_for, deleted)
        except BaseException:  # whatever ended the write, it may have been made
            self.distrust()
            raise
        self.image = image
        return taken

    async def compact_if_long(self) -> None:
        """Rewrite the log as one snapshot when it has grown long. A write that fails makes the group uncertain.

        Only the next commit waits for it: the snapshot is of the committed image, and encoded in a thread.
        """
        # the snapshot of a large group may be that long itself: wait until the log is twice as long
        if self._log_bytes < max(self._environment.compaction_bytes, 2 * self._snapshot_bytes):
            return
        image = self.image
        try:
            lines = await asyncio.to_thread(lambda: [encode_record(record) for record in snapshot_records(image)])
        except Exception as error:  # a bug; the longer log still is what the group is
            self._telemetry.compaction_failed(error)
            self._snapshot_bytes = self._log_bytes
            return
        try:
            self._sequence = await self._repository.replace(self.group.group_id, self._sequence, lines)
        except StoreError as error:
            self._telemetry.compaction_failed(error)
            self.distrust()
            return
        self._log_bytes = self._snapshot_bytes = sum(map(len, lines))

    def _load(self, stored: GroupLog) -> None:
        records = [decode_record(line) for line in stored.records]
        now_ms = self._environment.clock.now_ms()
        self.group = Group.replay(stored.group_id, self._environment.limits, records, now_ms)
        self.image = self._taken_image = self.group.image
        self.sessions_then = self.group.sessions
        self._taken, self._deleted = [], False
        self._sequence = stored.sequence
        self._log_bytes = sum(map(len, stored.records))
        self._snapshot_bytes = 0

    async def _write(
        self,
        taken: tuple[CoordinatorRecord, ...],
        response: Response,
        recording_for: RecordingFor | None,
        deleted: bool,
    ) -> None:
        # a rebalance of a large group takes time to encode, and its recording to pack
        recording = None if recording_for is None else await asyncio.to_thread(recording_for, response)
        in_thread = recording is not None or len(taken) >= ENCODED_IN_A_THREAD
        lines = await asyncio.to_thread(_encoded, taken) if in_thread else _encoded(taken)
        group_id = self.group.group_id
        with self._telemetry.commit_latency():
            if deleted:
                await self._repository.delete(group_id, self._sequence)
                return
            self._sequence = await self._repository.append(group_id, self._sequence, lines, recording)
        self._log_bytes += sum(map(len, lines))


def _encoded(records: tuple[CoordinatorRecord, ...]) -> list[str]:
    return [encode_record(record) for record in records]
