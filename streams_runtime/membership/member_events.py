"""The events and the effects of a member. Events are the inputs of `MemberMachine`, and effects are its outputs.

The machine decides which Streams tasks the member starts, and which Streams tasks it gives up. The member's task holder
(`TaskHolder`) starts and closes these tasks. The task holder gets orders in Kafka's sequence: an order to revoke tasks
comes before an order to assign tasks. The task holder reports when it has carried out an order.
Source: `StreamsRebalanceListener`, `TaskManager`.

Every call, order and timer has a number. The event that answers a call, order or timer has the same number. If the
machine no longer waits for an answer, it recognises the answer by this number and ignores it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from assignor.errors import AssignorFault
from assignor.types import HostInfo, TaskId, TopicPartition
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership import calls

# --- Orders for the task holder of a member.

Partitions = frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class PartitionHosts:
    """The instances that answer queries (KIP-535). `active`: for each instance, the input partitions of its active
    tasks. `standby`: for each instance, the input partitions of its standbys.
    """

    active: Mapping[HostInfo, Partitions] = field(default_factory=dict)
    standby: Mapping[HostInfo, Partitions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """All tasks that one member has in one generation.

    `standby`: the standbys and the warm-up tasks. A member does not know which of its standbys are warm-up tasks.
    `hosts`: the hosts of all instances of the group.
    """

    member_id: str
    generation_id: int
    active: Mapping[TaskId, Partitions] = field(default_factory=dict)
    standby: Mapping[TaskId, Partitions] = field(default_factory=dict)
    hosts: PartitionHosts = field(default_factory=PartitionHosts)


@dataclass(frozen=True, slots=True)
class StartRebalance:
    """The member will send a subscription after this order. The task holder locks the task directories that no other
    thread of the process has locked, and reports the offsets in these directories.
    """


@dataclass(frozen=True, slots=True)
class RevokeTasks:
    """Commit and suspend these active tasks, and keep all other tasks. After this order, the group may assign the
    revoked tasks to other members.
    """

    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class AssignTasks:
    """Run exactly these tasks: start the new tasks, and close all tasks that are not assigned any more."""

    held: HeldTasks


@dataclass(frozen=True, slots=True)
class LoseTasks:
    """Drop all tasks immediately. The group may already have assigned these tasks to other members."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseTasks:
    """Commit all tasks and give them up. After the tasks are closed, the member leaves the group."""


Order = StartRebalance | RevokeTasks | AssignTasks | LoseTasks | CloseTasks

Done = Callable[[BaseException | None], None]
"""A function that the task holder calls once for each order. If the order was carried out, the argument is None. If the
order failed, the argument is the error. The function must not block.
"""


class TaskHolder(Protocol):
    """Carries out the orders of a member: starts, closes and drops Streams tasks. The task holder is usually a stream
    thread.

    If an order fails, the member drops its tasks, leaves the group and ends.
    """

    def hand_over(self, order: Order, done: Done) -> None:
        """Accept the order and return at once. The task holder carries out orders in the sequence of the calls of
        `hand_over`.
        """

    def offset_sums(self) -> Mapping[TaskId, int]:
        """Returns the offset sum of each reported task. The offset sum is LATEST_OFFSET for a running active task, and
        the sum of the changelog offsets for any other task. Any thread may call this method, which never waits.
        """

    def flows(self) -> Mapping[TaskId, TaskFlow]:
        """Returns the flow of each running active task. Any thread may call this method, which never waits."""


# --- The end of a member.


class MemberEnd(StrEnum):
    """The reason why a member has ended. LEFT: the owner closed the member. STOPPED: the coordinator ended the
    member.
    """

    LEFT = "left"
    STOPPED = "stopped"
    FENCED = "fenced"
    SHUTDOWN_REQUESTED = "shutdown-requested"


class GroupMembershipOperation(StrEnum):
    """The effect of `StreamsInstance.close` on the group.

    LEAVE_GROUP: the members leave, and a rebalance gives their tasks to other members at once. REMAIN_IN_GROUP: the
    group keeps the members and their tasks until the session timeout. If a static member comes back before its session
    timeout, it gets its tasks again without a rebalance.

    Source: `CloseOptions.GroupMembershipOperation` (KIP-1092, KIP-1153). Differs from Kafka: there is no DEFAULT,
    and `close` uses LEAVE_GROUP by default. Kafka's default depends on the protocol.
    """

    LEAVE_GROUP = "leave-group"
    REMAIN_IN_GROUP = "remain-in-group"


class AssignmentFailed(AssignorFault):
    """The group's leader sent an assignment with an error code. For example, the error code reports that source topics
    are missing.
    """


# --- events


