"""An application on Spark executors, working while its processes are killed one after the other.

What kills and what is killed: an executor's JVM, an instance's Python process, or a whole service that is started again
at once (the coordinator, a broker). Whatever dies, more work is done before the next kill, and all of it in the end.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path

from spark_jobs.demo_progress import ProgressMeter
from spark_jobs.ownership_history import overlaps, ownership_intervals
from spark_jobs.ownership_log import OwnershipLine, read_ownership
from spark_jobs.stdlib_text import SourceLine
from spark_jobs.word_count import TextFeed
from spark_jobs.workers import Workers

LINES_A_PIECE = 1_000
PROGRESS_TIMEOUT_S = 120.0


@dataclass(slots=True)
class ApplicationUnderFire:
    """`text` never ends. `restarts`: a service's name to what kills it and starts it again.

    `deaths`: Python worker to when it was killed, milliseconds since the epoch.
    """

    workers: Workers
    restarts: Mapping[str, Callable[[], None]]
    log_dir: Path
    feed: TextFeed
    text: Iterator[SourceLine]
    meter: ProgressMeter
    chance: random.Random
    written: list[SourceLine] = field(default_factory=list)
    deaths: dict[int, float] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)

    def work_on(self, records: int) -> None:
        """Until so many more records are committed; there is always more to read than is asked for."""
        target = self.meter.now().done + records
        deadline_s = time.monotonic() + PROGRESS_TIMEOUT_S
        while (seen := self.meter.now()).done < target:
            assert self.workers.wait(0.0) is None, "the instances run until they are told to stop"
            assert time.monotonic() < deadline_s, f"no progress after {self.killed}: {seen}"
            if seen.first_there - seen.first_done < LINES_A_PIECE:
                piece = list(islice(self.text, LINES_A_PIECE))
                self.feed.write(piece)
                self.written += piece

    def kill(self, what: str) -> None:
        self.killed[what] = self.killed.get(what, 0) + 1
        if what in self.restarts:
            self.restarts[what]()
            return
        victim = self.chance.choice(self._living())
        if what == "executor":
            assert victim.jvm_pid is not None, "it runs under an executor"
            os.kill(victim.jvm_pid, signal.SIGKILL)  # its Python worker gets SIGHUP and says goodbye
        else:
            self.deaths[victim.pid] = time.time() * 1000
            os.kill(victim.pid, signal.SIGKILL)

    def finish(self) -> None:
        """Until everything written is committed."""
        self.meter.wait(lambda seen: seen.is_complete, PROGRESS_TIMEOUT_S, lambda _seen: None)

    def assert_nothing_had_two_owners(self) -> None:
        """Neither a task nor a state directory, by what the instances wrote down."""
        ownership = read_ownership(self.log_dir)
        assert overlaps(ownership_intervals(ownership, self.deaths)) == []
        for instance, of_instance in lives(ownership, self.deaths).items():
            for (_, ended_ms, pid), (began_ms, _, next_pid) in pairwise(of_instance):
                assert ended_ms <= began_ms, f"{instance}: {next_pid} had the state before {pid} was gone"

    def _living(self) -> list[OwnershipLine]:
        """One line of each instance that can be killed; when all are dead, those that come after them."""
        deadline_s = time.monotonic() + PROGRESS_TIMEOUT_S
        while time.monotonic() < deadline_s:
            alive = [line for line in self._newest_lines() if _is_alive(line.pid) and _is_alive(line.jvm_pid)]
            if alive:
                return alive
            self.work_on(1)  # whoever does it is alive
        raise AssertionError(f"no instance came back after {self.killed}")

    def _newest_lines(self) -> list[OwnershipLine]:
        """One line of each process that ever was an instance."""
        return list({line.pid: line for line in read_ownership(self.log_dir)}.values())


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def lives(lines: list[OwnershipLine], deaths: dict[int, float]) -> dict[str, list[tuple[float, float, int]]]:
    """Instance to its processes: from when to when they had its state directory, and their ids, oldest first."""
    of_process: dict[tuple[str, int], list[float]] = {}
    for line in lines:
        of_process.setdefault((line.instance, line.pid), []).append(line.at_ms)
    found: dict[str, list[tuple[float, float, int]]] = {}
    for (instance, pid), times in of_process.items():
        found.setdefault(instance, []).append((min(times), min(max(times), deaths.get(pid, max(times))), pid))
    return {instance: sorted(of_instance) for instance, of_instance in found.items()}
