"""The two programs that are timed, as processes that answer one command at a time, each within a limit."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.line_program import LineProgram
from tests.oracle import jars

OURS, JVM = "ours", "JVM"
HARNESS = Path(__file__).parent / "Leader.java"
LONGEST_RUN_S = 60.0
_LONGEST_ANSWER_S = 120.0
_LOOK_EVERY_S = 0.5
_MAIN = "org.apache.kafka.streams.processor.internals.Leader"
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Milliseconds of one rebalance. `cpu`: of the leader's thread; `process_cpu`: with GC and JIT of a JVM.

    `placing_cpu`, `placing_wall`: the part of the task assignor. `over`: it was stopped, and the limit stands for each.
    """

    cpu: float
    wall: float
    process_cpu: float
    placing_cpu: float
    placing_wall: float
    over: bool = False

    @classmethod
    def stopped_after(cls, limit_s: float) -> RunTimes:
        limit_ms = limit_s * 1000
        return cls(limit_ms, limit_ms, limit_ms, limit_ms, limit_ms, over=True)

    @classmethod
    def median_of(cls, runs: Sequence[RunTimes]) -> RunTimes:
        """Of each time by itself; stopped when one of them was."""
        stopped = next((run for run in runs if run.over), None)
        return stopped or cls(
            median(run.cpu for run in runs),
            median(run.wall for run in runs),
            median(run.process_cpu for run in runs),
            median(run.placing_cpu for run in runs),
            median(run.placing_wall for run in runs),
        )


@dataclass(frozen=True, slots=True)
class CodecTimes:
    """Of one pass over the messages of all members."""

    size_bytes: int
    cpu_ms: float
    wall_ms: float


class Contender(LineProgram):
    """One process with one group. A run that is not done within the limit ends it."""

    def __init__(self, command: Sequence[str], limit_s: float = LONGEST_RUN_S) -> None:
        super().__init__(command)
        self._limit_s = limit_s
        self._stopped = threading.Event()

    def run(self) -> RunTimes:
        """One rebalance, or none when an earlier one was stopped: the limit then stands for both."""
        answer = None if self._stopped.is_set() else self._answer("run", self._limit_s)
        if answer is None:
            return RunTimes.stopped_after(self._limit_s)
        cpu, wall, process_cpu, placing_cpu, placing_wall = (int(number) / 1e6 for number in answer.split())
        return RunTimes(cpu, wall, process_cpu, placing_cpu, placing_wall)

    def codec(self, operation: str) -> CodecTimes:
        """One pass over the messages of all members, either way; assignments are those that the last run sent."""
        size, cpu_ns, wall_ns, _ = map(int, self._ask(f"codec {operation}").split())
        return CodecTimes(size, cpu_ns / 1e6, wall_ns / 1e6)

    def digests(self, file: Path) -> Mapping[str, tuple[int, str]]:
        """Of what the last run sent: by member the size in bytes, and the SHA-256. `file`: where to write them."""
        self._ask(f"digests {file}")
        rows = (line.split() for line in file.read_text(encoding="ascii").splitlines())
        return {member_id: (int(size), digest) for member_id, size, digest in rows}

    def peak_memory(self) -> int:
        """In bytes; ours only."""
        return int(self._ask("memory"))

    def wait_until_ready(self) -> None:
        """The group is read: what is asked next is timed against its own limit."""
        self._ask("ready")

    def _ask(self, command: str) -> str:
        answer = self._answer(command, _LONGEST_ANSWER_S)
        assert answer is not None, f"{command!r} was not answered within {_LONGEST_ANSWER_S:g} s"
        return answer

    def _answer(self, command: str, limit_s: float) -> str | None:
        """None: not within the limit; the process is ended."""
        answered = threading.Event()
        watchdog = threading.Thread(target=self._watch, args=(answered, limit_s))
        watchdog.start()
        try:
            answer = self.ask(command)
        finally:
            answered.set()
            watchdog.join()
        if answer is None and not self._stopped.is_set():
            raise AssertionError(f"{command!r} has no answer: {self.last_words()}")
        return answer

    def _watch(self, answered: threading.Event, limit_s: float) -> None:
        """End the process after that time, but not one that other programs keep from running: it has to have used as
        much CPU, or five times as much time.
        """
        pid = self.pid
        until_cpu_s = cpu_seconds(pid) + limit_s
        if answered.wait(limit_s):
            return
        until = time.monotonic() + 4 * limit_s
        while cpu_seconds(pid) < until_cpu_s and time.monotonic() < until and not answered.wait(_LOOK_EVERY_S):
            pass
        if not answered.is_set():
            self._stopped.set()
            self.kill()


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process, from Linux's /proc; infinite without it: then the clock alone counts."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ours(group_file: Path) -> Contender:
    """Python as it is, on the file for Python."""
    return _ready(Contender([sys.executable, "-m", "benchmarks.jvm_leader.leader", str(group_file)]))


def jvm(group_file: Path) -> Contender:
    """A JVM with its default settings, on the file for Java. Raises JarsUnavailable."""
    command = [jars.java(), _QUIET, "-cp", jars.compiled(HARNESS), _MAIN, str(group_file)]
    return _ready(Contender(command))


def _ready(contender: Contender) -> Contender:
    contender.wait_until_ready()
    return contender
