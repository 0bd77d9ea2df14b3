"""Callers that wait for news of a group: held requests of members, and the pages of people who watch it.

A held request is a GET that waits for its assignment, or the heartbeat of a process.

Held requests are answered in waves. Thousands of members that learn of a rebalance at one moment would rejoin at once,
and their heartbeats would wait behind all those joins, or behind all the large assignments that they fetch. So a wave
answers for at most `WAVE_MEMBERS` members, who fetch about `WAVE_BYTES` at most, and then the loop has a pause for
what they send. When the pause itself ends late, the loop was busy, and the next pause is longer by as much: others get
their half of the loop, and the waves are never faster than the joins that follow them. (Liveness could be answered by
another process instead; then a join and a heartbeat could disagree about who is a member.)

A held request costs a future. The waker asks the group on its behalf, and answers only when the answer has changed.

A page is notified that something was committed, and asks for what it shows. A commit calls `Watching.changed` once,
which costs a look into a table while nobody watches. A watcher is notified once for all changes since it last asked, so
nothing piles up however many commits there are.

A caller whose connection breaks waits no more. `GroupsOfConnections` tells the groups that have members behind it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from anyio import move_on_after

from coordinator_api.group.events import FetchAssignment, ProcessHeartbeat
from coordinator_api.group.outcome import Response

WAVE_MEMBERS = 32
"""For how many members a wave answers. Each then costs the loop about half a millisecond, most of it in one turn. A
heartbeat of somebody else may wait as long as all of them."""

WAVE_BYTES = 4_194_304
"""After how many bytes of assignments a wave ends: with 50,000 tasks, each of ten members fetches 400 KB of them."""

WAVE_S = 0.005
"""How long a wave may take to look for changed answers before the loop turns."""

PAUSE_S = 0.01
"""Between two waves."""

LONGEST_PAUSE_S = 0.25

Recheck = FetchAssignment | ProcessHeartbeat
"""With `is_recheck`."""

Ask = Callable[[Recheck], Response]
"""The group's answer as it stands now, in microseconds. Raises StoreError when it may not be answered for."""

Weigh = Callable[[Response], int]
"""About how many bytes of assignments this answer sends, or makes members fetch."""

IsHeld = Callable[[Response], bool]
"""Whether this answer brings nothing new, so that the request stays held."""


@dataclass(slots=True, eq=False)
class _HeldRequest:
    """One held request. `members`: for how many members it asks. `answer`: None when it is let go without news."""

    recheck: Recheck
    is_held: IsHeld
    members: int
    answer: asyncio.Future[Response | None]

    def answer_now(self) -> None:
        if not self.answer.done():
            self.answer.set_result(None)

    def hung_up(self, gone: asyncio.Future[object]) -> None:
        if not gone.cancelled():
            gone.exception()  # however it ended, the caller is not there
        self.answer_now()


