"""One member of a simulated process: the real `MemberMachine` and the stream thread that carries out its orders, each
order and each pass at a moment of its own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from assignor.types import TaskId
from coordinator_api.group.events import FetchAssignment, Leave
from coordinator_api.group.outcome import AssignmentReady, JoinAnswered, Rejected
from streams_runtime.common.errors import StreamsRuntimeError, TaskMigrated
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership import member_events
from streams_runtime.membership.calls import (
    ANSWER_TIMEOUT_MS,
    LEAVE_TIMEOUT_MS,
    FetchedAssignment,
    JoinReply,
    MemberSettings,
)
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_subscription import SubscriptionWriter
from tests.simulation.cluster import WORDS
from tests.simulation.coordinated_group import CoordinatedGroup
from tests.simulation.coordinator import SimulatedCoordinator
from tests.simulation.fate import ProcessKilled
from tests.simulation.faults import Kind
from tests.simulation.stream_thread import SimulatedStreamThread
from tests.simulation.timeline import Action, Due
from tests.simulation.wire import Answer, Joined, NoAnswer, Reply, failure_of, join_event

if TYPE_CHECKING:
    from tests.simulation.process import SimulatedProcess

SESSION_TIMEOUT_MS = 6_000
USUALLY_CARRIES_OUT_MS = 50
NEXT_PASS_MS = 80


class ProcessMember:
    """`name`: its client id, which its next incarnation has as well. `alias`: which no other has. `failed`: its thread
    ended because of an error.
    """

    def __init__(self, process: SimulatedProcess, number: int) -> None:
        host = process.host
        self.process = process
        self.name = f"p{host.number}-t{number}"
        self.alias = f"{self.name}#{process.incarnation}"
        self.group_id = host.group.group_id
        instance, incarnation = (f"i-{self.name}", process.incarnation) if host.plan.is_static else (None, None)
        settings = MemberSettings(
            self.group_id,
            self.name,
            instance,
            incarnation,
            SESSION_TIMEOUT_MS,
            host.group.plan.rebalance_timeout_ms,
            leave_on_disconnect=True,
        )
        self.machine = MemberMachine(settings, SubscriptionWriter(process.process_id, (WORDS,)), self.alias)
        self.thread = SimulatedStreamThread(
            host.group.cluster,
            process.machine,
            process.process_id,
            self.name,
            process.clock,
            is_group_paused=lambda: bool(process.pause.paused),
        )
        self.thread.when_woken = self._woken
        self.ended: member_events.MemberEnded | None = None
        self.failed: BaseException | None = None
        self._orders: deque[member_events.GiveOrder] = deque()
        self._pass: tuple[int, Due] | None = None
        self._chance = process.timeline.chance(f"thread {self.name}")

    @property
    def running(self) -> frozenset[TaskId]:
        return frozenset() if self.process.dead else self.thread.running

    @property
    def has_ended(self) -> bool:
        """Its member, and its thread with it."""
        return self.ended is not None and (self.process.dead or self.thread.has_ended)

    def offset_sums(self) -> dict[TaskId, int]:
        return self.thread.offset_sums()

    def flows(self) -> dict[TaskId, TaskFlow]:
        return {}

    def happens(self, event: member_events.MemberEvent) -> None:
        process, before = self.process, self.machine.member_id
        if process.dead or self.ended is not None:
            return
        process.touched()
        for effect in self.machine.handle(event, process.clock.monotonic_ms()):
            match effect:
                case member_events.SendJoin() | member_events.SendFetch() | member_events.SendLeave():
                    self._call(effect)
                case member_events.GiveOrder(_, order):
                    if isinstance(order, member_events.LoseTasks):
                        process.world.rules.loses(self, order.reason, before)
                    self._orders.append(effect)
                    if len(self._orders) == 1:
                        self._carry_out_soon()
                case member_events.SetTimer(timer, at_ms):
                    process.later(at_ms - process.clock.monotonic_ms(), self._when_due(timer))
                case member_events.MemberEnded():
                    process.timeline.say("{} ended: {}", self.alias, effect)
                    self.ended = effect
                    process.later(0, self._end_thread)
                    process.member_ended(self)
                case member_events.GroupRedeclared():
                    pass
                case member_events.MissingTopics():
                    raise AssertionError("the group has its topics")
        process.look()

    def lose(self, reason: str) -> None:
        """The stream thread drops its tasks by itself, and says so."""
        self.process.timeline.say("{} lost {}: {}", self.alias, sorted(self.running), reason)
        self.happens(member_events.TasksLost(reason))

    def _when_due(self, timer: int) -> Action:
        return lambda: self.happens(member_events.TimerDue(timer))

    # --- the stream thread

    def _carry_out_soon(self) -> None:
        process = self.process
        process.later(
            self.thread.took_ms + process.host.windows.up_to(Kind.SLOW, USUALLY_CARRIES_OUT_MS), self._carry_out
        )

    def _carry_out(self) -> None:
        given = self._orders.popleft()
        failure: BaseException | None = None
        try:
            self.thread.carry_out(given.order)
        except TaskMigrated as error:
            self.lose(str(error))
        except ProcessKilled:
            self.process.host.died_at_a_point(self.process)
            self.process.died()
            return
        except StreamsRuntimeError as error:
            self.failed = failure = error
        if self._orders:
            self._carry_out_soon()
        self.process.timeline.say("{} {}: {}", self.alias, _brief(given.order), self.running)
        self.process.world.rules.worked(self)
        self.happens(
            member_events.OrderDone(given.number, self.offset_sums())
            if failure is None
            else member_events.OrderFailed(given.number, failure)
        )
        self._want_pass()

    def _end_thread(self) -> None:
        """It ends with its member."""
        try:
            self.thread.carry_out(member_events.CloseTasks())
        except ProcessKilled:
            self.process.host.died_at_a_point(self.process)
            self.process.died()
        except StreamsRuntimeError as error:
            self.failed = error

    def _woken(self) -> None:
        if self._pass is None:
            self._want_pass()

    def wake(self) -> None:
        """Whether its group is paused has changed."""
        self._want_pass()

    def _want_pass(self) -> None:
        process, thread = self.process, self.thread
        if process.dead or thread.has_ended:
            return
        if thread.is_busy:
            delay_ms = thread.took_ms + NEXT_PASS_MS * self._chance.random()
        else:
            at_ms = thread.next_pass_ms()
            if at_ms is None:
                return
            delay_ms = max(at_ms - process.clock.monotonic_ms(), thread.took_ms)
        due_ms = process.timeline.now_ms + round(delay_ms)
        if self._pass is not None:
            if self._pass[0] <= due_ms:
                return
            self._pass[1].call_off()
        self._pass = due_ms, process.later(delay_ms, self._run_pass)

    def _run_pass(self) -> None:
        self._pass = None
        thread = self.thread
        if thread.has_ended:
            return
        before, processed = thread.running, thread.processed
        try:
            thread.run_pass()
        except TaskMigrated as error:
            self.process.touched()
            self.lose(str(error))
        except ProcessKilled:
            self.process.host.died_at_a_point(self.process)
            self.process.died()
            return
        except StreamsRuntimeError as error:
            self.failed = error
            self.process.touched()
            self.process.timeline.say("{} failed: {}", self.alias, error)
            self.happens(member_events.CloseAsked())
        else:
            if thread.running != before:
                self.process.touched()
        self.process.world.rules.worked(self)
        self.process.world.rules.has_passed(self, processed)
        if thread.wants_rejoin:
            thread.wants_rejoin = False
            self.happens(member_events.RejoinAsked())
        self._want_pass()

    # --- calls

    def _call(self, effect: member_events.SendJoin | member_events.SendFetch | member_events.SendLeave) -> None:
        group_id, process = self.group_id, self.process
        match effect:
            case member_events.SendJoin(_, request):

                def send(coordinator: SimulatedCoordinator, reply: Reply) -> None:
                    event = join_event(request, f"{self.alias}.{process.timeline.fresh()}")

                    def ask(group: CoordinatedGroup, reply: Reply) -> None:
                        def answer(response: Answer) -> None:
                            if isinstance(response, JoinAnswered):
                                response = Joined(response, group.is_paused)
                            reply(response)

                        group.ask(event, answer)

                    coordinator.serve(group_id, ask, reply)

            case member_events.SendFetch(_, member_id, min_generation):

                def send(coordinator: SimulatedCoordinator, reply: Reply) -> None:
                    fetch = FetchAssignment(member_id, min_generation)
                    coordinator.serve(group_id, lambda group, reply: group.fetch(fetch, reply), reply)

            case member_events.SendLeave(_, member_id):

                def send(coordinator: SimulatedCoordinator, reply: Reply) -> None:
                    coordinator.serve(group_id, lambda group, reply: group.ask(Leave(member_id), reply), reply)

        timeout_ms = LEAVE_TIMEOUT_MS if isinstance(effect, member_events.SendLeave) else ANSWER_TIMEOUT_MS
        process.call(send, timeout_ms, self._answer_to(effect))

    def _answer_to(self, effect: member_events.SendJoin | member_events.SendFetch | member_events.SendLeave) -> Reply:
        return lambda response: self._answered(effect, response)

    def _answered(
        self, effect: member_events.SendJoin | member_events.SendFetch | member_events.SendLeave, response: Answer
    ) -> None:
        call, process = effect.call, self.process
        process.timeline.say("{} {} answered: {}", self.alias, type(effect).__name__, response)
        match response:
            case Rejected() if isinstance(effect, member_events.SendLeave):
                event: member_events.MemberEvent = member_events.LeaveReplied(call)
            case NoAnswer() | Rejected():
                event = member_events.event_of_failure(effect, failure_of(response), self._chance.random())
            case Joined(JoinAnswered(member_id, generation_id, state), paused):
                process.on_join_reply(paused)
                event = member_events.JoinReplied(call, JoinReply(member_id, generation_id, str(state), paused=paused))
            case AssignmentReady(generation_id, data, followup):
                assert isinstance(effect, member_events.SendFetch)
                handed = bytes(data)
                process.world.rules.handed_out(self, effect.member_id, generation_id, handed)
                event = member_events.FetchReplied(call, FetchedAssignment(generation_id, handed, followup))
            case _:
                event = (
                    member_events.LeaveReplied(call)
                    if isinstance(effect, member_events.SendLeave)
                    else member_events.FetchReplied(call, None)
                )
        self.happens(event)


def _brief(order: member_events.Order) -> str:
    return type(order).__name__
