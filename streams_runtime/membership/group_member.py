"""One member of a group as its stream thread has it: what a thread may ask of it, and how it ended.

`Membership` and `ThreadMember` are what a stream thread needs: a thread in a process of its own has a member that
passes all calls on to the process of the instance, whose one heartbeat speaks for all members.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from assignor.types import TaskId
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.member_events import (
    CloseAsked,
    MemberEnd,
    MemberEnded,
    MemberEvent,
    RejoinAsked,
    ShutdownAsked,
    Started,
    TasksLost,
)
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.task_holder import TaskHolder


class ThreadMember(Protocol):
    """Any thread may call it. `GroupMember` says what each call does."""

    @property
    def end(self) -> MemberEnd | None: ...
    @property
    def failure(self) -> BaseException | None: ...
    @property
    def has_ended(self) -> bool: ...
    def start(self) -> None: ...
    def ask_to_close(self) -> None: ...
    def wait(self, timeout_s: float | None = None) -> bool: ...
    def tasks_were_lost(self, reason: str) -> None: ...
    def request_rejoin(self) -> None: ...
    def request_shutdown(self) -> None: ...


class Membership(Protocol):
    """Where a stream thread gets its member."""

    def member(
        self,
        settings: MemberSettings,
        writer: SubscriptionWriter,
        holder: TaskHolder,
        when_ended: Callable[[], None],
    ) -> ThreadMember:
        """One that has not started. `when_ended`: called once, on any thread; it returns soon."""
        ...


def ignore_end() -> None:
    """For a caller that does not want to know when the member has ended."""


class GroupMember:
    """One member, from `start` until it has ended. Any thread may call it.

    `end`: why it ended without an error; `failure`: the error that ended it: AssignmentFailed, CoordinatorError, or
    what its holder failed with. `handle`: takes an event to the machine, from any thread.
    """

    def __init__(
        self,
        handle: Callable[[GroupMember, MemberEvent], None],
        machine: MemberMachine,
        holder: TaskHolder,
        when_ended: Callable[[], None],
    ) -> None:
        self.end: MemberEnd | None = None
        self.failure: BaseException | None = None
        self.machine = machine
        self.holder = holder
        self._handle = handle
        self._when_ended = when_ended
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def start(self) -> None:
        """Join the group. The holder carries out orders from now on."""
        self._handle(self, Started())

    def ask_to_close(self) -> None:
        """Close all tasks in good order, leave the group, and end. Returns at once. Idempotent."""
        self._handle(self, CloseAsked())

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until it has ended; whether it has. Not on the thread that carries out its orders, unless all are done."""
        return self._ended.wait(timeout_s)

    def tasks_were_lost(self, reason: str) -> None:
        """The holder found that others have its tasks: it gets `LoseTasks`, then joins again owning nothing.

        Source: `StreamThread.handleTaskMigrated`. Differs from Kafka: the member id stays.
        """
        self._handle(self, TasksLost(reason))

    def request_rejoin(self) -> None:
        """Ask for a rebalance and keep everything meanwhile. Source: `Consumer.enforceRebalance`."""
        self._handle(self, RejoinAsked())

    def offset_sums(self) -> Mapping[TaskId, int]:
        """What its holder reports now."""
        return self.holder.offset_sums()

    def request_shutdown(self) -> None:
        """Ask the leader to end every member of the group, this one included. Source: KIP-671."""
        self._handle(self, ShutdownAsked())

    def has_come_to_its_end(self, ended: MemberEnded) -> None:
        """For the process alone."""
        self.end, self.failure = ended.end, ended.failure
        self._ended.set()
        self._when_ended()
