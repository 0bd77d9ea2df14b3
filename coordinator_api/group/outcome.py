"""The outcome of an event: records to commit, the answer, and the rebalance to compute.

The docstring of the package `group` shows how the caller processes an outcome, and how it handles a failed commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.pipeline.snapshot import Member
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.task_assignors.steering import NO_STEERING, Steering
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import GroupLimits, InitialDelay, Liveness, RejoinTimeout
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.group.states import GroupState, RebalanceOutcome, RejectionCode


@dataclass(frozen=True, slots=True)
class Declared:
    """A definition was accepted. `created`: True if this PUT created the group (status 201, else 200). `revision`: the
    number of the present definition. `replaced_topology`: True if the topology or the cluster of running members
    differs from the definition.
    """

    revision: int
    created: bool
    replaced_topology: bool = False


@dataclass(frozen=True, slots=True)
class JoinAnswered:
    """A join was accepted. `generation_id`: the generation that the member has to wait for. The member sends
    `generation_id` as the field `min_generation` of its fetch. `generation_id` is the next generation if the join
    starts a rebalance, or takes part in a rebalance that is being prepared. `generation_id` is the current generation
    if the join was a repeated request, or if a static member came back unchanged. The member may get the assignment of
    a later generation, because a new rebalance may replace the present rebalance. `created`: True if a new member id
    was made (status 201, else 200). `replaced`: the former member id, if a static member was restarted or an absent
    member came back; else None.
    """

    member_id: str
    generation_id: int
    state: GroupState
    created: bool
    replaced: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The answer to a heartbeat. `rejoin`: True if a rebalance waits for this member's subscription. `stop`: True if
    the member has to leave and its process has to end.

    `generation_id`: the group's current generation. If the group's generation is higher than the assignment's
    generation, the member can fetch a new assignment. `paused`: True if an operator has paused the group, so that
    members must not process records.
    """

    state: GroupState
    rejoin: bool
    stop: bool
    generation_id: int
    paused: bool = False


@dataclass(frozen=True, slots=True)
class MemberNews:
    """One member's part of the answer to a process heartbeat. `rejoin`, `stop`: as in `HeartbeatAnswered`.

    `assignment_generation`: the generation of the assignment that the member can fetch now; 0 if there is no assignment
    to fetch.
    """

    rejoin: bool
    stop: bool
    assignment_generation: int


@dataclass(frozen=True, slots=True)
class ProcessHeartbeatAnswered:
    """The answer to a process heartbeat. `members`: the answer or a refusal for each member of the request. `paused`:
    as in `HeartbeatAnswered`.

    `news`: a short digest of `generation_id`, `members` and `paused`. An unchanged answer has the same digest. If a
    heartbeat carries the digest of the present answer, the service answers only after the answer has changed.
    """

    state: GroupState
    generation_id: int
    members: Mapping[str, MemberNews | Rejected]
    news: str
    paused: bool = False


@dataclass(frozen=True, slots=True)
class AssignmentReady:
    """The member's assignment. `assignment`: ConsumerProtocolAssignment. `followup`: True if another rebalance starts
    once all members have fetched their assignments. `error`: what is wrong, in words, if the rebalance failed; else
    None.
    """

    generation_id: int
    assignment: AssignmentParts
    followup: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class AssignmentPending:
    """The assignment is not available yet. The service answers 204, or holds the request and asks the group again after
    each commit.
    """


@dataclass(frozen=True, slots=True)
class Left:
    member_id: str


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The rebalance was carried out. The caller stores the rebalance in the transaction that commits the records."""

    generation_id: int
    outcome: RebalanceOutcome


@dataclass(frozen=True, slots=True)
class AssignmentDiscarded:
    """The result is stale: the group has started another generation. Store nothing."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class RebalanceWaits:
    """The rebalance waits for approval. The caller stores the rebalance in the transaction that commits the records,
    and marks it as not approved yet.
    """

    generation_id: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class ComputedAgain:
    """The generation is computed again, without taking a task from a live owner. The caller does not store a rebalance
    yet.
    """

    generation_id: int


@dataclass(frozen=True, slots=True)
class RebalanceReported:
    """A report was accepted: a leader outside this service ran a rebalance. `created`: True if the reported rebalance
    is new and has to be stored (status 201); False if it was reported before (status 200).
    """

    generation_id: int
    created: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """The event was carried out, and the answer has no content."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The event was refused. `code`: Kafka's name of the error. `detail`: a message for the user, which names the fault
    and its remedy.
    """

    code: RejectionCode
    detail: str


GROUP_DELETED = Rejected(RejectionCode.GROUP_ID_NOT_FOUND, "the group has been deleted; declare it again by PUT")

GROUP_NOT_DECLARED = Rejected(
    RejectionCode.GROUP_ID_NOT_FOUND, "the group has not been declared, or has been deleted; declare it by PUT"
)


Response = (
    Declared
    | JoinAnswered
    | HeartbeatAnswered
    | ProcessHeartbeatAnswered
    | AssignmentReady
    | AssignmentPending
    | Left
    | AssignmentStored
    | AssignmentDiscarded
    | RebalanceWaits
    | ComputedAgain
    | RebalanceReported
    | Accepted
    | Rejected
)


@dataclass(frozen=True, slots=True)
class ImmediateResponse:
    """The result of `Group.respond`. `wants_tick`: True if the request made a timer due. In this case, the caller has
    to send a `Tick` immediately.
    """

    response: Response
    wants_tick: bool = False


@dataclass(frozen=True, slots=True)
class RunRebalance:
    """Asks the caller to compute the rebalance of `generation_id` and then to send `AssignmentComputed`.

    If the group sends another `RunRebalance`, it discards the result of this rebalance. `members`: the members in the
    order in which they joined. `input_json`: the definition to use. `definition_revision`: the revision of this
    definition. `reason`: the cause of the rebalance in words. `steering`: the constraints that operators have set.
    """

    generation_id: int
    definition_revision: int
    input_json: str
    members: Mapping[str, Member]
    reason: str
    steering: Steering = NO_STEERING


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of `Group.handle`. `rebalance`: the rebalance to compute now, or None."""

    records: tuple[CoordinatorRecord, ...]
    response: Response
    rebalance: RunRebalance | None = None


class GroupTransition:
    """The state of a group while one event is handled. Rules emit records one by one, and each rule sees the state
    after the last record.

    `image`, `liveness`: the state after the last emitted record. After the first record, `liveness` is a copy, so
    `Group.apply` can adopt the image and the liveness. Before the first record, `liveness` is the group's own object.
    Rules then only restart sessions, which needs no commit.
    """

    def __init__(self, limits: GroupLimits, image: GroupImage, liveness: Liveness, now_ms: int) -> None:
        self.limits = limits
        self.image = image
        self.liveness = liveness
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self.history: list[str] = []
        """For each emitted record, one line of text for the history of the group."""

    def emit(self, record: CoordinatorRecord) -> None:
        """Add a record. Raises IllegalTransition if the record does not fit the state."""
        if not self.records:
            self.liveness = self.liveness.copy()
        before, after = self.image, record.apply(self.image)
        self.history.append(f"{self.now_ms} {record.as_text()} -> {after.state} generation {after.generation_id}")
        record.update_liveness(self.liveness, before, after, self.now_ms)
        self.records.append(record)
        self.image = after

    def wait(self, timer: InitialDelay | RejoinTimeout) -> None:
        """Set `timer` as the new end of the wait for joins.

        No record contains the new timer. So if `Group.apply` computes the state from the records again, the old timer
        stays due. The next tick then sets the new timer.
        """
        self.liveness.join_timer = timer
