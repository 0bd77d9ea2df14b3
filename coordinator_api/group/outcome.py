"""What handling an event gives: records to commit, the answer, effects to carry out, and when to come back.

The order for the caller, with the group locked: `outcome = group.handle(event, now_ms)`, commit `outcome.records`,
`group.apply(outcome.records, now_ms)`, then answer `outcome.response`, start `outcome.effects`, and see to it that a
`Tick` is handled at `outcome.next_timer_ms`. When the commit fails, drop the outcome (and tick again soon): the group
is as it was before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.snapshot import Member
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.group.states import GroupState, RebalanceOutcome, RejectionCode


@dataclass(frozen=True, slots=True)
class Declared:
    """`created`: this PUT made the group (201, else 200). `revision`: of the definition that now holds."""

    revision: int
    created: bool


@dataclass(frozen=True, slots=True)
class JoinAnswered:
    """`generation_id`: the generation the member has to wait for.

    It is the next generation when the join takes part in a round that is being prepared or that it started, and the
    current one when the join changed nothing (a repeated request, or a static member that came back as it was). Fetch
    with `min_generation` set to it. A round that is being computed is given up when another one becomes necessary, so
    what comes may be a later generation. `created`: a new member id was made (201, else 200).
    """

    member_id: str
    generation_id: int
    state: GroupState
    created: bool


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """`rejoin`: a round is prepared and this member has not sent its subscription for it. `stop`: leave and end.

    `generation_id`: the group's current generation; when it is above the one the member works by, an assignment waits.
    """

    state: GroupState
    rejoin: bool
    stop: bool
    generation_id: int


@dataclass(frozen=True, slots=True)
class AssignmentReady:
    """`assignment`: bytes of ConsumerProtocolAssignment. `followup`: a follow-up round comes once all have this one."""

    generation_id: int
    assignment: bytes
    followup: bool


@dataclass(frozen=True, slots=True)
class AssignmentPending:
    """Not there yet: answer 204, or hold the request and `RecheckAssignment` when the group has taken in records."""


@dataclass(frozen=True, slots=True)
class Left:
    member_id: str


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The round is part of the group's history: record it in the transaction that commits the records."""

    generation_id: int
    outcome: RebalanceOutcome


@dataclass(frozen=True, slots=True)
class AssignmentDiscarded:
    """The group had moved on; nothing to record."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class RebalanceReported:
    """A round that was led elsewhere. `created`: it is new here (201, and to be recorded), else known already (200)."""

    generation_id: int
    created: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """Handled; there is nothing to say."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Refused. `code` is Kafka's name of the error; `detail` is one sentence for people."""

    code: RejectionCode
    detail: str


Response = (
    Declared
    | JoinAnswered
    | HeartbeatAnswered
    | AssignmentReady
    | AssignmentPending
    | Left
    | AssignmentStored
    | AssignmentDiscarded
    | RebalanceReported
    | Accepted
    | Rejected
)


@dataclass(frozen=True, slots=True)
class RunRebalance:
    """Compute the round of `generation_id` and come back with `AssignmentComputed` or `RebalanceFailed`.

    A later `RunRebalance` makes this one void: what it computes will be discarded. `members` are in the order in which
    they joined, as the snapshot wants them. `input_json`: the definition to use, `definition_revision` its number.
    `reason`: in words.
    """

    generation_id: int
    definition_revision: int
    input_json: str
    members: Mapping[str, Member]
    reason: str


Effect = RunRebalance


@dataclass(frozen=True, slots=True)
class Outcome:
    """`next_timer_ms`: when the group wants its next `Tick`, None for never; it replaces what was asked for before.

    A time that has passed means at once. After every non-empty `records`, held assignment requests are to be rechecked.
    """

    records: tuple[CoordinatorRecord, ...]
    response: Response
    effects: tuple[Effect, ...] = ()
    next_timer_ms: int | None = None
