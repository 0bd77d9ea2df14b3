"""The members of one process in their group: carries out what their machines want, and sends their one heartbeat.

    stream threads --orders done--> member machines --calls--> call queue --answers--> member machines
    heartbeat thread --news of the group--> member machines --orders--> stream threads (`task_holder`)

Rules:
- A machine runs on the thread that brings its event, one event of the process at a time, and nothing that it wants
  done waits. So between the group's news and the order to a stream thread there is no other thread to wake.
- One heartbeat speaks for all members, on a connection of its own. The coordinator holds it until there is news, for
  heartbeat.interval.ms at most; then the next one is sent.
- A held heartbeat is never cut off: to the coordinator that looks like the end of the process. What it does not say
  yet (a member that has just joined, a new generation, new offsets) is said by the next one. A new member needs no
  more: its assignment belongs to a new generation, and that ends the held heartbeat.
- While members are about to join, the next heartbeat waits for them, a tenth of a second at most, so that one heartbeat
  tells what many joins changed.
- Whether the group is paused comes with each answer to a heartbeat, and counts until another one says otherwise. Before
  the first one, the answer to a join says it, so that a member which joins a paused group processes nothing.
- What the instance has to tell people (`notices`) goes with the next heartbeat after it has changed.
- Heartbeats that are all answered at once follow each other more and more slowly, as do those that fail.

Source: `AbstractCoordinator.HeartbeatThread`. Differs from Kafka, where each stream thread has a connection and
heartbeats of its own, and hears of a rebalance at its next heartbeat.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from streams_runtime.membership.call_queue import CallQueue
from streams_runtime.membership.calls import ProcessHeartbeatReply
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.coordinator_errors import CoordinatorError, CoordinatorUnavailable
from streams_runtime.membership.member_events import (
    CallRefused,
    CallUnanswered,
    CloseAsked,
    FetchReplied,
    GiveOrder,
    GroupRedeclared,
    HeartbeatReplied,
    JoinReplied,
    LeaveReplied,
    MemberEffect,
    MemberEnd,
    MemberEnded,
    MemberEvent,
    MemberFailed,
    MissingTopics,
    OrderDone,
    OrderFailed,
    RejoinAsked,
    SendFetch,
    SendJoin,
    SendLeave,
    SentHeartbeat,
    SetTimer,
    ShutdownAsked,
    Started,
    TasksLost,
    TimerDue,
)
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_settings import MemberSettings, default_heartbeat_interval_ms
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.task_holder import TaskHolder
from streams_runtime.notices import NoticeBoard

CALLS_AT_A_TIME = 4
LEAVE_TIMEOUT_S = 2.0
JOINS_TOGETHER_S = 0.1
"""How long a heartbeat waits for joins that are on their way."""

QUICK_ANSWER_S = 0.05
QUICK_ANSWERS = 5
"""So many heartbeats in a row may be answered sooner than `QUICK_ANSWER_S` before the next one waits."""

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5
FAILURES_BEFORE_WARNING = 3
SHORTEST_ANSWER_TIMEOUT_S = 0.5
LONGEST_ANSWER_TIMEOUT_S = 5.0

_logger = logging.getLogger(__name__)


def _ignore_end() -> None:
    pass


def _ignore_pause(paused: bool) -> None:
    pass


class GroupMember:
    """One member, from `start` until it has ended. Any thread may call it.

    `end`: why it ended without an error; `failure`: the error that ended it: AssignmentFailed, CoordinatorError, or
    what its holder failed with.
    """

    def __init__(
        self, process: ProcessMembership, machine: MemberMachine, holder: TaskHolder, when_ended: Callable[[], None]
    ) -> None:
        self.end: MemberEnd | None = None
        self.failure: BaseException | None = None
        self.machine = machine
        self.holder = holder
        self._process = process
        self._when_ended = when_ended
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def start(self) -> None:
        """Join the group. The holder carries out orders from now on."""
        self._process.tell(self, Started())

    def ask_to_close(self) -> None:
        """Close all tasks in good order, leave the group, and end. Returns at once. Idempotent."""
        self._process.tell(self, CloseAsked())

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until it has ended; whether it has. Not on the thread that carries out its orders, unless all are done."""
        return self._ended.wait(timeout_s)

    def tasks_were_lost(self, reason: str) -> None:
        """The holder found that others have its tasks: it gets `LoseTasks`, then joins again owning nothing.

        Source: `StreamThread.handleTaskMigrated`. Differs from Kafka: the member id stays.
        """
        self._process.tell(self, TasksLost(reason))

    def request_rejoin(self) -> None:
        """Ask for a rebalance and keep everything meanwhile. Source: `Consumer.enforceRebalance`."""
        self._process.tell(self, RejoinAsked())

    def request_shutdown(self) -> None:
        """Ask the leader to end every member of the group, this one included. Source: KIP-671."""
        self._process.tell(self, ShutdownAsked())

    def has_come_to_its_end(self, ended: MemberEnded) -> None:
        """For the process alone."""
        self.end, self.failure = ended.end, ended.failure
        self._ended.set()
        self._when_ended()


