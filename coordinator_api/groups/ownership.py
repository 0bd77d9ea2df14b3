"""Which groups are here, and until when they may be answered for: what a coordinator's `Incumbent` plans is done here.

    beat -> lose what is gone, read again what was in doubt, begin to hand over
         -> until the next beat is due, one after the other: end who is over, take what is free

Rules:
- Opening a group takes as long as its log, and closing one as long as its commit. Both happen beside the beats.
- A group is closed before its row is changed, and opened after it was taken. In between whoever asks for it waits.
- What somebody is told of groups elsewhere is newer than his question: he may come from the coordinator that has just
  given the group to this one. So a question has a beat sent soon. All who wait share one, and there are few a second.
- Lists of others, quotas and metrics may be as old as the last beat.

`Holdings` opens and closes groups. `SoleOwner` has the same face as `Ownership`, for a database that only one
coordinator can use.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress

import structlog

from coordinator_api.clock import since_boot_ms
from coordinator_api.errors import GroupIsLoading
from coordinator_api.groups.background_tasks import BackgroundTasks
from coordinator_api.groups.holdings import Holdings
from coordinator_api.groups.owned_groups import OtherGroup, OwnedGroups
from coordinator_api.groups.sole_owner import SoleOwner
from coordinator_api.metrics import Metrics
from coordinator_api.ownership.incumbent import Incumbent
from coordinator_api.ownership.ownership_store import OwnershipStore
from coordinator_api.ownership.values import (
    Action,
    Elsewhere,
    EndCoordinator,
    Enter,
    HandOver,
    Here,
    LeaseTimes,
    Lose,
    NoSuchGroup,
    OwnershipView,
    ReadAgain,
    Take,
    Whereabouts,
)
from coordinator_api.store.errors import LeaseEnded, StoreError

LONGEST_WAIT_S = 0.5
"""How long a call waits for a group that nobody has, or that is being opened."""

SHORTEST_BETWEEN_MS = 50.0
"""Between two beats that calls wait for; a fifth of the time between two ordinary ones, if that is less."""

LONGEST_START_S = 30.0
"""How long a start waits for the groups that it takes at once. Calls to those that are not open by then wait, too."""

LONGEST_LEAVE_S = 0.5
"""How long a stop waits for a database that does not answer."""


class Ownership:
    """One of several coordinators of a database, on its event loop. `url`: where others reach it.

    `entered`: told the id that the store is to write with new groups.
    """

    is_shared = True
    first_epoch = 1

    def __init__(
        self,
        store: OwnershipStore,
        times: LeaseTimes,
        url: str,
        release: str,
        groups: OwnedGroups,
        metrics: Metrics,
        entered: Callable[[str], None],
        now_ms: Callable[[], float] = since_boot_ms,
    ) -> None:
        self.url = url
        self._store = store
        self._times = times
        self._release = release
        self._groups = groups
        self._metrics = metrics
        self._entered = entered
        self._now_ms = now_ms
        self._incumbent = Incumbent(times)
        self._may_answer = self._incumbent.may_answer
        self._logger = structlog.get_logger("coordinator_api")
        self._tasks = BackgroundTasks()
        self._store_turn = asyncio.Lock()
        self._woken = asyncio.Event()
        self._news = asyncio.Event()
        self._view = OwnershipView({}, {})
        self._view_sent_ms = float("-inf")
        self._beat_sent_ms = float("-inf")
        self._beat_due_ms = float("-inf")
        self._is_wanted = False
        self._beats_fail = False
        self._to_do: deque[Action] = deque()
        self._holdings = Holdings(store, self._store_turn, self._incumbent, groups, metrics, now_ms, self._tell_news)
        self._creating: dict[str, str | None] = {}
        self._was_valid: bool | None = None
        self._ended_ms = 0.0
        self._lease_timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None
        self._serves = self._is_leaving = self._has_left = False

    # --- what others ask

    def check(self) -> None:
        """Raises LeaseEnded when nothing may be answered now, because another coordinator may own all groups."""
        if not self._may_answer(self._now_ms()):
            self._metrics.refused_late_answers.inc()
            raise LeaseEnded(LeaseEnded.public)

    def epoch(self, group_id: str) -> int:
        """Of a group that is here."""
        return self._holdings.epoch(group_id)

    async def located(self, group_id: str) -> Here | Elsewhere | NoSuchGroup:
        """Where the group is, known later than it was asked for, or else after LONGEST_WAIT_S. Here: it is open.

        Raises LeaseEnded, GroupIsLoading when nobody has it for so long.
        """
        asked_ms = self._now_ms()
        ends_s = asyncio.get_running_loop().time() + LONGEST_WAIT_S
        while True:
            self.check()
            is_new = self._view_sent_ms >= asked_ms
            match self._incumbent.whereabouts(group_id):
                case Here() as here if self._groups.is_open(group_id):
                    return here
                case Elsewhere(url) as elsewhere if url != self.url and (is_new or self._holdings.was_given(group_id)):
                    return elsewhere
                case NoSuchGroup() as none if is_new:
                    return none
                case found:
                    if not is_new:
                        self._want_beat()
                    if await self._hears_news(ends_s):
                        continue
                    if isinstance(found, Elsewhere) and found.url != self.url:
                        return found  # the database is slow, and members are better off with what is known
                    raise GroupIsLoading(
                        f"group {group_id} is being taken over, or its owner is not known yet: ask again in a second"
                    )

    def is_unknown(self, group_id: str) -> bool:
        """Whether nobody has a group of this id, as far as is known."""
        return isinstance(self._incumbent.whereabouts(group_id), NoSuchGroup)

    def elsewhere(self) -> list[OtherGroup]:
        """All groups that are not open here, by id."""
        return [
            OtherGroup(group_id, self._other_url(found), group.members)
            for group_id, group in sorted(self._view.groups.items())
            if not self._groups.is_open(group_id)
            for found in (self._incumbent.whereabouts(group_id),)
        ]

    def _other_url(self, found: Whereabouts) -> str | None:
        """Not its own, which a process that is over may have had before, until its row is gone."""
        return found.url if isinstance(found, Elsewhere) and found.url != self.url else None

    def ids_elsewhere(self) -> Set[str]:
        """As the last beat found them; some may be here."""
        return self._view.groups.keys()

    def problem(self) -> str | None:
        """Why nothing can be answered, in words for everybody."""
        return None if self._may_answer(self._now_ms()) else "it has ended, and was not renewed yet"

    # --- what happened to a group

    @contextmanager
    def creating(self, group_id: str) -> Iterator[None]:
        """Within the block, a row of this group that says that it is here is no reason to take it."""
        self._creating[group_id] = self._incumbent.coordinator_id
        try:
            yield
        finally:
            del self._creating[group_id]

    def created(self, group_id: str) -> None:
        """It was declared here, and stored, within `creating`."""
        if self._creating[group_id] != self._incumbent.coordinator_id:
            self._groups.lose(group_id)  # it may have been stored for a coordinator that is no more
            return
        self._holdings.created(group_id, self.first_epoch)
        self._incumbent.created(group_id)

    def deleted(self, group_id: str) -> None:
        self._holdings.deleted(group_id)
        self._incumbent.deleted(group_id)

    def lost(self, group_id: str) -> None:
        """A write was refused: another coordinator owns it. Where it is, the next beat tells."""
        self._logger.warning("group_lost", group=group_id, why="a write was refused")
        self._want_beat()

    # --- from the start to the end

    async def start(self) -> None:
        """Enter, and open the groups that nobody has. Raises StoreError."""
        await self._enter()
        await self._beat()
        self._running = self._tasks.start(self._run())
        ends_s = asyncio.get_running_loop().time() + LONGEST_START_S
        while (self._to_do or self._holdings.is_opening) and await self._hears_news(ends_s):
            pass

    def serves(self) -> None:
        """From now on calls are answered, so others may give it groups."""
        self._serves = True
        self._want_beat()

    async def give_away(self, within_s: float) -> None:
        """Hand all groups over to the others; what is left is free when this coordinator leaves. Takes nothing more."""
        self._is_leaving = True
        self._to_do.clear()
        if not self._may_answer(self._now_ms()):
            return  # the database does not answer, or they are others' already
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                with suppress(StoreError):  # others hear of the stop before what they get looks like too much
                    await self._beat()
                await self._holdings.hand_all_over(self._incumbent.leaving())

    async def leave(self) -> None:
        """Answer nothing any more, and be gone from the database. Others take what is left at once."""
        self._is_leaving = self._has_left = True
        self._may_answer = lambda now_ms: False
        self._woken.set()
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        try:
            async with asyncio.timeout(LONGEST_LEAVE_S):
                if self._running is not None:
                    await asyncio.wait((self._running,))
                coordinator_id = self._incumbent.coordinator_id
                if coordinator_id is not None:
                    async with self._store_turn:
                        await self._store.leave(coordinator_id)
        except (TimeoutError, StoreError) as error:  # others find out by themselves
            self._logger.warning("not_left", error=str(error) or "the database did not answer in time")
        finally:
            if self._running is not None:
                self._running.cancel()

    async def _run(self) -> None:
        while not self._has_left:
            try:
                await self._next_step()
            except Exception as error:  # a bug: without beats all groups would be lost
                self._logger.error("ownership_failed", exc_info=error)
                await asyncio.sleep(self._times.beat_ms / 1000)

    async def _next_step(self) -> None:
        if self._incumbent.coordinator_id is None:
            try:
                await self._enter()
            except StoreError as error:
                self._tell_of_failure(error)
                await self._rest(self._times.beat_ms)
                return
        now_ms, due_ms = self._now_ms(), self._beat_due_ms
        if self._is_wanted:
            due_ms = min(due_ms, self._beat_sent_ms + min(SHORTEST_BETWEEN_MS, self._times.beat_ms / 5))
        if due_ms <= now_ms:
            try:
                await self._beat()
            except StoreError as error:
                self._tell_of_failure(error)
            finally:
                self._beat_due_ms = self._incumbent.next_beat_ms(self._now_ms())
        elif self._to_do:
            await self._carry_out(self._to_do.popleft())
            if not self._to_do:
                self._tell_news()
        else:
            await self._rest(due_ms - now_ms)

    async def _rest(self, at_most_ms: float) -> None:
        self._woken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_ms / 1000):
                await self._woken.wait()

    # --- beats

    async def _enter(self) -> None:
        """Under an id that nobody has had. Raises StoreError."""
        coordinator_id = uuid.uuid4().hex
        async with self._store_turn:
            await self._store.enter(coordinator_id, self.url, self._release)
        self._entered(coordinator_id)
        self._incumbent.entered(coordinator_id, self.url, self._now_ms())
        self._logger.info("coordinator_entered", coordinator=coordinator_id, url=self.url)

    async def _beat(self) -> None:
        """Raises StoreError."""
        async with self._store_turn:
            coordinator_id = self._incumbent.coordinator_id
            assert coordinator_id is not None, "it has entered"
            self._is_wanted = False
            sent_ms = self._beat_sent_ms = self._now_ms()
            renews = self._incumbent.renews
            takes = renews and self._serves and not self._is_leaving
            try:
                view = await self._store.beat(coordinator_id, takes=takes, renews=renews)
            except BaseException:
                self._incumbent.not_beaten()
                raise
            self._note_lease()  # as it was before this beat
            self._incumbent.movable(() if self._is_leaving else self._groups.at_rest())
            actions = self._incumbent.beaten(sent_ms, self._now_ms(), view)
        self._beats_fail = False
        if view is not None:
            self._view, self._view_sent_ms = view, sent_ms
            self._holdings.seen(sent_ms)
        self._note_lease()
        self._watch_lease(sent_ms)
        self._take_in(actions)
        if not self._is_leaving:
            self._holdings.reconcile()
        self._tell_news()

    def _want_beat(self) -> None:
        self._is_wanted = True
        self._woken.set()

    def _tell_of_failure(self, error: StoreError) -> None:
        """The first of those that follow each other."""
        if not self._beats_fail:
            self._beats_fail = True
            self._logger.warning("lease_not_renewed", error=str(error))

    def _watch_lease(self, sent_ms: float) -> None:
        """The moment at which the lease ends is noticed, also while a beat waits for the database."""
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        in_ms = max(0.0, sent_ms + self._times.valid_ms - self._now_ms()) + 1
        self._lease_timer = asyncio.get_running_loop().call_later(in_ms / 1000, self._lease_is_due, sent_ms)

    def _lease_is_due(self, sent_ms: float) -> None:
        """Again, if the loop's clock runs ahead of this one: nobody else would notice while no beat is answered."""
        self._note_lease()
        if self._now_ms() <= sent_ms + self._times.valid_ms:
            self._watch_lease(sent_ms)

    def _note_lease(self) -> None:
        now_ms = self._now_ms()
        is_valid = self._may_answer(now_ms)
        is_first = self._was_valid is None
        if is_valid == self._was_valid or (is_first and not is_valid) or self._has_left:
            return
        self._was_valid = is_valid
        self._metrics.lease_valid.set(is_valid)
        if is_first:
            return
        if is_valid:
            self._logger.warning("lease_regained", after_ms=round(now_ms - self._ended_ms), groups=len(self._holdings))
            return
        self._ended_ms = now_ms
        self._logger.warning("lease_ended", groups=len(self._holdings))
        self._groups.let_go()  # whoever is held hears it now, and can go where it is answered
        self._tell_news()

    def _take_in(self, actions: list[Action]) -> None:
        """What concerns only this process is done at once. What is left of the last beat's plan is out of date."""
        self._to_do.clear()
        for action in actions:
            match action:
                case Lose(group_id):
                    self._holdings.lose(group_id)
                    self._logger.warning("group_lost", group=group_id)
                case ReadAgain():
                    self._groups.read_again()
                case Enter():
                    self._logger.warning("coordinator_removed", groups=len(self._holdings))
                    self._holdings.lose_all()
                case HandOver():  # it is not to be given up: the group counts as closed from now on
                    self._holdings.hand_over([action])
                case _:
                    self._to_do.append(action)

    def _tell_news(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _hears_news(self, ends_s: float) -> bool:
        """Whether something has changed by then."""
        news = self._news
        try:
            async with asyncio.timeout_at(ends_s):
                await news.wait()
        except TimeoutError:
            return False
        return True

    # --- actions

    async def _carry_out(self, action: Action) -> None:
        """One that fails is planned again after the next beat, if it is still to be done."""
        try:
            match action:
                case EndCoordinator(coordinator_id, renewals):
                    async with self._store_turn:
                        is_gone = await self._store.end(coordinator_id, renewals)
                    if is_gone:
                        self._logger.warning("coordinator_ended", coordinator=coordinator_id)
                case Take():
                    await self._take(action)
        except StoreError as error:
            self._logger.warning("ownership_not_changed", action=type(action).__name__, error=str(error))

    async def _take(self, take: Take) -> None:
        me = self._incumbent.coordinator_id
        if me is not None and not self._is_leaving and take.group_id not in self._creating:
            await self._holdings.take(take, me)


Owner = Ownership | SoleOwner
