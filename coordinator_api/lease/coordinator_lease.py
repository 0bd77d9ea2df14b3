"""Renews the lease of this coordinator periodically, and carries out the actions that `LeaseHolder` decides on.

Immediately after a poll, the coordinator drops lost groups and begins to hand groups over. If the poll restores an
expired lease, the coordinator also marks its groups, so that each group is read from the store again. After that, the
coordinator deletes the rows of expired coordinators and takes free groups. One after the other, the coordinator deletes
these rows and takes these groups. The coordinator stops when the next poll is due.

Rules:
- Opening a group replays its log, and closing a group waits for its commit. Opening and closing run outside the renewal
  loop.
- To hand a group over, the coordinator first closes the group and then changes the group's row. To take a group, the
  coordinator first changes the group's row and then opens the group. Between these two steps, calls for the group wait.
- Each call that asks for the owner of a group requests a poll, because the call needs rows that were read after the
  call began. For example, another coordinator may just have handed the group over and redirected the caller to this
  coordinator. All calls that wait for a poll share one poll, so the coordinator polls only a few times a second.
- Quotas, metrics and lists of groups use the rows of the last poll.
- The lease of an SQLite file never expires. For an SQLite file, the coordinator polls once, at its start, and takes
  every group.

`OwnedGroups` opens and closes groups.
"""

import asyncio
import math
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import structlog
from anyio import CancelScope, move_on_after

from coordinator_api.clock import since_boot_ms
from coordinator_api.errors import GroupIsLoading
from coordinator_api.lease import decisions
from coordinator_api.lease.background_tasks import BackgroundTasks
from coordinator_api.lease.lease_holder import LeaseHolder
from coordinator_api.lease.owned_groups import GroupHost, OtherGroup, OwnedGroups
from coordinator_api.metrics import Metrics
from coordinator_api.store.lease_rows import LeaseStore
from coordinator_api.store.store_errors import LeaseEnded, StoreError

LONGEST_POLL_WAIT_S = 0.5
"""The longest time for which a call waits for a poll. After this time, the call is answered with the owner's address
from an older poll.
"""

LONGEST_OPENING_WAIT_S = 2.0
"""The longest time for which a call waits for a group that no coordinator owns, or that is being opened. The wait is
long enough to avoid most refusals, because a refused caller repeats its call only after one to two seconds.
"""

SHORTEST_BETWEEN_MS = 50.0
"""The shortest time between two polls that are requested by calls. If a fifth of the renewal interval is shorter than
this time, a fifth of the interval is used.
"""

LONGEST_START_S = 30.0
"""The longest time for which `start` waits until the groups that it takes are open. If a group is not open after this
time, `start` returns, but calls for this group wait until it is open.
"""

LONGEST_LEAVE_S = 0.5
"""When the coordinator stops, it waits at most this time for the answer of the database."""

PAUSE_AFTER_A_BUG_MS = 1_000.0


