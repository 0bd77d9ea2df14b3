"""Inside one process, an append wakes the consumers that wait for records."""

from __future__ import annotations

import threading
import weakref

from streams_runtime.logs.forks import reset_in_children


class AppendSignals:
    """One event for each consumer. The event of a consumer that nobody holds any more disappears by itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()

    def new_event(self) -> threading.Event:
        event = threading.Event()
        with self._lock:
            self._events.add(event)
        return event

    def appended(self) -> None:
        with self._lock:
            for event in self._events:
                event.set()
