"""Computes the summary of a replay from its result files, for `summary.json` and for the tables on stdout. The summary
counts lines in the same way as `assignor assign --check`. Reads the result files in batches of some thousand rows. Only
the totals of each input are kept in memory.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field

import pyarrow.parquet as pq

from rebalance_analysis.replay.rebalance_rows import COMPUTE_COLUMN, SCHEMA
from rebalance_analysis.replay.replay_work import place
from spark_engine.batch.work import REFUSED, RunOutcome

_WIDTH = math.log(1.01)
_LOWEST_MS = 1e-3
_ROWS_AT_ONCE = 4096
_DIFFERENCES_SHOWN = 10
_REFUSALS_SHOWN = 50
_COLUMNS = [name for name in SCHEMA.names if name not in ("thread_loads", COMPUTE_COLUMN)]


@dataclass(slots=True)
class Counts:
    """Numbers of lines, counted in the same way as by `assignor assign --check`. `nothing_recorded`: the number of
    lines without a recorded output. `not_compared`: the number of rebalances whose leader was not Kafka Streams 4.3.1.
    """

    total: int = 0
    compared: int = 0
    equal_after_decoding: int = 0
    compared_bytes: int = 0
    equal_to_the_byte: int = 0
    not_compared: int = 0
    nothing_recorded: int = 0
    refused: int = 0
    unusable: int = 0

    def add_row(self, row: Mapping[str, object]) -> None:
        self.total += 1
        if row["compared"]:
            self.compared += 1
            self.equal_after_decoding += bool(row["equal"])
            self.compared_bytes += row["bytes_equal"] is not None
            self.equal_to_the_byte += bool(row["bytes_equal"])
        elif row["led_by"] is not None:
            self.not_compared += 1
        else:
            self.nothing_recorded += 1

    def add_reject(self, kind: str) -> None:
        self.total += 1
        if kind == REFUSED:
            self.refused += 1
        else:
            self.unusable += 1

    @property
    def all_equal(self) -> bool:
        return self.equal_after_decoding == self.compared and not self.refused

    def plus(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(astuple(self), astuple(other), strict=True)))


class ColumnSums:
    """Computes sums and means of columns. Ignores values that are not numbers."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, float] = defaultdict(int)
        self._counts: Counter[str] = Counter()

    def add(self, row: Mapping[str, object], columns: Iterable[str]) -> None:
        for column in columns:
            value = row[column]
            if isinstance(value, int | float):
                self._sums[column] += value
                self._counts[column] += 1

    def sums(self, columns: Iterable[str]) -> dict[str, float]:
        return {column: self._sums[column] for column in columns}

    def mean(self, column: str) -> float | None:
        count = self._counts[column]
        return round(self._sums[column] / count, 4) if count else None


_SUMMED = ("active_moved", "active_started", "standby_moved", "warm_ups", "records_to_restore", "cross_rack_reads")
_AVERAGED = ("skew", "active_skew", "standby_coverage", "rack_spread")


@dataclass(slots=True)
class MeasureSums:
    """Computes sums and means of the measures, over all rebalances that have measures. `measured`: the number of
    rebalances that have measures.

    The sum of `records_to_restore` includes only rebalances in which all lags are known. The sum of `cross_rack_reads`
    includes only rebalances in which all racks are known.
    """

    rounds: int = 0
    errors: int = 0
    probing: int = 0
    followup: int = 0
    measured: int = 0
    columns: ColumnSums = field(default_factory=ColumnSums)

    def add(self, row: Mapping[str, object]) -> None:
        self.rounds += 1
        self.errors += row["error"] is not None
        self.probing += bool(row["probing"])
        self.followup += bool(row["followup"])
        if row["tasks"] is not None:
            self.measured += 1
            self.columns.add(row, (*_SUMMED, *_AVERAGED))

    def document(self) -> dict[str, object]:
        return {
            "rounds": self.rounds,
            "errors": self.errors,
            "probing": self.probing,
            "followup": self.followup,
            "measured": self.measured,
            **self.columns.sums(_SUMMED),
            **{f"mean_{column}": self.columns.mean(column) for column in _AVERAGED},
        }


_MOVED = ("active_moved", "standby_moved")


@dataclass(slots=True)
class Beside:
    """Adds up the measures of recorded placements and of their reruns, for comparison. The sums include only rebalances
    that have measures of both placements.
    """

    rounds: int = 0
    columns: ColumnSums = field(default_factory=ColumnSums)

    def add(self, row: Mapping[str, object]) -> None:
        if row["tasks"] is not None and row["recorded_skew"] is not None:
            self.rounds += 1
            self.columns.add(row, [f"{prefix}{name}" for prefix in ("recorded_", "") for name in (*_MOVED, "skew")])

    def document(self) -> dict[str, object]:
        recorded = self.columns.sums(f"recorded_{name}" for name in _MOVED)
        return {
            "rounds": self.rounds,
            "recorded": {
                **{name.removeprefix("recorded_"): count for name, count in recorded.items()},
                "mean_skew": self.columns.mean("recorded_skew"),
            },
            "now": {**self.columns.sums(_MOVED), "mean_skew": self.columns.mean("skew")},
        }


