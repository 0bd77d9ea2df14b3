"""One run of fresh cases against the classes of every Kafka release: its seed, how many, what differed, and the file in
which that is kept.

Every release is asked the same cases. The rounds of a group follow the answers of one of them, of each in turn.
ASSIGNOR_ORACLE_SEED runs the cases of an earlier run again; without it every run has a seed of its own.
ASSIGNOR_ORACLE_CASES is the number of cases of each kind. The cases that differ go into `build/oracle/failures`, a line
with Kafka's output and its `kafka_version` each, so that `assignor assign --check` shows the difference.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import SystemRandom

from assignor.task_assignors.registry import task_assignor_named
from rebalance_analysis.rerun import RerunRebalance, run
from tests.oracle.generated_configs import has_defined_bytes, is_custom
from tests.oracle.jars import RELEASES
from tests.oracle.oracle import FAILURES, HARNESS, Line, Oracle, OracleFault
from tests.told import Tell

DEFAULT_CASES = 1000
_FAILURES_KEPT = 50
_FAILURES_SHOWN = 3
_LONGEST_SHOWN = 400


Ask = Callable[[Line], Line]
"""A line in, the same with Kafka's output."""


def cases_of_this_run() -> int:
    """The number of cases of one kind."""
    return int(os.environ.get("ASSIGNOR_ORACLE_CASES", DEFAULT_CASES))


def seed_of_this_run() -> int:
    return int(os.environ.get("ASSIGNOR_ORACLE_SEED") or SystemRandom().getrandbits(32))


@dataclass(slots=True)
class Figures:
    """The cases of one release. `errors`: answers in which Kafka threw; they are equal when class, message and cause
    are.
    """

    compared: int = 0
    different: int = 0
    compared_bytes: int = 0
    equal_bytes: int = 0
    errors: int = 0
    equal_errors: int = 0

    def as_text(self) -> str:
        of_bytes = f", {self.equal_bytes} of {self.compared_bytes} to the byte" if self.compared_bytes else ""
        of_errors = f", {self.equal_errors} of {self.errors} errors in class, message and cause" if self.errors else ""
        return f"{self.compared - self.different} of {self.compared} equal{of_bytes}{of_errors}"


