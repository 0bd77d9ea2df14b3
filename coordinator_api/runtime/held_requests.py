"""Serves callers that wait for changes of a group. The callers are members with held requests, and web pages that show
the group.

A held request is the GET of an assignment that is not available yet, or the heartbeat of a process.

Held requests are answered in batches, which the code calls waves. If all requests were answered at once, thousands of
members would begin to rejoin at the same moment. Heartbeats would then have to wait until the service has handled all
these joins and sent all assignments. A batch ends after `WAVE_MEMBERS` members or about `WAVE_BYTES` of assignments.
After each batch, the event loop handles the requests of the answered members during a pause. If a pause ends late
because the event loop was busy, the next pause is longer by this delay. The pauses are half of the loop's time. During
a pause, the loop handles other requests, including joins that the batch causes. Heartbeats are answered in the same
process as joins, because the answers of two processes could contradict each other.

`wake` computes the answer to each held request again, and sends the answer only if it has changed.

A web page is notified of a commit, and then requests the data that it shows. Each commit calls `Watching.changed` once.
A call of `Watching.changed` without watchers needs only two dictionary lookups. If many changes occur between two calls
of a watcher, the watcher gets a single notification. So notifications do not accumulate.

When the connection of a waiting caller breaks, the wait ends. `GroupsOfConnections` then notifies the groups that have
members on the connection.
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
"""The number of members after which a batch ends. A process heartbeat is answered as a whole, even if it has more
members than this number. The event loop needs about 0.5 ms for the answer to one member. Other heartbeats may have to
wait for the whole batch.
"""

WAVE_BYTES = 4_194_304
"""The number of bytes of assignments after which a batch ends. In a group with 50,000 tasks and ten members, each
member fetches 400 KB.
"""

WAVE_S = 0.005
"""The longest time for which a batch may block the event loop while it computes answers."""

PAUSE_S = 0.01
"""The shortest pause after a batch that answered members."""

LONGEST_PAUSE_S = 0.25

Recheck = FetchAssignment | ProcessHeartbeat
"""The event of a held request, with `is_recheck` set. The group computes the answer to the request again from this
event.
"""

Ask = Callable[[Recheck], Response]
"""A function that returns the group's present answer within microseconds. The function raises StoreError if the group
must not answer.
"""

Weigh = Callable[[Response], int]
"""A function that estimates how many bytes of assignments members receive because of an answer. The bytes are in the
answer itself, or in the answers to the fetches that follow.
"""

IsHeld = Callable[[Response], bool]
"""A function that returns True if the answer is unchanged, so that the request stays held."""

CallerGone = Callable[[], Awaitable[object]]
"""A function that returns when the caller of a held request has hung up."""


@dataclass(slots=True, eq=False)
class _HeldRequest:
    """One held request. `members`: the number of members in the request. `answer`: a future that gets the changed
    answer. The result of the future is None if the request ends unchanged, for example at its time limit.
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
            gone.exception()  # an error here also means that the caller has disconnected
        self.answer_now()


class HeldRequests:
    """The held requests of one group. Call `wake` after each change that may change an answer."""

    def __init__(self, ask: Ask, weigh: Weigh = lambda _: 0) -> None:
        self._ask = ask
        self._weigh = weigh
        self._held: dict[_HeldRequest, None] = {}
        self._due: OrderedDict[_HeldRequest, None] = OrderedDict()
        self._waves: asyncio.Task[None] | None = None
        self._released = False

    async def hold(self, recheck: Recheck, is_held: IsHeld, members: int, wait_s: float, gone: CallerGone) -> Response:
        """Returns the answer to `recheck` as soon as `is_held` returns False for this answer. If `is_held` still
        returns True after `wait_s` seconds, returns the present answer. Returns the present answer earlier if `gone()`
        returns or all requests are released.
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
        """Compute the answer to every held request again, in batches."""
        for held in self._held:
            self._due.setdefault(held)
        if self._due and self._waves is None:
            self._waves = asyncio.create_task(self._wake_in_waves())

    def release(self) -> None:
        """Answer all requests immediately, from the present state of the group. Requests that arrive later are not
        held.
        """
        self._released = True
        self.answer_now()

    def answer_now(self) -> None:
        """Answer all held requests immediately, from the present state of the group. Later requests are still held."""
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
        """Answer one batch of held requests. Returns the number of members that were answered."""
        answered = fetched = 0
        ends_at_s = time.perf_counter() + WAVE_S
        while self._due and answered < WAVE_MEMBERS and fetched < WAVE_BYTES and time.perf_counter() < ends_at_s:
            held, _ = self._due.popitem(last=False)
            if held.answer.done():
                continue
            try:
                response = self._ask(held.recheck)
            # a refusal or a bug in the group's rules must not affect the other requests
            except Exception as error:
                held.answer.set_exception(error)
                continue
            if not held.is_held(response):
                held.answer.set_result(response)
                answered += held.members
                fetched += self._weigh(response)
        return answered


class Watcher:
    """Waits for changes of groups on behalf of one caller. Call `Watching.watch` to get a Watcher."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._changed: set[str] = set()
        self._stopped = asyncio.Event()

    @property
    def released(self) -> bool:
        """True if the service is stopping, so that callers must not wait any longer."""
        return self._stopped.is_set()

    async def pause(self, seconds: float) -> None:
        """Waits for `seconds`, or until all watchers are released."""
        with move_on_after(seconds):
            await self._stopped.wait()

    async def wait(self, at_most_s: float) -> frozenset[str]:
        """Waits for a change, and returns the groups that have changed since the last call. The wait also ends after
        `at_most_s` seconds, or when all watchers are released. If there was no change, the result is empty.
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
        """Returns a watcher that is notified of the changes of a group. `group_id`: the group to watch; None for all
        groups.
        """
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
"""A function that tells a group that a connection is broken. The function is called with the members of the last
heartbeat on the connection.
"""


class GroupsOfConnections:
    """For each connection of one service, the groups that have members on this connection. `bind` has to be cheap,
    because it is called for every process heartbeat.
    """

    def __init__(self) -> None:
        self._bound: dict[int, dict[str, tuple[Collection[str], Lost]]] = {}

    @property
    def count(self) -> int:
        return len(self._bound)

    def bind(self, connection_id: int, group_id: str, member_ids: Collection[str], lost: Lost) -> None:
        self._bound.setdefault(connection_id, {})[group_id] = (member_ids, lost)

    def lost(self, connection_id: int) -> None:
        """Report a broken connection to every group that has members on the connection."""
        for member_ids, lost in self._bound.pop(connection_id, {}).values():
            lost(connection_id, member_ids)

    def forget(self, group_id: str) -> None:
        """Remove a group that is no longer open in this coordinator. A removed group is not notified when a connection
        breaks.
        """
        for groups in self._bound.values():
            groups.pop(group_id, None)

    def closed(self, connection_id: int) -> None:
        """Remove a connection that the service itself closed, because its members may still be alive."""
        self._bound.pop(connection_id, None)


class HeldHeartbeats:
    """For each member of a group, the connections on which a heartbeat of the member is held. The oldest connection is
    first.
    """

    def __init__(self) -> None:
        self._held_on: dict[str, dict[int, None]] = {}

    @contextmanager
    def held(self, connection_id: int | None, member_ids: Collection[str]) -> Iterator[None]:
        """Within the block, a heartbeat of these members counts as held on this connection. After a break of the
        connection, the heartbeat no longer counts as held. `connection_id`: the number of the connection; None for a
        connection that is not watched.
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
        """Remove the broken connection. Returns the members that have a held heartbeat on a different connection, each
        with the number of that connection.
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
