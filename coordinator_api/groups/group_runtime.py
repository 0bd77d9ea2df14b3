"""One group at run time: events in, one after the other, each committed before it is answered.

    event -> Group.handle -> records (and a finished round's recording) in ONE transaction -> Group.apply
          -> held requests are woken, timers set, rounds started -> answer

A crash at any point loses nothing that was answered: what was not committed was not answered. The group's rules are in
`group/`; here are only the lock, the clock, the store and the threads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from coordinator_api.clock import Clock
from coordinator_api.clusters.clusters import ClusterOutOfReach
from coordinator_api.clusters.standing import ClusterStanding
from coordinator_api.group import events
from coordinator_api.group.description import GroupDescription
from coordinator_api.group.events import Event
from coordinator_api.group.group import Group
from coordinator_api.group.image import GroupImage
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.outcome import (
    AssignmentPending,
    AssignmentStored,
    Outcome,
    RebalanceReported,
    Response,
    RunRebalance,
)
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import MemberSubscribed
from coordinator_api.group.states import GroupState
from coordinator_api.groups.cluster_watch import ClusterWatch
from coordinator_api.groups.definitions import Definition, read_input
from coordinator_api.groups.rebalance_runner import ComputedRound, RoundRunner
from coordinator_api.journal import Journal
from coordinator_api.store.errors import StoreError
from coordinator_api.store.repository import GroupLog, Recording, Repository

Value = TypeVar("Value")

RETRY_AFTER_STORE_ERROR_S = 1.0

STANDSTILL_MS = 100
"""A timer that is later than this tells that the whole process stood still, which is no fault of the members."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all groups of a service share. `round_threads`: where rounds are computed. `metadata_max_age_ms`: how often
    a group's cluster is looked at.
    """

    repository: Repository
    clock: Clock
    limits: GroupLimits
    compaction_bytes: int
    round_threads: Executor
    metadata_max_age_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class _FinishedRound:
    """What a round's thread came back with; `computed` is None when there is nothing to record."""

    effect: RunRebalance
    computed: ComputedRound | None

    def recording(self, response: Response) -> Recording | None:
        if self.computed is None or not isinstance(response, AssignmentStored):
            return None
        return self.computed.recording(self.effect, response.outcome)


@dataclass(frozen=True, slots=True)
class _ReportedRound:
    """A round that was led elsewhere comes with its recording."""

    received: Recording

    def recording(self, response: Response) -> Recording | None:
        return self.received if isinstance(response, RebalanceReported) and response.created else None


_Recorded = _FinishedRound | _ReportedRound