class ProcessMembership:
    """All members that a process has in one group, at most a thousand.

    `client` is the caller's, who closes it afterwards. Times are in milliseconds; `heartbeat_interval_ms` None for the
    default of heartbeat.interval.ms.
    """

    def __init__(
        self,
        client: CoordinatorClient,
        group_id: str,
        *,
        session_timeout_ms: int,
        heartbeat_interval_ms: int | None = None,
        notices: NoticeBoard | None = None,
        pause_changed: Callable[[bool], None] = _ignore_pause,
    ) -> None:
        """`notices`: what heartbeats tell besides, whenever it has changed; None for nothing. `pause_changed`: called
        with whether the group is paused, after each change, on any thread; it returns soon.
        """
        self._client = client
        self._notices = notices
        self._pause_changed = pause_changed
        self._paused: bool | None = None  # None: no heartbeat was answered yet, and no join told of a pause
        self._pause_heard = threading.Lock()
        self._group_id = group_id
        self._interval_ms = heartbeat_interval_ms or default_heartbeat_interval_ms(session_timeout_ms)
        # when an answer is lost, there is still time for another heartbeat within the session
        self._answer_timeout_s = min(
            max(session_timeout_ms / 3_000, SHORTEST_ANSWER_TIMEOUT_S), LONGEST_ANSWER_TIMEOUT_S
        )
        self._calls = CallQueue(f"{group_id}-member-calls", CALLS_AT_A_TIME)
        self._members: list[GroupMember] = []
        self._events: deque[tuple[GroupMember, MemberEvent]] = deque()
        self._machines = threading.Lock()  # whoever has it runs the machines
        self._heartbeats = client.process_heartbeats(group_id)
        self._turn = threading.Condition(threading.Lock())
        self._heartbeat_thread: threading.Thread | None = None
        self._version = 0  # of what the machines say; rises with every event
        self._closed = False

    def member(
        self,
        settings: MemberSettings,
        writer: SubscriptionWriter,
        holder: TaskHolder,
        when_ended: Callable[[], None] = _ignore_end,
    ) -> GroupMember:
        """One more member; `start` makes it join. `when_ended`: called once, on any thread; it returns soon."""
        assert settings.group_id == self._group_id, "a process has one membership for each group"
        machine = MemberMachine(settings, writer, join_ids=uuid.uuid4().hex)
        return GroupMember(self, machine, holder, when_ended)

    def close(self) -> None:
        """End the heartbeats. Members that have not ended are left to their session timeout."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        self._calls.close()
        self._heartbeats.break_off()
        thread = self._heartbeat_thread
        if thread is None:
            self._heartbeats.close()
        elif thread is not threading.current_thread():
            thread.join(LEAVE_TIMEOUT_S)

    # --- events and effects

    def tell(self, member: GroupMember, event: MemberEvent) -> None:
        """Run the member's machine. If another thread is just running the machines, it runs this one as well."""
        self._events.append((member, event))
        self._run_machines()

    def _run_machines(self) -> None:
        while self._events:
            if not self._machines.acquire(blocking=False):
                return  # who has the lock looks for events again after giving it back
            try:
                while self._events:
                    self._run_machine(*self._events.popleft())
            finally:
                self._machines.release()
            with self._turn:
                self._version += 1
                self._turn.notify_all()

    def _run_machine(self, member: GroupMember, event: MemberEvent) -> None:
        if isinstance(event, Started):
            self._add(member)
        if not member.has_ended:
            for effect in self._effects_of(member, event):
                self._carry_out(member, effect)

    def _effects_of(self, member: GroupMember, event: MemberEvent) -> list[MemberEffect]:
        try:
            return member.machine.handle(event, round(time.monotonic() * 1000))
        except Exception as error:  # an error of this program must not end the other members
            _logger.exception("member %s of group %s failed", member.machine.name, self._group_id)
            failed = isinstance(event, MemberFailed)
            return [MemberEnded(None, error)] if failed else self._effects_of(member, MemberFailed(error))

    def _add(self, member: GroupMember) -> None:
        self._members.append(member)
        if self._heartbeat_thread is None and not self._closed:
            self._heartbeat_thread = threading.Thread(
                target=self._send_heartbeats, name=f"{self._group_id}-heartbeats", daemon=True
            )
            self._heartbeat_thread.start()

    def _carry_out(self, member: GroupMember, effect: MemberEffect) -> None:
        match effect:
            case SendJoin() | SendFetch() | SendLeave():
                self._calls.add(lambda: self.tell(member, self._call(effect)))
            case GiveOrder(number, order):
                member.holder.hand_over(order, lambda error: self._order_answered(member, number, error))
            case SetTimer(timer, at_ms):
                self._calls.add(lambda: self.tell(member, TimerDue(timer)), at_ms / 1000 - time.monotonic())
            case MissingTopics(topics):
                _logger.warning(
                    "member %s of group %s waits for missing source topics; the topology reads %s",
                    member.machine.name,
                    self._group_id,
                    ", ".join(topics),
                )
            case GroupRedeclared(definition):
                _logger.warning(
                    "member %s: group %s was given another definition: %s",
                    member.machine.name,
                    self._group_id,
                    definition,
                )
            case MemberEnded():
                if member in self._members:
                    self._members.remove(member)
                member.has_come_to_its_end(effect)

    def _call(self, effect: SendJoin | SendFetch | SendLeave) -> MemberEvent:
        """Make the call, and give what became of it."""
        try:
            match effect:
                case SendJoin(call, request):
                    reply = self._client.join(self._group_id, request)
                    if reply.paused:
                        self._hear_pause(True, at_first=True)
                    return JoinReplied(call, reply)
                case SendFetch(call, member_id, min_generation):
                    fetched = self._client.assignment(
                        self._group_id, member_id, min_generation=min_generation, wait_ms=0
                    )
                    return FetchReplied(call, fetched)
                case SendLeave(call, member_id):
                    self._client.leave(self._group_id, member_id, timeout_s=LEAVE_TIMEOUT_S)
                    return LeaveReplied(call)
        except CoordinatorUnavailable as error:
            _logger.debug("group %s: a call will be repeated: %s", self._group_id, error)
            retry_after_ms = None if error.retry_after_s is None else round(error.retry_after_s * 1000)
            return CallUnanswered(effect.call, retry_after_ms, random.random())  # noqa: S311 (it spreads members)
        except CoordinatorError as error:
            return CallRefused(effect.call, error)
        except Exception as error:  # an error of this program
            return MemberFailed(error)

    def _order_answered(self, member: GroupMember, number: int, error: BaseException | None) -> None:
        if error is None:
            try:
                self.tell(member, OrderDone(number, member.holder.offset_sums()))
                return
            except Exception as failure:
                error = failure
        self.tell(member, OrderFailed(number, error))

    # --- the heartbeat

    def _send_heartbeats(self) -> None:
        known: str | None = None
        failures = quick_answers = told = 0
        try:
            while (sent := self._next_heartbeat()) is not None:
                sent_s = time.monotonic()
                to_tell = 0 if self._notices is None else self._notices.version
                try:
                    reply = self._heartbeats.send(
                        {one.member_id: one.body for one in sent.values()},
                        known=known,
                        wait_ms=self._interval_ms,
                        timeout_s=self._answer_timeout_s,
                        notices=self._notices.newest() if self._notices is not None and to_tell != told else (),
                    )
                    told = to_tell
                except CoordinatorUnavailable as error:
                    told = 0  # it keeps them in memory only: one that was restarted has to be told again
                    failures += 1
                    if failures > 1:  # the first one is repeated at once: a coordinator that was restarted is there
                        self._say_unreachable(failures, error)
                        self._rest(self._pause_s(failures - 1, error.retry_after_s))
                    continue
                except CoordinatorError as error:
                    reply = _refused_to_all(sent.values(), error)
                except Exception as error:  # an error of this program: without heartbeats the group would evict them
                    _logger.exception("group %s: the heartbeat failed", self._group_id)
                    for member in sent:
                        self.tell(member, MemberFailed(error))
                    continue
                failures = 0
                if reply.paused is not None:
                    self._hear_pause(reply.paused)
                known = reply.news if self._tell_news(sent, reply) else None
                quick_answers = quick_answers + 1 if time.monotonic() - sent_s < QUICK_ANSWER_S else 0
                if quick_answers > QUICK_ANSWERS:
                    self._rest(self._pause_s(quick_answers - QUICK_ANSWERS))
        finally:
            self._heartbeats.close()

    def _hear_pause(self, paused: bool, *, at_first: bool = False) -> None:
        """`at_first`: it counts only when nothing was heard before, because the answer to a join may be an old one."""
        with self._pause_heard:
            if paused is self._paused or (at_first and self._paused is not None):
                return
            changed = paused or self._paused is not None
            self._paused = paused
        if changed:
            _logger.info("group %s is %s by its operator", self._group_id, "paused" if paused else "resumed")
            self._pause_changed(paused)

    def _say_unreachable(self, failures: int, error: CoordinatorUnavailable) -> None:
        level = logging.WARNING if failures == FAILURES_BEFORE_WARNING else logging.DEBUG
        _logger.log(level, "group %s: members keep their tasks and try again: %s", self._group_id, error)

    def _pause_s(self, times: int, retry_after_s: float | None = None) -> float:
        """Pauses that grow and that chance spreads, never so long that a session could end."""
        chance = 1 + random.random()  # noqa: S311 (it spreads processes)
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(times - 1, 10), LONGEST_PAUSE_S) / 2
        return min(max(pause_s, retry_after_s or 0.0) * chance, self._interval_ms / 1000)

    def _rest(self, pause_s: float) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._closed, pause_s)

    def _next_heartbeat(self) -> Mapping[GroupMember, SentHeartbeat] | None:
        """Wait until there is one to send. None when the membership is closed."""
        joins_until_s: float | None = None
        while True:
            with self._turn:
                version = self._version
            sent, joins_are_on_their_way = self._collect()
            wait_s = None
            if sent:
                now_s = time.monotonic()
                joins_until_s = joins_until_s or now_s + min(JOINS_TOGETHER_S, self._interval_ms / 1000)
                wait_s = joins_until_s - now_s
            with self._turn:
                if self._closed:
                    return None
                if sent and (not joins_are_on_their_way or joins_until_s is None or joins_until_s <= now_s):
                    return sent
                if self._version == version:
                    self._turn.wait(wait_s)

    def _collect(self) -> tuple[dict[GroupMember, SentHeartbeat], bool]:
        """What each member has to say, and whether one is about to join."""
        sent: dict[GroupMember, SentHeartbeat] = {}
        with self._own_machines():
            for member in self._members:
                if not member.machine.sends_heartbeats:
                    continue
                try:
                    sent[member] = member.machine.heartbeat(member.holder.offset_sums())
                except Exception as error:  # without heartbeats the group would evict the member
                    self._events.append((member, MemberFailed(error)))
            return sent, any(member.machine.is_about_to_join for member in self._members)

    def _tell_news(self, sent: Mapping[GroupMember, SentHeartbeat], reply: ProcessHeartbeatReply) -> bool:
        """Whether every member took in what it was told; if not, it has to be told again."""
        told = True
        with self._own_machines():
            for member, heartbeat in sent.items():
                answer = reply.members.get(heartbeat.member_id)
                if answer is not None:
                    heard = HeartbeatReplied(heartbeat, reply.generation_id, answer)
                    told = member.machine.would_count(heard) and told
                    self._events.append((member, heard))
        return told

    @contextlib.contextmanager
    def _own_machines(self) -> Iterator[None]:
        """Look at machines without running them. What happens meanwhile is handled afterwards."""
        with self._machines:
            yield
        self._run_machines()


def _refused_to_all(sent: Iterable[SentHeartbeat], error: CoordinatorError) -> ProcessHeartbeatReply:
    return ProcessHeartbeatReply("", 0, "", dict.fromkeys((one.member_id for one in sent), error))
