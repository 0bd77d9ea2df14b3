"""The events and the effects of a member: the inputs and the outputs of `MemberMachine`.

The machine decides when tasks are added and given up; a `TaskHolder` does the work on the tasks. The holder gets orders
in Kafka's order (first revoke, then assign), and reports each order when it has been carried out. Source:
`StreamsRebalanceListener`, `TaskManager`.

Every call, order and timer has a number, and the event that answers it has the same number. So the machine ignores an
answer to a call, order or timer that it has given up meanwhile.
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
    """The instances that answer queries for input partitions, from active and from standby copies (KIP-535)."""

    active: Mapping[HostInfo, Partitions] = field(default_factory=dict)
    standby: Mapping[HostInfo, Partitions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """All tasks that one member has in one generation.

    Standbys include warm-ups, because a member cannot tell them apart. `hosts`: the hosts of the whole group.
    """

    member_id: str
    generation_id: int
    active: Mapping[TaskId, Partitions] = field(default_factory=dict)
    standby: Mapping[TaskId, Partitions] = field(default_factory=dict)
    hosts: PartitionHosts = field(default_factory=PartitionHosts)


@dataclass(frozen=True, slots=True)
class StartRebalance:
    """A subscription is about to be sent. The holder locks the state on disk that no other thread of this process
    reports.
    """


@dataclass(frozen=True, slots=True)
class RevokeTasks:
    """Stop working on the active tasks in `tasks`, and keep all other tasks. After the revocation, the group may assign
    `tasks` to other members.
    """

    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class AssignTasks:
    """Have exactly these tasks from now on: start new tasks, close all other tasks."""

    held: HeldTasks


@dataclass(frozen=True, slots=True)
class LoseTasks:
    """Drop every task at once. The group may have assigned the tasks to other members already."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseTasks:
    """Commit all tasks and give them up. After the tasks are closed, the member leaves the group."""


Order = StartRebalance | RevokeTasks | AssignTasks | LoseTasks | CloseTasks

Done = Callable[[BaseException | None], None]
"""Called once: with None when the order has been carried out, or with its error. The function must not block."""


class TaskHolder(Protocol):
    """Carries out a member's orders on its tasks.

    An order that fails ends the member: its tasks are dropped, and it leaves the group.
    """

    def hand_over(self, order: Order, done: Done) -> None:
        """Accept the order and return at once. Orders are carried out in the sequence of the calls of `hand_over`."""

    def offset_sums(self) -> Mapping[TaskId, int]:
        """The offset sum of each task that this thread reports: LATEST_OFFSET for a running active task, otherwise the
        sum of the changelog offsets. Any thread may call `offset_sums`, which never waits.
        """


# --- the end of a member


class MemberEnd(StrEnum):
    """The reason why a member has ended. LEFT: the member's owner closed it. STOPPED: the coordinator ended the
    member.
    """

    LEFT = "left"
    STOPPED = "stopped"
    FENCED = "fenced"
    SHUTDOWN_REQUESTED = "shutdown-requested"


class AssignmentFailed(AssignorFault):
    """The leader sent an error assignment: the group cannot run as declared, for example because source topics are
    missing.
    """


# --- events


@dataclass(frozen=True, slots=True)
class Started:
    """The member was started; its holder carries out orders from now on."""


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
    """The leave call has ended. If the leave call failed, the member's session ends by its timeout."""

    call: int


@dataclass(frozen=True, slots=True)
class CallRefused:
    call: int
    error: CoordinatorError


@dataclass(frozen=True, slots=True)
class CallUnanswered:
    """A call to the coordinator got no usable answer. `retry_after_ms`: the pause that the coordinator asked for.
    `chance`: a random number from 0 to 1, which spreads the repetitions of many members.
    """

    call: int
    retry_after_ms: int | None = None
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class SentHeartbeat:
    """A heartbeat, with the member's standing at the time when it was sent.

    `epoch`: a number that rises when a join is sent, when a join is answered, and when the member's id or generation
    becomes invalid. `offset_sums`: the offset sums that the holder reported then.
    """

    member_id: str
    epoch: int
    body: MemberHeartbeat
    offset_sums: Mapping[TaskId, int]


@dataclass(frozen=True, slots=True)
class HeartbeatReplied:
    """The answer to a member's part of a heartbeat. `generation_id`: the generation of the group."""

    sent: SentHeartbeat
    generation_id: int
    answer: HeartbeatNews | CoordinatorError


@dataclass(frozen=True, slots=True)
class OrderDone:
    """The holder has carried out an order. `offset_sums`: the offset sums that it reports now."""

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
    """The holder found that other members have its tasks. Source: `StreamThread.handleTaskMigrated`."""

    reason: str


@dataclass(frozen=True, slots=True)
class RejoinAsked:
    """The holder wants a rebalance. Source: `Consumer.enforceRebalance`."""


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """The holder asks the leader to end every member of the group, this one included. Source: KIP-671."""


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """The owner wants the member to commit and close all tasks, leave the group, and end."""


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
    """Fetch the assignment of `min_generation` or later, without waiting for it."""

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
    """Send TimerDue at `at_ms`, on the clock of `MemberMachine.handle`."""

    timer: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class MissingTopics:
    """Log that the member waits until its missing source topics exist. `topics`: all source topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupRedeclared:
    """Log that the group has another definition than at the member's last join."""

    definition: GroupDefinition


@dataclass(frozen=True, slots=True)
class MemberEnded:
    """The last effect: the member has ended. `end`: None if the error `failure` ended the member."""

    end: MemberEnd | None
    failure: BaseException | None = None


MemberEffect = SendJoin | SendFetch | SendLeave | GiveOrder | SetTimer | MissingTopics | GroupRedeclared | MemberEnded


def event_of_failure(call: SendJoin | SendFetch | SendLeave, error: Exception, chance: float) -> MemberEvent:
    """Returns the event for a call that failed. `chance`: a random number from 0 to 1, for the pause before the next
    try.
    """
    if isinstance(error, CoordinatorUnavailable):
        return CallUnanswered(call.call, error.retry_after_ms, chance)
    if isinstance(error, CoordinatorError):
        return CallRefused(call.call, error)
    return MemberFailed(error)  # any other error is a bug of this program
