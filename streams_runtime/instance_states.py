"""The states of an instance, and how a listener hears of them: each change once, in order, by one thread at a time.

    CREATED -> REBALANCING <-> RUNNING -> PENDING_SHUTDOWN -> NOT_RUNNING, or ERROR when an error ended it

Source: `KafkaStreams.State`, `KafkaStreams.StateListener`. Differs from Kafka: there is no PENDING_ERROR; an error of a
listener is logged, and ends no thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from enum import StrEnum

_logger = logging.getLogger(__name__)


class InstanceState(StrEnum):
    CREATED = "created"
    REBALANCING = "rebalancing"
    RUNNING = "running"
    PENDING_SHUTDOWN = "pending-shutdown"
    NOT_RUNNING = "not-running"
    ERROR = "error"


StateListener = Callable[[InstanceState, InstanceState], object]
"""New state and old state. Called on threads of the instance, which wait for it; it may call the instance."""


class ToldStates:
    """The state of one instance. `change` is called under the instance's lock, `tell` without it."""

    def __init__(self, listener: StateListener | None) -> None:
        self.state = InstanceState.CREATED
        self.listener = listener
        self._untold: deque[tuple[InstanceState, InstanceState]] = deque()
        self._telling = threading.Lock()

    def change(self, state: InstanceState) -> None:
        if state is not self.state:
            self._untold.append((state, self.state))
            self.state = state

    def tell(self) -> None:
        """Tell the listener what it was not told yet, unless a thread is telling it, which goes on with that."""
        while self._untold and self._telling.acquire(blocking=False):
            try:
                while self._untold:
                    self._tell(*self._untold.popleft())
            finally:
                self._telling.release()

    def _tell(self, new: InstanceState, old: InstanceState) -> None:
        if self.listener is None:
            return
        try:
            self.listener(new, old)
        except Exception:
            _logger.exception("the state listener failed on the change from %s to %s", old, new)
