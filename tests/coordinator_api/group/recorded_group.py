"""A group with its store in memory: what a coordinator does around `Group`. Each step checks what has to hold."""

from collections.abc import Mapping
from dataclasses import replace

from assignor.pipeline.snapshot import Member, RebalanceResult
from coordinator_api.group.events import AssignmentComputed, Event, FetchAssignment, HeartbeatOrFetch, Recovered, Tick
from coordinator_api.group.group import Group
from coordinator_api.group.heartbeats import answer
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import Outcome, Response
from coordinator_api.group.rebalance_result import computed_assignments
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.snapshot import snapshot_records


class RecordedGroup:
    """`log`: the committed records, as text. `now_ms` is the clock."""

    def __init__(self, limits: GroupLimits | None = None) -> None:
        self.limits = limits or GroupLimits()
        self.group = Group("shop", self.limits)
        self.log: list[str] = []
        self.now_ms = 0

    def send(self, event: Event | HeartbeatOrFetch) -> Outcome:
        """Handle, commit, apply: the loop in the docstring of `coordinator_api.group`."""
        outcome = self.decide(event)
        self.commit(outcome)
        return outcome

    def ask(self, event: Event | HeartbeatOrFetch) -> Response:
        return self.send(event).response

    def computed(
        self,
        generation_id: int,
        result: RebalanceResult,
        topics: Mapping[str, int] | None = None,
        missing_topics: tuple[str, ...] = (),
    ) -> AssignmentComputed:
        """What comes back when `result` was computed for the members that the group has now."""
        image = self.group.image
        members = {member_id: Member(member.last_join.subscription) for member_id, member in image.members.items()}
        rebalance = computed_assignments(members, image.rebalance_revision, result)
        return AssignmentComputed(generation_id, rebalance, topics or {}, missing_topics)

    def decide(self, event: Event | HeartbeatOrFetch) -> Outcome:
        """Handle without committing. The durable state must not change."""
        before = self.group.image
        outcome = self._answer(event) if isinstance(event, HeartbeatOrFetch) else self.group.handle(event, self.now_ms)
        assert self.group.image is before, f"{event} changed durable state before its records were committed"
        return outcome

    def _answer(self, event: HeartbeatOrFetch) -> Outcome:
        """The tick that it asks for follows at once, and the answer to a heartbeat is that of afterwards."""
        image = self.group.image
        answered = self.group.respond(event, self.now_ms, image)
        if not answered.wants_tick:
            return Outcome((), answered.response)
        outcome = self.group.handle(Tick(), self.now_ms)
        for record in outcome.records:
            image = record.apply(image)
        afterwards = answered.response if isinstance(event, FetchAssignment) else answer(image, event)
        return replace(outcome, response=afterwards)

    def commit(self, outcome: Outcome) -> None:
        self.store(outcome)
        self.group.apply(outcome.records, self.now_ms)
        self.group.validate_state()
        assert self.replayed().image == self.group.image, "replayed and live state differ"
        snapshot = Group.replay("shop", self.limits, snapshot_records(self.group.image), self.now_ms)
        assert snapshot.image == self.group.image, "state restored from a snapshot differs"

    def store(self, outcome: Outcome) -> None:
        self.log += [encode_record(record) for record in outcome.records]

    def replayed(self) -> Group:
        group = Group.replay("shop", self.limits, (decode_record(line) for line in self.log), self.now_ms)
        group.validate_state()
        return group

    def restart(self) -> Outcome:
        """The coordinator was killed and comes back. Only what was committed is left."""
        self.group = self.replayed()
        return self.send(Recovered())
