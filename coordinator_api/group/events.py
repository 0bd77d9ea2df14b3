"""Events of a group: requests of members and operators, the result of a rebalance, and time passing.

An event is a plain value. `Group.handle` gets the time of the event as a separate argument. Values that a pure state
machine cannot make, such as a new member id, come with the event. Source: the JoinGroup, SyncGroup, Heartbeat and
LeaveGroup requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.pipeline.snapshot import Member
from assignor.protocol.shared_assignments import NO_ASSIGNMENTS, SharedAssignments
from assignor.types import TaskId
from coordinator_api.group.group_levers import LeverName


@dataclass(frozen=True, slots=True)
class DeclareGroup:
    """PUT of the group's definition.

    `input_json`: the `input` object of rebalance/1 without members. The caller has validated the JSON. The JSON has
    sorted keys, because a definition counts as changed if this text has changed. If the group has members, a changed
    definition starts a rebalance; an unchanged definition does so only if the last rebalance failed. An accepted PUT,
    changed or unchanged, ends a drain of the group. `replaces_topology`: accept the definition even if members run
    another topology or use another cluster; without it, such a definition is refused while the group has members.
    `declared_by`: the name of the caller. `no_room`: the reason (a quota) for which a changed definition is refused;
    None when the quota allows it. Answered with `Declared`.
    """

    input_json: str
    replaces_topology: bool = False
    declared_by: str | None = None
    no_room: str | None = None


@dataclass(frozen=True, slots=True)
class LastJoin:
    """The part of a member's last `Join` that the group remembers, with the same fields. Records contain a `LastJoin`,
    so a new field comes last and has a default.

    `group_instance_id`: None for a dynamic member. `incarnation`: None when the member sends no incarnation.
    `generation_id`: the generation that the member joined for.
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

    `new_member_id`: a new id that the caller proposes; it is used only if this join needs a new member id.
    `incarnation`: a number that rises each time the static member `group_instance_id` is restarted (Spark's
    taskAttemptId). `join_id`: an id of a first join, which its sender chooses and sends again if the answer was lost,
    so that a repeated first join makes no second member (KIP-1082's idea). `leave_on_disconnect`: whether the member's
    session ends soon after the connection of its process breaks (see `ConnectionLost`).
    `no_room`: the reason (a quota) for which a new member is refused; None when the quota allows it.
    `subscription`: bytes of ConsumerProtocolSubscription; the caller has checked that they can be decoded. Times in
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
        """Returns the part that the group remembers, with the id, incarnation and generation of the member.

        `to_last_join` stands next to the classes `Join` and `LastJoin`, so that a new field of a member changes only
        this file of the group.
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
    """A heartbeat. `generation_id`: the generation of the member's assignment; 0 or less before its first one.

    `task_offset_sums`: by task, the sum of the offsets that the member has reached; None when this heartbeat reports
    none. Answered with `HeartbeatAnswered`.
    """

    member_id: str
    generation_id: int
    task_offset_sums: Mapping[TaskId, int] | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessHeartbeat:
    """One heartbeat for all members of a process. `connection_id`: the service's number of the heartbeat's connection;
    None for a connection that is not watched. `is_recheck`: the service asks again for a heartbeat whose answer it
    holds; a recheck does not restart the session timeout. Answered with `ProcessHeartbeatAnswered`.
    """

    members: Mapping[str, Heartbeat]
    connection_id: int | None = None
    is_recheck: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A connection broke. Members whose last process heartbeat came on the broken connection, and that asked for
    `leave_on_disconnect`, have `disconnect_grace_ms` to send another request; then their sessions end. If more than
    half of the group's connections are lost at one time, the cause is the network, and the session timeout counts.
    Answered with `Accepted`.

    `held_elsewhere`: by member, another open connection on which its process waits for the answer to an earlier
    heartbeat. A process with a held heartbeat is alive, and its members belong to the connection of that heartbeat
    again.
    """

    connection_id: int
    held_elsewhere: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetchAssignment:
    """GET of the assignment. The arrival of the request restarts the session timeout.

    `min_generation`: the `generation_id` of the member's `JoinAnswered`; 0 or less for any generation. `is_recheck`:
    the service asks again for a request that it holds (long poll); a recheck does not restart the session timeout.
    Answered with `AssignmentReady` or `AssignmentPending`.
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
    """The part of a computed rebalance that the group needs. The value is small, and a worker process makes it.

    `assignments`: one for every member; none when `error` is set. `packed`: the stored form of the assignments, empty
    if there are no assignments. `warm_ups`: the warm-ups among a member's standby tasks, by member; members without any
    are left out.
    `fingerprint`: equal for two rebalances with the same decision from the same input. `error`: `"SimpleName: message"`
    of the error that the leader would have thrown. `error_code`: the code inside error assignments, else 0.
    `moves_owned`: a task or standby that a member claims in its subscription goes to another process.
    `places_ownerless`: a task is placed that no member claims. The fields not named here have the same meaning as in
    `RebalanceResult`.
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
    """The rebalance of `RunRebalance(generation_id)` has been computed, or has failed; after a failure, `rebalance` has
    only the error.

    `topics`: partition counts of the topology's topics after the rebalance, 0 for a topic that does not exist; empty
    for a group whose definition describes its cluster itself, and when the cluster was not polled. `missing_topics`:
    source topics that did not exist. `kept_owned`: the rebalance was computed with every task kept in place.
    Answered with `AssignmentStored`; with `RebalanceWaits` if the rebalance waits for approval; with `ComputedAgain`;
    or with `AssignmentDiscarded` if the result is stale: then it must not be recorded as a rebalance of this group.
    """

    generation_id: int
    rebalance: ComputedAssignments
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()
    kept_owned: bool = False


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The topics of the group's cluster, from a poll. `topics`: as in `AssignmentComputed`, for the present definition.

    The event starts a rebalance if these topics differ from those of the last rebalance. Answered with `Accepted`.
    """

    topics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReportRebalance:
    """A rebalance of another leader, reported by this leader or by a recorder.

    `led_by`: the leader of the group. `input_json`: the input of the leader, as in `DeclareGroup`. `members`: in the
    order in which the leader received them. `assignments`: bytes of ConsumerProtocolAssignment; empty for a rebalance
    that failed. `warm_ups`: by member, the standby tasks that are known to be warm-ups. `error`:
    `"SimpleName: message"`. `no_room`: the reason (a quota) for which a new report is refused; None when the quota
    allows it. The caller has checked that all bytes can be decoded. Answered with `RebalanceReported`.
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
    """A timer event, sent at `Group.next_timer_ms`; too early or too late does no harm. Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """DELETE of the group. Refused for a group with members, unless it is led elsewhere. Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask all members to stop, by the answers to their heartbeats, until the next PUT. Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class RequestRebalance:
    """An operator requests a rebalance now. `reason`: the reason of the rebalance. Refused for a group without members.
    Answered with `Accepted`.
    """

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SetLever:
    """Set a lever of the whole group (`is_on`), or switch it off. `by`, `reason`: as in `OperatorDecision`. Answered
    with `Accepted`.

    - Hold: computed rebalances wait for approval, for `value_ms` at most. Switching the hold off carries out a held
      rebalance.
    - Rejoin grace: the group keeps the places of members that leave for `value_ms`; a value outside of the bounds in
      `joining` is refused. Switching the rejoin grace off also removes the members that are away.
    - Promotion: the next rebalance comes when the warm-ups have caught up.
    - Pause: members process no records.
    """

    name: LeverName
    is_on: bool
    by: str | None = None
    reason: str | None = None
    value_ms: int = 0


@dataclass(frozen=True, slots=True)
class DecideHeldRebalance:
    """Approve the held rebalance, which is then carried out; or discard it, and keep every task in place.

    `generation_id`: the generation that the operator decided on, None for the held one. `by`, `reason`: as in
    `OperatorDecision`. Answered with `AssignmentStored` or `ComputedAgain`.
    """

    approves: bool
    generation_id: int | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SetInstanceDrain:
    """Drain an instance or one of its members (`is_on`), or end its drain. Either `process_id` (as text) or `member_id`
    is given. The drain of an unknown instance or member is refused. `by`, `reason`: as in `OperatorDecision`. Answered
    with `Accepted`.
    """

    is_on: bool
    process_id: str | None
    member_id: str | None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WarmUpsCaughtUp:
    """Every warm-up of this generation is within acceptable.recovery.lag, by the reports of its member. Answered with
    `Accepted`.
    """

    generation_id: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The first event after `Group.replay`. If a rebalance was being computed, the outcome of `Recovered` requests this
    rebalance again. Answered with `Accepted`.
    """


HeartbeatOrFetch = Heartbeat | ProcessHeartbeat | FetchAssignment
"""Requests that change no durable state: `Group.respond` answers them without a commit. `Event` does not contain these
requests.
"""

LeverCommand = RequestRebalance | SetLever | SetInstanceDrain | WarmUpsCaughtUp | DecideHeldRebalance
"""The commands of operators that Kafka does not have, for a declared group."""

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
