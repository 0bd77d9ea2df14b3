"""Random histories of a group: members that come, go, die and come back, answers that are lost, a coordinator that is
killed before or after a commit, commits that fail, several events in one commit, rebalances whose results come late,
connections that break, operators who hold rebalances, approve and discard them. Whatever happens:

- no member is in the group twice, and none is removed for a broken connection that it is heard on another one after;
- what a process hears that it can fetch, it can fetch;
- no task has two owners among those whom the group counts as members;
- the generation never goes back, and what a member is handed is what was recorded;
- the state is what the records replay to;
- a process that is away gets nothing new, as long as another one is there;
- a rebalance that waits for approval leaves no task without an owner, and nobody is removed for being late meanwhile;
- once the faults stop, the group becomes stable with every task owned exactly once.
"""

from __future__ import annotations

from enum import Enum

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from assignor.snapshot import RebalanceResult
from assignor.types import TaskId
from coordinator_api.group.events import (
    AssignmentComputed,
    ComputedAssignments,
    ConnectionLost,
    DecideHeldRebalance,
    Event,
    FetchAssignment,
    Heartbeat,
    HeartbeatOrFetch,
    Leave,
    ProcessHeartbeat,
    RequestRebalance,
    SetInstanceDrain,
    SetLever,
    Tick,
    WarmUpsCaughtUp,
)
from coordinator_api.group.heartbeats import answer
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.levers import LeverName
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import (
    AssignmentDiscarded,
    AssignmentReady,
    AssignmentStored,
    ComputedAgain,
    MemberNews,
    Outcome,
    ProcessHeartbeatAnswered,
    RebalanceWaits,
    Response,
    RunRebalance,
)
from coordinator_api.group.rebalance_result import computed_assignments
from coordinator_api.group.rebalancing import awaits_warm_ups, rebalance_to_run
from coordinator_api.group.records import MemberRemoved, MemberReplaced, RebalanceCompleted
from coordinator_api.group.states import GroupState, RebalanceOutcome, RemovalReason
from coordinator_api.group.subscriptions import assigned_tasks, process_of, running_tasks
from tests.coordinator_api.group.declarations import declared
from tests.coordinator_api.group.member_bytes import process_named
from tests.coordinator_api.group.recorded_group import RecordedGroup
from tests.simulation.leader import TASKS, lead
from tests.simulation.simulated_member import SimulatedMember

HEAL_STEP_MS = 250
HEAL_STEPS = 400
GRACE_MS = 200


class Fault(Enum):
    """What goes wrong with one request."""

    NONE = "none"
    ANSWER_LOST = "the answer never arrives"
    KILLED_BEFORE_COMMIT = "the coordinator is killed before it commits"
    KILLED_AFTER_COMMIT = "the coordinator is killed after it commits, before it answers"
    COMMIT_FAILED = "the store refuses the commit; the coordinator goes on"


faults = st.sampled_from([Fault.NONE] * 8 + list(Fault)[1:])
names = st.integers(0, 4)


