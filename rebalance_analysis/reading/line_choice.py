"""Which of its lines a command answers for: the last rebalance of each group, the one that is named, or all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rebalance_analysis.reading.lines import Line


@dataclass(frozen=True, slots=True)
class LineChoice:
    """`id`, `group`: None for any. `all`: every rebalance instead of the last one of each group.

    The last rebalance is the one with the latest `now_ms`; of equal ones, and of placement problems, which have neither
    time nor group, the one that is read last. So the files of a history may come in any order.
    """

    id: str | None = None
    group: str | None = None
    all: bool = False

    def among(self, lines: Iterable[Line]) -> Iterator[Line]:
        """A line that is not JSON is always among them, so that the command can report it."""
        last: dict[str, tuple[int, Line]] = {}
        for line in lines:
            if line.document is None:
                yield line
                continue
            if self.id is not None and not line.has_id(self.id):
                continue
            group = line.document.get("group_id")
            if self.group is not None and group != self.group:
                continue
            if self.all:
                yield line
                continue
            now_ms = line.document.get("now_ms")
            at_ms = now_ms if isinstance(now_ms, int) else 0
            if at_ms >= last.get(str(group), (at_ms, line))[0]:
                last[str(group)] = (at_ms, line)
        for _, line in last.values():
            yield line
