"""The queue of a group's events. The queue handles events in the order of arrival. The queue commits all waiting events
together as one batch.

The queue applies each waiting event in memory. When all events are applied, the queue makes ONE commit, carries out
their effects, and answers each event.

Rules:
- If the rules of the group raise an error for an event, only this event fails.
- If a commit fails, every event of its batch fails with StoreError. After a failed commit, it is not known whether the
  store has the records. So the group is read from the store again before its next event. If the group's log is damaged
  when the group is read again, all further events fail.
- While the lease of this process is not valid, all events fail and no event is applied.
- A deletion has a separate batch, and an event with a recording is the last event of its batch. The limits of a batch
  ensure that a transaction has at most one deletion and at most one recording.
- The queue handles an event even if the event's caller disconnects.

The queue handles events in short time slices. Between two slices, the event loop answers heartbeats, which do not use
this queue.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field

from coordinator_api.clock import sockets_read
from coordinator_api.group.events import DeleteGroup, Event, Recovered, Tick
from coordinator_api.group.outcome import Outcome, Response, RunRebalance
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.lease.owned_groups import GroupLease
from coordinator_api.runtime.durable_group import UNREADABLE, DurableGroup, GroupEnvironment, RecordingFor
from coordinator_api.store.store_errors import StoreError

MOST_IN_A_BATCH = 1_000
"""The largest number of events in a batch. Further events wait for the next batch. Because of the limit, an answer does
not wait for very many other events.
"""

SLICE_S = 0.005
"""The longest time, in seconds, for which the queue applies events before other asyncio tasks run."""

ANSWERS_A_TURN = 32
"""The number of callers that the queue answers before other asyncio tasks run. The other tasks then send the responses
to the callers.
"""


@dataclass(slots=True)
class _Waiting:
    event: Event
    recording_for: RecordingFor | None
    answer: asyncio.Future[Response]
    tenant: str = ""

    def succeed(self, response: Response) -> None:
        if not self.answer.done():  # the caller may have disconnected
            self.answer.set_result(response)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # mark the error as retrieved, so that asyncio does not print the error


@dataclass(slots=True)
class TakenEvents:
    """The events of one batch, and their effects. `rebalance`: the last rebalance that these events requested. The last
    rebalance replaces the earlier rebalances.
    """

    events: list[tuple[_Waiting, Outcome]] = field(default_factory=list)
    recording_for: RecordingFor | None = None
    rebalance: RunRebalance | None = None


@dataclass(eq=False)
class EventQueue:
    """The queue of one group. `reloaded`: a function that is called after the group was read from the store again.
    `committed`: a function that is called after each committed batch, before the callers of the batch are answered.
    `failed`: a function that is called after events failed. The function `failed` has to put a `Tick` into the queue a
    little later.

    `end`: the error that occurred when the damaged log was read again; None if the log can be read. If `end` is set,
    each event fails with the error in `end`.
    """

    _durable: DurableGroup
    _lease: GroupLease
    environment: InitVar[GroupEnvironment]
    _reloaded: Callable[[], None]
    _committed: Callable[[Sequence[CoordinatorRecord], TakenEvents], None]
    _failed: Callable[[], None]

    def __post_init__(self, environment: GroupEnvironment) -> None:
        self.end: Exception | None = None
        self._clock = environment.clock
        self._backlog = environment.backlog
        self._waiting: deque[_Waiting] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    def put(
        self, event: Event, recording_for: RecordingFor | None = None, tenant: str = ""
    ) -> asyncio.Future[Response]:
        """Adds an event. Returns the future of the answer to the event. The future raises StoreError if the event could
        not be committed. The future also raises the errors of the group's rules.

        `tenant`: the tenant whose quotas apply to the event; empty if no quotas apply.
        """
        waiting = _Waiting(event, recording_for, asyncio.get_running_loop().create_future(), tenant)
        if self.end is not None:
            waiting.fail(_as_store_error(self.end))
            return waiting.answer
        self._waiting.append(waiting)
        self._backlog.events += 1
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return waiting.answer

    async def renew(self) -> None:
        """Write the committed state to the store as a new log of the group. Returns when the waiting events have been
        answered.
        """
        self._durable.renew()
        await self.put(Tick())
        if self._worker is not None:
            await asyncio.wait((self._worker,))

    async def close(self) -> None:
        """Stop compacting the group's log. Returns when the waiting events have been answered."""
        self._closed = True
        if self._worker is not None:
            await asyncio.wait((self._worker,))

    async def _work(self) -> None:
        try:
            while self._waiting:
                if not await self._is_ready():
                    continue
                await self._next_batch()
                if not self._closed and not self._durable.is_uncertain:
                    await self._durable.compact_if_long()
        finally:
            self._worker = None
            if self._waiting:  # the event loop is ending and has cancelled this task, so no further answer is possible
                self._fail(self._all_waiting(), StoreError("the service stops"))

    async def _is_ready(self) -> bool:
        """Check the lease, and reload an uncertain group. Returns whether the check and the reload succeeded. If the
        check or the reload fails, every waiting event fails.
        """
        is_reloaded = self._durable.is_uncertain
        try:
            self._lease.check()
            if is_reloaded:
                await self._durable.reload()
        except Exception as error:
            if isinstance(error, UNREADABLE):
                self.end = error
            self._fail(self._all_waiting(), error)
            self._failed()
            return False
        if is_reloaded:
            self._backlog.events += 1
            self._waiting.appendleft(_Waiting(Recovered(), None, asyncio.get_running_loop().create_future()))
            self._reloaded()
        return True

    async def _next_batch(self) -> None:
        taken = TakenEvents()
        try:
            await self._take(taken)
            if not taken.events:
                return
            records = await self._durable.commit(taken.events[-1][1].response, taken.recording_for)
        except BaseException as error:
            self._fail([waiting for waiting, _ in taken.events], error)
            self._failed()
            if not isinstance(error, Exception):
                raise
            return
        finally:
            if self._durable.is_uncertain:
                self._failed()
        self._committed(records, taken)
        for number, (waiting, outcome) in enumerate(taken.events, start=1):
            waiting.succeed(outcome.response)
            if number % ANSWERS_A_TURN == 0:
                await asyncio.sleep(0)

    async def _take(self, taken: TakenEvents) -> None:
        """Apply events in memory until the batch is complete."""
        turn_at_s = time.perf_counter() + SLICE_S
        while self._waiting and len(taken.events) < MOST_IN_A_BATCH:
            if taken.events and isinstance(self._waiting[0].event, DeleteGroup):
                return
            waiting = self._next()
            now_ms = self._clock.now_ms()
            if isinstance(waiting.event, Tick):
                # First handle heartbeats that have already arrived, because the tick could end the sessions of their
                # members.
                await sockets_read()
            try:
                outcome = self._durable.apply(waiting.event, now_ms, waiting.tenant)
            except Exception as error:  # a bug in the group's rules must not affect the other events
                waiting.fail(error)
                if self._durable.is_uncertain:
                    return
                continue
            taken.events.append((waiting, outcome))
            taken.recording_for = waiting.recording_for
            taken.rebalance = outcome.rebalance or taken.rebalance
            if waiting.recording_for is not None or isinstance(waiting.event, DeleteGroup):
                return
            if time.perf_counter() >= turn_at_s:
                await asyncio.sleep(0)
                turn_at_s = time.perf_counter() + SLICE_S

    def _next(self) -> _Waiting:
        self._backlog.events -= 1
        return self._waiting.popleft()

    def _all_waiting(self) -> list[_Waiting]:
        return [self._next() for _ in range(len(self._waiting))]

    def _fail(self, batch: list[_Waiting], error: BaseException) -> None:
        for waiting in batch:
            waiting.fail(_as_store_error(error))


def _as_store_error(error: BaseException) -> StoreError:
    """Makes a new error for each caller. A shared error would collect the tracebacks of all asyncio tasks that raise
    it.
    """
    if isinstance(error, StoreError):
        return type(error)(str(error))
    return StoreError(f"the records could not be stored: {type(error).__name__}: {error}")
