"""The events and the effects of a member: the inputs and the outputs of `MemberMachine`.

The machine decides which tasks the member starts and which tasks it gives up. A `TaskHolder` starts and closes these
tasks. The holder gets orders in Kafka's sequence (first revoke, then assign), and reports the end of each order.
Source: `StreamsRebalanceListener`, `TaskManager`.

Every call, order and timer has a number, and the event that answers the call, order or timer has the same number. By
this number, the machine recognises and ignores an answer for which it no longer waits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from assignor.errors import AssignorFault
from assignor.types import HostInfo, TaskId, TopicPartition
from streams_runtime.membership.calls import (
    CoordinatorError,
    CoordinatorUnavailable,
    FetchedAssignment,
    GroupDefinition,
    HeartbeatNews,
    JoinReply,
    JoinRequest,
    MemberHeartbeat,
)

# --- orders to the holder of a member's tasks

Partitions = frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class PartitionHosts:
    """The instances that answer queries for input partitions: for each partition, the instance with the active task and
    the instances with a standby task (KIP-535).
    """

    active: Mapping[HostInfo, Partitions] = field(default_factory=dict)
    standby: Mapping[HostInfo, Partitions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """All tasks that one member has in one generation.

    `standby` includes warm-up tasks, because a member does not know which of its standbys are warm-ups. `hosts`: the
    hosts of all instances of the group.
    """

    member_id: str
    generation_id: int
    active: Mapping[TaskId, Partitions] = field(default_factory=dict)
    standby: Mapping[TaskId, Partitions] = field(default_factory=dict)
    hosts: PartitionHosts = field(default_factory=PartitionHosts)


@dataclass(frozen=True, slots=True)
class StartRebalance:
    """The member is about to send a subscription. Before the member sends the subscription, the holder locks the state
    directories of those tasks whose offsets no other thread of this process reports.
    """


@dataclass(frozen=True, slots=True)
class RevokeTasks:
    """Stop working on the active tasks in `tasks`, and keep all other tasks. After the revocation, the group may assign
    `tasks` to other members.
    """

    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class AssignTasks:
    """Keep exactly these tasks: start those that are new, and close all other tasks."""

    held: HeldTasks


@dataclass(frozen=True, slots=True)
class LoseTasks:
    """Drop every task at once. The group may already have assigned these tasks to other members."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseTasks:
    """Commit all tasks and give them up. After the tasks are closed, the member leaves the group."""


Order = StartRebalance | RevokeTasks | AssignTasks | LoseTasks | CloseTasks

Done = Callable[[BaseException | None], None]
"""A function that the holder calls once for each order. The argument is None if the holder has carried out the order,
or the error if the order failed. The function must not block.
"""


class TaskHolder(Protocol):
    """Carries out the orders of a member: starts, closes and drops tasks.

    If an order fails, the member drops its tasks, leaves the group and ends.
    """

    def hand_over(self, order: Order, done: Done) -> None:
        """Accept the order and return at once. The holder carries out orders in the sequence of the calls of
        `hand_over`.
        """

    def offset_sums(self) -> Mapping[TaskId, int]:
        """Returns the offset sum of each task that the holder's thread reports. The sum is LATEST_OFFSET for a running
        active task, and the sum of the changelog offsets for any other task. Any thread may call `offset_sums`, which
        never waits.
        """


