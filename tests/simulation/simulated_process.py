"""A process of the application in simulated time: the real `MemberMachine` of each stream thread, one heartbeat for all
of them, calls that get lost, come twice or come late, and stream threads that carry out orders in their own time.

It does what `streams_runtime.membership.process_membership` does, without threads. What is decided there, the same
classes decide here: the heartbeat (`process_heartbeat`), and what the answers to calls mean (`call_answers`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from coordinator_api.group.events import FetchAssignment, Leave
from coordinator_api.group.events import ProcessHeartbeat as HeartbeatArrived
from coordinator_api.group.outcome import (
    AssignmentReady,
    JoinAnswered,
    ProcessHeartbeatAnswered,
    Rejected,
    Response,
)
from streams_runtime.membership.call_answers import answer_timeout_ms, event_of_failure
from streams_runtime.membership.calls import FetchedAssignment, JoinReply
from streams_runtime.membership.coordinator_errors import CoordinatorError, IllegalGeneration, UnknownMemberId
from streams_runtime.membership.heard_pause import HeardPause
from streams_runtime.membership.member_events import (
    CloseAsked,
    FetchReplied,
    GiveOrder,
    GroupRedeclared,
    JoinReplied,
    LeaveReplied,
    MemberEnded,
    MemberEvent,
    MissingTopics,
    OrderDone,
    SendFetch,
    SendJoin,
    SendLeave,
    SentHeartbeat,
    SetTimer,
    Started,
    TasksLost,
    TimerDue,
)
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_settings import MemberSettings
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_heartbeat import (
    ProcessHeartbeat,
    collect,
    heard_by_members,
    refused_to_all,
)
from streams_runtime.membership.process_heartbeat import answer_timeout_ms as heartbeat_answer_timeout_ms
from streams_runtime.membership.task_holder import AssignTasks, CloseTasks, LoseTasks, RevokeTasks, StartRebalance
from tests.coordinator_api.group.member_bytes import SOURCE_TOPIC, process_named
from tests.simulation.leader import END_OFFSET
from tests.simulation.simulated_service import NoAnswer, Reply, SimulatedService
from tests.simulation.timeline import Action, Timeline
from tests.simulation.wire import failure_of, heartbeat_reply, heartbeats, join_event

SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 30_000
HEARTBEAT_INTERVAL_MS = 2_000
HEARTBEAT_ANSWER_TIMEOUT_MS = heartbeat_answer_timeout_ms(SESSION_TIMEOUT_MS)
CALL_TIMEOUT_MS = 10_000


@dataclass(slots=True)
class Network:
    """`loss`: how likely a request or an answer is lost; as likely a request comes twice. `delay_ms`: at most."""

    loss: float = 0.0
    delay_ms: int = 5


@dataclass(slots=True)
class Log:
    """Who claimed each task's input last. The older owner's next commit is refused."""

    owners: dict[TaskId, SimulatedThread] = field(default_factory=dict)

    def claim(self, task: TaskId, thread: SimulatedThread) -> None:
        before, self.owners[task] = self.owners.get(task), thread
        if before is not None and before is not thread:
            before.process.later(before.process.timeline.chance.uniform(1, 300), before.commit)


class SimulatedThread:
    """A stream thread and its membership. `running`: the active tasks that it works on."""

    def __init__(self, process: SimulatedProcess, name: str, instance: str | None, incarnation: int | None) -> None:
        self.process = process
        self.name = name
        settings = MemberSettings(
            "shop", name, instance, incarnation, SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS, leave_on_disconnect=True
        )
        self.machine = MemberMachine(settings, SubscriptionWriter(process.process_id, (SOURCE_TOPIC,)), name)
        self.running: frozenset[TaskId] = frozenset()
        self.standby: frozenset[TaskId] = frozenset()
        self.ended: MemberEnded | None = None
        self._orders: deque[GiveOrder] = deque()

    def happens(self, event: MemberEvent) -> None:
        process, member_id = self.process, self.machine.member_id
        for effect in self.machine.handle(event, process.timeline.now_ms):
            match effect:
                case SendJoin() | SendFetch() | SendLeave():
                    self._call(effect)
                case GiveOrder(_, order):
                    if isinstance(order, LoseTasks):
                        self._check_loss(order.reason, member_id)
                    self._orders.append(effect)
                    if len(self._orders) == 1:
                        self._carry_out_soon()
                case SetTimer(timer, at_ms):
                    process.later(at_ms - process.timeline.now_ms, self._when_due(timer))
                case MemberEnded():
                    process.timeline.say(f"{self.name} ended: {effect}")
                    self.ended, self.running = effect, frozenset()
                case MissingTopics() | GroupRedeclared():
                    raise AssertionError("the group has its topics and one definition")
        process.look()

    def _when_due(self, timer: int) -> Action:
        return lambda: self.happens(TimerDue(timer))

    def offset_sums(self) -> dict[TaskId, int]:
        return {**dict.fromkeys(self.standby, END_OFFSET), **dict.fromkeys(self.running, LATEST_OFFSET)}

    def commit(self) -> None:
        """The log refuses it when another thread has claimed one of the tasks."""
        if any(self.process.log.owners[task] is not self for task in self.running):
            self.lose("migrated")

    def lose(self, reason: str) -> None:
        """The stream thread drops its tasks by itself, and says so."""
        self.process.timeline.say(f"{self.name} lost {sorted(map(str, self.running))}")
        self.running = self.standby = frozenset()
        self.happens(TasksLost(reason))

    def _check_loss(self, reason: str, member_id: str | None) -> None:
        """Nobody gives up everything because of an answer that is out of date."""
        known = self.process.service.group.image.members.get(member_id or "")
        if reason == UnknownMemberId.known_code:
            assert known is None, f"{self.name} is a member"
        elif reason == IllegalGeneration.known_code:
            assert known is None or known.is_static, f"{self.name} has missed nothing"

    # --- orders

    def _carry_out_soon(self) -> None:
        self.process.later(self.process.timeline.chance.uniform(0, self.process.pass_ms), self._carry_out)

    def _carry_out(self) -> None:
        given = self._orders.popleft()
        match given.order:
            case StartRebalance():
                pass
            case RevokeTasks(tasks):
                self.running -= tasks
            case AssignTasks(held):
                for task in held.active:
                    if task not in self.running:
                        self.process.log.claim(task, self)
                self.running, self.standby = frozenset(held.active), frozenset(held.standby)
            case LoseTasks() | CloseTasks():
                self.running = self.standby = frozenset()
        if self._orders:
            self._carry_out_soon()
        self.process.timeline.say(f"{self.name} {str(given.order)[:40]}: {sorted(map(str, self.running))}")
        self.happens(OrderDone(given.number, self.offset_sums()))

    # --- calls

    def _call(self, effect: SendJoin | SendFetch | SendLeave) -> None:
        process, service = self.process, self.process.service
        match effect:
            case SendJoin(_, request):

                def send(reply: Reply) -> None:
                    service.ask(join_event(request, f"{self.name}.{process.timeline.fresh()}"), reply)

            case SendFetch(_, member_id, min_generation):

                def send(reply: Reply) -> None:
                    service.fetch(FetchAssignment(member_id, min_generation), reply)

            case SendLeave(_, member_id):

                def send(reply: Reply) -> None:
                    service.ask(Leave(member_id), reply)

        process.call(send, answer_timeout_ms(effect), lambda response: self._answered(effect, response))

    def _answered(self, effect: SendJoin | SendFetch | SendLeave, response: Response | NoAnswer) -> None:
        call = effect.call
        self.process.timeline.say(f"{self.name} {type(effect).__name__} answered: {str(response)[:100]}")
        match response:
            case Rejected() if isinstance(effect, SendLeave):
                event: MemberEvent = LeaveReplied(call)
            case NoAnswer() | Rejected():
                event = event_of_failure(effect, failure_of(response), self.process.timeline.chance.random())
            case JoinAnswered(member_id, generation_id, state):
                self.process.pause.hears_of_join(self.process.service.is_paused)
                event = JoinReplied(call, JoinReply(member_id, generation_id, str(state)))
            case AssignmentReady(generation_id, data, followup):
                event = FetchReplied(call, FetchedAssignment(generation_id, bytes(data), followup))
            case _:
                event = LeaveReplied(call) if isinstance(effect, SendLeave) else FetchReplied(call, None)
        self.happens(event)


class SimulatedProcess:
    """`pass_ms`: the longest time until a stream thread carries out an order. `instance`: of static members, which an
    older incarnation may have had before.
    """

    def __init__(
        self,
        timeline: Timeline,
        service: SimulatedService,
        network: Network,
        log: Log,
        threads: int,
        instance: str | None = None,
    ) -> None:
        self.timeline, self.service, self.network, self.log = timeline, service, network, log
        self.number = timeline.fresh()
        self.instance = instance
        self.process_id: ProcessId = process_named(instance or str(self.number))
        self.pass_ms = 50
        self.dead = False
        self._cut_off_until_ms = self._frozen_until_ms = 0
        self._connection_id: int | None = None
        self._connection_broke: Action | None = None
        self._is_sending = False
        self._looks_at_ms: int | None = None
        self._heartbeat = ProcessHeartbeat(HEARTBEAT_INTERVAL_MS)
        self.pause = HeardPause()
        incarnation = None if instance is None else self.number
        self.threads = [
            SimulatedThread(self, f"p{self.number}-t{one}", instance and f"{instance}-{one}", incarnation)
            for one in range(threads)
        ]
        for thread in self.threads:
            thread.happens(Started())

    @property
    def living(self) -> list[SimulatedThread]:
        return [] if self.dead else [thread for thread in self.threads if thread.ended is None]

    def later(self, delay_ms: float, action: Action) -> None:
        """An action of this process: not once it is dead, and not while it is frozen."""

        def act() -> None:
            if self.dead:
                return
            if self.timeline.now_ms < self._frozen_until_ms:
                self.timeline.after(self._frozen_until_ms - self.timeline.now_ms, act)
            else:
                action()

        self.timeline.after(delay_ms, act)

    # --- what goes wrong

    def close(self) -> None:
        """In good order."""
        for thread in self.living:
            thread.happens(CloseAsked())

    def kill(self) -> None:
        self.timeline.say(f"process {self.number} killed")
        self.dead = True
        for thread in self.threads:
            thread.running = frozenset()
        self._close_connection()

    def freeze(self, for_ms: int) -> None:
        self.timeline.say(f"process {self.number} frozen for {for_ms}")
        self._frozen_until_ms = self.timeline.now_ms + for_ms

    def cut_off(self, for_ms: int) -> None:
        """Nothing that it sends arrives, and nobody hears of it."""
        self.timeline.say(f"process {self.number} cut off for {for_ms}")
        self._cut_off_until_ms = self.timeline.now_ms + for_ms

    def break_connection(self) -> None:
        """Both sides see it."""
        if self._connection_broke is not None:
            self.timeline.say(f"process {self.number}: connection broken")
            self._connection_broke()

    def heal(self) -> None:
        self._cut_off_until_ms = self._frozen_until_ms = self.timeline.now_ms
        self.pass_ms = 20

    # --- calls

    def call(
        self, send: Callable[[Reply], None], timeout_ms: int, answered: Callable[[Response | NoAnswer], None]
    ) -> Action:
        """`answered` is called once. Returns what breaks the call off."""
        timeline, network = self.timeline, self.network
        is_over = False

        def end(response: Response | NoAnswer) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                answered(response)

        def reply(response: Response | NoAnswer) -> None:
            if not (timeline.happens(network.loss) or self._is_cut_off):
                self.later(self._delay_ms(), lambda: end(response))

        def arrive() -> None:
            if not self._is_cut_off:
                send(reply)

        if not timeline.happens(network.loss):
            timeline.after(self._delay_ms(), arrive)
            if timeline.happens(network.loss):
                timeline.after(self._delay_ms(), arrive)
        self.later(timeout_ms, lambda: end(NoAnswer()))
        return lambda: self.later(0, lambda: end(NoAnswer()))

    @property
    def _is_cut_off(self) -> bool:
        return self.timeline.now_ms < self._cut_off_until_ms

    def _delay_ms(self) -> float:
        return self.timeline.chance.uniform(0, self.network.delay_ms)

    # --- the heartbeat

    def look(self) -> None:
        """Send a heartbeat if one is due."""
        now_ms, heartbeat = self.timeline.now_ms, self._heartbeat
        if self._is_sending or self.dead:
            return
        if now_ms < heartbeat.rests_until_ms:
            self._look_at(heartbeat.rests_until_ms)
            return
        collected = collect(self.threads)
        if heartbeat.is_due(collected, now_ms):
            self._send(collected.sent)
        elif heartbeat.look_again_ms is not None:
            self._look_at(heartbeat.look_again_ms)

    def _look_at(self, at_ms: int) -> None:
        if self._looks_at_ms != at_ms:
            self._looks_at_ms = at_ms
            self.later(at_ms - self.timeline.now_ms, self.look)

    def _send(self, sent: Mapping[SimulatedThread, SentHeartbeat]) -> None:
        self._is_sending = True
        if self._connection_id is None:
            self._connection_id = self.timeline.fresh()
            self.service.open_connections.add(self._connection_id)
        self._heartbeat.begins(self.timeline.now_ms)
        known = self._heartbeat.known
        arriving = HeartbeatArrived(heartbeats({one.member_id: one for one in sent.values()}), self._connection_id)
        self._connection_broke = self.call(
            lambda reply: self._arrived(arriving, known, reply),
            HEARTBEAT_INTERVAL_MS + HEARTBEAT_ANSWER_TIMEOUT_MS,
            lambda response: self._heard(sent, response),
        )

    def _arrived(self, event: HeartbeatArrived, known: str | None, reply: Reply) -> None:
        """What comes on a connection, comes before its end; the process may have given it up."""
        if event.connection_id not in self.service.lost_connections:
            self.service.heartbeat(event, known, HEARTBEAT_INTERVAL_MS, reply)

    def _heard(self, sent: Mapping[SimulatedThread, SentHeartbeat], response: Response | NoAnswer) -> None:
        self._is_sending, self._connection_broke = False, None
        now_ms, chance = self.timeline.now_ms, self.timeline.chance.random()
        if isinstance(response, NoAnswer):
            self._close_connection()
            self._heartbeat.unanswered(now_ms, response.retry_after_ms, chance)
        else:
            self._tell(sent, response, chance)
        self.look()

    def _tell(self, sent: Mapping[SimulatedThread, SentHeartbeat], response: Response, chance: float) -> None:
        if isinstance(response, Rejected):
            refused = failure_of(response)
            assert isinstance(refused, CoordinatorError), refused
            reply = refused_to_all(sent.values(), refused)
        else:
            assert isinstance(response, ProcessHeartbeatAnswered), response
            reply = heartbeat_reply(response)
        self.pause.hears_of_heartbeat(reply.paused)
        heard, all_count = heard_by_members(sent, reply)
        self._is_sending = True  # the machines run first, then the next heartbeat is collected
        for thread, told in heard:
            thread.happens(told)
        self._is_sending = False
        self._heartbeat.answered(self.timeline.now_ms, reply.news, chance, all_count=all_count)

    def _close_connection(self) -> None:
        """The coordinator sees it after all that was sent on it, unless the process is cut off."""
        closed, self._connection_id = self._connection_id, None
        if closed is not None:
            self.service.open_connections.discard(closed)
        if closed is not None and not self._is_cut_off:
            self.timeline.after(self._delay_ms(), lambda: self.service.connection_lost(closed))
