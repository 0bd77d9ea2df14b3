"""Which rounds of its input a command answers for: the last one of each group, the one that is named, or all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assignor.reading.lines import Line, read_lines


@dataclass(frozen=True, slots=True)
class ChosenRebalances:
    """`id`, `group`: None for any. `all`: every round instead of the last one of each group.

    The last is the one with the latest `now_ms`, of equal ones (and of placements, which have no time and no group) the
    one that is read last: the files of a history may come in any order.
    """

    files: tuple[str, ...]
    id: str | None = None
    group: str | None = None
    all: bool = False

    def lines(self) -> Iterator[Line]:
        """A line that is no JSON is always among them, to be complained of. Raises InputError for an unusable file."""
        last: dict[str, tuple[int, Line]] = {}
        for line in read_lines(self.files):
            if line.document is None:
                yield line
                continue
            if self.id is not None and line.document.get("id") != self.id:
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