class ComputeTimes:
    """A histogram of compute times in milliseconds. Each class of the histogram is 1 % wide. So the histogram of
    millions of values needs only a few kilobytes.
    """

    def __init__(self) -> None:
        self._classes: Counter[int] = Counter()
        self._total_ms = 0.0
        self._max_ms = 0.0

    def add(self, milliseconds: float) -> None:
        self._classes[round(math.log(max(milliseconds, _LOWEST_MS)) / _WIDTH)] += 1
        self._total_ms += milliseconds
        self._max_ms = max(self._max_ms, milliseconds)

    def quantile(self, share: float) -> float | None:
        """Returns a quantile of the compute times; None if there are no rebalances. `share`: the fraction of rebalances
        that took at most the returned time.
        """
        rank = share * self._classes.total()
        passed = 0
        for each in sorted(self._classes):
            passed += self._classes[each]
            if passed >= rank:
                return min(math.exp(each * _WIDTH), self._max_ms)
        return None

    def document(self) -> dict[str, object]:
        median, p95 = self.quantile(0.5), self.quantile(0.95)
        return {
            "median": None if median is None else round(median, 3),
            "p95": None if p95 is None else round(p95, 3),
            "max": round(self._max_ms, 3),
            "total": round(self._total_ms, 1),
        }


@dataclass(slots=True)
class Summary:
    """The summary of a replay. `differences`: texts about the first ten differences from recordings. `refusals`: the
    number of refused lines for each reason; at most 50 reasons are listed. `changes`: the changes of the replay as a
    document; empty for a replay without changes.
    """

    changes: Mapping[str, object]
    inputs: dict[str, Counts] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    measures: MeasureSums = field(default_factory=MeasureSums)
    beside: Beside = field(default_factory=Beside)
    compute_times: ComputeTimes = field(default_factory=ComputeTimes)

    @property
    def counts(self) -> Counts:
        """The counts of lines over all inputs."""
        total = Counts()
        for counts in self.inputs.values():
            total = total.plus(counts)
        return total

    def add_row(self, row: Mapping[str, object]) -> None:
        self._of_input(row["input"]).add_row(row)
        self.measures.add(row)
        self.beside.add(row)
        if row["difference"] is not None and len(self.differences) < _DIFFERENCES_SHOWN:
            line = "" if row["line"] is None else f":{row['line']}"
            self.differences.append(f"{row['input']}{line} {row['id']}: {row['difference']}")

    def add_reject(self, reject: Mapping[str, str]) -> None:
        self._of_input(place(reject["where"])[0]).add_reject(reject["kind"])
        reason = reject["reason"]
        if reject["kind"] == REFUSED and (reason in self.refusals or len(self.refusals) < _REFUSALS_SHOWN):
            self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def document(self) -> dict[str, object]:
        counts = self.counts
        return {
            **asdict(counts),
            "all_equal": counts.all_equal,
            "differences": self.differences,
            "refusals": self.refusals,
            "changes": dict(self.changes),
            "measures": self.measures.document(),
            "recorded_and_now": self.beside.document(),
            "compute_ms": self.compute_times.document(),
            "inputs": [{"input": name, **asdict(of_input)} for name, of_input in self.inputs.items()],
        }

    def sort_inputs(self, sources: Iterable[str]) -> None:
        """Sorts the inputs in the order of the sources. A source that is a database has one input for each group."""
        order = {source: number for number, source in enumerate(dict.fromkeys(sources))}

        def number_of(name: str) -> int:
            return order.get(name, order.get(name.rpartition(":")[0], len(order)))

        self.inputs = {name: self.inputs[name] for name in sorted(self.inputs, key=number_of)}

    def _of_input(self, name: object) -> Counts:
        return self.inputs.setdefault(str(name), Counts())


def summarized(outcome: RunOutcome, changes: Mapping[str, object], sources: Iterable[str] = ()) -> Summary:
    """Computes the summary from the files of a complete run. `sources`: the inputs, in the order in which the summary
    lists them.
    """
    summary = Summary(changes)
    with pq.ParquetFile(outcome.rows_file) as rows:
        for batch in rows.iter_batches(_ROWS_AT_ONCE, columns=_COLUMNS):
            for row in batch.to_pylist():
                summary.add_row(row)
    with outcome.rejects_file.open(encoding="utf-8") as rejects:
        for line in rejects:
            summary.add_reject(json.loads(line))
    for milliseconds in _compute_times(outcome):
        summary.compute_times.add(milliseconds)
    summary.sort_inputs(sources)
    return summary


def _compute_times(outcome: RunOutcome) -> Iterator[float]:
    if outcome.timings_file is None:
        return
    with pq.ParquetFile(outcome.timings_file) as timings:
        for batch in timings.iter_batches(_ROWS_AT_ONCE, columns=[COMPUTE_COLUMN]):
            yield from batch.column(0).to_pylist()
