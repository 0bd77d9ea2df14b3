"""Passes the orders of a member to its stream thread, and the offset sums of the stream thread to the member.

Rules:
- No method of the mailbox waits. The stream thread carries out an order between two passes of its loop, and then calls
  the function `done` of the order.
- If the stream thread has ended, an order that assigns or revokes tasks fails with StreamThreadEnded. Orders that are
  still in the mailbox also fail if they assign or revoke tasks. `LoseTasks` and `CloseTasks` succeed at once, because
  an ended thread has no tasks. So every order gets an answer, even if the stream thread ends before the member.
- `offset_sums` and `flows` return the last snapshot that the stream thread published.

Source: `StreamsRebalanceListener`, which Kafka's `Consumer.poll` runs on the stream thread itself.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership import member_events as events


class StreamThreadEnded(StreamsRuntimeError):
    """The stream thread has ended, so it cannot carry out the order."""


@dataclass(frozen=True, slots=True)
class WaitingOrder:
    """An order that waits in the mailbox. The thread that removes the order from the mailbox has to call `done`
    once.
    """

    order: events.Order
    done: events.Done


class RebalanceMailbox:
    """The mailbox of one stream thread. The member uses the mailbox as its `TaskHolder`. The stream thread calls
    `next_order`, `publish` and `end`.

    `wakeup`: a function that makes the stream thread check the mailbox at once. Any thread may call `wakeup`, and
    `wakeup` must not wait.
    """

    def __init__(self, name: str, wakeup: Callable[[], None]) -> None:
        self._name = name
        self._wakeup = wakeup
        self._lock = threading.Lock()
        self._waiting: deque[WaitingOrder] = deque()
        self._ended = False
        self._refuses = True
        self._offset_sums: Mapping[TaskId, int] = {}
        self._flows: Mapping[TaskId, TaskFlow] = {}

    # --- Methods for the member.

    def hand_over(self, order: events.Order, done: events.Done) -> None:
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

    def flows(self) -> Mapping[TaskId, TaskFlow]:
        return self._flows

    def wake(self) -> None:
        """Make the stream thread check the mailbox now, unless the thread has ended."""
        with self._lock:
            if not self._ended:
                self._wakeup()

    # --- Methods for the stream thread.

    def next_order(self) -> WaitingOrder | None:
        """Remove and return the oldest order. Returns None if the mailbox is empty."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    @property
    def has_orders(self) -> bool:
        return bool(self._waiting)

    def publish(self, offset_sums: Mapping[TaskId, int], flows: Mapping[TaskId, TaskFlow]) -> None:
        """Publish the offset sums and the flows of the tasks for the member. Other threads read the mappings, so the
        caller must not change them afterwards.
        """
        self._offset_sums, self._flows = offset_sums, flows

    def end(self, *, refuses: bool = True) -> None:
        """The stream thread calls this method when it carries out no more orders. After a call of `end`, orders that
        assign or revoke tasks fail.

        `refuses`: True if orders that assign or revoke tasks have to fail. If `refuses` is False, these orders succeed
        without effect, so that the member stays in the group without tasks.
        """
        with self._lock:
            self._ended, self._refuses = True, refuses
            self._offset_sums, self._flows = {}, {}
            waiting = list(self._waiting)
            self._waiting.clear()
        for one in waiting:
            one.done(self._refusal(one.order))

    def _refusal(self, order: events.Order) -> StreamThreadEnded | None:
        """Returns the result of an order after the thread has ended: the error, or None if the order succeeds."""
        match order:
            case events.LoseTasks() | events.CloseTasks():
                return None  # an ended thread has no tasks
            case events.StartRebalance() | events.RevokeTasks() | events.AssignTasks():
                return self._thread_ended() if self._refuses else None

    def _thread_ended(self) -> StreamThreadEnded:
        return StreamThreadEnded(f"stream thread {self._name} has ended")
