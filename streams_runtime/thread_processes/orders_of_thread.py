"""The group's orders on their way to a stream thread in another process, and what that thread last reported.

Rules: orders are sent in their order, once there is somebody to send them to. When the process has ended, whatever it
has not answered is answered as a `RebalanceMailbox` does whose stream thread has ended. Source: `TaskHolder`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from assignor.types import TaskId
from streams_runtime.membership.rebalance_mailbox import RebalanceMailbox, StreamThreadEnded
from streams_runtime.membership.task_holder import Done, Order
from streams_runtime.thread_processes.messages import OrderGiven, Report


def _nobody() -> None:
    pass


class OrdersOfThread:
    """A `TaskHolder`. `name`: of the stream thread. Any thread may call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._send: Callable[[OrderGiven], None] | None = None
        self._number = 0
        self._waiting: dict[int, tuple[Order, Done]] = {}
        self._ended = False
        self._after_the_end = RebalanceMailbox(name, _nobody)
        self._report: Report = {}

    # --- for the member

    def hand_over(self, order: Order, done: Done) -> None:
        with self._lock:
            if not self._ended:
                self._number += 1
                self._waiting[self._number] = order, done
                if self._send is not None:
                    self._send(OrderGiven(self._number, order))
                return
        self._after_the_end.hand_over(order, done)

    def offset_sums(self) -> Mapping[TaskId, int]:
        if self._ended:
            return self._after_the_end.offset_sums()
        report = self._report
        if report is None:
            raise StreamThreadEnded(f"stream thread {self._name} has ended")
        return report

    # --- for what the process says

    def begin(self, send: Callable[[OrderGiven], None]) -> None:
        """There is a process. `send`: does not wait, and raises nothing."""
        with self._lock:
            self._send = send
            for number, (order, _) in self._waiting.items():
                send(OrderGiven(number, order))

    def reported(self, report: Report) -> None:
        self._report = report

    def answered(self, number: int, error: BaseException | None) -> None:
        with self._lock:
            _, done = self._waiting.pop(number)
        done(error)

    def end(self) -> None:
        """The process is gone: orders that give or take tasks fail from now on."""
        self._after_the_end.end()
        self._answer_all()

    def end_quietly(self) -> None:
        """The process is gone, and no order fails: the member lives on without tasks."""
        self._after_the_end.end_quietly()
        self._answer_all()

    def _answer_all(self) -> None:
        with self._lock:
            self._ended, self._send = True, None
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for order, done in waiting:
            self._after_the_end.hand_over(order, done)
