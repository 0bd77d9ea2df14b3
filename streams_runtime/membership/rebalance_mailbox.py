"""Hands a member's orders over to its stream thread, and publishes the offsets of the stream thread.

Rules:
- No caller waits: an order is answered when the stream thread has carried it out between two passes of its loop, or
  when it has failed.
- Once the stream thread has ended, orders that give or take tasks fail with StreamThreadEnded, orders in the mailbox
  included. `LoseTasks` and `CloseTasks` are done at once, because an ended thread holds nothing. So every order is
  answered, whether the member or the stream thread ends first.
- `offset_sums` is the last snapshot that the stream thread published.

Source: in Kafka `Consumer.poll` runs the `StreamsRebalanceListener` on the stream thread itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.membership.member_events import (
    AssignTasks,
    CloseTasks,
    Done,
    LoseTasks,
    Order,
    RevokeTasks,
    StartRebalance,
)


class StreamThreadEnded(StreamsRuntimeError):
    """The stream thread that would have to carry out the order has ended."""


@dataclass(frozen=True, slots=True)
class WaitingOrder:
    """The thread that takes the order calls `done`, once."""

    order: Order
    done: Done


class RebalanceMailbox:
    """The member uses it as its `TaskHolder`; `next_order`, `publish` and `end` are for the stream thread.

    `wakeup`: makes the stream thread check the mailbox at once. Any thread may call it; it does not wait.
    """

    def __init__(self, name: str, wakeup: Callable[[], None]) -> None:
        self._name = name
        self._wakeup = wakeup
        self._lock = threading.Lock()
        self._waiting: deque[WaitingOrder] = deque()
        self._ended = False
        self._refuses = True
        self._offset_sums: Mapping[TaskId, int] = {}

    # --- for the member

    def hand_over(self, order: Order, done: Done) -> None:
        with self._lock:
            if not self._ended:
                self._waiting.append(WaitingOrder(order, done))
                self._wakeup()
                return
        done(self._refusal(order))

    def offset_sums(self) -> Mapping[TaskId, int]:
        if self._ended and self._refuses:
            raise self._thread_ended()
        return self._offset_sums

    def wake(self) -> None:
        """Make the stream thread check the mailbox now, if it has not ended."""
        with self._lock:
            if not self._ended:
                self._wakeup()

    # --- for the stream thread

    def next_order(self) -> WaitingOrder | None:
        """The oldest order that was not taken yet."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    @property
    def has_orders(self) -> bool:
        return bool(self._waiting)

    def publish(self, offset_sums: Mapping[TaskId, int]) -> None:
        """Other threads read `offset_sums`, so it must not change any more."""
        self._offset_sums = offset_sums

    def end(self, *, refuses: bool = True) -> None:
        """The stream thread carries out no more orders: orders that give or take tasks fail from now on.

        `refuses` False: no order fails, and the member lives on without tasks.
        """
        with self._lock:
            self._ended, self._refuses = True, refuses
            self._offset_sums = {}
            waiting = list(self._waiting)
            self._waiting.clear()
        for one in waiting:
            one.done(self._refusal(one.order))

    def _refusal(self, order: Order) -> StreamThreadEnded | None:
        """The answer to this order when the thread has ended."""
        match order:
            case LoseTasks() | CloseTasks():
                return None  # an ended thread holds nothing
            case StartRebalance() | RevokeTasks() | AssignTasks():
                return self._thread_ended() if self._refuses else None

    def _thread_ended(self) -> StreamThreadEnded:
        return StreamThreadEnded(f"stream thread {self._name} has ended")
