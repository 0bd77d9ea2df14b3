"""Where coordinators run: each place has an address, a machine, and the coordinator that it started last. One that
ended is started again after a while. An older one may live on beside it, without the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

from coordinator_api.store.store_errors import DatabaseOutOfReach
from tests.simulation.clocks import MachineClock
from tests.simulation.coordinated_group import GroupSetting
from tests.simulation.coordinator import SimulatedCoordinator
from tests.simulation.faults import Fault, Kind
from tests.simulation.windows import Windows

if TYPE_CHECKING:
    from tests.simulation.world import World

START_AGAIN_MS = 300
STARTED_WITHIN_MS = 1_000
"""All coordinators, in the beginning: their beats come at different times."""


class Place:
    """`coordinators`: those that are up, the one that was started last at the end. `reach`: what is wrong between that
    one and the database.
    """

    def __init__(self, world: World, number: int, lease_ms: int | None, settings: Mapping[str, GroupSetting]) -> None:
        self.number = number
        self.url = f"http://coordinator-{number}"
        self.coordinators: list[SimulatedCoordinator] = []
        self.machine = MachineClock(world.timeline, f"coordinator {number}")
        self._world = world
        self._lease_ms = lease_ms
        self._settings = settings
        self._starts = self._due = 0
        self._new_reach()
        self.start_after(0 if lease_ms is None else self.reach.chance.randint(0, STARTED_WITHIN_MS))

    @property
    def coordinator(self) -> SimulatedCoordinator | None:
        """The one that was started last, if it is up."""
        last = self.coordinators[-1] if self.coordinators else None
        return last if last is not None and last.session.reach is self.reach else None

    def connect(self, chance: Random) -> SimulatedCoordinator | None:
        """Whom a request reaches that is sent there: with an older one beside the coordinator, either."""
        if len(self.coordinators) < 2:
            return self.coordinators[0] if self.coordinators else None
        return chance.choice(self.coordinators)

    def start_after(self, delay_ms: float) -> None:
        """Unless something else is decided before."""
        self._due += 1
        due = self._due
        self._world.timeline.after(delay_ms, lambda: self._start(due))

    def kill(self, one: SimulatedCoordinator, back_after_ms: int | None) -> None:
        """`back_after_ms`: None when another one has taken its place already."""
        if one in self.coordinators:
            self.coordinators.remove(one)
            one.kill()
            self._world.rules.coordinator_failed()
            if back_after_ms is not None:
                self.start_after(back_after_ms)

    def stop(self, one: SimulatedCoordinator, back_after_ms: int) -> None:
        """In good order."""
        back_ms = self._world.timeline.now_ms + back_after_ms

        def left() -> None:
            if one in self.coordinators:
                self.coordinators.remove(one)
                self._world.rules.coordinator_failed()
                self.start_after(back_ms - self._world.timeline.now_ms)

        one.stop(left)

    def take_over(self, one: SimulatedCoordinator, fault: Fault) -> None:
        """The coordinator goes on, without the database, and a new one is started beside it."""
        one.session.reach.open(Fault(fault.at_ms, Kind.COORDINATOR_CUT, fault.target, 10 * fault.for_ms))
        self._new_reach()
        self.start_after(0)
        self._world.rules.coordinator_failed()
        self._world.timeline.after(fault.for_ms, lambda: self.kill(one, None))

    def heal(self) -> None:
        self.reach.heal()
        for one in list(self.coordinators):
            if one is self.coordinator:
                one.heal()
            else:
                self.kill(one, None)
        if self.coordinator is None:
            self.start_after(0)

    def _new_reach(self) -> None:
        self.reach = Windows(self._world.timeline, f"the database of coordinator {self.number}", self._world.struck)

    def _start(self, due: int) -> None:
        if due != self._due or self.coordinator is not None:
            return
        world = self._world
        self._starts += 1
        try:
            started = SimulatedCoordinator(
                world.timeline,
                f"coordinator {self.number}.{self._starts}",
                self.url,
                self._lease_ms,
                self.machine,
                world.database,
                self.reach,
                world.coordinator_windows,
                world.open_connections,
                self._settings,
                world.rules,
            )
        except DatabaseOutOfReach:
            self.start_after(START_AGAIN_MS)
        else:
            self.coordinators.append(started)