class HeldRequests:
    """Of one group. `wake` after every change that gives a member something to do."""

    def __init__(self, ask: Ask, weigh: Weigh = lambda _: 0) -> None:
        self._ask = ask
        self._weigh = weigh
        self._held: dict[_HeldRequest, None] = {}
        self._due: OrderedDict[_HeldRequest, None] = OrderedDict()
        self._waves: asyncio.Task[None] | None = None
        self._released = False

    async def hold(
        self, recheck: Recheck, is_held: IsHeld, members: int, wait_s: float, gone: Callable[[], Awaitable[object]]
    ) -> Response:
        """The answer as soon as it is not held any more, or after `wait_s` seconds, or when `gone()` has returned, or
        when all are released: as the group stands then.
        """
        response = self._ask(recheck)
        if self._released or not is_held(response):
            return response
        held = _HeldRequest(recheck, is_held, members, asyncio.get_running_loop().create_future())
        deadline = asyncio.get_running_loop().call_later(wait_s, held.answer_now)
        hang_up = asyncio.ensure_future(gone())
        hang_up.add_done_callback(held.hung_up)
        self._held[held] = None
        try:
            answer = await held.answer
        finally:
            del self._held[held]
            self._due.pop(held, None)
            deadline.cancel()
            hang_up.cancel()
        return self._ask(recheck) if answer is None else answer

    def wake(self) -> None:
        """Ask the group again on behalf of every held request, in waves."""
        for held in self._held:
            self._due.setdefault(held)
        if self._due and self._waves is None:
            self._waves = asyncio.create_task(self._wake_in_waves())

    def release(self) -> None:
        """Hold no request any longer: answer each as the group stands now, all at once."""
        self._released = True
        self.answer_now()

    def answer_now(self) -> None:
        """Answer each as the group stands now, all at once. Those that come later are held."""
        self._due.clear()
        for held in self._held:
            held.answer_now()

    async def _wake_in_waves(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = PAUSE_S
        try:
            while self._due:
                if not self._wave():
                    await asyncio.sleep(0)
                    continue
                began_s = loop.time()
                await asyncio.sleep(pause_s)
                late_s = loop.time() - began_s - pause_s
                pause_s = min(PAUSE_S + max(late_s, 0.0), LONGEST_PAUSE_S)
        finally:
            self._waves = None

    def _wave(self) -> int:
        """For how many members an answer was given."""
        answered = fetched = 0
        ends_at_s = time.perf_counter() + WAVE_S
        while self._due and answered < WAVE_MEMBERS and fetched < WAVE_BYTES and time.perf_counter() < ends_at_s:
            held, _ = self._due.popitem(last=False)
            if held.answer.done():
                continue
            try:
                response = self._ask(held.recheck)
            except Exception as error:  # a refusal, or a bug in the group's rules, which others are not to suffer from
                held.answer.set_exception(error)
                continue
            if not held.is_held(response):
                held.answer.set_result(response)
                answered += held.members
                fetched += self._weigh(response)
        return answered


class Watcher:
    """A watcher. Made by `Watching.watch`."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._changed: set[str] = set()
        self._stopped = asyncio.Event()

    @property
    def released(self) -> bool:
        """Whether the service stops, so that nobody waits any longer."""
        return self._stopped.is_set()

    async def pause(self, seconds: float) -> None:
        """Returns after this time, or when all are released."""
        with move_on_after(seconds):
            await self._stopped.wait()

    async def wait(self, at_most_s: float) -> frozenset[str]:
        """The groups that have changed since the last call, as soon as there is one; after `at_most_s` seconds, or when
        all are released, perhaps none.
        """
        with move_on_after(at_most_s):
            await self._woken.wait()
        changed = frozenset(self._changed)
        self._changed.clear()
        if not self.released:
            self._woken.clear()
        return changed

    def note(self, group_id: str) -> None:
        self._changed.add(group_id)
        self._woken.set()

    def release(self) -> None:
        self._stopped.set()
        self._woken.set()


class Watching:
    """Of one service, on its event loop."""

    def __init__(self) -> None:
        self._watchers: dict[str | None, set[Watcher]] = {}
        self._released = False

    @contextmanager
    def watch(self, group_id: str | None = None) -> Iterator[Watcher]:
        """`group_id`: None for every group."""
        watcher = Watcher()
        self._watchers.setdefault(group_id, set()).add(watcher)
        if self._released:
            watcher.release()
        try:
            yield watcher
        finally:
            self._watchers[group_id].discard(watcher)
            if not self._watchers[group_id]:
                del self._watchers[group_id]

    def changed(self, group_id: str) -> None:
        """Something new was committed of the group."""
        for key in (group_id, None):
            for watcher in self._watchers.get(key, ()):
                watcher.note(group_id)

    def release(self) -> None:
        """Nobody waits any longer: the service stops."""
        self._released = True
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.release()


Lost = Callable[[int, Collection[str]], None]
"""Notifies a group that this connection broke, with the members of its last heartbeat."""


class GroupsOfConnections:
    """Of one service. `bind` costs next to nothing, as it is called for every heartbeat of a process."""

    def __init__(self) -> None:
        self._bound: dict[int, dict[str, tuple[Collection[str], Lost]]] = {}

    @property
    def count(self) -> int:
        return len(self._bound)

    def bind(self, connection_id: int, group_id: str, member_ids: Collection[str], lost: Lost) -> None:
        self._bound.setdefault(connection_id, {})[group_id] = (member_ids, lost)

    def lost(self, connection_id: int) -> None:
        """Report the end of a connection to every group that has members behind it."""
        for member_ids, lost in self._bound.pop(connection_id, {}).values():
            lost(connection_id, member_ids)

    def forget(self, group_id: str) -> None:
        """The group is not here any more: what becomes of connections says nothing about its members."""
        for groups in self._bound.values():
            groups.pop(group_id, None)

    def closed(self, connection_id: int) -> None:
        """The service closed it, which says nothing about the members behind it."""
        self._bound.pop(connection_id, None)


class HeldHeartbeats:
    """Of one group: on which connections its members have a heartbeat held, the one held last at the end."""

    def __init__(self) -> None:
        self._held_on: dict[str, dict[int, None]] = {}

    @contextmanager
    def held(self, connection_id: int | None, member_ids: Collection[str]) -> Iterator[None]:
        """As long as its answer is held, or until its connection breaks. None: a connection that nobody watches."""
        if connection_id is None:
            yield
            return
        for member_id in member_ids:
            self._held_on.setdefault(member_id, {})[connection_id] = None
        try:
            yield
        finally:
            self._forget_members(connection_id, member_ids)

    def lost(self, connection_id: int, member_ids: Collection[str]) -> Mapping[str, int]:
        """The connection broke. Those of these members that have a heartbeat held on another one, and on which."""
        self._forget_members(connection_id, member_ids)
        return {each: next(reversed(self._held_on[each])) for each in member_ids if each in self._held_on}

    def _forget_members(self, connection_id: int, member_ids: Collection[str]) -> None:
        for member_id in member_ids:
            held_on = self._held_on.get(member_id)
            if held_on is not None:
                held_on.pop(connection_id, None)
                if not held_on:
                    del self._held_on[member_id]