class GroupRuntime:
    """Owns one `Group`. Every change goes through `handle`; on the event loop `group` may be read between events."""

    def __init__(self, log: GroupLog, runner: RoundRunner, journal: Journal, around: Surroundings) -> None:
        """`log` is what the store has of the group, sequence 0 and no records for a new one."""
        self.group_id = log.group_id
        self._runner = runner
        self._journal = journal
        self._around = around
        self._lock = asyncio.Lock()
        self._closed = False
        self._holding = True
        self._out_of_date = False
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._tasks: set[asyncio.Task[object]] = set()
        self._round_due: RunRebalance | None = None
        self._round_running = False
        self._round_waits = asyncio.Event()
        self.cluster = ClusterStanding(around.clock.now_ms, journal)
        self._watch = ClusterWatch(
            runner,
            self.cluster,
            journal,
            around.metadata_max_age_ms,
            lambda topics: self.handle(events.TopicsSeen(topics)),
        )
        self._load(log)

    @property
    def is_declared(self) -> bool:
        """Whether the group exists, as far as is known: it has a definition and was not deleted."""
        image = self.group.image
        return image.input_json is not None and image.state is not GroupState.DEAD

    async def handle(self, event: Event, recording: Recording | None = None) -> Response:
        """Raises StoreError when the records could not be committed: the caller must not take it as done.

        `recording`: of a `ReportRebalance`, kept with it when it is new.
        """
        recorded = None if recording is None else _ReportedRound(recording)
        # shielded: a caller that hangs up in the middle must not leave a commit without its apply
        return await asyncio.shield(self._spawn(self._in_turn(event, recorded)))

    async def wait_for_assignment(
        self, fetch: events.FetchAssignment, wait_s: float, gone: Callable[[], Awaitable[object]]
    ) -> Response:
        """Answer `fetch`, holding it up to `wait_s` while the assignment is pending, or until `gone()` comes back."""
        changed = self._changed
        response = await self.handle(fetch)
        if not isinstance(response, AssignmentPending) or wait_s <= 0:
            return response
        recheck = events.RecheckAssignment(fetch.member_id, fetch.min_generation, fetch.group_instance_id)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        hang_up = asyncio.ensure_future(gone())
        try:
            while isinstance(response, AssignmentPending) and not hang_up.done() and self._holding:
                left_s = deadline_s - loop.time()
                if left_s <= 0:
                    break
                woken = asyncio.ensure_future(changed.wait())
                await asyncio.wait((woken, hang_up), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
                changed = self._changed
                response = await self.handle(recheck)
        finally:
            hang_up.cancel()
        return response

    async def describe(self) -> tuple[GroupDescription, GroupImage]:
        """The group between two events, and the state that was described. In a thread: a large group takes time."""
        async with self._lock:
            return await asyncio.to_thread(lambda: (self.group.describe(), self.group.image))

    async def definition(self, image: GroupImage) -> Definition:
        """Of the state that was described."""
        assert image.input_json is not None, "only declared groups are described"
        # what a group that is led elsewhere works with changes from report to report, under one revision
        return await (
            self._runner.definition(image.revision, image.input_json)
            if image.led_by is None
            else asyncio.to_thread(read_input, image.input_json)
        )

    def is_looking_at_its_cluster(self) -> bool:
        """Whether somebody finds out by himself when a cluster that is out of reach answers again."""
        return self._watch.is_looking or self._round_running

    def release(self) -> None:
        """Hold no requests any more: those that wait are answered as things are."""
        self._holding = False
        self._wake()

    async def close(self) -> None:
        """No more timers and rounds. Events in progress come to their end."""
        self._closed = True
        self.release()
        self._set_timer(None)
        self._watch.stop()
        self._round_waits.set()
        async with self._lock:
            pass

    def _load(self, log: GroupLog) -> None:
        records = [decode_record(line) for line in log.records]
        self.group = Group.replay(self.group_id, self._around.limits, records, self._around.clock.now_ms())
        self._sequence = log.sequence
        self._log_bytes = sum(map(len, log.records))
        self._snapshot_bytes = 0

    async def _in_turn(self, event: Event, recorded: _Recorded | None = None) -> Response:
        async with self._lock:
            if self._out_of_date:
                await self._reload()
            return await self._process(event, recorded)

    async def _process(self, event: Event, recorded: _Recorded | None = None) -> Response:
        now_ms = self._around.clock.now_ms()
        outcome = self.group.handle(event, now_ms)
        if outcome.records:
            await self._commit(event, outcome, recorded)
            try:
                self.group.apply(outcome.records, now_ms)
            except Exception:
                self._distrust()
                raise
            self._journal.tell_records(outcome.records, self.group.image)
            # a member that subscribes changes no answer of another one's held request
            if any(not isinstance(record, MemberSubscribed) for record in outcome.records):
                self._wake()
        self._journal.tell_answer(outcome.response)
        self._carry_out(outcome)
        await self._compact_if_long()
        return outcome.response

    async def _commit(self, event: Event, outcome: Outcome, recorded: _Recorded | None) -> None:
        repository = self._around.repository
        # compresses, so it belongs in a thread for large groups
        recording = None if recorded is None else await asyncio.to_thread(recorded.recording, outcome.response)
        try:
            with self._journal.commit_latency():
                if isinstance(event, events.DeleteGroup):
                    await repository.delete(self.group_id, self._sequence)
                    return
                lines = [encode_record(record) for record in outcome.records]
                self._sequence = await repository.append(self.group_id, self._sequence, lines, recording)
        except StoreError:
            self._distrust()
            raise
        self._log_bytes += sum(map(len, lines))

    def _distrust(self) -> None:
        """Whether the last write was done after all is not known: read the group anew before the next event."""
        self._out_of_date = True
        if not self._closed:
            asyncio.get_running_loop().call_later(RETRY_AFTER_STORE_ERROR_S, self._on_timer)

    async def _reload(self) -> None:
        log = await self._around.repository.load_group(self.group_id)
        self._load(log)
        self._out_of_date = False
        self._journal.reloaded(log.sequence)
        self._wake()
        await self._process(events.Recovered())

    async def _compact_if_long(self) -> None:
        # a group that is large in itself waits until its log is twice what it has to be
        if self._closed or self._log_bytes < max(self._around.compaction_bytes, 2 * self._snapshot_bytes):
            return
        lines = [encode_record(record) for record in self.group.snapshot()]
        try:
            self._sequence = await self._around.repository.replace(self.group_id, self._sequence, lines)
        except StoreError as error:
            self._journal.compaction_failed(error)
            self._distrust()
            return
        self._log_bytes = self._snapshot_bytes = sum(map(len, lines))

    def _carry_out(self, outcome: Outcome) -> None:
        if not self._closed:
            self._watch.follow(self.group.image)
        for effect in outcome.effects:
            self._round_due = effect
            self._round_waits.set()
            if not self._round_running and not self._closed:
                self._round_running = True
                self._spawn(self._run_rounds())
        self._set_timer(outcome.next_timer_ms)

    async def _run_rounds(self) -> None:
        """One after the other; what became due meanwhile makes the one before it void."""
        try:
            while self._round_due is not None and not self._closed:
                effect, self._round_due = self._round_due, None
                try:
                    event, finished = await self._run_round(effect)
                except ClusterOutOfReach as error:
                    self.cluster.failed(error)
                    await self._wait_for_cluster(effect)
                    continue
                try:
                    await self._in_turn(event, finished)
                except StoreError as error:
                    # `_distrust` has set a time to look again: the round is still due then
                    self._journal.round_not_stored(effect.generation_id, error)
        finally:
            self._round_running = False

    async def _wait_for_cluster(self, effect: RunRebalance) -> None:
        """The round is due again after a while, unless another one becomes due first or the group has moved on."""
        self._round_waits.clear()
        if self._round_due is None and not self._closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._watch.retry_ms / 1000):
                    await self._round_waits.wait()
        image = self.group.image
        wanted = image.state is GroupState.COMPLETING_REBALANCE and image.generation_id == effect.generation_id
        if self._round_due is None and wanted:
            self._round_due = effect

    async def _run_round(self, effect: RunRebalance) -> tuple[Event, _FinishedRound]:
        """Raises ClusterOutOfReach."""
        around = self._around
        try:
            with self._journal.assignment_latency():
                computed = await self._runner.run(effect, around.clock, around.round_threads)
        except ClusterOutOfReach:
            raise
        except Exception as fault:  # nothing of it can be recorded, but the members must not wait for ever
            self._journal.round_broken(effect.generation_id, fault)
            failed = events.RebalanceFailed(effect.generation_id, f"{type(fault).__name__}: {fault}")
            return failed, _FinishedRound(effect, None)
        if computed.looked:
            self.cluster.answered()
        return computed.event, _FinishedRound(effect, computed)

    def _set_timer(self, at_ms: int | None) -> None:
        """A timer that is already set and comes earlier stays: an early tick is harmless and sets the next one."""
        if self._timer is not None:
            if at_ms is not None and self._timer_ms <= at_ms:
                return
            self._timer.cancel()
            self._timer = None
        if at_ms is not None and not self._closed:
            now_ms = self._around.clock.now_ms()
            self._timer_ms = max(at_ms, now_ms + 1)
            self._timer = asyncio.get_running_loop().call_later((self._timer_ms - now_ms) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        if self._closed:
            return
        late_ms = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            late_ms = self._around.clock.now_ms() - self._timer_ms
        if late_ms > STANDSTILL_MS:
            # requests of that time are still in their sockets: hear them first, and give back the time
            self._journal.stood_still(late_ms)
            self._set_timer(self._around.clock.now_ms() + late_ms)
        else:
            self._spawn(self._tick())

    async def _tick(self) -> None:
        try:
            await self._in_turn(events.Tick())
        except Exception as error:  # whatever it was: time must not stop for the group
            self._journal.tick_failed(error)
            self._distrust()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _spawn(self, work: Coroutine[object, object, Value]) -> asyncio.Task[Value]:
        task = asyncio.get_running_loop().create_task(work)
        # the loop keeps only weak references
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
