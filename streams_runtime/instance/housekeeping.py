"""Does the background work of an instance: deletes obsolete state, maintains the log, and looks up topics.

Rules: the work has its own thread, so no stream thread waits for it. An error is logged, and the work is tried again
later. The background thread looks up in advance each topic that tasks write to. So a task that moves to this instance
starts without these lookups.

Source: `KafkaStreams.setupStateDirCleaner`; a broker's log cleaner, which an embedded log does not have.
"""

import logging
import threading
from collections.abc import Collection
from dataclasses import InitVar, dataclass

from streams_runtime.logs.base import Log
from streams_runtime.tasks.state_directory import StateDirectory

LOG_INTERVAL_MS = 5_000
_SHORTEST_CLEANUP_INTERVAL_MS = 1_000

_logger = logging.getLogger(__name__)


class HousekeepingTimes:
    """Computes when the log has to be maintained and when state has to be cleaned up. In a loop, the caller waits for
    `pause_ms` and then calls `passed`. `log_interval_ms`: the interval at which the log is maintained.
    `cleanup_delay_ms`: state.cleanup.delay.ms, which is also the interval of the clean-ups. The interval of the
    clean-ups is at least one second. `pause_ms`: the time until the next work is due.
    """

    def __init__(self, cleanup_delay_ms: int, log_interval_ms: int) -> None:
        self._cleanup_interval_ms = max(cleanup_delay_ms, _SHORTEST_CLEANUP_INTERVAL_MS)
        self._log_interval_ms = log_interval_ms
        self._until_cleanup_ms = self._cleanup_interval_ms

    @property
    def pause_ms(self) -> int:
        return min(self._log_interval_ms, self._until_cleanup_ms)

    def passed(self) -> bool:
        """Call this method after each wait of `pause_ms`. After each call, the caller has to maintain the log. If the
        result is True, the caller also has to clean up state directories.
        """
        self._until_cleanup_ms -= self.pause_ms
        if self._until_cleanup_ms > 0:
            return False
        self._until_cleanup_ms = self._cleanup_interval_ms
        return True


@dataclass(eq=False, repr=False)
class Housekeeping:
    """The background thread of an instance. `cleanup_delay_ms`: state.cleanup.delay.ms.

    `written`: the topics that the application's tasks write to.
    """

    name: InitVar[str]
    _directory: StateDirectory
    _log: Log
    cleanup_delay_ms: int
    log_interval_ms: InitVar[int] = LOG_INTERVAL_MS
    written: Collection[str] = ()

    def __post_init__(self, name: str, log_interval_ms: int) -> None:
        self._times = HousekeepingTimes(self.cleanup_delay_ms, log_interval_ms)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}-housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread, and wait until it has finished its present work."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._look_up()  # topics are looked up before the first pause, because the first task may be assigned at once
        while True:
            if self._stop.wait(min(self._times.pause_ms / 1_000, threading.TIMEOUT_MAX)):
                return
            clean = self._times.passed()
            try:
                self._log.maintain()
            except Exception:
                _logger.exception("the log could not be maintained; trying again later")
            self._look_up()
            if clean:
                self._clean()

    def _look_up(self) -> None:
        """Look up the partitions of each topic, so that the log caches them. If the lookup of a topic fails, the next
        call repeats this lookup.
        """
        for topic in sorted(self.written):
            if self._stop.is_set():
                return
            try:
                self._log.partitions_of(topic)
            except Exception as error:
                _logger.info("topic %s could not be looked up; trying again later: %s", topic, error)

    def _clean(self) -> None:
        try:
            self._directory.clean_obsolete(self.cleanup_delay_ms)
        except Exception:
            _logger.exception("obsolete state could not be deleted; trying again later")
