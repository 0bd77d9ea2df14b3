"""Callers that wait for changes of a group: held requests of members, and web pages that show the group.

A held request is the GET of an assignment that is not available yet, or the heartbeat of a process.

Held requests are answered in batches, which the code calls waves. If thousands of members learned of a rebalance at one
moment, they would rejoin at once, and their heartbeats would queue behind all those joins, or behind all the large
assignments that they fetch. So a batch ends after `WAVE_MEMBERS` members or about `WAVE_BYTES` of assignments,
whichever comes first. After each batch, the event loop handles the requests of the answered members during a pause. If
the pause ends late, the event loop was busy, and the next pause is longer by this delay: other requests get half of the
loop's time, and batches are never faster than the joins that follow them. (Another process could answer heartbeats
instead; then a join and a heartbeat could disagree about the members.)

A held request costs a future. `wake` asks the group again for each held request, and answers only if the answer has
changed.

A page is notified of a commit, and then requests its data. A commit calls `Watching.changed` once, which costs two
dictionary lookups if there is no watcher. A watcher is notified once for all changes since its last call, so
notifications do not accumulate.

The wait of a caller ends when the caller's connection breaks. `GroupsOfConnections` notifies the groups of the members
on that connection.
"""

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
"""The number of members after which a batch ends. A process heartbeat with more members is still answered as a whole.
The answer to each member takes about 0.5 ms of the event loop, most of it in one turn of the loop. Another member's
heartbeat may wait for the whole batch.
"""

WAVE_BYTES = 4_194_304
"""The bytes of assignments after which a batch ends: with 50,000 tasks, each of ten members fetches 400 KB of them."""

WAVE_S = 0.005
"""The longest time for which a batch may block the event loop while it looks for changed answers."""

PAUSE_S = 0.01
"""The shortest pause after a batch that answered members."""

LONGEST_PAUSE_S = 0.25

Recheck = FetchAssignment | ProcessHeartbeat
"""The event that asks again on behalf of a held request; its `is_recheck` is set."""

Ask = Callable[[Recheck], Response]
"""A function that returns the group's present answer within microseconds. Raises StoreError when the group may not
answer.
"""

Weigh = Callable[[Response], int]
"""A function that estimates the bytes of assignments that an answer contains or that it has members fetch."""

IsHeld = Callable[[Response], bool]
"""A function that returns whether this answer is unchanged, so that the request stays held."""


@dataclass(slots=True, eq=False)
class _HeldRequest:
    """One held request. `members`: the number of members that the request is for. `answer`: None if the request is
    released without a changed answer.
    """

    recheck: Recheck
    is_held: IsHeld
    members: int
    answer: asyncio.Future[Response | None]

    def answer_now(self) -> None:
        if not self.answer.done():
            self.answer.set_result(None)

    def hung_up(self, gone: asyncio.Future[object]) -> None:
        if not gone.cancelled():
            gone.exception()  # the caller has disconnected, whether or not the wait for the disconnection failed
        self.answer_now()


