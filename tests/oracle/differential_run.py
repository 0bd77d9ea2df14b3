"""One run of fresh cases against Kafka: its seed, how many, what differed, and the file in which that is kept.

ASSIGNOR_ORACLE_SEED runs the cases of an earlier run again; without it every run has a seed of its own.
ASSIGNOR_ORACLE_CASES is how many rebalances and placements a run has together, of any kind; half as many more have a
rack-aware strategy, and half as many an assignor of the public interface. What differs goes into
`build/oracle/failures`, a line with Kafka's output each, so that `assignor assign --check` shows the difference.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import SystemRandom

from assignor.task_assignors.registry import task_assignor_named
from rebalance_analysis.rerun import RerunRebalance, run
from tests.oracle.generated_configs import Groups, has_defined_bytes, is_custom
from tests.oracle.oracle import FAILURES, HARNESS, Line, Oracle, OracleFault
from tests.told import Tell

DEFAULT_CASES = 2500
_FAILURES_KEPT = 50
_FAILURES_SHOWN = 3
_LONGEST_SHOWN = 400


def cases_of_this_run(groups: Groups = Groups.ANY) -> int:
    """Rebalances and placements together."""
    cases = int(os.environ.get("ASSIGNOR_ORACLE_CASES", DEFAULT_CASES))
    return cases if groups is Groups.ANY else cases // 2


def seed_of_this_run() -> int:
    return int(os.environ.get("ASSIGNOR_ORACLE_SEED") or SystemRandom().getrandbits(32))


@dataclass(slots=True)
class DifferentialRun:
    """`kind`: rebalances, placements or codec, and which of them. `ask_kafka`: a line in, the same with Kafka's output.

    `errors`: answers in which Kafka's leader threw; they are equal when class, message and cause are.
    `features`: how often what was seen in Kafka's answers, for the reader.
    """

    kind: str
    ask_kafka: Callable[[Line], Line]
    seed: int = field(default_factory=seed_of_this_run)
    compared: int = 0
    compared_bytes: int = 0
    equal_bytes: int = 0
    errors: int = 0
    equal_errors: int = 0
    features: Counter[str] = field(default_factory=Counter)
    _failed: list[tuple[Line, str]] = field(default_factory=list)

    def ask(self, line: Line) -> Line:
        """As `ask_kafka`; a line that gets no answer is kept as well."""
        try:
            return self.ask_kafka(line)
        except OracleFault as fault:
            self._failed.append((line, "no answer of the harness"))
            raise OracleFault(f"seed {self.seed}, kept in {self._save()}: {fault}") from fault

    def compare(self, line: Line) -> None:
        """`line` has Kafka's output; this project's own leader decides the same line."""
        self.compared += 1
        try:
            ran = run(line, task_assignor_named)
            comparison = ran.comparison()
        except Exception as error:  # whatever it is, the other cases are still of interest
            self._failed.append((line, f"raised {type(error).__name__}: {error}"))
            return
        assert comparison is not None, "a generated line is always to be compared"
        if isinstance(ran, RerunRebalance):
            self.compared_bytes += 1
            self.equal_bytes += comparison.bytes_equal
            if comparison.equal and not comparison.bytes_equal and has_defined_bytes(line["input"]["assignor"]):
                self._failed.append((line, "equal only after decoding"))
        differences = (*comparison.differences, *comparison.error_differences)
        self.errors += comparison.is_error
        self.equal_errors += comparison.is_error and not differences
        if differences:
            self._failed.append((line, "; ".join(differences)))

    def note_kind(self, assignor: str, in_racks: bool) -> None:
        """For the reader of the figures. `in_racks`: whether with a rack-aware strategy."""
        custom = is_custom(assignor)
        self.features[assignor.rpartition(":")[2]] += 1
        self.features["with a rack-aware strategy"] += in_racks
        self.features["with an assignor of the public interface"] += custom
        self.features["with both"] += in_racks and custom

    def failed(self, line: Line, difference: str) -> None:
        self._failed.append((line, difference))

    def histories(self, cases: int, history: Callable[[str, Callable[[Line], Line]], Iterator[Line]]) -> Iterator[Line]:
        """Rounds of one group after the other, until so many were compared. `history`: takes a seed and `ask`."""
        for number in count():
            if self.compared >= cases:
                return
            self.features["groups"] += 1
            yield from history(f"{self.seed}-{number}", self.ask)

    def as_text(self) -> str:
        of_bytes = f", {self.equal_bytes} of {self.compared_bytes} to the byte" if self.compared_bytes else ""
        of_errors = f", {self.equal_errors} of {self.errors} errors in class, message and cause" if self.errors else ""
        seen = "".join(f"; {count} {feature}" for feature, count in sorted(self.features.items()) if count)
        equal = self.compared - len(self._failed)
        return f"{self.kind}: seed {self.seed}: {equal} of {self.compared} equal{of_bytes}{of_errors}{seen}"

    def check(self) -> None:
        """Raises AssertionError, with file, seed and ids, when anything differed."""
        if not self._failed:
            return
        path = self._save()
        shown = [f"  {line['id']}: {text[:_LONGEST_SHOWN]}" for line, text in self._failed[:_FAILURES_SHOWN]]
        raise AssertionError(
            f"{len(self._failed)} of {self.compared} {self.kind} are not as in Kafka; kept in {path}; "
            f"ASSIGNOR_ORACLE_SEED={self.seed} runs them again\n" + "\n".join(shown)
        )

    def _save(self) -> Path:
        FAILURES.mkdir(parents=True, exist_ok=True)
        path = FAILURES / f"{self.kind.replace(' ', '-')}-{self.seed}.jsonl"
        lines = [json.dumps(line, separators=(",", ":")) for line, _ in self._failed[:_FAILURES_KEPT]]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path


@contextmanager
def fresh_cases(kind: str, tell: Tell, harness: Sequence[Path] = HARNESS) -> Iterator[DifferentialRun]:
    """A run against one Java process. Prints its figures at the end, and fails when anything differed."""
    with Oracle(harness=harness) as oracle:
        fresh = DifferentialRun(kind, oracle.ask)
        yield fresh
    tell(fresh.as_text())
    fresh.check()
