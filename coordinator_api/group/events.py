"""Events of a group: requests of members and operators, results of rebalances, and timer events.

An event is a plain value. `Group.handle` gets the time of the event as a separate argument. An event contains the
values that a pure state machine cannot make, such as a new member id. Source: the JoinGroup, SyncGroup, Heartbeat and
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
    """A PUT request with the definition of the group.

    `input_json`: the `input` object of rebalance/1 without members. The caller has validated the JSON. The JSON has
    sorted keys, because a definition counts as changed if this text has changed. If the group has members, a changed
    definition starts a rebalance. An unchanged definition starts a rebalance only if the last rebalance failed. An
    accepted PUT ends a drain of the group, even if the definition is unchanged. `replaces_topology`: True to accept the
    definition even if members run another topology or use another cluster. If `replaces_topology` is False, such a
    definition is refused while the group has members. `declared_by`: the name of the caller that sent the PUT.
    `no_room`: the reason (a quota) for which a changed definition is refused; None when the quota allows it. The answer
    is `Declared`.
    """

    input_json: str
    replaces_topology: bool = False
    declared_by: str | None = None
    no_room: str | None = None


@dataclass(frozen=True, slots=True)
class LastJoin:
    """The part of a member's last `Join` that the group remembers, with the same fields. Records contain a `LastJoin`,
    so a new field comes last and has a default.

    `group_instance_id`: the `group.instance.id` of a static member; None for a dynamic member. `incarnation`: as in
    `Join`; None if the member sent no incarnation. `generation_id`: the generation that the member joined for.
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
    """A POST request with a subscription. The request is a first join if `member_id` is None, otherwise a rejoin.

    `new_member_id`: a new id that the caller proposes, which is used only if this join needs a new member id.
    `incarnation`: a number that rises each time the static member `group_instance_id` is restarted (Spark's
    taskAttemptId). `join_id`: an id that the sender of a first join chooses. The sender repeats the id if the answer
    was lost, so that a repeated first join makes no second member (KIP-1082's idea). `leave_on_disconnect`: True if the
    member's session is to end soon after the connection of its process breaks (see `ConnectionLost`).
    `no_room`: the reason (a quota) for which a new member is refused; None when the quota allows it.
    `subscription`: the bytes of a ConsumerProtocolSubscription. The caller has checked that these bytes can be decoded.
    All times are in milliseconds. The answer is `JoinAnswered`.
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
        """Returns the part of this join that the group remembers.

        `to_last_join` stands next to the classes `Join` and `LastJoin`, so that a new field of a join changes only this
        file of the package.
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
    """A heartbeat. `generation_id`: the generation of the member's assignment; 0 or less before the member's first
    assignment.

    `task_offset_sums`: for each task, the sum of the offsets that the member has reached; None if this heartbeat does
    not report the sums. The answer is `HeartbeatAnswered`.
    """

    member_id: str
    generation_id: int
    task_offset_sums: Mapping[TaskId, int] | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessHeartbeat:
    """One heartbeat for all members of a process. `connection_id`: the service's number for the connection of this
    heartbeat; None if the service does not watch the connection. `is_recheck`: True if the service repeats a heartbeat
    whose answer it holds. A recheck does not restart the session timeout. The answer is `ProcessHeartbeatAnswered`.
    """

    members: Mapping[str, Heartbeat]
    connection_id: int | None = None
    is_recheck: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A connection broke. The event concerns members that asked for `leave_on_disconnect` and sent their last process
    heartbeat on the broken connection. The session of each of these members ends if the member sends no further request
    within `disconnect_grace_ms`. If more than half of the group's connections are broken at one time, the cause is
    probably the network. In this case, members are removed only after their session timeout. The answer is `Accepted`.

    `held_elsewhere`: for each member whose process waits for the answer to an earlier heartbeat on an open connection,
    the number of this open connection. A process with a held heartbeat is alive, so its members are moved to the
    connection of the held heartbeat.
    """

    connection_id: int
    held_elsewhere: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetchAssignment:
    """A GET request for the assignment of a member. The arrival of the request restarts the session timeout.

    `min_generation`: the `generation_id` of the member's `JoinAnswered`; 0 or less for any generation. `is_recheck`:
    True if the service repeats a fetch that it holds (long poll). A recheck does not restart the session timeout.
    The answer is `AssignmentReady` or `AssignmentPending`.
    """

    member_id: str
    min_generation: int
    group_instance_id: str | None = None
    is_recheck: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """A DELETE request for a dynamic or static member. The answer is `Left`."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedAssignments:
    """The parts of a computed rebalance that the group needs. A worker process makes this small value.

    `assignments`: the assignment of each member; empty if `error` is set. `packed`: the stored form of the assignments,
    empty if there are no assignments. `warm_ups`: for each member with warm-ups, the warm-ups among its standby tasks.
    `fingerprint`: a digest that is equal for two rebalances with the same decision from the same input. `error`: the
    error that the leader would have thrown, in the form `"SimpleName: message"`. `error_code`: the code in the error
    assignments; 0 if there was no error. `moves_owned`: True if a task or standby that a member claims in its
    subscription goes to another process. `places_ownerless`: True if the rebalance assigns a task that no member
    claims. The other fields have the same meaning as in `RebalanceResult`.
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
    """The rebalance of `RunRebalance(generation_id)` has been computed, or has failed. After a failure, `rebalance` has
    only the error.

    `topics`: the partition counts of the topology's topics after the rebalance, 0 for a topic that does not exist.
    `topics` is empty if the definition describes its cluster itself, or if the cluster was not polled.
    `missing_topics`: source topics that did not exist. `kept_owned`: True if the rebalance was computed with every task
    kept in place.
    The answer is `AssignmentStored`, `RebalanceWaits` if the rebalance waits for approval, `ComputedAgain`, or
    `AssignmentDiscarded` if the result is stale. A stale result must not be recorded as a rebalance of this group.
    """

    generation_id: int
    rebalance: ComputedAssignments
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()
    kept_owned: bool = False


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """A poll of the group's cluster found these topics. `topics`: partition counts as in `AssignmentComputed`, for the
    present definition.

    The event starts a rebalance if these topics differ from those of the last rebalance. The answer is `Accepted`.
    """

    topics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReportRebalance:
    """The leader of a group is outside this service. The leader, or a recorder, reports a rebalance that the leader
    ran.

    `led_by`: the leader of the group. `input_json`: the leader's input of the rebalance, in the form of `DeclareGroup`.
    `members`: the members in the order in which the leader received them. `assignments`: bytes of
    ConsumerProtocolAssignment; empty for a rebalance that failed. `warm_ups`: for each member, the standby tasks that
    are known to be warm-ups. `error`: the error in the form `"SimpleName: message"`; None if there was no error.
    `no_room`: the reason (a quota) for which a new report is refused; None when the quota allows it. The caller has
    checked that all bytes can be decoded. The answer is `RebalanceReported`.
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
    """A timer event, sent at `Group.next_timer_ms`. A `Tick` that comes too early or too late does no harm. The answer
    is `Accepted`.
    """


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """A DELETE request for the group. The deletion of a group with members is refused. A group whose leader is outside
    this service may be deleted with its members. The answer is `Accepted`.
    """


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask all members, in the answers to their heartbeats, to stop. The next PUT ends the drain. The answer is
    `Accepted`.
    """


@dataclass(frozen=True, slots=True)
class RequestRebalance:
    """An operator requests a rebalance. `reason`: the reason of the rebalance. The request is refused if the group has
    no members. The answer is `Accepted`.
    """

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SetLever:
    """Set a lever of the whole group if `is_on`, otherwise switch the lever off. `by`, `reason`: as in
    `OperatorDecision`. The answer is `Accepted`.

    - Hold: each computed rebalance that takes a task from a live owner waits up to `value_ms` for approval. When the
      hold is switched off, a held rebalance is carried out.
    - Rejoin grace: if a member leaves, the group keeps the place of the member for `value_ms`. A value outside of the
      bounds in `joining` is refused. Switching the rejoin grace off also removes the members that are away.
    - Promotion: the next probing rebalance starts when the warm-ups have caught up.
    - Pause: members do not process records.
    """

    name: LeverName
    is_on: bool
    by: str | None = None
    reason: str | None = None
    value_ms: int = 0


@dataclass(frozen=True, slots=True)
class DecideHeldRebalance:
    """Decide on the held rebalance. `approves`: True to carry out the held rebalance, False to discard it, so that
    every task stays in place.

    `generation_id`: the generation that the operator has examined; the decision is refused if this generation is not
    held. None applies the decision to whichever generation is held. `by`, `reason`: as in `OperatorDecision`. The
    answer is `AssignmentStored` or `ComputedAgain`.
    """

    approves: bool
    generation_id: int | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SetInstanceDrain:
    """Drain an instance or a member if `is_on`, otherwise end the drain. Exactly one of `process_id` (as text) and
    `member_id` is set. The drain of an unknown instance or member is refused. `by`, `reason`: as in `OperatorDecision`.
    The answer is `Accepted`.
    """

    is_on: bool
    process_id: str | None
    member_id: str | None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WarmUpsCaughtUp:
    """The members have reported that the lag of every warm-up of this generation is at most acceptable.recovery.lag.
    The answer is `Accepted`.
    """

    generation_id: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The first event after `Group.replay`. If a rebalance was being computed, the outcome of `Recovered` requests this
    rebalance again. The answer is `Accepted`.
    """


HeartbeatOrFetch = Heartbeat | ProcessHeartbeat | FetchAssignment
"""Requests that do not change the durable state. `Group.respond` answers these requests without a commit. These
requests are not part of the type `Event`.
"""

LeverCommand = RequestRebalance | SetLever | SetInstanceDrain | WarmUpsCaughtUp | DecideHeldRebalance
"""The commands of operators that do not exist in Kafka. Only a declared group accepts these commands."""

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
