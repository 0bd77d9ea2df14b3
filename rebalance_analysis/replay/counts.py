"""The counts of a replay, as `assignor assign --check` counts lines, and sums and means of the measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from spark_engine.batch.work import REFUSED


@dataclass(slots=True)
class Counts:
    """Numbers of lines, counted as `assignor assign --check` does, except that a line without a recorded output counts
    as a rebalance: `nothing_recorded`. `not_compared`: led by a leader other than Kafka Streams 4.3.1.
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
        theirs = asdict(other)
        return Counts(**{name: count + theirs[name] for name, count in asdict(self).items()})


@dataclass(slots=True)
class Mean:
    """A mean over the rebalances that have the number."""

    sum: float = 0.0
    count: int = 0

    def add(self, value: object) -> None:
        if isinstance(value, int | float):
            self.sum += value
            self.count += 1

    @property
    def value(self) -> float | None:
        return round(self.sum / self.count, 4) if self.count else None


@dataclass(slots=True)
class MeasureSums:
    """What the rebalances did. `measured`: those that ended with a placement; the fields after it are over them.

    `records_to_restore`: over rebalances in which all lags are known; `cross_rack_reads`: all racks.
    """

    rounds: int = 0
    errors: int = 0
    probing: int = 0
    followup: int = 0
    measured: int = 0
    active_moved: int = 0
    active_started: int = 0
    standby_moved: int = 0
    warm_ups: int = 0
    records_to_restore: int = 0
    cross_rack_reads: int = 0
    skew: Mean = field(default_factory=Mean)
    active_skew: Mean = field(default_factory=Mean)
    standby_coverage: Mean = field(default_factory=Mean)
    rack_spread: Mean = field(default_factory=Mean)

    def add(self, row: Mapping[str, object]) -> None:
        self.rounds += 1
        self.errors += row["error"] is not None
        self.probing += bool(row["probing"])
        self.followup += bool(row["followup"])
        if row["tasks"] is None:
            return
        self.measured += 1
        self.active_moved += _number(row["active_moved"])
        self.active_started += _number(row["active_started"])
        self.standby_moved += _number(row["standby_moved"])
        self.warm_ups += _number(row["warm_ups"])
        self.records_to_restore += _number(row["records_to_restore"])
        self.cross_rack_reads += _number(row["cross_rack_reads"])
        self.skew.add(row["skew"])
        self.active_skew.add(row["active_skew"])
        self.standby_coverage.add(row["standby_coverage"])
        self.rack_spread.add(row["rack_spread"])

    def document(self) -> dict[str, object]:
        means = ("skew", "active_skew", "standby_coverage", "rack_spread")
        sums = {name: value for name, value in asdict(self).items() if name not in means}
        return {**sums, **{f"mean_{name}": getattr(self, name).value for name in means}}


@dataclass(slots=True)
class Beside:
    """The rebalances that have measures both as recorded and as run now."""

    rounds: int = 0
    recorded_active_moved: int = 0
    recorded_standby_moved: int = 0
    recorded_skew: Mean = field(default_factory=Mean)
    active_moved: int = 0
    standby_moved: int = 0
    skew: Mean = field(default_factory=Mean)

    def add(self, row: Mapping[str, object]) -> None:
        if row["tasks"] is None or row["recorded_skew"] is None:
            return
        self.rounds += 1
        self.recorded_active_moved += _number(row["recorded_active_moved"])
        self.recorded_standby_moved += _number(row["recorded_standby_moved"])
        self.recorded_skew.add(row["recorded_skew"])
        self.active_moved += _number(row["active_moved"])
        self.standby_moved += _number(row["standby_moved"])
        self.skew.add(row["skew"])

    def document(self) -> dict[str, object]:
        return {
            "rounds": self.rounds,
            "recorded": {
                "active_moved": self.recorded_active_moved,
                "standby_moved": self.recorded_standby_moved,
                "mean_skew": self.recorded_skew.value,
            },
            "now": {
                "active_moved": self.active_moved,
                "standby_moved": self.standby_moved,
                "mean_skew": self.skew.value,
            },
        }


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
