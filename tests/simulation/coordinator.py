"""One coordinator process in simulated time: its clock, what it owns, and its groups, around each of which it does what
`coordinator_api.runtime` does.

A coordinator that is killed is gone for good; the next one at its place is another object. One that is frozen, or
cannot reach the database, goes on when it is over: what it may not answer any more, its lease tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from coordinator_api.lease.decisions import Elsewhere, Here
from tests.simulation.clocks import MachineClock, coordinator_clock
from tests.simulation.coordinated_group import CoordinatedGroup, GroupSetting
from tests.simulation.database import Session, SimulatedDatabase
from tests.simulation.lease import FileLease, SharedLease
from tests.simulation.timeline import Action, Due, Timeline
from tests.simulation.windows import Windows
from tests.simulation.wire import Answer, NoAnswer, Reply

if TYPE_CHECKING:
    from tests.simulation.rules import Rules

Ask = Callable[[CoordinatedGroup, Reply], None]


class SimulatedCoordinator:
    """`windows`: what is wrong with it. `reach`: what is wrong between it and the database. `open_connections`: of all
    processes, those that they still use. `lost_connections`: those whose end it has seen. `groups`: those that it
    leads. `well_since_ms`: when it was started, or was last seen frozen or without the database.
    """

    def __init__(
        self,
        timeline: Timeline,
        name: str,
        url: str,
        lease_ms: int | None,
        machine: MachineClock,
        database: SimulatedDatabase,
        reach: Windows,
        windows: Windows,
        open_connections: set[int],
        settings: Mapping[str, GroupSetting],
        rules: Rules,
    ) -> None:
        """`lease_ms`: None on SQLite. Raises DatabaseOutOfReach, there only."""
        self.timeline = timeline
        self.name = name
        self.url = url
        self.machine = machine
        self.database = database
        self.session = Session(name, reach)
        self.windows = windows
        self.open_connections = open_connections
        self.lost_connections: set[int] = set()
        self.settings = settings
        self.rules = rules
        self.clock = coordinator_clock(machine)
        self.is_up = True
        self.chance = timeline.chance("coordinators")
        self.well_since_ms = timeline.now_ms
        self._frozen_until_ms = 0
        self.groups: dict[str, CoordinatedGroup] = {}
        timeline.say("{} starts", name)
        self.lease: FileLease | SharedLease = FileLease(self) if lease_ms is None else SharedLease(self, lease_ms)

    @property
    def is_frozen(self) -> bool:
        return self.timeline.now_ms < self._frozen_until_ms

    @property
    def is_well(self) -> bool:
        """Whether nothing keeps it from its work."""
        return self.is_up and not self.is_frozen and not self.session.is_cut

    def later(self, delay_ms: float, action: Action) -> Due:
        """An action of this coordinator: not once it is dead, and not while it is frozen."""
        return self.timeline.after(delay_ms, lambda: self._act(action))

    def arrives(self, request: Action, refused: Action) -> None:
        """A request reaches its machine. It waits while the coordinator is frozen."""
        if self.is_up:
            self._act(request)
        else:
            refused()

    def serve(self, group_id: str, ask: Ask, reply: Reply, *, declares: bool = False) -> None:
        """A request for a group. Each answer is looked at once more when it is given: the lease may have ended."""
        if not self.may_answer():
            reply(NoAnswer())
            return
        whereabouts = self.lease.whereabouts(group_id)
        if isinstance(whereabouts, Elsewhere):
            reply(whereabouts)
            return
        group = self.groups.get(group_id)
        if group is None and declares:
            group = self.lease.declared(group_id)
        if group is None or not (isinstance(whereabouts, Here) or group.is_new):
            reply(NoAnswer())
        else:
            ask(group, self._looked_at(group, reply))

    def _looked_at(self, group: CoordinatedGroup, reply: Reply) -> Reply:
        def answer(response: Answer) -> None:
            if isinstance(response, NoAnswer):
                reply(response)
            elif self.may_answer():
                self.rules.answered(group)
                reply(response)
            else:
                reply(NoAnswer())

        return answer

    def serves(self, group_id: str) -> bool:
        """Whether it would answer now, for this group."""
        return self.is_up and not self.is_frozen and group_id in self.groups and self.may_answer()

    def may_answer(self) -> bool:
        return self.lease.may_answer()

    def connection_lost(self, connection_id: int) -> None:
        if connection_id not in self.lost_connections:
            self.lost_connections.add(connection_id)
            for group in self.groups.values():
                group.connection_lost(connection_id)

    # --- its groups

    def open(self, group_id: str, epoch: int, *, is_new: bool = False) -> CoordinatedGroup:
        """Raises DatabaseOutOfReach, NotOwned."""
        self.close(group_id)
        group = CoordinatedGroup(self, group_id, self.settings[group_id], epoch, is_new=is_new)
        self.groups[group_id] = group
        return group

    def close(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.close()

    # --- what goes wrong

    def kill(self) -> None:
        self.timeline.say("{} is killed", self.name)
        self._end()

    def stop(self, when_over: Action) -> None:
        """In good order, which takes a while."""
        self.timeline.say("{} stops", self.name)

        def left() -> None:
            self.timeline.say("{} has stopped", self.name)
            self._end()
            when_over()

        self.lease.leave(left)

    def _end(self) -> None:
        self.is_up = False
        self.database.end_session(self.session)
        for group_id in list(self.groups):
            self.close(group_id)

    def freeze(self, for_ms: int) -> None:
        self.timeline.say("{} is frozen for {} ms", self.name, for_ms)
        self.clock.sample()
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
