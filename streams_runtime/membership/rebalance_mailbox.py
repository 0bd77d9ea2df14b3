"""Hands a member's calls over to its stream thread, and publishes what the stream thread lets others see.

Rules:
- A call waits until the stream thread has carried out its order between two passes of its loop. An error of the order
  is raised in the caller.
- Once the stream thread has ended, calls that give or take tasks raise StreamThreadEnded, also those that were
  waiting. `lost` and `close` return at once, because an ended thread holds nothing. So no call waits for ever, in
  whatever order the member and the stream thread end.
- `offset_sums` never waits. It is the last snapshot that the stream thread published.

Source: in Kafka `Consumer.poll` runs the `StreamsRebalanceListener` on the stream thread itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assignor.types import TaskId
from streams_runtime.errors import StreamsRuntimeError
from streams_runtime.membership.task_holder import HeldTasks


class StreamThreadEnded(StreamsRuntimeError):
    """The stream thread that would have to carry out the order has ended."""


@dataclass(frozen=True, slots=True)
class StartRebalance:
    """The member is about to send a subscription."""


@dataclass(frozen=True, slots=True)
class RevokeTasks:
    """Stop working on these active tasks. The others stay."""

    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class AssignTasks:
    """Hold exactly these tasks from now on."""

    held: HeldTasks


@dataclass(frozen=True, slots=True)
class LoseTasks:
    """Drop every task at once. The group may already have given them to others."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseTasks:
    """Close every task in good order. The member leaves the group afterwards."""


Order = StartRebalance | RevokeTasks | AssignTasks | LoseTasks | CloseTasks


@dataclass(slots=True)
class WaitingOrder:
    """An order, and the caller that waits for it."""

    order: Order
    _done: threading.Event = field(default_factory=threading.Event)
    _error: BaseException | None = None

    def done(self, error: BaseException | None = None) -> None:
        """Let the caller continue. It raises `error` if there is one."""
        self._error = error
        self._done.set()

    def wait(self) -> None:
        self._done.wait()
        if self._error is not None:
            raise self._error


class RebalanceMailbox:
    """The member uses it as its `TaskHolder`; `next_order`, `publish` and `end` are for the stream thread.

    `wakeup`: makes the stream thread look into the mailbox at once. The member's thread calls it.
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

    def rebalance_started(self) -> None:
        self._hand_over(StartRebalance())

    def offset_sums(self) -> Mapping[TaskId, int]:
        if self._ended and self._refuses:
            raise self._thread_ended()
        return self._offset_sums

    def revoke(self, tasks: frozenset[TaskId]) -> None:
        self._hand_over(RevokeTasks(tasks))

    def assign(self, held: HeldTasks) -> None:
        self._hand_over(AssignTasks(held))

    def lost(self, reason: str) -> None:
        self._hand_over(LoseTasks(reason))

    def close(self) -> None:
        self._hand_over(CloseTasks())

    # --- for the stream thread

    def next_order(self) -> WaitingOrder | None:
        """The oldest order that nobody has taken yet. The stream thread has to call its `done`."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    @property
    def has_orders(self) -> bool:
        return bool(self._waiting)

    def publish(self, offset_sums: Mapping[TaskId, int]) -> None:
        """Other threads read `offset_sums`, so it must not change any more."""
        self._offset_sums = offset_sums

    def end(self) -> None:
        """The stream thread carries out no more orders: calls that give or take tasks raise from now on."""
        self._end(refuses=True)

    def end_quietly(self) -> None:
        """The stream thread carries out no more orders, and no call raises: the member lives on without tasks."""
        self._end(refuses=False)

    def _end(self, *, refuses: bool) -> None:
        with self._lock:
            self._ended, self._refuses = True, refuses
            self._offset_sums = {}
            waiting = list(self._waiting)
            self._waiting.clear()
        for one in waiting:
            one.done(self._refusal(one.order))

    def _hand_over(self, order: Order) -> None:
        with self._lock:
            if self._ended:
                refusal = self._refusal(order)
                if refusal is not None:
                    raise refusal
                return
            waiting = WaitingOrder(order)
            self._waiting.append(waiting)
        self._wakeup()
        waiting.wait()

    def _refusal(self, order: Order) -> StreamThreadEnded | None:
        """What the caller of this order gets from a thread that has ended."""
        match order:
            case LoseTasks() | CloseTasks():
                return None  # an ended thread holds nothing
            case StartRebalance() | RevokeTasks() | AssignTasks():
                return self._thread_ended() if self._refuses else None

    def _thread_ended(self) -> StreamThreadEnded:
        return StreamThreadEnded(f"stream thread {self._name} has ended")
