"""How a group member's calls reach the thread that works on the tasks, and what that thread lets others see.

Rules:
- A call waits until the stream thread has done it between two passes of its loop; its error comes back to the caller.
- When the stream thread has ended, calls that hand over work raise StreamThreadEnded, also those that were waiting.
  `lost` and `close` then return at once: an ended thread holds nothing any more. So nobody waits for ever, in whatever
  order member and stream thread end.
- `offset_sums` never waits: it is the last snapshot that the stream thread published, whole or not at all.

Source: in Kafka `Consumer.poll` runs the `StreamsRebalanceListener` on the stream thread itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assignor.types import TaskId
from streams_runtime.errors import StreamsRuntimeError
from streams_runtime.membership.task_holder import HeldTasks


class StreamThreadEnded(StreamsRuntimeError):
    """The stream thread behind this member works no more."""


class OrderKind(StrEnum):
    REBALANCE_STARTED = "rebalance started"
    REVOKE = "revoke"
    ASSIGN = "assign"
    LOST = "lost"
    CLOSE = "close"


@dataclass(slots=True)
class Order:
    """One call of the member, waiting to be done. Which field counts is said by `kind`."""

    kind: OrderKind
    tasks: frozenset[TaskId] = frozenset()
    held: HeldTasks | None = None
    reason: str = ""
    _done: threading.Event = field(default_factory=threading.Event)
    _error: BaseException | None = None

    def done(self, error: BaseException | None = None) -> None:
        """Let the caller go on; with `error` it raises that."""
        self._error = error
        self._done.set()

    def wait(self) -> None:
        self._done.wait()
        if self._error is not None:
            raise self._error


class RebalanceMailbox:
    """A `TaskHolder` on the member's side; `next_order`, `publish` and `end` are for the stream thread.

    `wakeup`: lets the stream thread look into the mailbox at once; called from the member's thread.
    """

    def __init__(self, name: str, wakeup: Callable[[], None]) -> None:
        self._name = name
        self._wakeup = wakeup
        self._lock = threading.Lock()
        self._orders: deque[Order] = deque()
        self._ended = False
        self._silent_end = False
        self._offset_sums: Mapping[TaskId, int] = {}

    def rebalance_started(self) -> None:
        self._hand_over(Order(OrderKind.REBALANCE_STARTED))

    def offset_sums(self) -> Mapping[TaskId, int]:
        if self._ended and not self._silent_end:
            raise self._error()
        return self._offset_sums

    def revoke(self, tasks: frozenset[TaskId]) -> None:
        self._hand_over(Order(OrderKind.REVOKE, tasks=tasks))

    def assign(self, held: HeldTasks) -> None:
        self._hand_over(Order(OrderKind.ASSIGN, held=held))

    def lost(self, reason: str) -> None:
        self._hand_over(Order(OrderKind.LOST, reason=reason), needs_thread=False)

    def close(self) -> None:
        self._hand_over(Order(OrderKind.CLOSE), needs_thread=False)

    def next_order(self) -> Order | None:
        """The oldest order that is not done; the stream thread has to call its `done`."""
        with self._lock:
            return self._orders.popleft() if self._orders else None

    @property
    def has_orders(self) -> bool:
        return bool(self._orders)

    def publish(self, offset_sums: Mapping[TaskId, int]) -> None:
        """`offset_sums` must not change any more: other threads read it."""
        self._offset_sums = offset_sums

    def end(self, *, silent: bool = False) -> None:
        """The stream thread does no more orders. `silent`: the member may go on without tasks; no call raises."""
        with self._lock:
            self._ended, self._silent_end = True, silent
            self._offset_sums = {}
            waiting = list(self._orders)
            self._orders.clear()
        for order in waiting:
            order.done(None if silent or order.kind in _NEEDS_NO_THREAD else self._error())

    def _hand_over(self, order: Order, *, needs_thread: bool = True) -> None:
        with self._lock:
            if self._ended:
                if needs_thread and not self._silent_end:
                    raise self._error()
                return
            self._orders.append(order)
        self._wakeup()
        order.wait()

    def _error(self) -> StreamThreadEnded:
        return StreamThreadEnded(f"stream thread {self._name} has ended")


_NEEDS_NO_THREAD = (OrderKind.LOST, OrderKind.CLOSE)
