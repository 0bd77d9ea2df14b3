"""How fast copies catch up, from two looks at a group; nothing is known from one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SHORTEST_SPAN_MS = 900
"""Two looks that are closer tell little."""

LONGEST_LEFT_MS = 30 * 86_400_000


@dataclass(frozen=True, slots=True)
class RestoreRates:
    """`before`: records behind by task and member at an earlier look, of copies that were behind; `before_ms` and
    `now_ms`: the two looks, equal when there was only one.
    """

    before: Mapping[tuple[str, str], int] = field(default_factory=dict)
    before_ms: int = 0
    now_ms: int = 0

    def left_ms(self, task: str, member_id: str, lag: int | None, acceptable: int) -> int | None:
        """Until the lag is acceptable; None when that is not known, or comes no nearer."""
        was = self.before.get((task, member_id))
        span_ms = self.now_ms - self.before_ms
        if was is None or lag is None or lag <= acceptable or lag >= was or span_ms < SHORTEST_SPAN_MS:
            return None
        left_ms = (lag - acceptable) * span_ms // (was - lag)
        return left_ms if left_ms <= LONGEST_LEFT_MS else None


NOTHING_SEEN = RestoreRates()


@dataclass(frozen=True, slots=True)
class LagsSeen:
    """Records behind at one look, of copies that are behind at all."""

    at_ms: int
    lags: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, document: Mapping[str, Any], at_ms: int) -> LagsSeen:
        """`document`: a group as `GET /v1/groups/{group}` answers it."""
        behind = {
            (copy["task"], copy["member_id"]): copy["lag"] for copy in document["tasks"] if (copy["lag"] or 0) > 0
        }
        return cls(at_ms, behind)

    def until(self, now_ms: int) -> RestoreRates:
        return RestoreRates(self.lags, self.at_ms, now_ms)
