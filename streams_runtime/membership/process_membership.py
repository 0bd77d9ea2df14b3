"""Carries out the effects of the member machines of one process, and sends one heartbeat for all of its members.

These are the paths of events and orders:

    stream threads --orders done--> member machines --calls--> call queue --answers--> member machines
    heartbeat thread --news of the group--> member machines --orders--> stream threads

Rules:
- The thread that adds an event also runs the machine with this event. If another thread is running a machine at this
  moment, that thread handles the event instead. The process handles one event at a time, and effects never block. So
  when the heartbeat thread receives news of the group, it passes the resulting order directly to the stream thread.
- One heartbeat is sent for all members, over a separate connection. The module `process_heartbeat` decides when the
  heartbeat is sent and what it contains.
- New data never cancel a heartbeat that waits for its answer. A cancelled heartbeat would close the connection, and the
  coordinator would assume that the process has ended. If members, generations or offsets change while a heartbeat
  waits, the next heartbeat reports the changes. The join of a new member leads to a new generation, and this news makes
  the coordinator answer the waiting heartbeat. So a new member does not wait long for the next heartbeat.
- If the group moves to another coordinator, the next heartbeat finds the address of this coordinator. All later calls
  use the new address.

Source: `AbstractCoordinator.HeartbeatThread`. Differs from Kafka: in Kafka, each stream thread has its own connection
and its own heartbeats. In Kafka, a stream thread learns of a rebalance from the answer to its next heartbeat.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field

from assignor.types import TaskId
from streams_runtime.common.clock import Clock, SystemClock, difference_text
from streams_runtime.common.failures import reported_failure
from streams_runtime.common.notices import ALREADY_A_NOTICE, NoticeBoard, NoticeCode
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership import calls
from streams_runtime.membership import member_events as events
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_heartbeat import (
    Collected,
    GroupPause,
    HeartbeatRhythm,
    answer_timeout_ms,
    collect,
    refused_to_all,
    replies_to_members,
)

CALLS_AT_A_TIME = 4
CLOSE_TIMEOUT_S = 2.0
FAILURES_BEFORE_WARNING = 3

_logger = logging.getLogger(__name__)


class CallQueue:
    """Runs each blocking call when it is due, on a few daemon threads. A thread is started when a call needs it.

    A call that is not due yet waits in the queue and needs no thread. So it does not delay other calls. Any thread may
    use the queue. `threads`: the largest number of threads. At most `threads` calls run at the same time.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = threads
        self._changed = threading.Condition(threading.Lock())
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._started = 0
        self._idle = 0
        self._closed = False

    def add(self, call: Callable[[], None], after_s: float = 0.0) -> None:
        """Run the call after `after_s` seconds. Does nothing if the queue is closed."""
        with self._changed:
            if self._closed:
                return
            self._numbers += 1
            heapq.heappush(self._calls, (time.monotonic() + after_s, self._numbers, call))
            if len(self._calls) > self._idle and self._started < self._threads:
                self._started += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
            self._changed.notify()

    def close(self) -> None:
        """Drop the calls that have not begun. Does not wait for running calls."""
        with self._changed:
            self._closed = True
            self._calls.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            except Exception:
                _logger.exception("%s: a call failed", self._name)

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed:
                wait_s = self._calls[0][0] - time.monotonic() if self._calls else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._calls)[2]
                self._idle += 1
                self._changed.wait(wait_s)
                self._idle -= 1
            return None


