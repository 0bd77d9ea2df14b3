"""What a replay came to, read from its files: for `summary.json` and for the tables on stdout.

The files are read some thousands of rows at a time; only one entry per input is kept.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

import pyarrow.parquet as pq

from rebalance_analysis.replay.counts import Beside, Counts, MeasureSums
from rebalance_analysis.replay.rebalance_rows import COMPUTE_COLUMN
from rebalance_analysis.replay.replay_work import place
from spark_engine.batch.work import REFUSED, RunOutcome

_WIDTH = math.log(1.01)
_LOWEST_MS = 1e-3
_ROWS_AT_ONCE = 4096
_DIFFERENCES_SHOWN = 10
_REFUSALS_SHOWN = 50
_COLUMNS = [
    "input",
    "line",
    "id",
    "led_by",
    "compared",
    "equal",
    "bytes_equal",
    "difference",
    "error",
    "probing",
    "followup",
    "tasks",
    "active_moved",
    "active_started",
    "standby_moved",
    "warm_ups",
    "records_to_restore",
    "skew",
    "active_skew",
    "standby_coverage",
    "rack_spread",
    "cross_rack_reads",
    "recorded_active_moved",
    "recorded_standby_moved",
    "recorded_skew",
]


class ComputeTimes:
    """Compute times in milliseconds, counted in classes of 1 %: quantiles of millions of values in a few kilobytes."""

    def __init__(self) -> None:
        self._classes: Counter[int] = Counter()
        self._total_ms = 0.0
        self._max_ms = 0.0

    def add(self, milliseconds: float) -> None:
        self._classes[round(math.log(max(milliseconds, _LOWEST_MS)) / _WIDTH)] += 1
        self._total_ms += milliseconds
        self._max_ms = max(self._max_ms, milliseconds)

    def quantile(self, share: float) -> float | None:
        """The time within which this share of the rebalances was computed, None without any."""
        rank = share * self._classes.total()
        passed = 0
        for each in sorted(self._classes):
            passed += self._classes[each]
            if passed >= rank:
                return min(math.exp(each * _WIDTH), self._max_ms)
        return None

    def document(self) -> dict[str, object]:
        rounded = {name: self.quantile(share) for name, share in (("median", 0.5), ("p95", 0.95))}
        return {
            **{name: None if value is None else round(value, 3) for name, value in rounded.items()},
            "max": round(self._max_ms, 3),
            "total": round(self._total_ms, 1),
        }


@dataclass(slots=True)
class Summary:
    """`differences`: the first ten, as text. `refusals`: reason to its number of lines, at most 50 reasons.

    `changes`: as a document, empty when the rebalances were run as recorded.
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
        """The counts over all inputs."""
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
        """Sort by the order of `sources`. A database among them is one input per group."""
        order = {source: number for number, source in enumerate(dict.fromkeys(sources))}

        def number_of(name: str) -> int:
            return order.get(name, order.get(name.rpartition(":")[0], len(order)))

        self.inputs = {name: self.inputs[name] for name in sorted(self.inputs, key=number_of)}

    def _of_input(self, name: object) -> Counts:
        return self.inputs.setdefault(str(name), Counts())


def summarized(outcome: RunOutcome, changes: Mapping[str, object], sources: Iterable[str] = ()) -> Summary:
    """Read the files of a complete run. `sources`: the inputs, in the order to show them."""
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