@dataclass(slots=True)
class DifferentialRun:
    """`kind`: rebalances, placements or codec, and which of them. `kafka`: by release, the classes that answer.

    `features`: how often what was seen in Kafka's answers, for the reader.
    """

    kind: str
    kafka: Mapping[str, Ask]
    seed: int = field(default_factory=seed_of_this_run)
    figures: dict[str, Figures] = field(default_factory=dict)
    features: Counter[str] = field(default_factory=Counter)
    _failed: list[tuple[Line, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.figures = {release: Figures() for release in self.kafka}

    def ask(self, release: str, line: Line) -> Line:
        """The line with the output of a release and its `kafka_version`; a line that gets no answer is kept as well."""
        line = {**line, "kafka_version": release}
        try:
            return self.kafka[release](line)
        except OracleFault as fault:
            self._failed.append((line, "no answer of the harness"))
            raise OracleFault(f"seed {self.seed}, kept in {self._save()}: {fault}") from fault

    def answers(self, cases: Sequence[Line]) -> Generator[tuple[Line, ...]]:
        """Each case with the output of every release. The releases answer at the same time, ahead of the caller."""
        threads = {release: ThreadPoolExecutor(1) for release in self.kafka}
        try:
            asked = [thread.map(partial(self.ask, release), cases) for release, thread in threads.items()]
            yield from zip(*asked, strict=True)
        finally:
            for thread in threads.values():
                thread.shutdown(cancel_futures=True)

    def figures_of(self, line: Line) -> Figures:
        """Of the release that answered."""
        return self.figures[line["kafka_version"]]

    def has_compared(self, cases: int) -> bool:
        """Whether so many cases of every release were compared."""
        return all(figures.compared >= cases for figures in self.figures.values())

    def compare(self, line: Line) -> None:
        """`line` has Kafka's output; this project's own leader decides the same line."""
        figures = self.figures_of(line)
        figures.compared += 1
        try:
            ran = run(line, task_assignor_named)
            comparison = ran.comparison()
        except Exception as error:  # whatever it is, the other cases are still of interest
            self.failed(line, f"raised {type(error).__name__}: {error}")
            return
        assert comparison is not None, "a generated line is always to be compared"
        differences = [*comparison.differences, *comparison.error_differences]
        figures.errors += comparison.is_error
        figures.equal_errors += comparison.is_error and not differences
        if isinstance(ran, RerunRebalance):
            figures.compared_bytes += 1
            figures.equal_bytes += comparison.bytes_equal
            if comparison.equal and not comparison.bytes_equal and has_defined_bytes(line["input"]["assignor"]):
                differences.append("equal only after decoding")
        if differences:
            self.failed(line, "; ".join(differences))

    def note_kind(self, assignor: str, in_racks: bool) -> None:
        """For the reader of the figures. `in_racks`: whether with a rack-aware strategy."""
        custom = is_custom(assignor)
        self.features[assignor.rpartition(":")[2]] += 1
        self.features["with a rack-aware strategy"] += in_racks
        self.features["with an assignor of the public interface"] += custom
        self.features["with both"] += in_racks and custom

    def failed(self, line: Line, difference: str) -> None:
        self.figures_of(line).different += 1
        self._failed.append((line, difference))

    def histories(self, cases: int, history: Callable[[str, Ask], Iterator[Line]]) -> Iterator[Line]:
        """Rounds of one group after the other, each with the output of every release, until so many were compared.
        `history`: takes a seed and how to ask.

        The releases whose answers the group does not follow answer meanwhile, in one thread: an Oracle serves one
        caller at a time.
        """
        releases = list(self.kafka)
        with ThreadPoolExecutor(1) as meanwhile:
            for number in count():
                if self.has_compared(cases):
                    return
                self.features["groups"] += 1
                followed = releases[number % len(releases)]
                answers: list[tuple[Line, Future[Line]]] = []
                for line in history(f"{self.seed}-{number}", partial(self.ask, followed)):
                    answers += [
                        (line, meanwhile.submit(self.ask, release, line)) for release in releases if release != followed
                    ]
                    yield line
                for line, answer in answers:
                    answered = answer.result()
                    self.features["answered otherwise by another release"] += _result(answered) != _result(line)
                    yield answered

    def as_text(self) -> str:
        compared = "".join(f"; {release}: {figures.as_text()}" for release, figures in self.figures.items())
        seen = "".join(f"; {count} {feature}" for feature, count in sorted(self.features.items()) if count)
        return f"{self.kind}: seed {self.seed}{compared}{seen}"

    def check(self) -> None:
        """Raises AssertionError, with file, seed and ids, when anything differed."""
        if not self._failed:
            return
        path = self._save()
        shown = [
            f"  {line['id']} of {line['kafka_version']}: {text[:_LONGEST_SHOWN]}"
            for line, text in self._failed[:_FAILURES_SHOWN]
        ]
        compared = sum(figures.compared for figures in self.figures.values())
        raise AssertionError(
            f"{len(self._failed)} of {compared} {self.kind} are not as in Kafka; kept in {path}; "
            f"ASSIGNOR_ORACLE_SEED={self.seed} runs them again\n" + "\n".join(shown)
        )

    def _save(self) -> Path:
        FAILURES.mkdir(parents=True, exist_ok=True)
        path = FAILURES / f"{self.kind.replace(' ', '-')}-{self.seed}.jsonl"
        lines = [json.dumps(line, separators=(",", ":")) for line, _ in self._failed[:_FAILURES_KEPT]]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path


def _result(line: Line) -> tuple[object, object]:
    return line.get("output"), line.get("error")


@contextmanager
def fresh_cases(kind: str, tell: Tell, harness: Sequence[Path] = HARNESS) -> Iterator[DifferentialRun]:
    """A run against one Java process of each release. Prints its figures at the end, and fails when anything
    differed.
    """
    with ExitStack() as processes:
        oracles = {release: processes.enter_context(Oracle(harness=harness, release=release)) for release in RELEASES}
        fresh = DifferentialRun(kind, {release: oracle.ask for release, oracle in oracles.items()})
        yield fresh
    tell(fresh.as_text())
    fresh.check()