class GroupSimulation(RuleBasedStateMachine):
    @initialize(initial_delay_ms=st.sampled_from([0, 1_000]), static=st.lists(st.booleans(), max_size=4))
    def declare(self, initial_delay_ms: int, static: list[bool]) -> None:
        limits = GroupLimits(
            initial_rebalance_delay_ms=initial_delay_ms, new_member_join_timeout_ms=3_000, disconnect_grace_ms=GRACE_MS
        )
        self.recorded = RecordedGroup(limits)
        self.members: list[SimulatedMember] = []
        self.due: RunRebalance | None = None
        self.late: list[RunRebalance] = []
        self.handed_out: dict[tuple[int, str], bytes] = {}
        self.fresh = 1
        self.may_be_kept = False
        self.lost_ms: dict[str, int] = {}
        self.revision = 0
        self.highest_generation = 0
        self._send(declared("v0"), Fault.NONE)
        for one in static:
            self.start(one, True)

    # members

    @precondition(lambda self: sum(not member.dead for member in self.members) < 5)
    @rule(static=st.booleans(), as_process=st.booleans())
    def start(self, static: bool, as_process: bool) -> None:
        name = f"m{len(self.members)}"
        instance = f"instance-{name}" if static else None
        connection_id = self._fresh() if as_process else None
        self.members.append(SimulatedMember(name, instance, 1 if static else None, connection_id))

    @rule(index=names, fault=faults)
    def join(self, index: int, fault: Fault) -> None:
        member = self._member(index)
        if member is not None:
            self._ask(member, member.join(f"id-{self._fresh()}"), fault)

    @rule(index=names, fault=faults)
    def heartbeat(self, index: int, fault: Fault) -> None:
        member = self._member(index)
        if member is not None and member.member_id is not None:
            self._ask(member, member.heartbeat(), fault)

    @rule(index=names)
    def hear(self, index: int) -> None:
        """A heartbeat that waits for no other event."""
        member = self._member(index)
        if member is not None and member.member_id is not None:
            self._hear(member, self.recorded.group.image)

    @rule(index=names, fault=faults)
    def fetch(self, index: int, fault: Fault) -> None:
        """Not while a join waits for its answer: a member does one thing at a time."""
        member = self._member(index)
        if member is not None and member.waiting_for is not None and member.unanswered is None:
            self._ask(member, member.fetch(), fault)

    @rule(steps=st.integers(1, 14), step_ms=st.sampled_from([10, 250, 5_000]), fault=faults, victim=names)
    def time_goes_by(self, steps: int, step_ms: int, fault: Fault, victim: int) -> None:
        """All members do what they should; in the step before the last, something goes wrong for one of them.

        Random requests alone seldom complete a rebalance.
        """
        for left in range(steps, 0, -1):
            self._go_on(step_ms, fault if left == 2 else Fault.NONE, victim)

    @rule(index=names, fault=faults)
    def leave(self, index: int, fault: Fault) -> None:
        member = self._member(index)
        if member is not None and member.member_id is not None:
            member.dead = True
            member.running = frozenset()
            self._send(Leave(member.member_id), fault)

    @rule(index=names, fault=faults)
    def restart_in_good_order(self, index: int, fault: Fault) -> None:
        """It leaves, and its process comes back: with a rejoin grace into its place, if it is soon enough."""
        member = self._member(index)
        if member is None or member.member_id is None or member.group_instance_id is not None:
            return
        restarted = member.started_anew(None, None if member.connection_id is None else self._fresh())
        member.dead, member.running = True, frozenset()
        self._send(Leave(member.member_id), fault)
        left = self.recorded.group.image.members.get(member.member_id)
        if left is None or left.is_away:  # else the leave was lost, and nobody knows that it is the same process
            self.members.append(restarted)

    @rule(grace_ms=st.sampled_from([None, 1_000, 20_000]), fault=faults)
    def set_rejoin_grace(self, grace_ms: int | None, fault: Fault) -> None:
        self._send(SetLever(LeverName.REJOIN_GRACE, grace_ms is not None, "ann", value_ms=grace_ms or 0), fault)

    @rule(paused=st.booleans(), fault=faults)
    def set_pause(self, paused: bool, fault: Fault) -> None:
        self._send(SetLever(LeverName.PAUSE, paused, "ann"), fault)

    @rule(index=names, alone=st.booleans(), fault=faults)
    def drain_instance(self, index: int, alone: bool, fault: Fault) -> None:
        member = self._member(index)
        if member is not None and member.member_id is not None:
            process_id = None if alone else str(process_named(member.name))
            self._send(SetInstanceDrain(True, process_id, member.member_id if alone else None, "ann"), fault)

    @rule(index=names, fault=faults)
    def end_instance_drain(self, index: int, fault: Fault) -> None:
        drained = sorted(self.recorded.group.image.levers.drained.values(), key=lambda each: each.target)
        if drained:
            each = drained[index % len(drained)]
            self._send(SetInstanceDrain(False, each.process_id, each.member_id), fault)

    @rule(on=st.booleans(), fault=faults)
    def set_promotion(self, on: bool, fault: Fault) -> None:
        self._send(SetLever(LeverName.PROMOTION, on, "ann"), fault)

    @rule(behind=st.integers(0, 1), fault=faults)
    def warm_ups_catch_up(self, behind: int, fault: Fault) -> None:
        """Whoever looked may have seen an earlier generation."""
        self._send(WarmUpsCaughtUp(self.recorded.group.image.generation_id - behind), fault)

    @rule(fault=faults)
    def request_rebalance(self, fault: Fault) -> None:
        self._send(RequestRebalance(), fault)

    @rule(index=names)
    def die(self, index: int) -> None:
        """Without a word; its session has to run out. A static one is started anew."""
        member = self._member(index)
        if member is not None:
            member.dead = True
            member.running = frozenset()
            self._lose_connections([member])
            if member.group_instance_id is not None:
                self.members.append(member.started_anew(self._fresh(), self._fresh()))

    @rule(index=names, most=st.booleans())
    def connections_break(self, index: int, most: bool) -> None:
        """That of one living member, or all of them at once."""
        member = self._member(index)
        if member is not None:
            self._lose_connections([one for one in self.members if not one.dead] if most else [member])

    @rule(index=names)
    def come_back_beside_a_zombie(self, index: int) -> None:
        """A static member is started anew while its older incarnation still runs, and goes on asking."""
        member = self._member(index)
        if member is not None and member.group_instance_id is not None:
            self.members.append(member.started_anew(self._fresh(), self._fresh()))

    # the coordinator

    @rule(fault=faults)
    def compute(self, fault: Fault) -> None:
        if self.due is not None:
            effect, self.due = self.due, None
            self._finish(effect, self._computed(effect), fault)

    @precondition(lambda self: self.late)
    @rule(index=st.integers(0, 9))
    def compute_late(self, index: int) -> None:
        effect = self.late[index % len(self.late)]
        computed = self._computed(effect)
        if effect.generation_id != self.recorded.group.image.generation_id:
            before = self.recorded.group.image
            self._send(computed, Fault.NONE)
            assert self.recorded.group.image is before, "a late result was taken in"

    @rule()
    def fail_to_compute(self) -> None:
        if self.due is not None:
            effect, self.due = self.due, None
            error = ComputedAssignments(error="TimeoutException: no offsets")
            kept = effect.steering.keeps_owned
            self._finish(effect, AssignmentComputed(effect.generation_id, error, kept_owned=kept), Fault.NONE)

    @rule(elapsed_ms=st.sampled_from([1, 50, 400, 1_000, 3_000, 10_000]), fault=faults)
    def wait(self, elapsed_ms: int, fault: Fault) -> None:
        self.recorded.now_ms += elapsed_ms
        self._tick(fault)

    @rule(fault=faults)
    def change_definition(self, fault: Fault) -> None:
        self.revision += 1
        self._send(declared(f"v{self.revision}"), fault)

    # operators

    @rule(time_limit_ms=st.sampled_from([1, 2_000, 20_000]), fault=faults)
    def hold(self, time_limit_ms: int, fault: Fault) -> None:
        self.may_be_kept = True
        self._send(SetLever(LeverName.HOLD, True, "ada", value_ms=time_limit_ms), fault)

    @rule(fault=faults)
    def end_hold(self, fault: Fault) -> None:
        self._send(SetLever(LeverName.HOLD, False, "ada"), fault)

    @precondition(lambda self: self.recorded.group.image.held is not None)
    @rule(approves=st.booleans(), fault=faults)
    def decide_about_held(self, approves: bool, fault: Fault) -> None:
        image = self.recorded.group.image
        answered = self._send(DecideHeldRebalance(approves, image.generation_id, "bob", "because"), fault)
        assert answered is None or isinstance(answered, AssignmentStored if approves else ComputedAgain)

    @rule(
        index=names,
        answers=st.lists(st.sampled_from(["approve", "discard", "kill the coordinator", "another joins"]), max_size=4),
        fault=faults,
        victim=names,
    )
    def ask_about_a_rebalance(self, index: int, answers: list[str], fault: Fault, victim: int) -> None:
        """An instance is restarted over its disk, and caught up when it is back. So its tasks are to move back to it at
        once, which has to be approved. Random requests alone seldom lead there.
        """
        member = self._member(index)
        if member is None or member.member_id is None:
            return
        self.may_be_kept = True
        self._send(SetLever(LeverName.HOLD, True, "ada", value_ms=20_000), Fault.NONE)
        connection_id = None if member.connection_id is None else self._fresh()
        again = member.started_anew(self._fresh(), connection_id)
        self.leave(index, Fault.NONE)
        self.time_goes_by(6, 250, Fault.NONE, 0)
        self.members.append(again)
        self.time_goes_by(6, 250, fault, victim)
        for said in answers:
            if said == "kill the coordinator":
                self.kill_coordinator()
            elif said == "another joins":
                self.start(False, False)
            elif self.recorded.group.image.held is not None:
                self.decide_about_held(said == "approve", Fault.NONE)
            self.time_goes_by(3, 250, fault, victim)

    @rule()
    def kill_coordinator(self) -> None:
        before = self.recorded.group.image
        self._restart()
        assert self.recorded.group.image == before, "the state is not what the records replay to"

    @rule(
        order=st.permutations(range(5)),
        leaves=st.integers(0, 8),
        hears=names,
        computed=st.booleans(),
        fails=st.booleans(),
    )
    def several_events_in_one_commit(
        self, order: list[int], leaves: int, hears: int, computed: bool, fails: bool
    ) -> None:
        """Each member joins, except that one may leave; meanwhile one is heard, from the state before all this. When
        the commit fails, the coordinator reads the group again, and nobody was answered.
        """
        alive = [member for member in self.members if not member.dead]
        events: list[tuple[SimulatedMember | None, Event]] = [(None, Tick())]
        for number in order[: len(alive)]:
            member = alive[number % len(alive)]
            if number == leaves and member.member_id is not None and not fails:
                member.dead, member.running = True, frozenset()
                events.append((None, Leave(member.member_id)))
            elif member.has_to_join or member.unanswered is not None:
                events.append((member, member.join(f"id-{self._fresh()}")))
        effect = self.due
        if computed and effect is not None and not fails:
            self.due = None
            self.late.append(effect)
            events.append((None, self._computed(effect)))
        self._commit_together(events, self._member(hears), fails)

    # what always holds

    @invariant()
    def no_task_has_two_owners(self) -> None:
        image = self.recorded.group.image
        owners: dict[object, str] = {}
        for member in self.members:
            known = image.members.get(member.member_id or "")
            if known is None or not image.takes_part(known):
                continue
            for task in member.running:
                assert task not in owners, f"{task} is owned by {owners[task]} and {member.name}\n{self._history()}"
                owners[task] = member.name

    @invariant()
    def nobody_is_in_the_group_twice(self) -> None:
        """Lost answers make no ghosts: whoever asks again is known by its `join_id`."""
        names = [member.last_join.client_id for member in self.recorded.group.image.members.values()]
        for member in self.members:
            if not member.dead:
                assert names.count(member.name) <= 1, f"{member.name} is there twice\n{self._history()}"

    @invariant()
    def generation_never_goes_back(self) -> None:
        generation_id = self.recorded.group.image.generation_id
        assert generation_id >= self.highest_generation
        self.highest_generation = generation_id

    @invariant()
    def no_task_without_owner_waits_for_approval(self) -> None:
        image = self.recorded.group.image
        if image.held is not None:
            owned = {task for member in image.members.values() for task in _tasks_owned_by(member)}
            assert owned == set(TASKS), self._history()

    @invariant()
    def state_is_valid(self) -> None:
        self.recorded.group.validate_state()

    def teardown(self) -> None:
        """The faults stop: the group has to become stable, every task owned exactly once."""
        self._restart()
        if not any(not member.dead for member in self.members):
            self.members.append(SimulatedMember("last"))
        if self.recorded.group.describe().error is not None:
            self._send(declared("v0"), Fault.NONE)
        for _ in range(HEAL_STEPS):
            self._go_on(HEAL_STEP_MS, Fault.NONE, 0)
            if self._is_whole():
                return
        raise AssertionError(f"still not stable: {self.recorded.group.describe()}\n{self.members}\n{self._history()}")

    def _is_whole(self) -> bool:
        image = self.recorded.group.image
        alive = [member for member in self.members if not member.dead]
        if image.state is not GroupState.STABLE or image.members.keys() != {member.member_id for member in alive}:
            return False
        assert image.last_rebalance is not None
        if image.last_rebalance.end.outcome is RebalanceOutcome.ERROR:
            self._send(declared("v0"), Fault.NONE)
        fetched = all(member.generation_id == image.generation_id for member in alive)
        running = sorted(task for member in alive for task in member.running)
        if fetched and awaits_warm_ups(image):
            self._send(WarmUpsCaughtUp(image.generation_id), Fault.NONE)
            return False
        drained = [member for member in alive if self._is_drained(member)]
        settled = fetched and image.last_rebalance.end.outcome is RebalanceOutcome.STABLE
        if settled and len(drained) < len(alive) and not self.may_be_kept:
            assert not any(member.running for member in drained), (
                f"a drained member still runs tasks\n{self._history()}"
            )
        return fetched and image.last_rebalance.end.outcome in _CALM and running == list(TASKS)

    def _is_drained(self, member: SimulatedMember) -> bool:
        drained = self.recorded.group.image.levers.drained
        return member.member_id in drained or str(process_named(member.name)) in drained

    def _go_on(self, step_ms: int, step_fault: Fault, victim: int) -> None:
        """`step_fault` hits one member, or, when `victim` is nobody's number, what the coordinator does by itself."""
        self.recorded.now_ms += step_ms
        alive = [member for member in self.members if not member.dead]
        own_fault = step_fault if victim >= len(alive) else Fault.NONE
        self._tick(own_fault)
        self.compute(own_fault)
        for number, member in enumerate(alive):
            fault = step_fault if number == victim else Fault.NONE
            if member.has_to_join or member.unanswered is not None:
                self._ask(member, member.join(f"id-{self._fresh()}"), fault)
            elif member.waiting_for is not None:
                self._ask(member, member.fetch(), fault)
            if member.member_id is not None and not member.dead:
                self._ask(member, member.heartbeat(), fault)
            self.no_task_has_two_owners()

    def _member(self, index: int) -> SimulatedMember | None:
        alive = [member for member in self.members if not member.dead]
        return alive[index % len(alive)] if alive else None

    def _fresh(self) -> int:
        """A rising number, for member ids and incarnations."""
        self.fresh += 1
        return self.fresh

    def _ask(self, member: SimulatedMember, event: Event | HeartbeatOrFetch, fault: Fault) -> None:
        response = self._send(event, fault)
        if response is not None:
            member.hear(response)
            if isinstance(response, AssignmentReady):
                assert member.member_id is not None
                recorded = self.handed_out[response.generation_id, member.member_id]
                assert bytes(response.assignment) == recorded, (
                    f"{member.name} was handed something that is not recorded"
                )

    def _hear(self, member: SimulatedMember, committed: GroupImage) -> None:
        event = member.heartbeat()
        self._note_sign_of_life(event)
        group, now_ms = self.recorded.group, self.recorded.now_ms
        heard = group.respond(event, now_ms, committed)
        self._check_news(heard.response, committed)
        member.hear(heard.response)
        if heard.wants_tick and group.image is committed:
            self._send(Tick(), Fault.NONE)

    def _check_news(self, response: Response, image: GroupImage) -> None:
        """A process is told of each of its members what a request of the member itself would be told."""
        if isinstance(response, ProcessHeartbeatAnswered):
            for member_id, news in response.members.items():
                if isinstance(news, MemberNews):
                    fetched = answer(image, FetchAssignment(member_id, 0, is_recheck=True))
                    generation = fetched.generation_id if isinstance(fetched, AssignmentReady) else 0
                    assert news.assignment_generation == generation

    def _commit_together(
        self, events: list[tuple[SimulatedMember | None, Event]], heard: SimulatedMember | None, fails: bool
    ) -> None:
        recorded, committed = self.recorded, self.recorded.group.image
        taken: list[tuple[SimulatedMember | None, Outcome]] = []
        for member, event in events:
            self._note_sign_of_life(event)
            outcome = recorded.group.handle(event, recorded.now_ms)
            recorded.group.apply(outcome.records, recorded.now_ms)
            taken.append((member, outcome))
        if heard is not None and heard.member_id is not None:
            self._hear(heard, committed)
        if fails:
            self._restart()
            assert recorded.group.image == committed, "what was not committed is left in the state"
            return
        for member, outcome in taken:
            recorded.store(outcome)
            self._note(outcome)
            self._start(outcome)
            if member is not None and not member.dead:
                member.hear(outcome.response)

    def _lose_connections(self, members: list[SimulatedMember]) -> None:
        """Each of them has another one by its next heartbeat, unless it is dead."""
        for member in members:
            if member.connection_id is not None:
                self.lost_ms.setdefault(member.member_id or "", self.recorded.now_ms)
                self._send(ConnectionLost(member.connection_id), Fault.NONE)
                member.connection_id = self._fresh()

    def _note_sign_of_life(self, event: Event | HeartbeatOrFetch) -> None:
        if isinstance(event, ProcessHeartbeat):
            for member_id in event.members:
                self.lost_ms.pop(member_id, None)
        elif isinstance(event, Heartbeat):
            self.lost_ms.pop(event.member_id, None)

    def _check_removal(self, member_id: str) -> None:
        lost_ms = self.lost_ms.get(member_id)
        assert lost_ms is not None, f"{member_id} was heard after its connection broke\n{self._history()}"
        assert self.recorded.now_ms >= lost_ms + GRACE_MS, f"{member_id} had no time to come back\n{self._history()}"

    def _tick(self, fault: Fault) -> None:
        due_ms = self.recorded.group.next_timer_ms
        if due_ms is not None and due_ms <= self.recorded.now_ms:
            self._send(Tick(), fault)

    def _computed(self, effect: RunRebalance) -> AssignmentComputed:
        result = lead(effect, self.recorded.now_ms)
        self._check_nothing_new_for_who_is_away(effect, result)
        rebalance = computed_assignments(effect.members, effect.definition_revision, result)
        return AssignmentComputed(effect.generation_id, rebalance, kept_owned=effect.steering.keeps_owned)

    def _check_nothing_new_for_who_is_away(self, effect: RunRebalance, result: RebalanceResult) -> None:
        processes = {process_of(member.subscription) for member in effect.members.values()}
        if processes <= effect.steering.away_processes:
            return  # nobody else is there
        for member_id, member in effect.members.items():
            if process_of(member.subscription) in effect.steering.away_processes:
                given = set(assigned_tasks(result.assignments[member_id]).active)
                assert given <= set(running_tasks(member.subscription)), f"{member_id} is away\n{self._history()}"

    def _finish(self, effect: RunRebalance, event: AssignmentComputed, fault: Fault) -> None:
        self.late.append(effect)
        due = rebalance_to_run(self.recorded.group.image)
        wanted = due is not None and (due.generation_id, due.steering) == (effect.generation_id, effect.steering)
        response = self._send(event, fault)
        if fault is Fault.COMMIT_FAILED:
            self.due = effect
        assert response is None or isinstance(response, _TAKEN if wanted else AssignmentDiscarded)

    def _send(self, event: Event | HeartbeatOrFetch, fault: Fault) -> Response | None:
        """None when no answer comes."""
        recorded = self.recorded
        self._note_sign_of_life(event)
        outcome = recorded.decide(event)
        if not outcome.records:
            self._check_news(outcome.response, recorded.group.image)
        if fault is Fault.COMMIT_FAILED and outcome.records:
            return None
        if fault is Fault.KILLED_BEFORE_COMMIT:
            self._restart()
            return None
        recorded.store(outcome)
        self._note(outcome)
        if fault is Fault.KILLED_AFTER_COMMIT:
            self._restart()
            return None
        recorded.group.apply(outcome.records, recorded.now_ms)
        self._start(outcome)
        return None if fault is Fault.ANSWER_LOST else outcome.response

    def _note(self, outcome: Outcome) -> None:
        held = self.recorded.group.image.held is not None
        for record in outcome.records:
            if isinstance(record, RebalanceCompleted):
                self.handed_out |= {(record.generation_id, key): data for key, data in record.assignments.items()}
            elif isinstance(record, MemberRemoved) and held:
                assert record.reason not in _LATE, f"{record.member_id} was removed while all wait\n{self._history()}"
            if isinstance(record, MemberRemoved) and record.reason is RemovalReason.DISCONNECTED:
                self._check_removal(record.member_id)
            if isinstance(record, MemberReplaced):
                self.handed_out |= {
                    (generation_id, record.new_member_id): data
                    for (generation_id, member_id), data in self.handed_out.items()
                    if member_id == record.old_member_id
                }

    def _start(self, outcome: Outcome) -> None:
        if outcome.rebalance is not None:
            if self.due is not None:
                self.late.append(self.due)
            self.due = outcome.rebalance

    def _restart(self) -> None:
        self.due = None
        self._start(self.recorded.restart())

    def _history(self) -> str:
        return "\n".join(self.recorded.group.history())


def _tasks_owned_by(member: ClassicGroupMember) -> set[TaskId]:
    """What it said it runs. The tasks of a member that is away wait for it: those, and what it was assigned since."""
    said = set(running_tasks(member.last_join.subscription))
    if member.is_away and member.last_assignment.assignment is not None:
        said |= set(assigned_tasks(member.last_assignment.assignment).active)
    return said


_TAKEN = (AssignmentStored, RebalanceWaits, ComputedAgain)
_LATE = (RemovalReason.REBALANCE_TIMEOUT, RemovalReason.ASSIGNMENT_NOT_FETCHED)
_CALM = (RebalanceOutcome.STABLE, RebalanceOutcome.PROBING)

TestGroupSimulation = GroupSimulation.TestCase
TestGroupSimulation.settings = settings(
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
