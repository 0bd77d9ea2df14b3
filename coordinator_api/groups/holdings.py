"""The groups that this coordinator owns: opened after they were taken, closed before they are handed over.

Opening a group takes as long as its log, and closing one as long as its commit. Both happen beside the beats. Between
the row and the open group whoever asks for it waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable

import structlog

from coordinator_api.groups.background_tasks import BackgroundTasks
from coordinator_api.groups.owned_groups import OwnedGroups
from coordinator_api.metrics import Metrics
from coordinator_api.ownership.incumbent import Incumbent
from coordinator_api.ownership.ownership_store import OwnershipStore
from coordinator_api.ownership.values import Elsewhere, HandOver, Here, Take
from coordinator_api.store.errors import StoreError

OPENED_AT_ONE_TIME = 2
"""The logs of all groups together may be large."""

CLOSED_AT_ONE_TIME = 8

MOVED_AT_A_TIME = 64
"""Groups that are closed together for a stop. Those that come later are answered for meanwhile."""


class Holdings:
    """`store_turn`: held by whoever asks the store, so that beats and changes of rows go one at a time. `incumbent`:
    told of what was done. `changed`: called after each step for which somebody may wait.
    """

    def __init__(
        self,
        store: OwnershipStore,
        store_turn: asyncio.Lock,
        incumbent: Incumbent,
        groups: OwnedGroups,
        metrics: Metrics,
        now_ms: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._store_turn = store_turn
        self._incumbent = incumbent
        self._groups = groups
        self._metrics = metrics
        self._now_ms = now_ms
        self._changed = changed
        self._logger = structlog.get_logger("coordinator_api")
        self._tasks = BackgroundTasks()
        self._owned: dict[str, int] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._openings = asyncio.Semaphore(OPENED_AT_ONE_TIME)
        self._moving: set[str] = set()
        self._closings = asyncio.Semaphore(CLOSED_AT_ONE_TIME)
        self._given: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._owned)

    def epoch(self, group_id: str) -> int:
        """Of a group that is here."""
        return self._owned.get(group_id, 0)

    def was_given(self, group_id: str) -> bool:
        """Whether it was handed over since the last view of the rows was asked for."""
        return group_id in self._given

    @property
    def is_opening(self) -> bool:
        return bool(self._opening)

    # --- what happened elsewhere

    def created(self, group_id: str, epoch: int) -> None:
        """It was declared here."""
        self._owned[group_id] = epoch

    def deleted(self, group_id: str) -> None:
        self._owned.pop(group_id, None)

    def lose(self, group_id: str) -> None:
        """Another coordinator owns it, or nobody does."""
        self._owned.pop(group_id, None)
        self._groups.lose(group_id)

    def lose_all(self) -> None:
        for group_id in list(self._owned):
            self._groups.lose(group_id)
        self._owned.clear()

    def seen(self, sent_ms: float) -> None:
        """The rows were read, as they were no earlier than `sent_ms`."""
        self._given = {group_id: at_ms for group_id, at_ms in self._given.items() if at_ms > sent_ms}

    def reconcile(self) -> None:
        """Open what could not be read when it was taken. Nothing may be here that the rows do not say is here."""
        for group_id, epoch in list(self._owned.items()):
            if group_id in self._moving:
                continue
            if self._incumbent.whereabouts(group_id) != Here(epoch):
                self.lose(group_id)
            elif group_id not in self._opening and not self._groups.is_open(group_id):
                self._open(group_id)

    # --- more

    async def take(self, take: Take, me: str) -> None:
        """Raises StoreError."""
        if take.group_id in self._moving:
            return
        if take.group_id in self._owned:
            self.lose(take.group_id)
        async with self._store_turn:
            if not await self._store.take(take.group_id, take.owner, take.epoch, me):
                return
            self._incumbent.taken(take)
        self._owned[take.group_id] = take.epoch + 1
        self._metrics.takeovers.inc()
        self._open(take.group_id)

    def _open(self, group_id: str) -> None:
        opening = self._opening[group_id] = self._tasks.start(self._opened(group_id, self._owned[group_id]))

        def done(ended: asyncio.Task[None]) -> None:
            if self._opening.get(group_id) is ended:
                del self._opening[group_id]
            self._changed()

        opening.add_done_callback(done)

    async def _opened(self, group_id: str, epoch: int) -> None:
        began_ms = self._now_ms()
        try:
            async with self._openings:
                if self._owned.get(group_id) != epoch:
                    return
                is_there = await self._groups.open_owned(group_id, epoch)
        except StoreError as error:  # it is tried again after the next beat
            self._logger.warning("group_not_opened", group=group_id, error=str(error))
            return
        except Exception as error:  # a bug; others are opened all the same
            self._logger.error("group_not_opened", group=group_id, exc_info=error)
            return
        if self._owned.get(group_id) != epoch:
            self._groups.lose(group_id)  # it was lost meanwhile
        elif is_there:
            self._logger.info("group_taken", group=group_id, epoch=epoch, took_ms=round(self._now_ms() - began_ms))
        else:
            self.deleted(group_id)
            self._incumbent.deleted(group_id)

    # --- fewer

    def hand_over(self, moves: Iterable[HandOver]) -> Collection[asyncio.Task[None]]:
        """Begins it. Each group that can be moved now counts as closed from now on."""
        begun = [
            each for each in moves if each.group_id not in self._moving and self._owned.get(each.group_id) == each.epoch
        ]
        self._moving.update(each.group_id for each in begun)
        return [self._tasks.start(self._hand_over(each)) for each in begun]

    async def hand_all_over(self, moves: Collection[HandOver]) -> None:
        """What is just being opened comes first: it cannot be closed before."""
        left = deque(moves)
        for opening in list(self._opening.values()):
            await asyncio.wait((opening,))
        while left:
            together = [left.popleft() for _ in range(min(MOVED_AT_A_TIME, len(left)))]
            moving = self.hand_over(together)
            if moving:
                await asyncio.wait(moving)

    async def _hand_over(self, move: HandOver) -> None:
        """Raises nothing: whether it succeeded, failed or got lost, the next beat tells."""
        group_id = move.group_id
        release: Callable[[], None] | None = None
        try:
            async with self._closings:
                release = await self._groups.close_owned(group_id)
            me = self._incumbent.coordinator_id
            async with self._store_turn:
                if me is None or self._owned.pop(group_id, None) != move.epoch:
                    return
                if not await self._store.hand_over(group_id, move.epoch, me, move.to):
                    return
                self._incumbent.given(move)
                self._given[group_id] = self._now_ms()
            self._metrics.hand_overs.inc()
            found = self._incumbent.whereabouts(group_id)
            to = found.url if isinstance(found, Elsewhere) else move.to
            self._logger.info("group_given", group=group_id, epoch=move.epoch + 1, to=to)
        except StoreError as error:
            self._logger.warning("group_not_given", group=group_id, error=str(error))
        finally:
            self._moving.discard(group_id)
            if release is not None:
                release()
            self._changed()
