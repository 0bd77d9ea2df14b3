"""The outcome of an event: records to commit, the answer, and the rebalance to compute.

The docstring of this package says in which order the caller deals with them, and what follows a commit that fails.
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
    """`created`: this PUT made the group (201, else 200). `revision`: of the present definition. `replaced_topology`:
    the group has members, which ran another topology.
    """

    revision: int
    created: bool
    replaced_topology: bool = False


@dataclass(frozen=True, slots=True)
class JoinAnswered:
    """`generation_id`: the generation that the member has to wait for. It fetches with this as `min_generation`.

    It is the next generation when the join takes part in a rebalance that is being prepared, or starts one. It is the
    current generation when the join changed nothing: a repeated request, or a static member that came back unchanged. A
    rebalance that is being computed is given up when another one becomes necessary, so the member may get a later
    generation. `created`: a new member id was made (201, else 200). `replaced`: the member id of the
    static member whose place it took.
    """

    member_id: str
    generation_id: int
    state: GroupState
    created: bool
    replaced: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """`rejoin`: a rebalance waits for this member's subscription. `stop`: the member is asked to leave and end.

    `generation_id`: the group's current generation; when it is higher than the member's, an assignment waits for it.
    `paused`: members are to process nothing, because an operator paused the group.
    """

    state: GroupState
    rejoin: bool
    stop: bool
    generation_id: int
    paused: bool = False


@dataclass(frozen=True, slots=True)
class MemberNews:
    """The answer to one member of a process. `rejoin`, `stop`: as in `HeartbeatAnswered`.

    `assignment_generation`: the generation of the assignment that it can fetch now, 0 for none.
    """

    rejoin: bool
    stop: bool
    assignment_generation: int


@dataclass(frozen=True, slots=True)
class ProcessHeartbeatAnswered:
    """`members`: news or a refusal for each member that was named. `paused`: as in `HeartbeatAnswered`. `news`: a short
    digest of `generation_id`, `members` and `paused`; equal digests mean that there is nothing new, so a heartbeat that
    names it is held.
    """

    state: GroupState
    generation_id: int
    members: Mapping[str, MemberNews | Rejected]
    news: str
    paused: bool = False


@dataclass(frozen=True, slots=True)
class AssignmentReady:
    """`assignment`: ConsumerProtocolAssignment. `followup`: once all have it, another rebalance starts."""

    generation_id: int
    assignment: AssignmentParts
    followup: bool


@dataclass(frozen=True, slots=True)
class AssignmentPending:
    """There is none yet: answer 204, or hold the request and ask again after each commit."""


@dataclass(frozen=True, slots=True)
class Left:
    member_id: str


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The rebalance belongs to the group's history: store it in the transaction that commits the records."""

    generation_id: int
    outcome: RebalanceOutcome


@dataclass(frozen=True, slots=True)
class AssignmentDiscarded:
    """The group has moved on; there is nothing to store."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class RebalanceWaits:
    """The rebalance waits for approval: store it in the transaction that commits the records, as one that is held."""

    generation_id: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class ComputedAgain:
    """The same generation is computed again, with every task kept where it is. There is nothing to store yet."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class RebalanceReported:
    """A rebalance that was led elsewhere. `created`: it is new here (201; store it), or known already (200)."""

    generation_id: int
    created: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """Done; there is nothing more to say."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Refused. `code`: Kafka's name of the error. `detail`: what is wrong and what to do, for people."""

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
    """The result of `Group.respond`. `wants_tick`: something became due by it, so a `Tick` has to follow at once."""

    response: Response
    wants_tick: bool = False


@dataclass(frozen=True, slots=True)
class RunRebalance:
    """Compute the rebalance of `generation_id`, then send `AssignmentComputed`.

    A later `RunRebalance` makes this one void: its result will be discarded. `members`: in the order in which they
    joined. `input_json`: the definition to use; `definition_revision`: its number. `reason`: in words. `steering`: what
    operators ask of it.
    """

    generation_id: int
    definition_revision: int
    input_json: str
    members: Mapping[str, Member]
    reason: str
    steering: Steering = NO_STEERING


@dataclass(frozen=True, slots=True)
class Outcome:
    """`rebalance`: the rebalance to compute now, or None."""

    records: tuple[CoordinatorRecord, ...]
    response: Response
    rebalance: RunRebalance | None = None


class GroupTransition:
    """The handling of one event: rules emit records one by one, and each decision sees the state after the last record.

    `image`, `liveness`: the state after the records so far. From the first record on, `liveness` is a copy, so
    `Group.apply` can adopt both. Before it, a rule notes signs of life in the liveness of the group itself, because
    they need no commit.
    """

    def __init__(self, limits: GroupLimits, image: GroupImage, liveness: Liveness, now_ms: int) -> None:
        self.limits = limits
        self.image = image
        self.liveness = liveness
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self.history: list[str] = []
        """A line for each record, in words."""

    def emit(self, record: CoordinatorRecord) -> None:
        """Add a record. Raises IllegalTransition when it does not fit the state."""
        if not self.records:
            self.liveness = self.liveness.copy()
        before, after = self.image, record.apply(self.image)
        self.history.append(f"{self.now_ms} {record.in_words()} -> {after.state} generation {after.generation_id}")
        record.update_liveness(self.liveness, before, after, self.now_ms)
        self.records.append(record)
        self.image = after

    def wait(self, timer: InitialDelay | RejoinTimeout) -> None:
        """Note that the rebalance that is being prepared waits for joins until `timer`.

        `Group.apply` may lose the note, when it has to work the state out again. The timer that is over is due then
        once more, and the next tick makes the note again.
        """
        self.liveness.join_timer = timer
