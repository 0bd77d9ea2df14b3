"""An application on Spark executors, working while its processes are killed one after the other.

What kills and what is killed: an executor's JVM, an instance's Python process, or a whole service that is started again
at once (the coordinator, a broker). Whatever dies, more work is done before the next kill, and all of it in the end.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.demo.word_count import SourceLine, TextFeed, expected_counts, read_counts, stdlib_lines
from spark_jobs.ownership.ownership_history import overlaps, ownership_intervals
from spark_jobs.ownership.ownership_log import OwnershipLine, read_ownership
from spark_jobs.workers.member_process import EXECUTOR_TAG
from spark_jobs.workers.running import Workers, run
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.local_run.local_run import ProgressMeter
from streams_runtime.logs.opening import open_log
from tests.acceptance.counting import exactly_once_word_count, meter_of
from tests.warm_coordinator import WarmCoordinator

LINES_A_PIECE = 1_000
PROGRESS_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Counted:
    """`took_s`: of each kill, what it was of and the seconds until work had gone on."""

    found: dict[str, int]
    expected: dict[str, int]
    took_s: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class WordCountUnderFire:
    """A word count on a Spark session with one instance an executor; one standby a task.

    `address`: of its log; `directory`: for everything else. `services`: by name what kills each and starts it again,
    besides the coordinator. `threads`: of each instance.
    """

    spark: SparkSession
    executors: int
    application_id: str
    address: str
    guarantee: str
    text_lines: int
    directory: Path
    services: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    threads: int = 1

    def run(self, kills: Sequence[str], chance: random.Random) -> Counted:
        """Kills in random order; returns when all that was written is counted. Asserts that nothing had two owners."""
        log = open_log(self.address)
        lines = list(stdlib_lines(self.text_lines))
        feed = TextFeed(log, lines)
        application = exactly_once_word_count(
            self.application_id,
            self.address,
            processing_guarantee=self.guarantee,
            num_standby_replicas=1,
            rack_aware_assignment_tags=EXECUTOR_TAG,
            session_timeout_ms=3_000,
            heartbeat_interval_ms=300,
        )
        settings = {"group.initial.rebalance.delay.ms": 500, "cluster.bootstrap.servers": self.address}
        with WarmCoordinator(self.directory / "coordinator", settings) as coordinator:
            workers = run(
                self.spark,
                application,
                instances=self.executors,
                threads=self.threads,
                coordinator_url=coordinator.url,
                state_dir=str(self.directory / "state"),
                log_dir=str(self.directory / "log"),
            )
            under_fire = ApplicationUnderFire(
                workers,
                {**self.services, "coordinator": lambda: _restart(coordinator)},
                self.directory / "log",
                feed,
                cycle(lines),
                meter_of(log, self.application_id),
                chance,
            )
            try:
                under_fire.work_on(LINES_A_PIECE)
                took_s = [under_fire.kill_and_go_on(what) for what in chance.sample(kills, len(kills))]
                under_fire.finish()
            finally:
                workers.stop()
        feed.close()
        found = read_counts(log)
        log.close()
        assert sum(under_fire.killed.values()) == len(kills)
        under_fire.assert_nothing_had_two_owners()
        return Counted(found, expected_counts(under_fire.written), tuple(zip(under_fire.order, took_s, strict=True)))


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
    order: list[str] = field(default_factory=list)

    @property
    def killed(self) -> Counter[str]:
        return Counter(self.order)

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

    def kill_and_go_on(self, what: str) -> float:
        """Until a random number of records more is committed; how long that took, in seconds."""
        self.kill(what)
        began_s = time.monotonic()
        self.work_on(self.chance.randrange(1, 3 * LINES_A_PIECE))
        return time.monotonic() - began_s

    def kill(self, what: str) -> None:
        self.order.append(what)
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


def _restart(coordinator: CoordinatorProcess) -> None:
    coordinator.kill()
    coordinator.start()
