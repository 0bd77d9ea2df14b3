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
from coordinator_api.group.reported_flow import ReportedTaskFlow


@dataclass(frozen=True, slots=True)
class DeclareGroup:
    """A PUT request with the definition of the group.

    `input_json`: the `input` object of rebalance/1 without members. The caller has validated the JSON. The JSON has
    sorted keys, because a definition counts as changed if this text has changed. If the group has members, a changed
    definition starts a rebalance. An unchanged definition starts a rebalance only if the last rebalance failed. An
    accepted PUT ends a drain of the group, even if the definition is unchanged. `replaces_topology`: True to accept the
    definition even if members run another topology or use another cluster. If `replaces_topology` is False, a
    definition with another topology or cluster is refused while the group has members. `declared_by`: the name of the
    caller that sent the PUT. `no_room`: the text of the refusal if a quota forbids a changed definition; None if the
    quota allows it. The answer is `Declared`.
    """

    input_json: str
    replaces_topology: bool = False
    declared_by: str | None = None
    no_room: str | None = None


@dataclass(frozen=True, slots=True)
class LastJoin:
    """The part of a member's last `Join` that the group remembers, with the same fields. Records contain a `LastJoin`,
    so a new field must be the last field and must have a default.

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
    was lost. Because of the id, a repeated first join does not create a second member (the idea of KIP-1082).
    `leave_on_disconnect`: True to end the member's session soon after the connection of its process breaks (see
    `ConnectionLost`).
    `no_room`: the text of the refusal if a quota forbids a new member; None if the quota allows it.
    `subscription`: the bytes of a ConsumerProtocolSubscription. The caller has checked that the bytes of the
    subscription can be decoded. All times are in milliseconds. The answer is `JoinAnswered`.
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

        The method is in this file, so that a new field of a join changes no other file of the package.
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
    not report the sums. `task_flows`: the flow of each running active task; None if this heartbeat does not report the
    flows. The answer is `HeartbeatAnswered`.
    """

    member_id: str
    generation_id: int
    task_offset_sums: Mapping[TaskId, int] | None = None
    group_instance_id: str | None = None
    task_flows: Mapping[TaskId, ReportedTaskFlow] | None = None


