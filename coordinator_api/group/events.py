"""Events of a group: requests of members and operators, the result of a rebalance, and time passing.

An event is a plain value. `Group.handle` takes the time of the event beside it. A value that a pure state machine
cannot make itself, such as a fresh member id, comes with the event. Source: the JoinGroup, SyncGroup, Heartbeat and
LeaveGroup requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.pipeline.snapshot import Member
from assignor.protocol.shared_assignments import NO_ASSIGNMENTS, SharedAssignments
from assignor.types import TaskId
from coordinator_api.group.group_levers import LeverName


@dataclass(frozen=True, slots=True)
class DeclareGroup:
    """PUT of the group's definition.

    `input_json`: the `input` object of rebalance/1 without members. The caller has validated it. Its spelling is
    canonical (sorted keys), because a definition counts as changed when this text has changed. When the group has
    members, a changed definition starts a rebalance; an unchanged one does so only when the last rebalance ended with
    an error. Either ends a drain. `replaces_topology`: the caller knows that members run another topology, or on
    another cluster, and wants this one all the same; without it, such a definition is refused while the group has
    members. `declared_by`: who the caller is, in words. `no_room`: why a changed definition is refused (a quota); None
    when there is room for it. Answered with `Declared`.
    """

    input_json: str
    replaces_topology: bool = False
    declared_by: str | None = None
    no_room: str | None = None


@dataclass(frozen=True, slots=True)
class LastJoin:
    """The part of a member's last `Join` that the group remembers, with fields as there. Records carry it, so a new
    field comes last and has a default.

    `group_instance_id`: None for a dynamic member. `incarnation`: None when the member does not say. `generation_id`:
    the generation that it joined for.
    """

    group_instance_id: str | None
    incarnation: int | None
    client_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    generation_id: int
    join_id: str | None = None
    leave_on_disconnect: bool = False


@dataclass(frozen=True, slots=True)
class Join:
    """POST of a subscription: a first join (`member_id` None) or a rejoin.

    `new_member_id`: a fresh id that the caller proposes; it is used only when this join makes a new member id.
    `incarnation`: rises each time the static member `group_instance_id` is started again (Spark's taskAttemptId).
    `join_id`: of a first join; its sender chooses it and sends it again when the answer was lost, so that a repeated
    first join makes no second member (KIP-1082's idea). `leave_on_disconnect`: whether the member's session ends soon
    after the connection of its process breaks (see `ConnectionLost`).
    `no_room`: why a new member is refused (a quota); None when there is room for it.
    `subscription`: bytes of ConsumerProtocolSubscription; the caller has checked that they can be read. Times in
    milliseconds. Answered with `JoinAnswered`.
    """

    subscription: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int
    new_member_id: str
    member_id: str | None = None
    group_instance_id: str | None = None
    incarnation: int | None = None
    client_id: str | None = None
    join_id: str | None = None
    leave_on_disconnect: bool = False
    no_room: str | None = None

    def to_last_join(self, group_instance_id: str | None, incarnation: int | None, generation_id: int) -> LastJoin:
        """The part that the group remembers, for the id, incarnation and generation that the member joined under.

        It stands beside both classes, so that a new field of a member changes one file of the group.
        """
        return LastJoin(
            group_instance_id=group_instance_id,
            incarnation=incarnation,
            client_id=self.client_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            subscription=self.subscription,
            generation_id=generation_id,
            join_id=self.join_id,
            leave_on_disconnect=self.leave_on_disconnect,
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """`generation_id`: the generation of the member's assignment; 0 or less before its first one.

    `task_offset_sums`: by task, the sum of the offsets that it has reached; None when it does not report them this
    time. Answered with `HeartbeatAnswered`.
    """

    member_id: str
    generation_id: int
    task_offset_sums: Mapping[TaskId, int] | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessHeartbeat:
    """One heartbeat for all members of a process. `connection_id`: the connection that it came on, a number that this
    service gave it; None when nobody watches it. `is_recheck`: the same question once more, for a heartbeat whose
    answer is being held, which is no sign of life. Answered with `ProcessHeartbeatAnswered`.
    """

    members: Mapping[str, Heartbeat]
    connection_id: int | None = None
    is_recheck: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A connection broke. Members whose last process heartbeat came on it, and that asked for `leave_on_disconnect`,
    have `disconnect_grace_ms` to send another request; then their sessions end. When more than half of the connections
    of the group are lost at one time it is the network, and the session timeout counts. Answered with `Accepted`.

    `held_elsewhere`: by member, another connection, whole, on which its process waits for the answer to an earlier
    heartbeat. Such a process lives, and its members belong to that connection again.
    """

    connection_id: int
    held_elsewhere: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetchAssignment:
    """GET of the assignment, when the request arrives: a sign of life.

    `min_generation`: the `generation_id` of the member's `JoinAnswered`; 0 or less for any generation. `is_recheck`:
    the same question once more, for a request that is being held (long poll), which is no sign of life. Answered with
    `AssignmentReady` or `AssignmentPending`.
    """

    member_id: str
    min_generation: int
    group_instance_id: str | None = None
    is_recheck: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """DELETE of a member, dynamic or static. Answered with `Left`."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedAssignments:
    """The decision of a rebalance, as the group needs it: small, and made outside of the serving process.

    `assignments`: for every member; none when `error` is set. `packed`: the same as they are stored, empty for none.
    `warm_ups`: which of a member's standby tasks are warm-ups; members without any are left out. `fingerprint`: equal
    for two rebalances that decided the same from the same input. `error`: `"SimpleName: message"` of what the leader
    would have thrown. `error_code`: the code inside error assignments, else 0. `moves_owned`: a task or
    standby that a member of the group says it runs goes to another process. `places_ownerless`: a task is placed that
    nobody says it runs. The rest as in `RebalanceResult`.
    """

    assignments: SharedAssignments = field(default_factory=lambda: NO_ASSIGNMENTS)
    packed: bytes = b""
    warm_ups: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    fingerprint: str = ""
    followup_rebalance: bool = False
    probing_rebalance_at_ms: int | None = None
    error: str | None = None
    error_code: int = 0
    moves_owned: bool = False
    places_ownerless: bool = False


@dataclass(frozen=True, slots=True)
class AssignmentComputed:
    """The rebalance that `RunRebalance(generation_id)` asked for has been computed; or it could not be computed or
    carried out, then `rebalance` has the error alone.

    `topics`: partition counts of the topology's topics after the rebalance, 0 for a topic that does not exist; empty
    for a group whose definition describes its cluster itself, and when the cluster was not polled. `missing_topics`:
    source topics that did not exist.
    `kept_owned`: it was computed with every task kept where it is.
    Answered with `AssignmentStored`; with `RebalanceWaits` when it waits for approval; with `ComputedAgain`, or with
    `AssignmentDiscarded` when the group has moved on: then the result must not be recorded as a rebalance of this
    group.
    """

    generation_id: int
    rebalance: ComputedAssignments
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()
    kept_owned: bool = False


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The topics of the group's cluster, as a poll has just found them. `topics`: as in `AssignmentComputed`, for the
    present definition.

    Starts a rebalance when they are not those that the last rebalance worked with. Answered with `Accepted`.
    """

    topics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReportRebalance:
    """A rebalance that was led elsewhere, reported by its leader or by a recorder.

    `led_by`: who leads the group. `input_json`: what the leader knew, as in `DeclareGroup`. `members`: in the order in
    which the leader received them. `assignments`: bytes of ConsumerProtocolAssignment; empty for a rebalance that
    failed. `warm_ups`: which of a member's standby tasks are known to be warm-ups. `error`: `"SimpleName: message"`.
    `no_room`: why a new report is refused (a quota); None when there is room for it. The caller has checked that all
    bytes can be read. Answered with `RebalanceReported`.
    """

    led_by: str
    generation_id: int
    input_json: str
    members: Mapping[str, Member]
    assignments: Mapping[str, bytes]
    warm_ups: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    followup_rebalance: bool = False
    probing_rebalance_at_ms: int | None = None
    error: str | None = None
    no_room: str | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: sent at `Group.next_timer_ms`; early or late does no harm. Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Refused for a group with members, unless it is led elsewhere. Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask all members to stop: heartbeats say so until the next PUT. Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class RequestRebalance:
    """An operator wants a rebalance now. `reason`: of the rebalance. Refused for a group without members. Answered with
    `Accepted`.
    """

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SetLever:
    """Set a lever of the whole group (`is_on`), or take it back. `by`, `reason`: as in `OperatorDecision`. Answered
    with `Accepted`.

    - Hold: computed rebalances wait for approval, for `value_ms` at most. Taken back, one that waits is carried out.
    - Rejoin grace: the places of members that leave wait for them, for `value_ms`, which is refused outside of the
      bounds in `joining`. Taken back, nobody waits for members that are away either.
    - Promotion: the next rebalance comes when the warm-ups have caught up.
    - Pause: members process nothing.
    """

    name: LeverName
    is_on: bool
    by: str | None = None
    reason: str | None = None
    value_ms: int = 0


@dataclass(frozen=True, slots=True)
class DecideHeldRebalance:
    """Approve the rebalance that waits, which is then carried out; or discard it, and keep every task where it is.

    `generation_id`: the generation that the operator decided on, None for the one that waits. `by`, `reason`: as in
    `OperatorDecision`. Answered with `AssignmentStored` or `ComputedAgain`.
    """

    approves: bool
    generation_id: int | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SetInstanceDrain:
    """Have an instance, or one of its members, hand over its tasks (`is_on`), or let it have tasks again. One of
    `process_id` (as text) and `member_id` is given. A drain of one that the group does not have is refused. `by`,
    `reason`: as in `OperatorDecision`. Answered with `Accepted`.
    """

    is_on: bool
    process_id: str | None
    member_id: str | None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WarmUpsCaughtUp:
    """Every warm-up of this generation is within acceptable.recovery.lag, as its member reported. Answered with
    `Accepted`.
    """

    generation_id: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The first event after `Group.replay`: asks again for a rebalance that was being computed. Answered with
    `Accepted`.
    """


HeartbeatOrFetch = Heartbeat | ProcessHeartbeat | FetchAssignment
"""Requests that change nothing durable: `Group.respond` answers them without a commit. They are no `Event`."""

LeverCommand = RequestRebalance | SetLever | SetInstanceDrain | WarmUpsCaughtUp | DecideHeldRebalance
"""Operators set or start these beside Kafka's behaviour, in a group that is declared."""

Event = (
    LeverCommand
    | DeclareGroup
    | Join
    | ConnectionLost
    | Leave
    | AssignmentComputed
    | TopicsSeen
    | ReportRebalance
    | Tick
    | DeleteGroup
    | Drain
    | Recovered
)
