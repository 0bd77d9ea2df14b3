"""What a stream thread needs of its group: one member that it starts, tells and waits for.

In the process of the instance it is a `group_member`. A stream thread in a process of its own has one that passes all
of it on to the process of the instance, whose one heartbeat speaks for all members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from streams_runtime.membership.member_events import MemberEnd
from streams_runtime.membership.member_settings import MemberSettings
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
