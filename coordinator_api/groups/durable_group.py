"""One group and its records in the store, kept equal: an event's records are committed, then applied, then answered.

    event -> Group.handle -> records (and the recording of a rebalance) in ONE transaction -> Group.apply

A write whose end is not known (the store did not answer, or another process wrote) makes the group uncertain: it is
read from the store again before it takes the next event. A log that has grown long is rewritten as one snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator_api.group.events import DeleteGroup, Event
from coordinator_api.group.group import Group
from coordinator_api.group.outcome import Outcome, Response
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.groups.group_environment import GroupEnvironment
from coordinator_api.store.errors import StoreError
from coordinator_api.store.repository import GroupLog, Recording
from coordinator_api.telemetry import GroupTelemetry

RecordingFor = Callable[[Response], Recording | None]
"""What to store beside an event's records, once the group's answer to it is known. Called in a thread."""


class DurableGroup:
    """Takes one event at a time: the caller sees to it that no two methods run at once."""

    group: Group
    _sequence: int
    _log_bytes: int
    _snapshot_bytes: int

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

    async def handle(self, event: Event, recording_for: RecordingFor | None) -> Outcome:
        """What the event led to, committed and applied. Raises StoreError when it could not be committed."""
        now_ms = self._environment.clock.now_ms()
        outcome = self.group.handle(event, now_ms)
        if outcome.records:
            await self._commit(event, outcome, recording_for)
            try:
                self.group.apply(outcome.records, now_ms)
            except Exception:
                self.distrust()
                raise
        return outcome

    async def compact_if_long(self) -> None:
        """Rewrite the log as one snapshot when it has grown long. A write that fails makes the group uncertain."""
        # the snapshot of a large group may be that long itself: wait until the log is twice as long
        if self._log_bytes < max(self._environment.compaction_bytes, 2 * self._snapshot_bytes):
            return
        lines = [encode_record(record) for record in self.group.snapshot()]
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
        self._sequence = stored.sequence
        self._log_bytes = sum(map(len, stored.records))
        self._snapshot_bytes = 0

    async def _commit(self, event: Event, outcome: Outcome, recording_for: RecordingFor | None) -> None:
        # compressing the recording of a large group takes time
        recording = None if recording_for is None else await asyncio.to_thread(recording_for, outcome.response)
        group_id = self.group.group_id
        try:
            with self._telemetry.commit_latency():
                if isinstance(event, DeleteGroup):
                    await self._repository.delete(group_id, self._sequence)
                    return
                lines = [encode_record(record) for record in outcome.records]
                self._sequence = await self._repository.append(group_id, self._sequence, lines, recording)
        except BaseException:  # whatever ended the write, it may have been made
            self.distrust()
            raise
        self._log_bytes += sum(map(len, lines))