class MemberEvent:
    """An input of `MemberMachine`. Each kind of event is a subclass."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Started(MemberEvent):
    """The member was started, and its task holder is ready for orders."""


@dataclass(frozen=True, slots=True)
class JoinReplied(MemberEvent):
    call: int
    reply: calls.JoinReply


@dataclass(frozen=True, slots=True)
class FetchReplied(MemberEvent):
    """The answer to a fetch. `fetched`: the assignment, or None if it is not ready yet."""

    call: int
    fetched: calls.FetchedAssignment | None


@dataclass(frozen=True, slots=True)
class LeaveReplied(MemberEvent):
    """The leave call has ended, with or without success. If the leave call failed, the group keeps the member until its
    session timeout.
    """

    call: int


@dataclass(frozen=True, slots=True)
class CallRefused(MemberEvent):
    call: int
    error: calls.CoordinatorError


@dataclass(frozen=True, slots=True)
class CallUnanswered(MemberEvent):
    """A call to the coordinator got no usable answer. `retry_after_ms`: the pause that the coordinator asked for.
    `chance`: a random number from 0 to 1. The number varies the pause, so that many members do not repeat their calls
    at the same time.
    """

    call: int
    retry_after_ms: int | None = None
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class SentHeartbeat:
    """The data about one member in a sent heartbeat. `member_id`: the member id at the time of sending. `epoch`: the
    member's epoch at the time of sending. The epoch is a counter: it rises when the member sends a join, when the join
    is answered, and when the member's id or generation becomes invalid. `offset_sums`, `flows`: the offset sums and the
    flows at the time of sending.
    """

    member_id: str
    epoch: int
    body: calls.MemberHeartbeat
    offset_sums: Mapping[TaskId, int]
    flows: Mapping[TaskId, TaskFlow]


@dataclass(frozen=True, slots=True)
class HeartbeatReplied(MemberEvent):
    """One member's part of the answer to a heartbeat. `generation_id`: the generation of the group."""

    sent: SentHeartbeat
    generation_id: int
    answer: calls.HeartbeatNews | calls.CoordinatorError


@dataclass(frozen=True, slots=True)
class OrderDone(MemberEvent):
    """The task holder has carried out an order. `offset_sums`: the offset sums after the order."""

    order: int
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OrderFailed(MemberEvent):
    order: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class MemberFailed(MemberEvent):
    """The member has failed: it drops its tasks, leaves the group, and ends with the error."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TasksLost(MemberEvent):
    """The task holder reports that its tasks now belong to other members. Source: `StreamThread.handleTaskMigrated`."""

    reason: str


@dataclass(frozen=True, slots=True)
class RejoinAsked(MemberEvent):
    """The task holder asks for a rebalance. Source: `Consumer.enforceRebalance`."""


@dataclass(frozen=True, slots=True)
class ShutdownAsked(MemberEvent):
    """The task holder wants the leader to end every member of the group, including this member. `failure`: the error of
    the task holder, which the member reports when it leaves; None if the task holder has not failed. Source: KIP-671.
    """

    failure: BaseException | None = None


@dataclass(frozen=True, slots=True)
class CloseAsked(MemberEvent):
    """The owner wants the member to commit and close all tasks, and then to end. `membership`: whether the member
    leaves the group. `failure`: the error that ended the task holder, which the member reports when it leaves; None if
    the member is stopped.
    """

    membership: GroupMembershipOperation = GroupMembershipOperation.LEAVE_GROUP
    failure: BaseException | None = None


@dataclass(frozen=True, slots=True)
class TimerDue(MemberEvent):
    timer: int


# --- effects


@dataclass(frozen=True, slots=True)
class SendJoin:
    call: int
    request: calls.JoinRequest


@dataclass(frozen=True, slots=True)
class SendFetch:
    """Fetch the assignment of the generation `min_generation` or a later generation. The coordinator answers at once,
    even if no assignment is ready.
    """

    call: int
    member_id: str
    min_generation: int


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Leave the group. `failure`: the error because of which the member leaves; None if the member was stopped."""

    call: int
    member_id: str
    failure: BaseException | None = None


@dataclass(frozen=True, slots=True)
class GiveOrder:
    number: int
    order: Order


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Pass the event TimerDue to the machine at the given time. `at_ms`: a time on the clock of
    `MemberMachine.handle`.
    """

    timer: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class MissingTopics:
    """Log that the member waits until its missing source topics exist. `why`: what is wrong, in words."""

    why: str


@dataclass(frozen=True, slots=True)
class GroupRedeclared:
    """Log that the group's definition has changed since the member's last join."""

    definition: calls.GroupDefinition


@dataclass(frozen=True, slots=True)
class MemberEnded:
    """The last effect of a member, which reports that the member has ended. `end`: the reason, or None if an error has
    ended the member. `failure`: the error that has ended the member, or None.
    """

    end: MemberEnd | None
    failure: BaseException | None = None


MemberEffect = SendJoin | SendFetch | SendLeave | GiveOrder | SetTimer | MissingTopics | GroupRedeclared | MemberEnded


def event_of_failure(call: SendJoin | SendFetch | SendLeave, error: Exception, chance: float) -> MemberEvent:
    """Returns the event that reports a failed call to the machine. `chance`: a random number from 0 to 1, for the pause
    before the next try.
    """
    if isinstance(error, calls.CoordinatorUnavailable):
        return CallUnanswered(call.call, error.retry_after_ms, chance)
    if isinstance(error, calls.CoordinatorError):
        return CallRefused(call.call, error)
    return MemberFailed(error)  # any other error is a bug in this project
