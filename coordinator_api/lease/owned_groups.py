"""Opens the groups that this coordinator has taken, and closes groups before they are handed over.

Groups are opened and closed outside the renewal loop, because opening replays the group's log and closing waits for its
commit. Calls for a group wait until the group is open.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import structlog

from coordinator_api.lease.background_tasks import BackgroundTasks
from coordinator_api.lease.decisions import Elsewhere, HandOver, Take
from coordinator_api.lease.lease_holder import LeaseHolder
from coordinator_api.metrics import Metrics
from coordinator_api.store.lease_rows import LeaseStore
from coordinator_api.store.store_errors import NotOwner, StoreError

OPENED_AT_ONE_TIME = 2
"""The largest number of groups that are opened at one time. The number is small, because the records of these groups
may need much memory.
"""

HANDED_OVER_AT_ONE_TIME = 8
"""The largest number of groups that are handed over at one time. The number is small, because each group answers no
calls during its hand-over.
"""


class OtherGroup(NamedTuple):
    """A group that is not open in this coordinator. `url`: the address of the group's owner; None if the group has no
    owner.
    """

    group_id: str
    url: str | None
    members: int


class GroupHost(Protocol):
    """The operations of a coordinator on the groups that it owns. Each write of a group names its `epoch`."""

    async def open_owned(self, group_id: str, epoch: int) -> bool:
        """Load the group from the store, and begin to lead the group. Returns True if the group exists. Raises
        StoreError if the store cannot be read at present.
        """

    def is_open(self, group_id: str) -> bool:
        """Returns whether the group is open in this coordinator. A group also counts as open if its log cannot be
        read.
        """

    async def close_owned(self, group_id: str) -> Callable[[], None] | None:
        """Wait until the commits of the group are done. From then on, the group gives no more answers from its state in
        memory. Returns None if the group is not open.

        If the group is open, returns a function that answers the group's held requests. The callers of held requests
        then look up the new owner of the group.
        """

    def lose(self, group_id: str) -> None:
        """Drop the group from memory, because this coordinator does not own the group any more."""

    def at_rest(self) -> Collection[str]:
        """Returns the groups that can be closed now without an interruption of their work."""

    def read_again(self) -> None:
        """Make each group read its state from the store again before the group handles its next event."""

    def answer_now(self) -> None:
        """Answer the held requests of all groups immediately."""


@dataclass(slots=True)
class GroupLease:
    """One period in which this coordinator owns one group. If `is_certain` is False, call `check` before each answer
    from the group's state in memory. `is_certain` is True if this period has not ended and no other coordinator can use
    the database.

    `epoch`: the epoch that each write of the group names. `check_lease`: a function that raises LeaseEnded if the
    coordinator's lease has expired; None if no other coordinator can own the group. `lost`: a function that is called
    with the group's id after a write was refused.
    """

    group_id: str
    epoch: int = 0
    check_lease: Callable[[], None] | None = None
    lost: Callable[[str], None] | None = None
    has_ended: bool = field(default=False, init=False)
    is_certain: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_certain = self.check_lease is None

    def check(self) -> None:
        """Raises NotOwner if this period has ended. Raises LeaseEnded if the coordinator's lease has expired."""
        if self.has_ended:
            raise not_here(self.group_id)
        if self.check_lease is not None:
            self.check_lease()

    def end(self) -> None:
        """End the period. From now on, `check` raises NotOwner."""
        self.has_ended, self.is_certain = True, False

    def was_lost(self) -> None:
        """End the period, because the store refused a write. In the store, the group has another owner or another
        epoch.
        """
        if not self.has_ended:
            self.end()
            if self.lost is not None:
                self.lost(self.group_id)


def not_here(group_id: str) -> NotOwner:
    """Returns the error for a call about a group that this coordinator does not own any more."""
    return NotOwner(f"group {group_id} is not owned by this coordinator any more, so nothing was written")


