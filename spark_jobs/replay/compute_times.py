"""Compute times counted in classes of 1 %: the median of millions of rebalances in some kilobytes, within 1 %."""

from __future__ import annotations

import math
from collections import Counter

_WIDTH = math.log(1.01)
_LOWEST_MS = 1e-3


class ComputeTimes:
    """Milliseconds of single rebalances."""

    def __init__(self) -> None:
        self._classes: Counter[int] = Counter()
        self._total_ms = 0.0
        self._max_ms = 0.0

    def add(self, milliseconds: float) -> None:
        self._classes[round(math.log(max(milliseconds, _LOWEST_MS)) / _WIDTH)] += 1
        self._total_ms += milliseconds
        self._max_ms = max(self._max_ms, milliseconds)

    def quantile(self, share: float) -> float | None:
        """The time that this share of the rebalances took at most; None without any."""
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
