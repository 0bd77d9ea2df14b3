"""The two programs that are timed, as processes that answer one command at a time, within a limit."""

import sys
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.jvm_runtime.cells import Cell
from benchmarks.jvm_runtime.input_records import topics_of
from benchmarks.line_program import LineProgram
from tests.oracle import jars

HARNESS = Path(__file__).parent / "Instance.java"
LONGEST_ANSWER_S = 300.0
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


@dataclass(frozen=True, slots=True)
class RunFigures:
    """From when the clock started until all was committed. `records`: that were processed in the meantime.

    `process_s`: CPU seconds of the whole process, with GC and JIT of a JVM. `threads_s`: those of its stream threads.
    """

    records: int
    wall_s: float
    process_s: float
    threads_s: float

    @property
    def cpu_us(self) -> float:
        """Microseconds of the process for each record."""
        return self.process_s / self.records * 1e6

    @property
    def threads_us(self) -> float:
        """Microseconds of the stream threads for each record."""
        return self.threads_s / self.records * 1e6

    @property
    def records_a_second(self) -> float:
        return self.records / self.wall_s


class Program(LineProgram):
    """Runs instances of one application, one after the other."""

    def run(self, *words: object) -> None:
        """Until it has processed everything, which need not be committed yet. `words`: as the program takes them."""
        answer = self._ask(" ".join(map(str, ("run", *words))))
        assert answer == "processed", answer

    def end(self) -> RunFigures:
        """The figures until now. The instance is closed."""
        records, *times_ns = map(int, self._ask("end").split())
        wall_s, process_s, threads_s = (each / 1e9 for each in times_ns)
        return RunFigures(records, wall_s, process_s, threads_s)

    def _ask(self, command: str) -> str:
        """Raises AssertionError with the last words of the program when it does not answer."""
        watchdog = threading.Timer(LONGEST_ANSWER_S, self.kill)
        watchdog.start()
        try:
            answer = self.ask(command)
        finally:
            watchdog.cancel()
        if answer is None:
            raise AssertionError(f"{command!r} was not answered within {LONGEST_ANSWER_S:g} s: {self.last_words()}")
        return answer


def ours(cell: Cell, threads: int = 1) -> Program:
    """Python as it is."""
    return Program([sys.executable, "-m", "benchmarks.jvm_runtime.ours", *_arguments(cell, threads)])


def our_instances(cell: Cell, instances: int) -> Program:
    """Each is a process with one stream thread."""
    return Program([sys.executable, "-m", "benchmarks.jvm_runtime.our_instances", *_arguments(cell, instances)])


def quix(cell: Cell) -> Program:
    """Where `has_quix`."""
    return Program([sys.executable, "-m", "benchmarks.jvm_runtime.quix", *_arguments(cell, 1)])


def has_quix() -> bool:
    return find_spec("quixstreams") is not None


def kafka_streams(cell: Cell, bootstrap_servers: str, directory: Path) -> Program:
    """A JVM with its default settings and one stream thread. Raises JarsUnavailable.

    `directory`: for RocksDB's library, which nobody removes when the JVM is killed.
    """
    options = [_QUIET, f"-Djava.io.tmpdir={directory}"]
    java = [jars.java(), *options, "-cp", jars.compiled(HARNESS), HARNESS.stem]
    return Program([*java, bootstrap_servers, *_arguments(cell, 1)])


def _arguments(cell: Cell, number: int) -> list[str]:
    """`number`: of threads or instances."""
    events, *beside = topics_of(cell)
    return [cell.application, events, *(beside or ["-"]), str(cell.cache_bytes), str(number)]
