"""The events and the effects of a member: the values that go into and come out of `MemberMachine`.

The machine decides when tasks come and go; a `TaskHolder` does the work on them. It gets orders, one after the other in
Kafka's order (first revoked, then assigned), and answers each when it has been carried out. Source:
`StreamsRebalanceListener`, `TaskManager`.

Every call, order and timer has a number, which the event that answers it names. So an answer changes nothing when the
member has given up its call, order or timer meanwhile.
"""

from __future__ import annotations

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
    """Everything that one member holds under one generation.

    Standbys include warm-ups, because a member cannot tell them apart. `hosts`: of the whole group, not of this member.
    """

    member_id: str
    generation_id: int
    active: Mapping[TaskId, Partitions] = field(default_factory=dict)
    standby: Mapping[TaskId, Partitions] = field(default_factory=dict)
    hosts: PartitionHosts = field(default_factory=PartitionHosts)


@dataclass(frozen=True, slots=True)
class StartRebalance:
    """A subscription is about to be sent: take over state on disk that no other thread of this process reports."""


@dataclass(frozen=True, slots=True)
class RevokeTasks:
    """Stop working on these active tasks and keep all others. Afterwards the group may give them to other members."""

    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class AssignTasks:
    """Hold exactly these tasks from now on. Active tasks that are new start here."""

    held: HeldTasks


@dataclass(frozen=True, slots=True)
class LoseTasks:
    """Drop every task at once. The group may already have given them to others."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseTasks:
    """Commit every task and give it up in good order. The member leaves the group afterwards."""


Order = StartRebalance | RevokeTasks | AssignTasks | LoseTasks | CloseTasks

Done = Callable[[BaseException | None], None]
"""Called once when the order has been carried out (None), or has failed. It returns soon."""


class TaskHolder(Protocol):
    """An order that fails ends the member: its tasks are lost, and it leaves the group."""

    def hand_over(self, order: Order, done: Done) -> None:
        """Take the order and return at once. Orders are carried out in the order of these calls."""
        ...

    def offset_sums(self) -> Mapping[TaskId, int]:
        """By task that this thread reports: LATEST_OFFSET for a running active one, else the sum of its changelog
        offsets. Any thread may call this; it never waits."""
        ...


# --- the end of a member


class MemberEnd(StrEnum):
    """Why a member has ended. LEFT: its owner closed it; STOPPED: the coordinator ended it."""

    LEFT = "left"
    STOPPED = "stopped"
    FENCED = "fenced"
    SHUTDOWN_REQUESTED = "shutdown-requested"


class AssignmentFailed(AssignorFault):
    """The leader sent an error assignment: the group cannot run as it is declared (missing source topics, for
    example).
    """


# --- events


@dataclass(frozen=True, slots=True)
class Started:
    """The holder carries out orders from now on."""


@dataclass(frozen=True, slots=True)
class JoinReplied:
    call: int
    reply: JoinReply


@dataclass(frozen=True, slots=True)
class FetchReplied:
    """`fetched` None: the assignment is not there yet."""

    call: int
    fetched: FetchedAssignment | None


@dataclass(frozen=True, slots=True)
class LeaveReplied:
    """Also when the call failed: then the member's session ends by its timeout."""

    call: int


@dataclass(frozen=True, slots=True)
class CallRefused:
    call: int
    error: CoordinatorError


@dataclass(frozen=True, slots=True)
class CallUnanswered:
    """There was no usable answer. `retry_after_ms`: the pause that the coordinator asked for. `chance`: from 0 to 1,
    drawn by the caller; it spreads the repetitions of many members.
    """

    call: int
    retry_after_ms: int | None = None
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class SentHeartbeat:
    """A heartbeat, with the standing in which it was sent.

    `epoch`: rises with every join, when it is sent and when it is answered, and whenever the group has forgotten the
    member. `offset_sums`: what the holder reported then.
    """

    member_id: str
    epoch: int
    body: MemberHeartbeat
    offset_sums: Mapping[TaskId, int]


@dataclass(frozen=True, slots=True)
class HeartbeatReplied:
    """`generation_id`: of the group."""

    sent: SentHeartbeat
    generation_id: int
    answer: HeartbeatNews | CoordinatorError


@dataclass(frozen=True, slots=True)
class OrderDone:
    """`offset_sums`: what the holder reports now."""

    order: int
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OrderFailed:
    order: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class MemberFailed:
    """The member cannot go on: it loses its tasks, leaves, and ends with the error."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TasksLost:
    """The holder found that others have its tasks. Source: `StreamThread.handleTaskMigrated`."""

    reason: str


@dataclass(frozen=True, slots=True)
class RejoinAsked:
    """The holder wants a rebalance. Source: `Consumer.enforceRebalance`."""


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """The holder asks the leader to end every member of the group, this one included. Source: KIP-671."""


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """Close all tasks in good order, leave, and end."""


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
    """`at_ms`: on the clock of `MemberMachine.handle`."""

    timer: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class MissingTopics:
    """To be logged: the member waits until its missing source topics exist. `topics`: all source topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupRedeclared:
    """To be logged: the group has another definition than at the member's last join."""

    definition: GroupDefinition


@dataclass(frozen=True, slots=True)
class MemberEnded:
    """The last effect. `end` None: `failure` ended it."""

    end: MemberEnd | None
    failure: BaseException | None = None


MemberEffect = SendJoin | SendFetch | SendLeave | GiveOrder | SetTimer | MissingTopics | GroupRedeclared | MemberEnded


def event_of_failure(call: SendJoin | SendFetch | SendLeave, error: Exception, chance: float) -> MemberEvent:
    """The event of a call that failed. `chance`: from 0 to 1, for the pause before its repetition."""
    if isinstance(error, CoordinatorUnavailable):
        return CallUnanswered(call.call, error.retry_after_ms, chance)
    if isinstance(error, CoordinatorError):
        return CallRefused(call.call, error)
    return MemberFailed(error)  # an error of this program