class HeldRequests:
    """The held requests of one group. Call `wake` after each change that concerns a member."""

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
        """Returns the answer once `is_held` is False for the answer. After `wait_s` seconds, when `gone()` has
        returned, or when all requests are released, returns the present answer.
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
        """Ask the group again for every held request, in batches."""
        for held in self._held:
            self._due.setdefault(held)
        if self._due and self._waves is None:
            self._waves = asyncio.create_task(self._wake_in_waves())

    def release(self) -> None:
        """Stop holding requests: answer all at once from the present state of the group."""
        self._released = True
        self.answer_now()

    def answer_now(self) -> None:
        """Answer all held requests at once from the present state of the group. Later requests are held again."""
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
        """Answer one batch. Returns the number of members that were answered."""
        answered = fetched = 0
        ends_at_s = time.perf_counter() + WAVE_S
        while self._due and answered < WAVE_MEMBERS and fetched < WAVE_BYTES and time.perf_counter() < ends_at_s:
            held, _ = self._due.popitem(last=False)
            if held.answer.done():
                continue
            try:
                response = self._ask(held.recheck)
            # a refusal, or a bug in the group's rules, must not affect the other requests
            except Exception as error:
                held.answer.set_exception(error)
                continue
            if not held.is_held(response):
                held.answer.set_result(response)
                answered += held.members
                fetched += self._weigh(response)
        return answered


class Watcher:
    """One caller that waits for changes. `Watching.watch` makes a Watcher."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._changed: set[str] = set()
        self._stopped = asyncio.Event()

    @property
    def released(self) -> bool:
        """Whether the service is stopping, so that no caller waits any longer."""
        return self._stopped.is_set()

    async def pause(self, seconds: float) -> None:
        """Waits for this time, or until all watchers are released."""
        with move_on_after(seconds):
            await self._stopped.wait()

    async def wait(self, at_most_s: float) -> frozenset[str]:
        """Waits for a change, and returns the groups that have changed since the last call. After `at_most_s` seconds,
        or when all watchers are released, the result may be empty.
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
    """The watchers of one service. Use `Watching` on the service's event loop."""

    def __init__(self) -> None:
        self._watchers: dict[str | None, set[Watcher]] = {}
        self._released = False

    @contextmanager
    def watch(self, group_id: str | None = None) -> Iterator[Watcher]:
        """A watcher of the changes of a group. `group_id`: None for all groups."""
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
        """Notify the watchers that the group has committed a change."""
        for key in (group_id, None):
            for watcher in self._watchers.get(key, ()):
                watcher.note(group_id)

    def release(self) -> None:
        """Release all watchers, because the service stops."""
        self._released = True
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.release()


Lost = Callable[[int, Collection[str]], None]
"""A function that notifies a group that this connection broke, with the members of its last heartbeat."""


class GroupsOfConnections:
    """The groups that have members on each connection of one service. `bind` is cheap, because it is called for every
    heartbeat of a process.
    """

    def __init__(self) -> None:
        self._bound: dict[int, dict[str, tuple[Collection[str], Lost]]] = {}

    @property
    def count(self) -> int:
        return len(self._bound)

    def bind(self, connection_id: int, group_id: str, member_ids: Collection[str], lost: Lost) -> None:
        self._bound.setdefault(connection_id, {})[group_id] = (member_ids, lost)

    def lost(self, connection_id: int) -> None:
        """Report a broken connection to every group that has members on it."""
        for member_ids, lost in self._bound.pop(connection_id, {}).values():
            lost(connection_id, member_ids)

    def forget(self, group_id: str) -> None:
        """Remove a group that is not open here any more: broken connections no longer concern it."""
        for groups in self._bound.values():
            groups.pop(group_id, None)

    def closed(self, connection_id: int) -> None:
        """Remove a connection that the service itself closed, which does not show that the connection's members are
        gone.
        """
        self._bound.pop(connection_id, None)


class HeldHeartbeats:
    """The connections on which the members of one group have a heartbeat held, in the order in which the holding
    began.
    """

    def __init__(self) -> None:
        self._held_on: dict[str, dict[int, None]] = {}

    @contextmanager
    def held(self, connection_id: int | None, member_ids: Collection[str]) -> Iterator[None]:
        """Within the block, the members' heartbeat counts as held on this connection, unless the connection breaks.
        `connection_id` is None for a connection that is not watched.
        """
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
        """Note that the connection broke. Returns the members that have a heartbeat held on another connection, each
        with that connection.
        """
        self._forget_members(connection_id, member_ids)
        return {each: next(reversed(self._held_on[each])) for each in member_ids if each in self._held_on}

    def _forget_members(self, connection_id: int, member_ids: Collection[str]) -> None:
        for member_id in member_ids:
            held_on = self._held_on.get(member_id)
            if held_on is not None:
                held_on.pop(connection_id, None)
                if not held_on:
                    del self._held_on[member_id]
