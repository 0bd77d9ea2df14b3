"""The group that counts words exactly once on Spark executors, and whether its history is possible."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.history.calls import read_history, write_run
from tests.history.judge import is_valid, report
from tests.history.model import judged
from tests.history.spark_members import SparkMembers
from tests.history.word_counts import SESSION_TIMEOUT_MS, WordFeed, word_count

GROUP = "words"
PROCESSES = 3
REST_TIMEOUT_S = 300.0
_LINES_A_TURN = 8
_TURN_S = 0.25


class WordCountOnSpark:
    """Works while `working` is entered. `urls`: of all coordinators. `directory`: of its history."""

    def __init__(self, urls: str, directory: Path, seed: int, heard_within_ms: int) -> None:
        self.servers = f"embedded:{directory / 'log'}"
        self.directory = directory
        self._settings = {
            "seed": seed,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heard_within_ms": min(SESSION_TIMEOUT_MS, heard_within_ms),
        }
        self._chance = random.Random(f"{seed} words")
        self._spark = SparkMembers(directory, {GROUP: urls}, PROCESSES)
        self._committed: list[tuple[float, int]] = []
        self._stops = threading.Event()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Lines are written all the time. Raises SparkNotStarted, JavaNotFound."""
        self.directory.mkdir(parents=True)
        write_run(self.directory, {**self._settings, "broken_off": "it was killed"}, {})
        self._feed = WordFeed(GROUP, self.servers, self._chance)
        with self._spark.running({GROUP: word_count(GROUP, self.servers, self.directory / "state")}):
            feeding = threading.Thread(target=self._write, name="words", daemon=True)
            feeding.start()
            try:
                yield
            finally:
                self._stops.set()
                feeding.join()

    def longest_still_ms(self, since_s: float) -> float:
        """The longest time since then, on the monotonic clock, in which no record was committed."""
        longest_s, last_s, done = 0.0, since_s, -1
        for at_s, now_done in [*self._committed, (time.monotonic(), -2)]:
            if at_s >= since_s and now_done != done:
                longest_s, last_s = max(longest_s, at_s - last_s), at_s
            done = now_done
        return 1000 * longest_s

    def committed(self) -> int:
        return self._committed[-1][1] if self._committed else 0

    def kill_one(self, chance: random.Random) -> str:
        """An executor, or a Python worker; which one."""
        kind = chance.choice(self._spark.fault_kinds())
        target = chance.choice(sorted(kind.faults))
        with kind.faults[target]():
            return f"{kind.name}, {target}"

    def rest(self) -> None:
        """All that was written is counted, or REST_TIMEOUT_S are over; all have left, and the history is complete."""
        self._stops.set()
        deadline_s = time.monotonic() + REST_TIMEOUT_S
        while not self._feed.progress().is_complete and time.monotonic() < deadline_s:
            time.sleep(_TURN_S)
        known = {**self._settings, "failures": self._spark.leave(), "deaths": self._spark.deaths}
        write_run(self.directory, known, {GROUP: self._feed.counts()})
        self._feed.close()

    def judged(self) -> tuple[bool, str]:
        """Whether the history is valid, and its report."""
        history = read_history(self.directory)
        judgements = judged(history)
        return is_valid(judgements), "\n".join(report(history, judgements))

    def _write(self) -> None:
        while not self._stops.wait(_TURN_S):
            self._feed.write(_LINES_A_TURN)
            done = self._feed.progress().done
            self._committed.append((time.monotonic(), done))