# --- the end of a member


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
    group keeps the members and their tasks until the session timeout. A static member that comes back before that time
    has its tasks again without a rebalance.

    Source: `CloseOptions.GroupMembershipOperation` (KIP-1092, KIP-1153). Differs from Kafka: there is no DEFAULT,
    because `close` leaves the group unless the caller chooses REMAIN_IN_GROUP. Kafka's default depends on the protocol.
    """

    LEAVE_GROUP = "leave-group"
    REMAIN_IN_GROUP = "remain-in-group"


class AssignmentFailed(AssignorFault):
    """The group's leader sent an assignment with an error code: the group cannot run as declared, for example because
    source topics are missing.
    """


# --- events


@dataclass(frozen=True, slots=True)
class Started:
    """The member was started. From now on, its holder carries out orders."""


@dataclass(frozen=True, slots=True)
class JoinReplied:
    call: int
    reply: JoinReply


@dataclass(frozen=True, slots=True)
class FetchReplied:
    """The answer to a fetch. `fetched`: None if the coordinator does not have the assignment yet."""

    call: int
    fetched: FetchedAssignment | None


@dataclass(frozen=True, slots=True)
class LeaveReplied:
    """The leave call has ended. If the leave call failed, the member stays in the group until its session timeout."""

    call: int


@dataclass(frozen=True, slots=True)
class CallRefused:
    call: int
    error: CoordinatorError


@dataclass(frozen=True, slots=True)
class CallUnanswered:
    """A call to the coordinator got no usable answer. `retry_after_ms`: the pause that the coordinator asked for.
    `chance`: a random number from 0 to 1 that varies the pause, so that many members do not repeat their calls at the
    same time.
    """

    call: int
    retry_after_ms: int | None = None
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class SentHeartbeat:
    """The data about one member in a sent heartbeat, with the member's id and epoch at that time.

    `epoch`: a counter that rises when the member sends a join, when the coordinator answers a join, and when the
    member's id or generation becomes invalid. `offset_sums`: the offset sums that the holder reported when the
    heartbeat was sent.
    """

    member_id: str
    epoch: int
    body: MemberHeartbeat
    offset_sums: Mapping[TaskId, int]


@dataclass(frozen=True, slots=True)
class HeartbeatReplied:
    """The coordinator's answer for one member of a heartbeat. `generation_id`: the generation of the group."""

    sent: SentHeartbeat
    generation_id: int
    answer: HeartbeatNews | CoordinatorError


@dataclass(frozen=True, slots=True)
class OrderDone:
    """The holder has carried out an order. `offset_sums`: the offset sums that the holder reports now."""

    order: int
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OrderFailed:
    order: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class MemberFailed:
    """The member has failed: it drops its tasks, leaves the group, and ends with the error."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TasksLost:
    """The holder reports that other members have its tasks now. Source: `StreamThread.handleTaskMigrated`."""

    reason: str


@dataclass(frozen=True, slots=True)
class RejoinAsked:
    """The holder asks for a rebalance. Source: `Consumer.enforceRebalance`."""


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """The holder asks the leader to end every member of the group, including its own member. Source: KIP-671."""


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """The owner wants the member to commit and close all tasks, leave the group or remain in it, and end."""

    membership: GroupMembershipOperation = GroupMembershipOperation.LEAVE_GROUP


@dataclass(frozen=True, slots=True)
class TimerDue:
    timer: int


MemberEvent = (
    Started
    | JoinReplied
    | FetchReplied
    | LeaveReplied
    | CallRefused
    | CallUnanswered
    | HeartbeatReplied
    | OrderDone
    | OrderFailed
    | MemberFailed
    | TasksLost
    | RejoinAsked
    | ShutdownAsked
    | CloseAsked
    | TimerDue
)


# --- effects


@dataclass(frozen=True, slots=True)
class SendJoin:
    call: int
    request: JoinRequest


@dataclass(frozen=True, slots=True)
class SendFetch:
    """Fetch the assignment of `min_generation` or a later generation. The call does not wait for an assignment: if
    there is none yet, the coordinator answers at once.
    """

    call: int
    member_id: str
    min_generation: int


@dataclass(frozen=True, slots=True)
class SendLeave:
    call: int
    member_id: str


@dataclass(frozen=True, slots=True)
class GiveOrder:
    number: int
    order: Order


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send the event TimerDue to the machine at the time `at_ms`, on the clock of `MemberMachine.handle`."""

    timer: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class MissingTopics:
    """Log that the member waits until its missing source topics exist. `topics`: all source topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupRedeclared:
    """Log that the group's definition has changed since the member's last join."""

    definition: GroupDefinition


@dataclass(frozen=True, slots=True)
class MemberEnded:
    """The last effect of a member, which reports that the member has ended. `end`: None if the error `failure` ended
    the member.
    """

    end: MemberEnd | None
    failure: BaseException | None = None


MemberEffect = SendJoin | SendFetch | SendLeave | GiveOrder | SetTimer | MissingTopics | GroupRedeclared | MemberEnded


def event_of_failure(call: SendJoin | SendFetch | SendLeave, error: Exception, chance: float) -> MemberEvent:
    """Returns the event that reports a failed call to the machine. `chance`: a random number from 0 to 1, for the pause
    before the next try.
    """
    if isinstance(error, CoordinatorUnavailable):
        return CallUnanswered(call.call, error.retry_after_ms, chance)
    if isinstance(error, CoordinatorError):
        return CallRefused(call.call, error)
    return MemberFailed(error)  # any other error is a bug of this project
