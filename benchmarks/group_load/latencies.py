"""Latencies with the time at which each was seen, so that those of a phase can be told from the rest."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Percentiles(NamedTuple):
    """In milliseconds. `seen` 0: nothing was seen, and the others are 0."""

    seen: int
    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, milliseconds: Iterable[float]) -> Percentiles:
        values = sorted(milliseconds)
        if not values:
            return cls(0, 0.0, 0.0, 0.0)
        last = len(values) - 1
        return cls(len(values), values[round(last * 0.5)], values[round(last * 0.99)], values[-1])

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f}, p99 {self.p99:.1f}, max {self.most:.1f} ms of {self.seen:,}"


@dataclass(slots=True)
class Latencies:
    """`ended`: seconds of the monotonic clock; `lasted`: milliseconds."""

    ended: array[float] = field(default_factory=lambda: array("d"))
    lasted: array[float] = field(default_factory=lambda: array("d"))

    def add(self, begun: float, ended: float, every: float | None = None) -> None:
        """`every`: the caller would have sent one each so many seconds, had he not waited for this answer. Those that
        he could not send count as well, each with the time that it would have waited.
        """
        lasted = ended - begun
        self.ended.append(ended)
        self.lasted.append(lasted * 1_000)
        while every is not None and lasted > every:
            lasted -= every
            self.ended.append(ended)
            self.lasted.append(lasted * 1_000)

    def between(self, begun: float, ended: float) -> Percentiles:
        """Of the calls that were under way at any time between the two."""
        return Percentiles.of(
            lasted
            for at, lasted in zip(self.ended, self.lasted, strict=True)
            if at >= begun and at - lasted / 1_000 <= ended
        )

    def whole(self) -> Percentiles:
        return Percentiles.of(self.lasted)

    def extend(self, other: Latencies) -> None:
        self.ended.extend(other.ended)
        self.lasted.extend(other.lasted)