@dataclass(eq=False, repr=False)
class GroupMember:
    """One member of the group. Call `start` once. Any thread may call the methods of `GroupMember`.

    `end`: the reason why the member has ended without an error. `failure`: the error that has ended the member:
    AssignmentFailed, CoordinatorError, or an error of its task holder. `handle`: a function that passes an event to the
    machine. Any thread may call `handle`.
    """

    _handle: Callable[[GroupMember, events.MemberEvent], None]
    machine: MemberMachine
    holder: events.TaskHolder
    _on_end: Callable[[], None]
    end: events.MemberEnd | None = field(default=None, init=False)
    failure: BaseException | None = field(default=None, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def start(self) -> None:
        """Join the group. Before this call, the task holder has to be ready for orders."""
        self._handle(self, events.Started())

    def ask_to_close(
        self,
        membership: events.GroupMembershipOperation = events.GroupMembershipOperation.LEAVE_GROUP,
        failure: BaseException | None = None,
    ) -> None:
        """Make the member commit and close its tasks, and then end. `membership`: whether the member leaves the group.
        `failure`: the error of the task holder, which the member reports to the coordinator if it has not left yet.
        This method does not wait. Only the `membership` of the first call has an effect.
        """
        self._handle(self, events.CloseAsked(membership, failure))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the member has ended. Returns False if the member has not ended after `timeout_s`. The thread that
        carries out the member's orders may call this method only after it has carried out all orders.
        """
        return self._ended.wait(timeout_s)

    def tasks_were_lost(self, reason: str) -> None:
        """The task holder calls this method when its tasks belong to other members. After this call, the task holder
        gets the order `LoseTasks`, and the member joins again without owned partitions.

        Source: `StreamThread.handleTaskMigrated`. Differs from Kafka: the member keeps its member id.
        """
        self._handle(self, events.TasksLost(reason))

    def request_rejoin(self) -> None:
        """Ask the coordinator for a rebalance. The member keeps its tasks until its next assignment. Source:
        `Consumer.enforceRebalance`.
        """
        self._handle(self, events.RejoinAsked())

    def offset_sums(self) -> Mapping[TaskId, int]:
        """Returns the present offset sums of the task holder."""
        return self.holder.offset_sums()

    def flows(self) -> Mapping[TaskId, TaskFlow]:
        return self.holder.flows()

    def request_shutdown(self, failure: BaseException | None = None) -> None:
        """Ask the leader to end every member of the group, including this member. `failure`: as in `ask_to_close`.
        Source: KIP-671.
        """
        self._handle(self, events.ShutdownAsked(failure))

    def has_come_to_its_end(self, ended: events.MemberEnded) -> None:
        """Store the reason why the member has ended. Only `ProcessMembership` may call this method."""
        self.end, self.failure = ended.end, ended.failure
        self._ended.set()
        self._on_end()


@dataclass(eq=False, repr=False)
class ProcessMembership:
    """All members of a process in one group, at most a thousand.

    `client`: a client of the coordinator. The caller closes the membership first and the client afterwards.
    `heartbeat_interval_ms`: heartbeat.interval.ms; None for its default. `notices`: the notices for the heartbeats;
    None if there are none. `pause_changed`: a function that is called after the group was paused or resumed. The
    argument is True if the group is paused. Any thread may call the function, and it must not block. `clock`: the clock
    of the machine, which is compared with the coordinator's clock.
    """

    _client: CoordinatorClient
    _group_id: str
    _: KW_ONLY
    session_timeout_ms: InitVar[int]
    heartbeat_interval_ms: InitVar[int | None] = None
    notices: NoticeBoard | None = None
    pause_changed: Callable[[bool], None] = lambda _paused: None
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self, session_timeout_ms: int, heartbeat_interval_ms: int | None) -> None:
        self._pause = GroupPause()
        self._pause_lock = threading.Lock()
        # only the heartbeat thread uses this object
        self._heartbeat = HeartbeatRhythm(
            heartbeat_interval_ms or calls.default_heartbeat_interval_ms(session_timeout_ms)
        )
        self._answer_timeout_s = answer_timeout_ms(session_timeout_ms, len(self._client.addresses.urls)) / 1000
        self._calls = CallQueue(f"{self._group_id}-member-calls", CALLS_AT_A_TIME)
        self._members: list[GroupMember] = []
        self._events: deque[tuple[GroupMember, events.MemberEvent]] = deque()
        self._machines = threading.Lock()  # only the thread that holds this lock may run the machines
        self._heartbeats = self._client.process_heartbeats(self._group_id)
        self._turn = threading.Condition(threading.Lock())
        self._heartbeat_thread: threading.Thread | None = None
        self._version = 0  # a counter that rises whenever the machines have handled events
        self._closed = False

    def member(
        self,
        settings: calls.MemberSettings,
        writer: SubscriptionWriter,
        holder: events.TaskHolder,
        on_end: Callable[[], None],
    ) -> GroupMember:
        """Make a member, which joins when its method `start` is called. `on_end`: a function that is called once, when
        the member has ended. Any thread may call the function, and it must not block.
        """
        assert settings.group_id == self._group_id, "a process has one membership for each group"
        machine = MemberMachine(settings, writer, join_ids=uuid.uuid4().hex)
        return GroupMember(self.handle, machine, holder, on_end)

    def close(self) -> None:
        """Stop sending heartbeats. If a member has not ended, the coordinator removes it after its session timeout."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        self._calls.close()
        self._heartbeats.break_off()
        thread = self._heartbeat_thread
        if thread is None:
            self._heartbeats.close()
        elif thread is not threading.current_thread():
            thread.join(CLOSE_TIMEOUT_S)

    # --- Methods for events and effects.

    def handle(self, member: GroupMember, event: events.MemberEvent) -> None:
        """Run the member's machine with this event. If another thread is running a machine at this moment, that thread
        handles the event instead.
        """
        self._events.append((member, event))
        self._run_machines()

    def _run_machines(self) -> None:
        while self._events:
            if not self._machines.acquire(blocking=False):
                return  # the thread with the lock handles these events after it has released the lock
            try:
                while self._events:
                    self._run_machine(*self._events.popleft())
            finally:
                self._machines.release()
            with self._turn:
                self._version += 1
                self._turn.notify_all()

    def _run_machine(self, member: GroupMember, event: events.MemberEvent) -> None:
        if isinstance(event, events.Started):
            self._add(member)
        if not member.has_ended:
            for effect in self._effects_of(member, event):
                self._carry_out(member, effect)

    def _effects_of(self, member: GroupMember, event: events.MemberEvent) -> list[events.MemberEffect]:
        try:
            return member.machine.handle(event, _now_ms())
        except Exception as error:  # a bug in one member's machine must not end the other members
            _logger.exception("member %s of group %s failed", member.machine.name, self._group_id)
            failed = isinstance(event, events.MemberFailed)
            return [events.MemberEnded(None, error)] if failed else self._effects_of(member, events.MemberFailed(error))

    def _add(self, member: GroupMember) -> None:
        self._members.append(member)
        if self._heartbeat_thread is None and not self._closed:
            self._heartbeat_thread = threading.Thread(
                target=self._send_heartbeats, name=f"{self._group_id}-heartbeats", daemon=True
            )
            self._heartbeat_thread.start()

    def _carry_out(self, member: GroupMember, effect: events.MemberEffect) -> None:
        match effect:
            case events.SendJoin() | events.SendFetch() | events.SendLeave():
                self._calls.add(lambda: self.handle(member, self._call(effect)))
            case events.GiveOrder(number, order):
                member.holder.hand_over(order, lambda error: self._order_answered(member, number, error))
            case events.SetTimer(timer, at_ms):
                self._calls.add(lambda: self.handle(member, events.TimerDue(timer)), at_ms / 1000 - time.monotonic())
            case events.MissingTopics(why):
                name = member.machine.name
                # no notice: the coordinator has sent this reason, and shows it itself
                _logger.warning(
                    "member %s of group %s waits for topics: %s", name, self._group_id, why, extra=ALREADY_A_NOTICE
                )
            case events.GroupRedeclared(definition):
                _logger.warning(
                    "member %s: group %s was given another definition: %s",
                    member.machine.name,
                    self._group_id,
                    definition,
                )
            case events.MemberEnded():
                if member in self._members:
                    self._members.remove(member)
                member.has_come_to_its_end(effect)

    def _call(self, effect: events.SendJoin | events.SendFetch | events.SendLeave) -> events.MemberEvent:
        """Make the call. Returns an event with the answer or the failure of the call."""
        try:
            match effect:
                case events.SendJoin(call, request):
                    asked_ms = self.clock.now_ms()
                    reply = self._client.join(self._group_id, request)
                    self._compare_clocks(reply.date_ms, asked_ms)
                    self._update_pause(lambda: self._pause.on_join_reply(reply.paused))
                    return events.JoinReplied(call, reply)
                case events.SendFetch(call, member_id, min_generation):
                    fetched = self._client.assignment(
                        self._group_id, member_id, min_generation=min_generation, wait_ms=0
                    )
                    return events.FetchReplied(call, fetched)
                case events.SendLeave(call, member_id, error):
                    failure = None if error is None else reported_failure(error)
                    timeout_s = calls.LEAVE_TIMEOUT_MS / 1000
                    self._client.leave(self._group_id, member_id, failure=failure, timeout_s=timeout_s)
                    return events.LeaveReplied(call)
        except Exception as error:
            _logger.debug("group %s: a call failed: %s", self._group_id, error)
            return events.event_of_failure(effect, error, random.random())  # noqa: S311 (spreads members)

    def _compare_clocks(self, date_ms: int | None, asked_ms: int) -> None:
        """Adds a notice if the coordinator's clock differs from this machine's clock. Each join compares them."""
        if date_ms is not None and self.notices is not None:
            text = difference_text(date_ms, asked_ms, self.clock.now_ms())
            if text is not None:
                self.notices.add_latest(NoticeCode.CLOCK_WRONG, text)

    def _order_answered(self, member: GroupMember, number: int, error: BaseException | None) -> None:
        if error is None:
            try:
                self.handle(member, events.OrderDone(number, member.offset_sums()))
                return
            except Exception as failure:
                error = failure
        self.handle(member, events.OrderFailed(number, error))

    # --- Methods for the heartbeat.

    def _send_heartbeats(self) -> None:
        heartbeat = self._heartbeat
        try:
            while (sent := self._next_heartbeat()) is not None:
                sends_notices = heartbeat.begins(_now_ms(), 0 if self.notices is None else self.notices.version)
                try:
                    reply = self._heartbeats.send(
                        {one.member_id: one.body for one in sent.values()},
                        known=heartbeat.known,
                        wait_ms=heartbeat.wait_ms,
                        timeout_s=self._answer_timeout_s,
                        notices=self.notices.newest() if self.notices is not None and sends_notices else (),
                    )
                    heartbeat.notices_arrived()
                except calls.CoordinatorUnavailable as error:
                    chance = random.random()  # noqa: S311 (spreads processes)
                    heartbeat.unanswered(_now_ms(), error.retry_after_ms, chance)
                    self._log_unreachable(heartbeat.failures, error)
                    continue
                except calls.CoordinatorError as error:
                    reply = refused_to_all(sent.values(), error)
                # Any other error is a bug. It ends the members, because the coordinator would evict members that send
                # no heartbeats.
                except Exception as error:
                    _logger.exception("group %s: the heartbeat failed", self._group_id)
                    for member in sent:
                        self.handle(member, events.MemberFailed(error))
                    continue
                self._update_pause(lambda paused=reply.paused: self._pause.on_heartbeat_reply(paused))  # type: ignore[misc]
                all_count = self._queue_replies(sent, reply)
                heartbeat.answered(_now_ms(), reply.news, random.random(), all_count=all_count)  # noqa: S311
        finally:
            self._heartbeats.close()

    def _update_pause(self, is_news: Callable[[], bool]) -> None:
        with self._pause_lock:
            if not is_news():
                return
            paused = bool(self._pause.paused)
        _logger.info("group %s is %s by its operator", self._group_id, "paused" if paused else "resumed")
        self.pause_changed(paused)

    def _log_unreachable(self, failures: int, error: calls.CoordinatorUnavailable) -> None:
        level = logging.WARNING if failures == FAILURES_BEFORE_WARNING else logging.DEBUG
        _logger.log(level, "group %s: members keep their tasks and try again: %s", self._group_id, error)

    def _next_heartbeat(self) -> Mapping[GroupMember, events.SentHeartbeat] | None:
        """Wait until a heartbeat is due, and return its content. Returns None if the membership is closed."""
        heartbeat = self._heartbeat
        with self._turn:
            self._turn.wait_for(lambda: self._closed, heartbeat.rests_until_ms / 1000 - time.monotonic())
        while True:
            with self._turn:
                version = self._version
            collected = self._collect()
            is_due = heartbeat.is_due(collected, _now_ms())
            with self._turn:
                if self._closed:
                    return None
                if is_due:
                    return collected.sent
                if self._version == version:
                    at_ms = heartbeat.latest_send_ms
                    self._turn.wait(None if at_ms is None else at_ms / 1000 - time.monotonic())

    def _collect(self) -> Collected[GroupMember]:
        with self._own_machines():
            collected = collect(self._members)
            self._events.extend((member, events.MemberFailed(error)) for member, error in collected.failed)
            return collected

    def _queue_replies(
        self, sent: Mapping[GroupMember, events.SentHeartbeat], reply: calls.ProcessHeartbeatReply
    ) -> bool:
        """Add an event with the reply for each member. Returns True if every member accepts its reply."""
        with self._own_machines():
            replies, all_count = replies_to_members(sent, reply)
            self._events.extend(replies)
            return all_count

    @contextlib.contextmanager
    def _own_machines(self) -> Iterator[None]:
        """No machine runs during the `with` block, because this context manager holds the lock of the machines. After
        the `with` block, the context manager handles the events that arrived during the block.
        """
        with self._machines:
            yield
        self._run_machines()


def _now_ms() -> int:
    return round(time.monotonic() * 1000)
