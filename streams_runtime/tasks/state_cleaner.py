"""The thread that deletes state nobody wants any more: tasks that went to other instances and did not come back.

Rule: every `interval_ms` directories of tasks that nobody has locked, unchanged for `state.cleanup.delay.ms`, go. It
never dies of an error, since a disk that fills up is worse than a line in the log.
Source: `KafkaStreams.setupStateDirCleaner`.
"""

from __future__ import annotations

import logging
import threading

from streams_runtime.tasks.state_directory import StateDirectory

_log = logging.getLogger(__name__)
_SHORTEST_DEFAULT_INTERVAL_MS = 1_000


class StateCleaner:
    """`delay_ms`: state.cleanup.delay.ms. `interval_ms`: between two passes, and before the first; None: the delay."""

    def __init__(
        self,
        directory: StateDirectory,
        delay_ms: int,
        interval_ms: int | None = None,
        *,
        name: str = "state-cleaner",
    ) -> None:
        self._directory = directory
        self._delay_ms = delay_ms
        self._interval_s = (max(delay_ms, _SHORTEST_DEFAULT_INTERVAL_MS) if interval_ms is None else interval_ms) / 1000
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Return when a pass that has begun is done. Closing twice, or before the start, is fine."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(min(self._interval_s, threading.TIMEOUT_MAX)):
            try:
                self._directory.clean_obsolete(self._delay_ms)
            except Exception:
                _log.exception("obsolete state could not be deleted; trying again in %s s", self._interval_s)