@dataclass(frozen=True, slots=True)
class ProcessHeartbeat:
    """One heartbeat for all members of a process. `connection_id`: the service's number for the connection of this
    heartbeat; None if the service does not watch the connection. `is_recheck`: True if the heartbeat still waits for
    its answer and the service handles it again. A recheck does not restart the session timeout. The answer is
    `ProcessHeartbeatAnswered`.
    """

    members: Mapping[str, Heartbeat]
    connection_id: int | None = None
    is_recheck: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A connection broke. The event concerns members that asked for `leave_on_disconnect` and sent their last process
    heartbeat on the broken connection. If an affected member sends no further request within `disconnect_grace_ms`, its
    session ends. If more than half of the group's connections are broken, the cause is probably the network. While most
    connections are broken, members are removed only after their session timeout. The answer is `Accepted`.

    `held_elsewhere`: members with an earlier heartbeat that still waits for its answer on another connection. For each
    member, the value is the number of the connection with the waiting heartbeat. A waiting heartbeat shows that its
    process is alive, so the members of this process are moved to the other connection.
    """

    connection_id: int
    held_elsewhere: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetchAssignment:
    """A GET request for the assignment of a member. The arrival of the request restarts the session timeout.

    `min_generation`: the `generation_id` of the member's `JoinAnswered`; 0 or less for any generation. `is_recheck`:
    True if the fetch still waits for its answer (long poll) and the service handles it again. A recheck does not
    restart the session timeout.
    The answer is `AssignmentReady` or `AssignmentPending`.
    """

    member_id: str
    min_generation: int
    group_instance_id: str | None = None
    is_recheck: bool = False


@dataclass(frozen=True, slots=True)
class MemberFailure:
    """The error that ended an instance, as one of its members reported it. Records contain a `MemberFailure`, so a new
    field must be the last field and must have a default.

    `error`: the name of the error's class. `message`: the error's own text. `place`: the file and line of the user's
    code that raised the error, for example `orders.py:12, in to_amount`; None if it is not known. `task`: the id of the
    task that failed; None if the error happened in no task.
    """

    error: str
    message: str = ""
    place: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """A DELETE request for a dynamic or static member. `failure`: the error because of which the member leaves; None if
    the member was stopped. The answer is `Left`.
    """

    member_id: str
    group_instance_id: str | None = None
    failure: MemberFailure | None = None


@dataclass(frozen=True, slots=True)
class ComputedAssignments:
    """The parts of a computed rebalance that the group needs. A worker process sends only the needed parts to the
    service, because the whole result is much larger.

    `assignments`: the assignment of each member; empty if `error` is set. `packed`: the stored form of the assignments,
    empty if there are no assignments. `warm_ups`: for each member with warm-ups, the warm-ups among its standby tasks.
    `fingerprint`: a digest. Two rebalances have an equal digest if their inputs are equal and their decisions are
    equal. `error`: the error that the leader would have thrown, in the form `"SimpleName: message"`. `error_code`: the
    code in the error assignments; 0 if there was no error. `moves_owned`: True if the rebalance takes a task or standby
    away from a process that owns it. The subscriptions name the owners. `places_ownerless`: True if the rebalance
    assigns a task that no member owns. All fields without a description here have the same meaning as in
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
    """The rebalance of `RunRebalance(generation_id)` has been computed, or has failed. After a failure, `rebalance` has
    only the error.

    `topics`: the partition counts of the topology's topics after the rebalance, 0 for a topic that does not exist.
    `topics` is empty if the definition describes its cluster itself, or if the cluster was not polled.
    `missing_topics`: the source topics that did not exist when the rebalance was computed; if it succeeded, the source
    patterns that matched no topic. `kept_owned`: True if the rebalance was computed without taking a task from a live
    owner.
    The answer is `AssignmentStored`, `RebalanceWaits`, `ComputedAgain` or `AssignmentDiscarded`. After
    `AssignmentDiscarded`, the result is stale and must not be recorded as a rebalance of this group.
    """

    generation_id: int
    rebalance: ComputedAssignments
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()
    kept_owned: bool = False


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """A poll of the group's cluster found these topics. `topics`: the partition count of each topic of the present
    definition, in the form of `AssignmentComputed.topics`.

    The event starts a rebalance if the found topics differ from the topics of the last rebalance. The answer is
    `Accepted`.
    """

    topics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReportRebalance:
    """The leader of a group is outside this service. The leader, or a recorder, reports a rebalance that the leader
    ran.

    `led_by`: the leader of the group. `input_json`: the leader's input of the rebalance, in the form of `DeclareGroup`.
    `members`: the members in the order of the list that the leader received. `assignments`: for each member, a
    ConsumerProtocolAssignment as bytes; empty for a rebalance that failed. `warm_ups`: for each member, the standby
    tasks that are known to be warm-ups. `error`: the error in the form `"SimpleName: message"`; None if there was no
    error. `no_room`: the text of the refusal if a quota forbids a new report; None if the quota allows it. The caller
    has checked that all bytes can be decoded. The answer is `RebalanceReported`.
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
    """A timer event, sent at `Group.next_timer_ms`. A `Tick` may come too early or too late without harm. The answer is
    `Accepted`.
    """


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """A DELETE request for the group. The deletion of a group with members is refused. If the leader of a group is
    outside this service, the group may be deleted with its members. The answer is `Accepted`.
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
    """Set or switch off a lever of the whole group. `is_on`: True to set the lever, False to switch the lever off.
    `by`, `reason`: as in `OperatorDecision`. The answer is `Accepted`.

    - Hold: a computed rebalance waits up to `value_ms` for approval if it takes a task from a live owner. When the hold
      is switched off, a held rebalance is carried out.
    - Rejoin grace: if a member leaves, the group reserves the member's tasks for `value_ms`. A value outside of the
      bounds in `joining` is refused. Switching the rejoin grace off also removes the absent members.
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
    """Decide on the held rebalance. `approves`: True to carry out the held rebalance; False to discard it. After a
    discard, every task stays with its owner.

    `generation_id`: the generation that the operator has examined; the decision is refused if this generation is not
    held. If `generation_id` is None, the decision applies to any held generation. `by`, `reason`: as in
    `OperatorDecision`. The answer is `AssignmentStored` or `ComputedAgain`.
    """

    approves: bool
    generation_id: int | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SetInstanceDrain:
    """Begin or end the drain of an instance or a member. `is_on`: True to begin the drain, False to end the drain.
    Exactly one of `process_id` (as text) and `member_id` is set. The drain of an unknown instance or member is refused.
    `by`, `reason`: as in `OperatorDecision`. The answer is `Accepted`.
    """

    is_on: bool
    process_id: str | None
    member_id: str | None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WarmUpsCaughtUp:
    """The warm-ups of this generation have caught up: according to the members, each lag is at most
    acceptable.recovery.lag. The answer is `Accepted`.
    """

    generation_id: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The first event after `Group.replay`. If a rebalance was being computed, the outcome of `Recovered` requests this
    rebalance again. The answer is `Accepted`.
    """


HeartbeatOrFetch = Heartbeat | ProcessHeartbeat | FetchAssignment
"""Requests that do not change the durable state. `Group.respond` answers these requests without a commit. Heartbeats
and fetches are not part of the type `Event`.
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
