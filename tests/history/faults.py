"""The faults of a run, drawn from its seed: which, when, to whom, and for how long.

Chance decides; what is drawn for somebody who has a fault already is passed over. So two runs with one seed meet the
same faults in the same order, though not at the same point of the protocol.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.history.calls import FaultLine
from tests.history.recorder import Recorder

Fault = Callable[[], AbstractContextManager[None]]
"""Happens when it is entered, and has ended when it is left."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """`weight`: how often it is drawn beside others. `longest_s`: it lasts from a tenth of that to all of it.

    `target`: who has it; nobody has two at once. `fault`: what happens.
    """

    name: str
    weight: float
    longest_s: float
    faults: Mapping[str, Fault]


@dataclass(frozen=True, slots=True)
class Drawn:
    """`at_s`: after the begin of the run."""

    at_s: float
    kind: FaultKind
    target: str
    for_s: float


def drawn(kinds: Sequence[FaultKind], seconds: float, mean_gap_s: float, chance: random.Random) -> list[Drawn]:
    """All faults of a run of so many seconds."""
    found: list[Drawn] = []
    at_s = chance.expovariate(1 / mean_gap_s)
    while at_s < seconds:
        kind = chance.choices(kinds, [each.weight for each in kinds])[0]
        target = chance.choice(sorted(kind.faults))
        found.append(Drawn(at_s, kind, target, chance.uniform(0.1, 1) * kind.longest_s))
        at_s += chance.expovariate(1 / mean_gap_s)
    return found


class FaultInjector:
    """Has faults happen and writes them down. `failures`: of the faults themselves, in words."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._busy: set[str] = set()
        self._turn = threading.Lock()
        self._under_way: list[threading.Thread] = []
        self.happened = 0
        self.failures: list[str] = []

    @contextmanager
    def spared(self, target: str) -> Iterator[bool]:
        """Whether it has no fault now; then it has none within, either."""
        is_free = self._take(target)
        try:
            yield is_free
        finally:
            if is_free:
                self._release(target)

    def have_happen(self, faults: Sequence[Drawn], stop: threading.Event) -> None:
        """Each at its time. Returns when all have ended; sooner when `stop` is set."""
        began_s = time.monotonic()
        for each in faults:
            if stop.wait(max(0.0, began_s + each.at_s - time.monotonic())):
                break
            if self._take(each.target):
                thread = threading.Thread(target=self._happen, args=(each,), name=f"fault {each.kind.name}")
                self._under_way.append(thread)
                thread.start()
        for thread in self._under_way:
            thread.join()

    def _take(self, target: str) -> bool:
        with self._turn:
            is_free = target not in self._busy
            self._busy.add(target)
            return is_free

    def _release(self, target: str) -> None:
        with self._turn:
            self._busy.discard(target)

    def _happen(self, each: Drawn) -> None:
        begin_ns = time.monotonic_ns()
        try:
            with each.kind.faults[each.target]():
                time.sleep(each.for_s)  # this is the fault, not a wait for something
        except Exception as error:
            self.failures.append(f"{each.kind.name} of {each.target}: {error!r}")
        finally:
            self._recorder.write(FaultLine(each.kind.name, each.target, begin_ns, time.monotonic_ns()))
            self.happened += 1
            self._release(each.target)
