"""One coordinator process in simulated time: its lease, its clock, and its groups, around each of which it does what
`coordinator_api.groups` does.

A coordinator that is killed is gone for good; the next one is another object. One whose lease has ended without its
knowing (a zombie) goes on: it answers heartbeats from what it knows, and what it wants to write is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.clocks import MachineClock, coordinator_clock
from tests.simulation.coordinated_group import CoordinatedGroup, GroupSetting
from tests.simulation.database import SimulatedDatabase, Writer
from tests.simulation.timeline import Action, Due, Timeline
from tests.simulation.windows import Windows


class SimulatedCoordinator:
    """`windows`: what is wrong with it. `open_connections`: of all processes, those that they still use.
    `lost_connections`: those whose end it has seen.
    """

    def __init__(
        self,
        timeline: Timeline,
        name: str,
        machine: MachineClock,
        database: SimulatedDatabase,
        writer: Writer,
        windows: Windows,
        open_connections: set[int],
        settings: Mapping[str, GroupSetting],
    ) -> None:
        """Raises DatabaseOutOfReach."""
        self.timeline = timeline
        self.name = name
        self.database = database
        self.writer = writer
        self.windows = windows
        self.open_connections = open_connections
        self.lost_connections: set[int] = set()
        self.clock = coordinator_clock(machine)
        self.is_up = True
        self.chance = timeline.chance("coordinators")
        self._frozen_until_ms = 0
        timeline.say("{} starts", name)
        self.groups: dict[str, CoordinatedGroup] = {}
        for group_id, setting in settings.items():
            self.groups[group_id] = CoordinatedGroup(self, group_id, setting)

    @property
    def holds_lease(self) -> bool:
        return self.is_up and self.database.holder is self.writer

    @property
    def is_frozen(self) -> bool:
        return self.timeline.now_ms < self._frozen_until_ms

    def later(self, delay_ms: float, action: Action) -> Due:
        """An action of this coordinator: not once it is dead, and not while it is frozen."""
        return self.timeline.after(delay_ms, lambda: self._act(action))

    def arrives(self, request: Action, refused: Action) -> None:
        """A request reaches its machine. It waits while the coordinator is frozen."""
        if self.is_up:
            self._act(request)
        else:
            refused()

    def connection_lost(self, connection_id: int) -> None:
        if connection_id not in self.lost_connections:
            self.lost_connections.add(connection_id)
            for group in self.groups.values():
                group.connection_lost(connection_id)

    def kill(self) -> None:
        self.timeline.say("{} is killed", self.name)
        self.is_up = False
        self.database.end_session(self.writer)
        for group in self.groups.values():
            group.break_off()

    def freeze(self, for_ms: int) -> None:
        self.timeline.say("{} is frozen for {} ms", self.name, for_ms)
        self.clock.beat()
        self._frozen_until_ms = max(self._frozen_until_ms, self.timeline.now_ms + for_ms)
        self.timeline.after(for_ms, self._thaw)

    def heal(self) -> None:
        if self.is_frozen:
            self._frozen_until_ms = self.timeline.now_ms
            self._thaw()

    def _thaw(self) -> None:
        if not self.is_frozen:
            self.clock.release()

    def _act(self, action: Action) -> None:
        if not self.is_up:
            return
        if self.is_frozen:
            self.timeline.after(self._frozen_until_ms - self.timeline.now_ms, lambda: self._act(action))
        else:
            action()
