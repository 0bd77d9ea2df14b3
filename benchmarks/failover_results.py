"""The ends that failover-defaults measures: a line of JSON each in a file that a later run continues, and a table."""

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from rich.table import Table

from benchmarks.handovers import percentile

KILLED_JVM = "SIGKILL of the JVM"
KILLED_WORKER = "SIGKILL of the Python worker"
STOPPED = "graceful stop of one instance"
DRAINED = "graceful stop of all"
GOALS: Mapping[str, str] = {
    KILLED_JVM: "500 / 1,000",
    KILLED_WORKER: "500 / 1,000",
    STOPPED: "- / 1,000",
    DRAINED: "- / 2,000",
}
"""Median and 95th percentile, in milliseconds, on the logs of this project."""
_NO_GOAL = "kafka-streams"


@dataclass(frozen=True, slots=True)
class MeasuredEnd:
    """One end, in milliseconds from the signal.

    `in_all`: until the slowest lost task, which is `task`, was processed again; of a stop of everything, until no
    member was left. The others are the steps of that task, as `Handover` has them. `spark_ended_ms`: of a stop of
    everything, until the program on Spark had ended.
    """

    part: str
    way: str
    in_all: float
    task: str | None = None
    detection: float | None = None
    rebalance: float | None = None
    restore: float | None = None
    first_record: float | None = None
    records: int | None = None
    spark_ended_ms: float | None = None


STEPS = ("detection", "rebalance", "restore", "first_record")


class MeasuredEnds:
    """All that was measured into one file, by this run and by earlier ones."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, result: MeasuredEnd) -> None:
        """On return the result survives an interruption."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def all(self) -> list[MeasuredEnd]:
        """Oldest first."""
        if not self._file.exists():
            return []
        return [MeasuredEnd(**json.loads(line)) for line in self._file.read_text(encoding="utf-8").splitlines()]

    def missing(self, part: str, times: Mapping[str, int]) -> list[str]:
        """The ways of this part that have not been measured so many times yet, by turns."""
        found = self.all()
        left = (
            [way] * (wanted - sum((one.part, one.way) == (part, way) for one in found)) for way, wanted in times.items()
        )
        return [way for turn in zip_longest(*left) for way in turn if way is not None]


def tables(results: Iterable[MeasuredEnd]) -> list[Table]:
    """One for each part, in the order in which they were first measured."""
    by_part: dict[str, list[MeasuredEnd]] = {}
    for one in results:
        by_part.setdefault(one.part, []).append(one)
    return [_table(part, of_it) for part, of_it in by_part.items()]


def _table(part: str, results: list[MeasuredEnd]) -> Table:
    table = Table(title=f"{part}: default settings, ms from the signal to the first record of the slowest lost task")
    headings = ("ended by", "times", *(step.replace("_", " ") for step in STEPS), "median", "95th", "longest", "goal")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "ended by" else "right")
    for way in GOALS:
        of_it = [one for one in results if one.way == way]
        if of_it:
            totals = [one.in_all for one in of_it]
            table.add_row(
                way,
                str(len(of_it)),
                *(_median(getattr(one, step) for one in of_it) for step in STEPS),
                _median(totals),
                f"{percentile(totals, 95):,.0f}",
                f"{max(totals):,.0f}",
                "" if part == _NO_GOAL else GOALS[way],
            )
    ended = [one.spark_ended_ms for one in results if one.spark_ended_ms is not None]
    if ended:
        table.caption = (
            f"{DRAINED}: until no member is left; until the program on Spark has ended, {_median(ended)} ms (median)"
        )
    return table


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):,.0f}" if known else ""
