"""The member of a stream thread that runs in a process of its own: it is the instance that speaks to the group for it.

    instance --orders--> mailbox of the stream thread --answers--> instance
    stream thread --start, close, rejoin--> instance --the member has ended--> stream thread

Rule: with each answer and each wish goes what the thread reports at that moment, since the instance may have to send a
subscription the next moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.member_events import MemberEnd
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.rebalance_mailbox import StreamThreadEnded
from streams_runtime.membership.task_holder import TaskHolder
from streams_runtime.thread_processes.carried_errors import carried
from streams_runtime.thread_processes.messages import Ask, MemberAsked, MemberOver, OrderAnswered, OrderGiven, Report


class MemberOfThread:
    """A `ThreadMember`. `given` and `has_come_to_its_end` are for what the instance says."""

    def __init__(
        self, send: Callable[[MemberAsked | OrderAnswered], None], holder: TaskHolder, when_ended: Callable[[], None]
    ) -> None:
        self.end: MemberEnd | None = None
        self.failure: BaseException | None = None
        self._send = send
        self._holder = holder
        self._when_ended = when_ended
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def start(self) -> None:
        self._ask(Ask.START)

    def ask_to_close(self) -> None:
        self._ask(Ask.CLOSE)

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._ended.wait(timeout_s)

    def tasks_were_lost(self, reason: str) -> None:
        self._ask(Ask.TASKS_LOST, reason)

    def request_rejoin(self) -> None:
        self._ask(Ask.REJOIN)

    def request_shutdown(self) -> None:
        self._ask(Ask.SHUTDOWN)

    def report(self) -> Report:
        try:
            return dict(self._holder.offset_sums())
        except StreamThreadEnded:
            return None

    def given(self, given: OrderGiven) -> None:
        """Take the order and return at once; the answer goes back when it has been carried out."""

        def done(error: BaseException | None) -> None:
            self._send(OrderAnswered(given.number, None if error is None else carried(error), self.report()))

        self._holder.hand_over(given.order, done)

    def has_come_to_its_end(self, over: MemberOver) -> None:
        self.end = over.end
        self.failure = None if over.failure is None else over.failure.error()
        self._ended.set()
        self._when_ended()

    def _ask(self, ask: Ask, reason: str = "") -> None:
        self._send(MemberAsked(ask, reason, self.report()))


class MembershipOfThread:
    """A `Membership` of one member. `send`: takes its wishes and answers to the instance."""

    def __init__(self, send: Callable[[MemberAsked | OrderAnswered], None]) -> None:
        self._send = send
        self._member: MemberOfThread | None = None

    @property
    def only(self) -> MemberOfThread:
        assert self._member is not None, "the stream thread has its member from the beginning"
        return self._member

    def member(
        self,
        settings: MemberSettings,
        writer: SubscriptionWriter,
        holder: TaskHolder,
        when_ended: Callable[[], None],
    ) -> MemberOfThread:
        """Who it is, the instance knows."""
        self._member = MemberOfThread(self._send, holder, when_ended)
        return self._member
