"""What a simulated coordinator owns: all there is, on SQLite; or what the rows say, around the real `LeaseHolder`.

It does what `coordinator_api.lease.coordinator_lease` does, without threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinator_api.lease import decisions
from coordinator_api.lease.lease_holder import LeaseHolder
from coordinator_api.store.lease_rows import LeaseView, lease_times
from coordinator_api.store.store_errors import StoreError
from tests.coordinator_api.lease.table import LeaseTable
from tests.known import known

if TYPE_CHECKING:
    from tests.simulation.coordinated_group import CoordinatedGroup
    from tests.simulation.coordinator import SimulatedCoordinator

OPEN_AGAIN_MS = 200
"""When a group is read again that could not be read."""


class FileLease:
    """The lease of the only coordinator of a file. It never expires."""

    coordinator_id = None

    def __init__(self, coordinator: SimulatedCoordinator) -> None:
        """Raises DatabaseOutOfReach."""
        self._coordinator = coordinator
        for group_id in coordinator.settings:
            coordinator.open(group_id, 0)

    def may_answer(self) -> bool:
        return True

    def whereabouts(self, group_id: str) -> decisions.Whereabouts:
        return decisions.Here(0)

    def declared(self, group_id: str) -> CoordinatedGroup:
        raise AssertionError("it has all groups from the beginning")

    def created(self, group: CoordinatedGroup) -> None: ...

    def failed(self, group: CoordinatedGroup) -> None: ...

    def leave(self, left: Callable[[], None]) -> None:
        left()


class SharedLease:
    """The lease of a coordinator that shares the database, or could."""

    def __init__(self, coordinator: SimulatedCoordinator, lease_ms: int) -> None:
        self._coordinator = coordinator
        self._times = lease_times(lease_ms)
        self._clock_ms = coordinator.machine.monotonic_ms
        self._ids = 0
        self._left: Callable[[], None] | None = None
        self.holder = LeaseHolder(self._times)
        self._enter()

    @property
    def coordinator_id(self) -> str | None:
        return self.holder.coordinator_id

    def may_answer(self) -> bool:
        return self.holder.may_answer(self._clock_ms())

    def whereabouts(self, group_id: str) -> decisions.Whereabouts:
        return self.holder.whereabouts(group_id)

    def declared(self, group_id: str) -> CoordinatedGroup | None:
        """A group that nobody has heard of, as far as is known here. It exists once its first write is made."""
        if not isinstance(self.whereabouts(group_id), decisions.NoSuchGroup):
            return None
        try:
            return self._coordinator.open(group_id, 1, is_new=True)
        except StoreError:
            return None

    def created(self, group: CoordinatedGroup) -> None:
        """Its first write was made."""
        self.holder.own(group.group_id, 1)

    def failed(self, group: CoordinatedGroup) -> None:
        """Its first write was not made, or nobody knows: the next view tells."""
        self._coordinator.close(group.group_id)

    def leave(self, left: Callable[[], None]) -> None:
        """After what it is doing."""
        self._left = left

    # --- polls

    def _enter(self) -> None:
        self._ids += 1
        new = f"{self._coordinator.name}/{self._ids}"

        def entered(_: object) -> None:
            self.holder.entered(new, self._coordinator.url, self._clock_ms())
            self._wait()

        self._ask(lambda table: table.enter(new, self._coordinator.url), entered, self._enter)

    def _wait(self) -> None:
        if self._left is not None:
            self._take_leave(self._left)
            return
        now_ms = self._clock_ms()
        self._coordinator.later(self.holder.next_poll_ms(now_ms) - now_ms, self._poll)

    def _poll(self) -> None:
        holder, sent_ms, me = self.holder, self._clock_ms(), known(self.coordinator_id)
        if self._left is not None:
            self._wait()
            return

        def poll_failed() -> None:
            holder.poll_failed()
            self._wait()

        renews = holder.renews

        def polled(view: LeaseView | None) -> None:
            groups = self._coordinator.groups
            movable = [group_id for group_id, group in groups.items() if group.is_at_rest]
            actions = holder.polled(sent_ms, self._clock_ms(), view, movable)
            self._carry_out(deque(actions), self._enter_again if holder.coordinator_id is None else self._wait)

        self._ask(lambda table: table.poll(me, takes=renews, renews=renews), polled, poll_failed)

    def _enter_again(self) -> None:
        for group_id in list(self._coordinator.groups):  # one that was just declared
            self._coordinator.close(group_id)
        self._enter()

    def _take_leave(self, left: Callable[[], None]) -> None:
        """Others hear of it before what they are given looks like too much."""
        me = known(self.coordinator_id)

        def hand_over(_: object = None) -> None:
            self._carry_out(deque(self.holder.leaving()), lambda: self._leave(left))

        self._ask(lambda table: table.poll(me, takes=False), hand_over, hand_over)

    def _leave(self, left: Callable[[], None]) -> None:
        me = known(self.coordinator_id)
        for group_id in list(self._coordinator.groups):
            self._coordinator.close(group_id)
        self._ask(lambda table: table.leave(me), lambda _: left(), left)

    def _ask(
        self, call: Callable[[LeaseTable], Any], answered: Callable[[Any], None], failed: Callable[[], None]
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

    # --- what follows a poll

    def _carry_out(self, actions: deque[decisions.Action], done: Callable[[], None]) -> None:
        """One after the other."""
        me, coordinator = self.coordinator_id, self._coordinator
        while actions:
            action = actions.popleft()
            coordinator.timeline.say("{}: {}", coordinator.name, action)

            def go_on() -> None:
                self._carry_out(actions, done)

            match action:
                case decisions.Lose(group_id):
                    coordinator.close(group_id)
                case decisions.ReadAgain():
                    for group in list(coordinator.groups.values()):
                        group.reload_before_next_event()
                case decisions.EndCoordinator(coordinator_id, renewals):
                    self._end(coordinator_id, renewals, go_on)
                    return
                case decisions.Take():
                    self._take(action, known(me), go_on)
                    return
                case decisions.HandOver():
                    self._hand_over(action, known(me), go_on)
                    return
        done()

    def _end(self, coordinator_id: str, renewals: int, go_on: Callable[[], None]) -> None:
        self._ask(lambda table: table.end(coordinator_id, renewals), lambda _: go_on(), go_on)

    def _take(self, take: decisions.Take, me: str, go_on: Callable[[], None]) -> None:
        def answered(epoch: int | None) -> None:
            if epoch is not None:
                self.holder.own(take.group_id, epoch)
                self._open(take.group_id, epoch)
            go_on()

        self._ask(lambda table: table.take(take.group_id, take.owner, take.epoch, me), answered, go_on)

    def _hand_over(self, move: decisions.HandOver, me: str, go_on: Callable[[], None]) -> None:
        def answered(is_given: bool) -> None:
            if is_given:
                self.holder.given(move)
                self._coordinator.rules.handed_over(move.group_id)
            go_on()

        self._coordinator.close(move.group_id)
        self._ask(lambda table: table.hand_over(move.group_id, move.epoch, me, move.to), answered, go_on)

    def _open(self, group_id: str, epoch: int) -> None:
        """Again and again, until it can be read or is lost."""
        if self.whereabouts(group_id) != decisions.Here(epoch):
            return
        try:
            self._coordinator.open(group_id, epoch)
        except StoreError:
            self._coordinator.later(OPEN_AGAIN_MS, lambda: self._open(group_id, epoch))


def _nothing() -> None:
    pass
