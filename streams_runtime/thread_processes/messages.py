"""What the process of an instance and the process of a stream thread say to each other, as values.

    instance -> thread    ThreadStart, then OrderGiven, Wishes, MemberOver, Reply, in any order
    thread -> instance    Published, StateChanged, OrderAnswered, MemberAsked, CallOfThread, LogLine
                          and at last ThreadEnded, or NotStarted

Rule: messages of one process arrive in the order in which they were sent. On a pipe of its own, ReadStore is answered
by ReadAnswered (`remote_stores`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from assignor.types import TaskId
from streams_runtime.application import ThreadErrorResponse
from streams_runtime.common.clock import Clock
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.member_events import MemberEnd
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.task_holder import HeldTasks, Order
from streams_runtime.reporting.metrics import MetricChanges
from streams_runtime.reporting.notices import NoticeCode
from streams_runtime.thread_processes.carried_errors import CarriedError
from streams_runtime.threads.thread_status import ThreadState, ThreadStatus

Report = Mapping[TaskId, int] | None
"""The offset sums that the thread reports; None when it has ended and must not report any."""


# --- from the instance


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the instance wants of the thread now, and that there may be something to do. `cache_bytes`: its share."""

    is_paused: bool
    is_group_paused: bool
    cache_bytes: int | None


@dataclass(frozen=True, slots=True)
class ThreadStart:
    """Everything that the thread gets. `application`, `clock`: pickled, because they may be the user's own.

    `log_levels`: of the loggers that have one, with the level up to which logging is off. `tells_listener`,
    `tells_restores`: whether there is somebody who listens.
    """

    name: str
    application: bytes
    state_dir: Path
    member: MemberSettings
    subscriptions: SubscriptionWriter
    transactional_id: str | None
    wishes: Wishes
    log_levels: tuple[Mapping[str, int], int]
    tells_listener: bool
    tells_restores: bool


@dataclass(frozen=True, slots=True)
class OrderGiven:
    number: int
    order: Order


@dataclass(frozen=True, slots=True)
class MemberOver:
    """The member of the thread has ended."""

    end: MemberEnd | None
    failure: CarriedError | None


@dataclass(frozen=True, slots=True)
class Reply:
    """To the call of that number. `value`: None when it raised `error`."""

    number: int
    value: Any
    error: CarriedError | None


# --- from the thread


class Callee(StrEnum):
    """Whom a thread calls in the process of its instance, and waits for."""

    DIRECTORIES = "directories"
    LISTENER = "listener"
    RESTORE_LISTENER = "restore-listener"
    UNCAUGHT_EXCEPTION_HANDLER = "uncaught-exception-handler"


@dataclass(frozen=True, slots=True)
class CallOfThread:
    number: int
    callee: Callee
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)


class CopyView(NamedTuple):
    """A task with open stores, without the stores. `stores`: by name, whether they outlive the process."""

    task_id: TaskId
    role: TaskType
    state: TaskState
    stores: Mapping[str, bool]
    lags: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class ToldOfPlace:
    """Notices about one place since the last message: see `Notices.tell`."""

    code: NoticeCode
    about: str
    count: int
    detail: str


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot of the thread. `held`: None when it is as before. `copies`: those of the snapshot of that number."""

    status: ThreadStatus
    held: HeldTasks | None
    number: int
    copies: tuple[CopyView, ...]
    report: Report
    metrics: MetricChanges
    notices: tuple[ToldOfPlace, ...]


@dataclass(frozen=True, slots=True)
class StateChanged:
    state: ThreadState


@dataclass(frozen=True, slots=True)
class OrderAnswered:
    number: int
    error: CarriedError | None
    report: Report


class Ask(StrEnum):
    """What a thread asks of its member."""

    START = "start"
    CLOSE = "close"
    TASKS_LOST = "tasks-lost"
    REJOIN = "rejoin"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class MemberAsked:
    """`reason`: why tasks were lost."""

    ask: Ask
    reason: str
    report: Report


@dataclass(frozen=True, slots=True)
class LogLine:
    """`fields`: of a `logging.LogRecord`, its message put together. `error`: of its `exc_info`."""

    fields: Mapping[str, Any]
    error: CarriedError | None


@dataclass(frozen=True, slots=True)
class ThreadEnded:
    """The thread has ended in order, its last message. `error`, `response`: as those of `StreamThread`."""

    error: CarriedError | None
    response: ThreadErrorResponse | None


@dataclass(frozen=True, slots=True)
class NotStarted:
    """There is no thread: the application could not be loaded, or its log not be opened."""

    error: CarriedError


@dataclass(frozen=True, slots=True)
class PackedParts:
    """What `ThreadStart.application` has in it."""

    application: Any
    clock: Clock
