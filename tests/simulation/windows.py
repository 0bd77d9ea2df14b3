"""Faults that last: from when to when each is there, how bad it is, and whether it has struck."""

from collections.abc import Callable

from tests.simulation.faults import Fault, Kind
from tests.simulation.timeline import Timeline

Struck = Callable[[Fault], None]
"""Called once for each fault, when it first makes a difference."""


class Windows:
    """Of one thing that faults happen to. A later fault of a kind replaces an earlier one."""

    def __init__(self, timeline: Timeline, name: str, struck: Struck) -> None:
        self._timeline = timeline
        self.chance = timeline.chance(f"faults of {name}")
        self._struck = struck
        self._open: dict[Kind, tuple[int, Fault]] = {}
        self._new: set[Fault] = set()

    def open(self, fault: Fault) -> None:
        self._open[fault.kind] = self._timeline.now_ms + fault.for_ms, fault
        self._new.add(fault)

    def heal(self) -> None:
        self._open.clear()
        self._new.clear()

    @property
    def any_open(self) -> bool:
        """Whether there is anything wrong. Cheap when nothing is."""
        if self._open:
            now_ms = self._timeline.now_ms
            self._open = {kind: one for kind, one in self._open.items() if one[0] > now_ms}
        return bool(self._open)

    def is_open(self, kind: Kind) -> bool:
        """Whether it is there. It strikes."""
        return self.amount(kind) is not None

    def amount(self, kind: Kind) -> int | None:
        """None when it is not there. It strikes."""
        found = self._open.get(kind)
        if found is None or found[0] <= self._timeline.now_ms:
            return None
        self._strike(found[1])
        return found[1].amount

    def happens(self, kind: Kind) -> bool:
        """Whether it is there, and strikes this time: its amount is of a hundred."""
        found = self._open.get(kind)
        if found is None or found[0] <= self._timeline.now_ms or self.chance.random() * 100 >= found[1].amount:
            return False
        self._strike(found[1])
        return True

    def up_to(self, kind: Kind, usually_ms: float) -> float:
        """A time, at most the amount of this kind, else what it usually is."""
        amount = self.amount(kind) if self._open else None
        return self.chance.random() * (usually_ms if amount is None else amount)

    def _strike(self, fault: Fault) -> None:
        if fault in self._new:
            self._new.remove(fault)
            self._struck(fault)