@dataclass(eq=False)
class OwnedGroups:
    """Opens and closes the groups that `holder` owns. `store_turn`: a lock that is held during each call to the store.
    Polls and changes of rows therefore run one at a time. `changed`: a function that is called after a group was opened
    or handed over, because requests may wait for this moment.

    The constructor has seven parameters, because this class shares objects with `CoordinatorLease`.
    """

    _store: LeaseStore
    _store_turn: asyncio.Lock
    _holder: LeaseHolder
    _groups: GroupHost
    _metrics: Metrics
    _now_ms: Callable[[], float]
    _changed: Callable[[], None]

    def __post_init__(self) -> None:
        self._logger = structlog.get_logger("coordinator_api")
        self._tasks = BackgroundTasks()
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._openings = asyncio.Semaphore(OPENED_AT_ONE_TIME)
        self._moving: set[str] = set()
        self._hand_overs = asyncio.Semaphore(HANDED_OVER_AT_ONE_TIME)
        self._gives_up = False

    @property
    def is_opening(self) -> bool:
        return bool(self._opening)

    # --- take

    def open_rest(self) -> None:
        """Open the owned groups that an earlier attempt could not read from the store."""
        for group_id, epoch in self._holder.owned.items():
            if group_id not in self._opening and not self._groups.is_open(group_id):
                self._open(group_id, epoch)

    async def take(self, take: Take, me: str) -> None:
        """Take the group, and begin to open it. Raises StoreError."""
        if take.group_id in self._moving:
            return
        self._groups.lose(take.group_id)  # the group may still be open in an earlier epoch
        async with self._store_turn:
            epoch = await self._store.take(take.group_id, take.owner, take.epoch, me)
            if epoch is None:
                return
            self._holder.own(take.group_id, epoch)
        # on SQLite, a take is not counted as a takeover, because there is no other coordinator
        if self._store.times.expires:
            self._metrics.takeovers.inc()
        self._open(take.group_id, epoch)

    def _open(self, group_id: str, epoch: int) -> None:
        opening = self._opening[group_id] = self._tasks.start(self._opened(group_id, epoch))

        def done(ended: asyncio.Task[None]) -> None:
            if self._opening.get(group_id) is ended:
                del self._opening[group_id]
            self._changed()

        opening.add_done_callback(done)

    async def _opened(self, group_id: str, epoch: int) -> None:
        began_ms = self._now_ms()
        try:
            async with self._openings:
                if self._holder.owned.get(group_id) != epoch:
                    return
                is_there = await self._groups.open_owned(group_id, epoch)
        except StoreError as error:  # after the next poll, `open_rest` tries to open the group again
            self._logger.warning("group_not_opened", group=group_id, error=str(error))
            return
        except Exception as error:  # an error here is a bug, which must not affect the other groups
            self._logger.error("group_not_opened", group=group_id, exc_info=error)
            return
        if self._holder.owned.get(group_id) != epoch:
            self._groups.lose(group_id)  # this coordinator lost the group while the group was being opened
        elif is_there:
            self._logger.info("group_taken", group=group_id, epoch=epoch, took_ms=round(self._now_ms() - began_ms))
        else:
            self._holder.deleted(group_id)

    # --- hand over

    def hand_over(self, move: HandOver) -> asyncio.Task[None]:
        """Begin to hand over a group. The caller has already removed the group from `holder.owned`."""
        self._moving.add(move.group_id)
        return self._tasks.start(self._hand_over(move))

    async def hand_all_over(self, moves: Iterable[HandOver]) -> None:
        """Hands groups over. First waits until all groups are open, because a group cannot be closed before it is open.

        The caller cancels the call when the time limit for stopping has passed. If the hand-over of a group has not
        begun by then, the group stays open.
        """
        opening = list(self._opening.values())
        if opening:
            await asyncio.wait(opening)
        handing_over = [self.hand_over(move) for move in moves]
        try:
            if handing_over:
                await asyncio.wait(handing_over)
        except asyncio.CancelledError:
            self._gives_up = True
            raise

    async def _hand_over(self, move: HandOver) -> None:
        """Hands one group over. A StoreError is only logged, because the next poll shows whether the hand-over
        succeeded.
        """
        group_id = move.group_id
        release: Callable[[], None] | None = None
        try:
            async with self._hand_overs:
                if self._gives_up:
                    return
                release = await self._groups.close_owned(group_id)
                me = self._holder.coordinator_id
                async with self._store_turn:
                    if me is None or not await self._store.hand_over(group_id, move.epoch, me, move.to):
                        return
                    self._holder.given(move)
            self._metrics.hand_overs.inc()
            found = self._holder.whereabouts(group_id)
            to = found.url if isinstance(found, Elsewhere) else move.to
            self._logger.info("group_given", group=group_id, epoch=move.epoch + 1, to=to)
        except StoreError as error:
            self._logger.warning("group_not_given", group=group_id, error=str(error))
        finally:
            self._moving.discard(group_id)
            if release is not None:
                release()
            self._changed()
