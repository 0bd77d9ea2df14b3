"""Which member held which active task, and when: no task may have two holders at one time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from assignor.types import TaskId

FOR_EVER = float("inf")


class Holding(NamedTuple):
    """Times in seconds of one monotonic clock. `until`: FOR_EVER when the member holds the task still."""

    task: TaskId
    member: str
    since: float
    until: float = FOR_EVER


@dataclass(slots=True)
class Holdings:
    """Of any number of members. `owned_twice`: each task that a member took while another held it, as a sentence."""

    owned_twice: list[str] = field(default_factory=list)
    ended: list[Holding] = field(default_factory=list)
    _held: dict[TaskId, Holding] = field(default_factory=dict)

    def take(self, member: str, tasks: Iterable[TaskId], at: float) -> None:
        for task in tasks:
            other = self._held.get(task)
            if other is not None:
                self.owned_twice.append(f"{member} took {task} at {at:.3f}, which {other.member} held")
            self._held[task] = Holding(task, member, at)

    def drop(self, member: str, tasks: Iterable[TaskId], at: float) -> None:
        for task in tasks:
            held = self._held.get(task)
            if held is not None and held.member == member:
                self.ended.append(held._replace(until=at))
                del self._held[task]

    def all(self) -> list[Holding]:
        return [*self.ended, *self._held.values()]

    def tasks_held(self) -> int:
        return len(self._held)


def overlaps(holdings: Iterable[Holding]) -> list[str]:
    """The same finding from the holdings of several drivers, whose clock is one."""
    found = []
    last: dict[TaskId, Holding] = {}
    for holding in sorted(holdings, key=lambda each: each.since):
        before = last.get(holding.task)
        if before is not None and before.until > holding.since and before.member != holding.member:
            found.append(f"{holding.member} took {holding.task} at {holding.since:.3f}, which {before.member} held")
        if before is None or holding.until >= before.until:
            last[holding.task] = holding
    return found
