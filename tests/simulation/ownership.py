"""What a simulated coordinator owns: all there is, on SQLite; or what the rows say, around the real `Incumbent`.

It does what `coordinator_api.groups.ownership` does, without threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinator_api.ownership.incumbent import Incumbent
from coordinator_api.ownership.values import (
    Action,
    EndCoordinator,
    Enter,
    HandOver,
    Here,
    Lose,
    NoSuchGroup,
    OwnershipView,
    ReadAgain,
    Take,
    Whereabouts,
    lease_times,
)
from coordinator_api.store.errors import StoreError
from tests.coordinator_api.ownership.table import OwnershipTable

if TYPE_CHECKING:
    from tests.simulation.coordinated_group import CoordinatedGroup
    from tests.simulation.coordinator import SimulatedCoordinator

OPEN_AGAIN_MS = 200
"""When a group is read again that could not be read."""


class Sole:
    """The only one: it has the file."""

    coordinator_id = None

    def __init__(self, coordinator: SimulatedCoordinator) -> None:
        """Raises DatabaseOutOfReach."""
        self._coordinator = coordinator
        for group_id in coordinator.settings:
            coordinator.open(group_id, 0)

    def may_answer(self) -> bool:
        return True

    def whereabouts(self, group_id: str) -> Whereabouts:
        return Here(0)

    def declared(self, group_id: str) -> CoordinatedGroup:
        raise AssertionError("it has all groups from the beginning")

    def created(self, group: CoordinatedGroup) -> None: ...

    def failed(self, group: CoordinatedGroup) -> None: ...

    def leave(self, left: Callable[[], None]) -> None:
        left()


class Ownership:
    """Of one that shares the database, maybe with nobody."""

    def __init__(self, coordinator: SimulatedCoordinator, lease_ms: int) -> None:
        self._coordinator = coordinator
        self._times = lease_times(lease_ms)
        self._clock_ms = coordinator.machine.monotonic_ms
        self._ids = 0
        self._left: Callable[[], None] | None = None
        self.incumbent = Incumbent(self._times)
        self._enter()

    @property
    def coordinator_id(self) -> str | None:
        return self.incumbent.coordinator_id

    def may_answer(self) -> bool:
        return self.incumbent.may_answer(self._clock_ms())

    def whereabouts(self, group_id: str) -> Whereabouts:
        return self.incumbent.whereabouts(group_id)

    def declared(self, group_id: str) -> CoordinatedGroup | None:
        """A group that nobody has heard of, as far as is known here. It exists once its first write is made."""
        if not isinstance(self.whereabouts(group_id), NoSuchGroup):
            return None
        try:
            return self._coordinator.open(group_id, 1, is_new=True)
        except StoreError:
            return None

    def created(self, group: CoordinatedGroup) -> None:
        """Its first write was made."""
        self.incumbent.created(group.group_id)

    def failed(self, group: CoordinatedGroup) -> None:
        """Its first write was not made, or nobody knows: the next view tells."""
        self._coordinator.close(group.group_id)

    def leave(self, left: Callable[[], None]) -> None:
        """After what it is doing."""
        self._left = left

    # --- beats

    def _enter(self) -> None:
        self._ids += 1
        new = f"{self._coordinator.name}/{self._ids}"

        def entered(_: object) -> None:
            self.incumbent.entered(new, self._coordinator.url, self._clock_ms())
            self._wait()

        self._ask(lambda table: table.enter(new, self._coordinator.url), entered, self._enter)

    def _wait(self) -> None:
        if self._left is not None:
            self._take_leave(self._left)
            return
        now_ms = self._clock_ms()
        self._coordinator.later(self.incumbent.next_beat_ms(now_ms) - now_ms, self._beat)

    def _beat(self) -> None:
        incumbent, sent_ms, me = self.incumbent, self._clock_ms(), self.coordinator_id
        assert me is not None
        if self._left is not None:
            self._wait()
            return

        def not_beaten() -> None:
            incumbent.not_beaten()
            self._wait()

        renews = incumbent.renews

        def beaten(view: OwnershipView | None) -> None:
            groups = self._coordinator.groups
            incumbent.movable([group_id for group_id, group in groups.items() if group.is_at_rest])
            self._carry_out(deque(incumbent.beaten(sent_ms, self._clock_ms(), view)), self._wait)

        self._ask(lambda table: table.beat(me, takes=renews, renews=renews), beaten, not_beaten)

    def _take_leave(self, left: Callable[[], None]) -> None:
        """Others hear of it before what they are given looks like too much."""
        me = self.coordinator_id
        assert me is not None

        def hand_over(_: object = None) -> None:
            self._carry_out(deque(self.incumbent.leaving()), lambda: self._leave(left))

        self._ask(lambda table: table.beat(me, takes=False), hand_over, hand_over)

    def _leave(self, left: Callable[[], None]) -> None:
        me = self.coordinator_id
        assert me is not None
        for group_id in list(self._coordinator.groups):
            self._coordinator.close(group_id)
        self._ask(lambda table: table.leave(me), lambda _: left(), left)

    def _ask(
        self, call: Callable[[OwnershipTable], Any], answered: Callable[[Any], None], failed: Callable[[], None]
    ) -> None:
        """Its answer waits while the coordinator is frozen."""
        arrives = self._coordinator.arrives
        self._coordinator.database.ask(
            self._coordinator.session,
            self._times.valid_ms / 2,
            call,
            lambda told: arrives(lambda: answered(told), _nothing),
            lambda: arrives(failed, _nothing),
        )

    # --- what follows a beat

    def _carry_out(self, actions: deque[Action], done: Callable[[], None]) -> None:
        """One after the other."""
        me, coordinator = self.coordinator_id, self._coordinator
        while actions:
            action = actions.popleft()
            coordinator.timeline.say("{}: {}", coordinator.name, action)

            def go_on() -> None:
                self._carry_out(actions, done)

            match action:
                case Lose(group_id):
                    coordinator.close(group_id)
                case ReadAgain():
                    for group in list(coordinator.groups.values()):
                        group.distrust()
                case Enter():
                    for group_id in list(coordinator.groups):  # one that was just declared
                        coordinator.close(group_id)
                    self._enter()
                    return
                case EndCoordinator(coordinator_id, renewals):
                    self._end(coordinator_id, renewals, go_on)
                    return
                case Take():
                    assert me is not None
                    self._take(action, me, go_on)
                    return
                case HandOver():
                    assert me is not None
                    self._hand_over(action, me, go_on)
                    return
        done()

    def _end(self, coordinator_id: str, renewals: int, go_on: Callable[[], None]) -> None:
        self._ask(lambda table: table.end(coordinator_id, renewals), lambda _: go_on(), go_on)

    def _take(self, take: Take, me: str, go_on: Callable[[], None]) -> None:
        def answered(is_taken: bool) -> None:
            if is_taken:
                self.incumbent.taken(take)
                self._open(take.group_id, take.epoch + 1)
            go_on()

        self._ask(lambda table: table.take(take.group_id, take.owner, take.epoch, me), answered, go_on)

    def _hand_over(self, move: HandOver, me: str, go_on: Callable[[], None]) -> None:
        def answered(is_given: bool) -> None:
            if is_given:
                self.incumbent.given(move)
                self._coordinator.observer.handed_over(move.group_id)
            go_on()

        self._coordinator.close(move.group_id)
        self._ask(lambda table: table.hand_over(move.group_id, move.epoch, me, move.to), answered, go_on)

    def _open(self, group_id: str, epoch: int) -> None:
        """Again and again, until it can be read or is lost."""
        if self.whereabouts(group_id) != Here(epoch):
            return
        try:
            self._coordinator.open(group_id, epoch)
        except StoreError:
            self._coordinator.later(OPEN_AGAIN_MS, lambda: self._open(group_id, epoch))


def _nothing() -> None:
    pass
