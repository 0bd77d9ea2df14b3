"""Random interleavings of members and a group: answers that are lost or late, expired sessions, lost tasks, new rounds.

Whatever happens, no two members of the group work on one task; and once nothing happens any more, the group settles:
every member that lives is in it once, and each task is with one of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from streams_runtime.membership import member_events as on
from streams_runtime.membership.calls import CoordinatorError, HeartbeatNews, MemberSettings
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_subscription import SubscriptionWriter
from tests.coordinator_api.group.member_bytes import SOURCE_TOPIC
from tests.streams_runtime.membership.model_group import PREPARING, ModelGroup

TASKS = tuple(TaskId(0, number) for number in range(4))
MOST_MEMBERS = 3
STEPS_TO_SETTLE = 400

Call = on.SendJoin | on.SendFetch | on.SendLeave


@dataclass(slots=True)
class Process:
    """A machine and what is under way for it. `running`: the active tasks that its stream thread works on."""

    machine: MemberMachine
    group: ModelGroup
    running: set[TaskId] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    orders: list[on.GiveOrder] = field(default_factory=list)
    timers: list[on.SetTimer] = field(default_factory=list)
    replies: list[on.HeartbeatReplied] = field(default_factory=list)
    ended: on.MemberEnded | None = None

    def happens(self, event: on.MemberEvent) -> None:
        for effect in self.machine.handle(event, 0):
            match effect:
                case on.SendJoin() | on.SendFetch() | on.SendLeave():
                    self.calls.append(effect)
                case on.GiveOrder():
                    self.orders.append(effect)
                case on.SetTimer():
                    self.timers.append(effect)
                case on.MemberEnded():
                    self.ended = effect
                case on.MissingTopics() | on.GroupRedeclared():
                    raise AssertionError("the model has its topics and one definition")

    def call(self, number: int, fate: str) -> None:
        """The call is made, and answered; or one of the two is lost."""
        call = self.calls.pop(number % len(self.calls))
        answer = on.CallUnanswered(call.call) if fate == "request lost" else self._answer(call)
        self.happens(on.CallUnanswered(call.call) if fate == "answer lost" else answer)

    def carry_out(self) -> None:
        given = self.orders.pop(0)
        match given.order:
            case on.StartRebalance():
                pass
            case on.RevokeTasks(tasks):
                self.running -= tasks
            case on.AssignTasks(held):
                self.running = set(held.active)
            case on.LoseTasks() | on.CloseTasks():
                self.running = set()
        self.happens(on.OrderDone(given.number, self.offset_sums()))

    def offset_sums(self) -> dict[TaskId, int]:
        return dict.fromkeys(self.running, LATEST_OFFSET)

    def ask(self) -> None:
        """A heartbeat whose answer is under way."""
        sent = self.machine.heartbeat(self.offset_sums(), {})
        reply = self.group.heartbeat({sent.member_id: sent.body})
        self.replies.append(on.HeartbeatReplied(sent, reply.generation_id, reply.members[sent.member_id]))

    def _answer(self, call: Call) -> on.MemberEvent:
        try:
            match call:
                case on.SendJoin(number, request):
                    return on.JoinReplied(number, self.group.join(request))
                case on.SendFetch(number, member_id, min_generation):
                    return on.FetchReplied(number, self.group.fetch(member_id, min_generation))
                case on.SendLeave(number, member_id):
                    self.group.leave(member_id)
                    return on.LeaveReplied(number)
        except CoordinatorError as error:
            return on.CallRefused(call.call, error)


class Interleavings(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.group = ModelGroup(TASKS)
        self.processes: list[Process] = []
        self.started = 0

    @property
    def living(self) -> list[Process]:
        return [one for one in self.processes if one.ended is None]

    def those(self, condition: Callable[[Process], object]) -> list[Process]:
        return [one for one in self.living if condition(one)]

    def one_of(self, number: int, condition: Callable[[Process], object] = bool) -> Process | None:
        found = self.those(condition) if condition is not bool else self.living
        return found[number % len(found)] if found else None

    # --- what happens

    @precondition(lambda self: len(self.living) < MOST_MEMBERS)
    @rule()
    def a_member_starts(self) -> None:
        self.started += 1
        name = f"c{self.started}"
        writer = SubscriptionWriter(ProcessId(0, self.started), (SOURCE_TOPIC,))
        process = Process(MemberMachine(MemberSettings("g", name), writer, name), self.group)
        self.processes.append(process)
        process.happens(on.Started())

    @rule(who=st.integers(0), which=st.integers(0), fate=st.sampled_from(["fine", "request lost", "answer lost"]))
    def a_call_is_made(self, who: int, which: int, fate: str) -> None:
        if process := self.one_of(who, lambda one: one.calls):
            process.call(which, fate)

    @rule(who=st.integers(0))
    def an_order_is_carried_out(self, who: int) -> None:
        if process := self.one_of(who, lambda one: one.orders):
            process.carry_out()

    @rule(who=st.integers(0), which=st.integers(0))
    def a_timer_is_due(self, who: int, which: int) -> None:
        if process := self.one_of(who, lambda one: one.timers):
            process.happens(on.TimerDue(process.timers.pop(which % len(process.timers)).timer))

    @rule(who=st.integers(0))
    def a_heartbeat_is_sent(self, who: int) -> None:
        if process := self.one_of(who, lambda one: one.machine.sends_heartbeats):
            process.ask()

    @rule(who=st.integers(0), which=st.integers(0))
    def the_answer_to_a_heartbeat_comes(self, who: int, which: int) -> None:
        if process := self.one_of(who, lambda one: one.replies):
            process.happens(process.replies.pop(which % len(process.replies)))

    @rule(who=st.integers(0), event=st.sampled_from([on.RejoinAsked(), on.CloseAsked()]))
    def its_owner_wants_something(self, who: int, event: on.MemberEvent) -> None:
        if process := self.one_of(who):
            process.happens(event)

    @rule(who=st.integers(0))
    def its_tasks_are_lost(self, who: int) -> None:
        """Its log refused a commit: the stream thread drops everything by itself, and says so."""
        if process := self.one_of(who, lambda one: one.running):
            process.running = set()
            process.happens(on.TasksLost("migrated"))

    @rule(who=st.integers(0))
    def a_session_expires(self, who: int) -> None:
        if self.group.members:
            self.group.expire(sorted(self.group.members)[who % len(self.group.members)])

    @precondition(lambda self: self.group.may_close_joins)
    @rule()
    def the_wait_for_joins_ends(self) -> None:
        self.group.close_joins()

    @precondition(lambda self: self.group.state == "CompletingRebalance")
    @rule()
    def the_assignments_are_there(self) -> None:
        self.group.compute()

    # --- what has to hold

    @invariant()
    def no_task_runs_twice(self) -> None:
        """A member that the group has taken out does not count: the log fences it."""
        running = [task for one in self.living if one.machine.member_id in self.group.members for task in one.running]
        assert len(running) == len(set(running)), [(one.machine.member_id, one.running) for one in self.living]

    @invariant()
    def no_lost_answer_makes_a_second_member(self) -> None:
        made_by = [str(member.join_id).partition("-")[0] for member in self.group.members.values()]
        assert len(made_by) == len(set(made_by)), self.group.members

    @invariant()
    def nothing_failed(self) -> None:
        failures = [one.ended.failure for one in self.processes if one.ended is not None]
        assert failures == [None] * len(failures)

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        for _ in range(STEPS_TO_SETTLE):
            if self._is_settled():
                break
            self._one_quiet_round()
        else:
            raise AssertionError((self.group, [(one.machine.phase, one.running) for one in self.living]))
        assert {one.machine.member_id for one in self.living} == set(self.group.members), "no ghosts"
        running = sorted(task for one in self.living for task in one.running)
        assert running == (sorted(TASKS) if self.living else [])

    def _one_quiet_round(self) -> None:
        """Everything that is under way comes to its end, and nothing new goes wrong."""
        for process in self.living:
            while process.orders:
                process.carry_out()
            while process.calls:
                process.call(0, "fine")
            while process.timers:
                process.happens(on.TimerDue(process.timers.pop(0).timer))
            while process.replies:
                process.happens(process.replies.pop(0))
            if process.ended is None and process.machine.sends_heartbeats:
                process.ask()
        alive = {one.machine.member_id for one in self.living}
        for member_id in set(self.group.members) - alive:
            if not any(one.calls for one in self.living):
                self.group.expire(member_id)
        if self.group.state == PREPARING and all(member.joined for member in self.group.members.values()):
            self.group.close_joins()
        elif self.group.state == "CompletingRebalance":
            self.group.compute()

    def _is_settled(self) -> bool:
        quiet = not any(one.calls or one.orders or one.timers for one in self.living)
        all_replied = all(
            isinstance(reply.answer, HeartbeatNews) and not reply.answer.rejoin
            for one in self.living
            for reply in one.replies
        )
        known = {one.machine.member_id for one in self.living} == set(self.group.members)
        return quiet and all_replied and known and self.group.is_settled


def test_should_run_no_task_twice_and_settle_after_any_interleaving() -> None:
    run_state_machine_as_test(Interleavings, settings=hypothesis_settings(deadline=None, stateful_step_count=60))