@dataclass(eq=False)
class CoordinatorLease:
    """Renews the lease of this coordinator. Use `CoordinatorLease` on only one event loop.

    `url`: the address at which other coordinators reach this coordinator. `release`: the version of this project.
    `is_shared`: True if other coordinators can use the database, so that the lease can expire.
    """

    _store: LeaseStore
    _url: str
    _release: str
    _groups: GroupHost
    _metrics: Metrics
    _now_ms: Callable[[], float] = since_boot_ms

    def __post_init__(self) -> None:
        self.is_shared = self._store.times.expires
        self._times = self._store.times
        self._holder = LeaseHolder(self._store.times)
        self._logger = structlog.get_logger("coordinator_api")
        self._tasks = BackgroundTasks()
        self._store_turn = asyncio.Lock()
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        self._view_sent_ms = self._poll_sent_ms = self._poll_due_ms = -math.inf
        self._poll_is_requested = False
        self._polls_fail = False
        self._to_do: deque[decisions.Action] = deque()
        self._owned_groups = OwnedGroups(
            self._store, self._store_turn, self._holder, self._groups, self._metrics, self._now_ms, self._notify_waiters
        )
        self._creating: dict[str, str | None] = {}
        self._was_valid = False
        self._ended_ms: float | None = None
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None
        self._serves = self._is_leaving = self._has_left = False

    # --- lookups

    def check(self) -> None:
        """Raises LeaseEnded if this coordinator may not answer now, because other coordinators may own its groups."""
        if not self._may_answer():
            self._metrics.refused_late_answers.inc()
            raise LeaseEnded(LeaseEnded.public)

    def _may_answer(self) -> bool:
        return not self._has_left and self._holder.may_answer(self._now_ms())

    def epoch(self, group_id: str) -> int:
        """Returns the epoch in which this coordinator owns the group; 0 for a group that it does not own."""
        return self._holder.owned.get(group_id, 0)

    async def located(self, group_id: str) -> decisions.Here | decisions.Elsewhere | decisions.NoSuchGroup:
        """Returns `Here`, `Elsewhere` or `NoSuchGroup` for the group. The result comes from rows that were read after
        this call began. If a poll takes longer than LONGEST_POLL_WAIT_S, `Elsewhere` may come from older rows. If the
        result is `Here`, the group is open.

        Raises LeaseEnded. Raises GroupIsLoading if the group is not open in any coordinator after
        LONGEST_OPENING_WAIT_S.
        """
        asked_ms, began_s = self._now_ms(), asyncio.get_running_loop().time()
        while True:
            self.check()
            is_new = self._view_sent_ms >= asked_ms or not self.is_shared
            match self._holder.whereabouts(group_id):
                case decisions.Here() as here if self._groups.is_open(group_id):
                    return here
                case decisions.Elsewhere() as elsewhere if is_new or self._holder.has_changed(group_id):
                    return elsewhere
                case decisions.NoSuchGroup() as none if is_new:
                    return none
                case found:
                    if not is_new:
                        self._request_poll()
                    longest_s = (
                        LONGEST_POLL_WAIT_S if isinstance(found, decisions.Elsewhere) else LONGEST_OPENING_WAIT_S
                    )
                    if await self._wait_for_change(began_s + longest_s):
                        continue
                    if isinstance(found, decisions.Elsewhere):
                        return found
                    raise GroupIsLoading(
                        f"group {group_id} is being taken over, or its owner is not known yet: ask again in a second"
                    )

    def is_unknown(self, group_id: str) -> bool:
        """Returns True if no group has this id, according to the newest poll and to later changes by this
        coordinator.
        """
        return isinstance(self._holder.whereabouts(group_id), decisions.NoSuchGroup)

    def elsewhere(self) -> list[OtherGroup]:
        """Returns all groups that are not open in this coordinator, ordered by id."""
        return [
            OtherGroup(group_id, found.url if isinstance(found, decisions.Elsewhere) else None, group.members)
            for group_id, group in sorted(self._holder.groups.items())
            if not self._groups.is_open(group_id)
            for found in (self._holder.whereabouts(group_id),)
        ]

    def known_ids(self) -> Set[str]:
        """Returns the ids of all groups, according to the newest poll and to later changes by this coordinator."""
        return self._holder.groups.keys()

    def problem(self) -> str | None:
        """Returns the reason why this coordinator may not answer now, as a text without names and addresses. Returns
        None if this coordinator may answer.
        """
        return None if self._may_answer() else "it has ended, and was not renewed yet"

    # --- events of a group

    @contextmanager
    def creating(self, group_id: str) -> Iterator[None]:
        """Within the block, this coordinator creates the group. The renewal loop then does not take the group, even if
        the group's row names this coordinator as the owner.
        """
        self._creating[group_id] = self._holder.coordinator_id
        try:
            yield
        finally:
            del self._creating[group_id]

    def created(self, group_id: str, epoch: int) -> None:
        """Record that this coordinator has created the group, and owns it in this epoch. Call `created` within the
        block of `creating`.
        """
        if self._creating[group_id] != self._holder.coordinator_id:
            self._groups.lose(group_id)  # after the group was stored, the row of this coordinator was deleted
            return
        self._holder.own(group_id, epoch)

    def deleted(self, group_id: str) -> None:
        self._holder.deleted(group_id)

    def lost(self, group_id: str) -> None:
        """Log that the store refused a write of the group, because another coordinator owns the group. Request a poll,
        which shows the new owner.
        """
        self._logger.warning("group_lost", group=group_id, why="a write was refused")
        self._request_poll()

    # --- start and stop

    async def start(self) -> None:
        """Insert this coordinator's row into the database, then take and open the groups that no coordinator owns.
        Raises StoreError.
        """
        await self._enter()
        await self._poll()
        self._poll_due_ms = self._holder.next_poll_ms(self._now_ms())
        self._running = self._tasks.start(self._run())
        ends_s = asyncio.get_running_loop().time() + LONGEST_START_S
        while (self._to_do or self._owned_groups.is_opening) and await self._wait_for_change(ends_s):
            pass

    def serves(self) -> None:
        """Record that this coordinator now serves calls, so that other coordinators may hand groups over to it."""
        self._serves = True
        self._request_poll()

    async def give_away(self, within_s: float) -> None:
        """Hand all groups over to other coordinators, and take no further groups. If a group is not handed over, it
        becomes free when this coordinator leaves.
        """
        self._is_leaving = True
        self._to_do.clear()
        if not self._may_answer():
            return  # The database does not answer, or other coordinators already own the groups.
        # `asyncio.timeout` is used, because an anyio scope would also cancel the clean-up of asyncpg after a timeout.
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                # the poll clears `takes`, so that no other coordinator hands groups to this one
                with suppress(StoreError):
                    await self._poll()
                await self._owned_groups.hand_all_over(self._holder.leaving())

    async def leave(self) -> None:
        """Stop answering, and delete this coordinator's row. Other coordinators take the remaining groups
        immediately.
        """
        self._is_leaving = self._has_left = True
        self._woken.set()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        try:
            async with asyncio.timeout(LONGEST_LEAVE_S):
                if self._running is not None:
                    await asyncio.wait((self._running,))
                coordinator_id = self._holder.coordinator_id
                if coordinator_id is not None:
                    async with self._store_turn:
                        await self._store.leave(coordinator_id)
        # the row stays until another coordinator finds that the lease has expired
        except (TimeoutError, StoreError) as error:
            self._logger.warning("not_left", error=str(error) or "the database did not answer in time")
        finally:
            if self._running is not None:
                self._running.cancel()

    async def _run(self) -> None:
        while not self._has_left:
            try:
                await self._next_step()
            # continue after a bug, because without renewals this coordinator would lose all groups
            except Exception as error:
                self._logger.error("lease_renewal_failed", exc_info=error)
                await asyncio.sleep(min(self._times.renewal_ms, PAUSE_AFTER_A_BUG_MS) / 1000)

    async def _next_step(self) -> None:
        now_ms, due_ms = self._now_ms(), self._poll_due_ms
        if self._poll_is_requested:
            due_ms = min(due_ms, self._poll_sent_ms + min(SHORTEST_BETWEEN_MS, self._times.renewal_ms / 5))
        if due_ms <= now_ms:
            try:
                if self._holder.coordinator_id is None:
                    await self._enter()
                await self._poll()
            except StoreError as error:
                if not self._polls_fail:  # only the first of consecutive failures is logged
                    self._logger.warning("lease_not_renewed", error=str(error))
                self._polls_fail = True
            finally:
                self._poll_due_ms = self._holder.next_poll_ms(self._now_ms())
        elif self._to_do:
            await self._carry_out(self._to_do.popleft())
            if not self._to_do:
                self._notify_waiters()
        else:
            self._woken.clear()
            with move_on_after((due_ms - now_ms) / 1000):
                await self._woken.wait()

    # --- polls

    async def _enter(self) -> None:
        """Insert this coordinator's row under a new id. Raises StoreError."""
        coordinator_id = uuid.uuid4().hex
        async with self._store_turn:
            await self._store.enter(coordinator_id, self._url, self._release)
        self._holder.entered(coordinator_id, self._url, self._now_ms())
        if self.is_shared:  # an SQLite file has only one coordinator, so its id tells an operator nothing
            self._logger.info("coordinator_entered", coordinator=coordinator_id, url=self._url)

    async def _poll(self) -> None:
        """Sends one poll, and begins the actions that follow from the result. Raises StoreError."""
        async with self._store_turn:
            coordinator_id = self._holder.coordinator_id
            assert coordinator_id is not None, "it has entered"
            self._poll_is_requested = False
            sent_ms = self._poll_sent_ms = self._now_ms()
            renews = self._holder.renews
            takes = renews and self._serves and not self._is_leaving
            try:
                view = await self._store.poll(coordinator_id, takes=takes, renews=renews)
            except BaseException:
                self._holder.poll_failed()
                raise
            self._note_lease()  # the lease may have expired while the poll was under way
            movable = () if self._is_leaving else self._groups.at_rest()
            actions = self._holder.polled(sent_ms, self._now_ms(), view, movable)
        self._polls_fail = False
        if view is not None:
            self._view_sent_ms = sent_ms
        self._watch_expiry(sent_ms)
        if self._holder.coordinator_id is None:  # this coordinator has lost its row, so all actions are `Lose`
            self._logger.warning("coordinator_removed", groups=len(actions))
        self._take_in(actions)
        if not self._is_leaving:
            self._owned_groups.open_rest()
        self._notify_waiters()

    def _request_poll(self) -> None:
        self._poll_is_requested = True
        self._woken.set()

    def _watch_expiry(self, sent_ms: float) -> None:
        """Record whether the lease is valid now. Set a timer for the expiry, because a poll may wait for the database
        at the time of the expiry.

        `sent_ms`: the time at which the newest answered poll was sent.
        """
        self._note_lease()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        left_ms = sent_ms + self._times.valid_ms - self._now_ms()
        # The timer may fire early, because the event loop uses another clock. After an early timer, this call sets the
        # timer again.
        if self.is_shared and left_ms >= 0:
            loop = asyncio.get_running_loop()
            self._expiry_timer = loop.call_later((left_ms + 1) / 1000, self._watch_expiry, sent_ms)

    def _note_lease(self) -> None:
        """If the lease has expired or has become valid again since the last call, log and count this change."""
        is_valid, groups = self._may_answer(), len(self._holder.owned)
        if is_valid == self._was_valid or self._has_left:
            return
        self._was_valid = is_valid
        self._metrics.lease_valid.set(is_valid)
        if not is_valid:
            self._ended_ms = self._now_ms()
            self._logger.warning("lease_ended", groups=groups)
            # answer the callers of held requests now, so that they can call another coordinator
            self._groups.answer_now()
            self._notify_waiters()
        elif self._ended_ms is not None:
            self._logger.warning("lease_regained", after_ms=round(self._now_ms() - self._ended_ms), groups=groups)

    def _take_in(self, actions: list[decisions.Action]) -> None:
        """Carry out the actions that do not begin with an access to the store. Queue the remaining actions.
        The new queue replaces the actions that are still queued from the last poll.
        """
        self._to_do.clear()
        for action in actions:
            match action:
                case decisions.Lose(group_id):
                    self._groups.lose(group_id)
                    self._logger.warning("group_lost", group=group_id)
                case decisions.ReadAgain():
                    self._groups.read_again()
                # begin the hand-over immediately: from then on, the group no longer counts as open
                case decisions.HandOver():
                    self._owned_groups.hand_over(action)
                case _:
                    self._to_do.append(action)

    def _notify_waiters(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _wait_for_change(self, ends_s: float) -> bool:
        """Waits until `_notify_waiters` is called, but at most until `ends_s`. Returns whether `_notify_waiters` was
        called.
        """
        with CancelScope(deadline=ends_s) as waiting:
            await self._changed.wait()
        return not waiting.cancelled_caught

    # --- actions

    async def _carry_out(self, action: decisions.Action) -> None:
        """Carries out an action. If the action fails and is still needed, the next poll plans it again."""
        try:
            match action:
                case decisions.EndCoordinator(coordinator_id, renewals):
                    async with self._store_turn:
                        was_ended = await self._store.end(coordinator_id, renewals)
                    if was_ended:
                        self._logger.warning("coordinator_ended", coordinator=coordinator_id)
                case decisions.Take():
                    me = self._holder.coordinator_id
                    if me is not None and not self._is_leaving and action.group_id not in self._creating:
                        await self._owned_groups.take(action, me)
        except StoreError as error:
            self._logger.warning("lease_action_failed", action=type(action).__name__, error=str(error))
