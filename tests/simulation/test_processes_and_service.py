"""Whole processes with the runtime's own member machines against the real group, in simulated time, with everything
that can go wrong on the way between them: answers that are lost, late or come twice, broken connections, a network that
is silent, frozen and killed processes, a coordinator that is killed, overloaded, or whose commits fail. Whatever
happens:

- no task runs at two members of the group at once, and no member is in the group twice;
- nobody is evicted who is heard within its session, or has a connection left (`SimulatedService` checks it);
- no member fails;
- once nothing goes wrong any more, every member that lives holds its tasks, each task runs once, and nobody is evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from assignor.types import TaskId
from coordinator_api.group.events import Drain
from coordinator_api.group.states import GroupState, RebalanceOutcome
from streams_runtime.membership.member_events import CloseAsked, RejoinAsked
from streams_runtime.membership.member_phase import Phase
from tests.coordinator_api.group.declarations import declared
from tests.examples import share
from tests.simulation.leader import TASKS
from tests.simulation.simulated_process import (
    CALL_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Log,
    Network,
    SimulatedProcess,
    SimulatedThread,
)
from tests.simulation.simulated_service import SimulatedService
from tests.simulation.timeline import Timeline

FAULTS_MS = 60_000
MOST_PROCESSES = 4
SETTLED_WITHIN_MS = 2 * (CALL_TIMEOUT_MS + SESSION_TIMEOUT_MS)
"""A lost call is repeated, and a dead member's session ends; twice each, and nobody waits for the rebalance timeout."""

CALM = (RebalanceOutcome.STABLE, RebalanceOutcome.PROBING, RebalanceOutcome.SETTLED)


class World:
    def __init__(self, seed: int) -> None:
        self.timeline = Timeline(seed)
        self.chance = self.timeline.chance
        self.service = SimulatedService(self.timeline, declared("v0"))
        self.network = Network(self.chance.choice([0.0, 0.02, 0.1]), self.chance.choice([5, 100, 1_000]))
        self.log = Log()
        self.processes: list[SimulatedProcess] = []
        self.faults = self.chance.sample(self._faults(), self.chance.randint(1, 6))
        self.pause_ms = self.chance.choice([300, 2_000, 10_000])
        self._checked = self.service.image
        for _ in range(self.chance.randint(1, 3)):
            self.start()

    @property
    def living(self) -> list[SimulatedThread]:
        return [thread for process in self.processes for thread in process.living]

    def run(self) -> None:
        self.timeline.after(0, self.something_goes_wrong)
        self.timeline.run_until(FAULTS_MS, self.check)
        self.heal()
        settled = self.timeline.run_until(FAULTS_MS + SETTLED_WITHIN_MS, lambda: self.check() or self.is_whole())
        assert settled, self.story("not settled")
        living = {thread.machine.member_id for thread in self.living}
        for at_ms, removed in self.service.evicted:
            late = at_ms > FAULTS_MS + CALL_TIMEOUT_MS
            assert not late or removed.member_id not in living, self.story(f"evicted although all is well: {removed}")

    # --- what goes wrong

    def _faults(self) -> list[Callable[[], object]]:
        return [
            self.start,
            self.start_anew,
            lambda: self.any_process(SimulatedProcess.kill),
            lambda: self.any_process(SimulatedProcess.break_connection),
            lambda: self.any_process(lambda one: one.freeze(self.some_time_ms())),
            lambda: self.any_process(lambda one: one.cut_off(self.some_time_ms())),
            lambda: self.any_process(SimulatedProcess.close),
            lambda: self.any_thread(lambda one: one.happens(CloseAsked())),
            lambda: self.any_thread(lambda one: one.happens(RejoinAsked())),
            lambda: self.any_thread(lambda one: one.lose("a commit was refused")),
            self.slow_passes,
            self.kill_coordinator,
            self.overload,
            self.slow_commits,
            self.failing_commits,
            self.declare,
            self.drain,
        ]

    def something_goes_wrong(self) -> None:
        if self.timeline.now_ms < FAULTS_MS:
            self.chance.choice(self.faults)()
            self.timeline.after(self.chance.uniform(0, self.pause_ms), self.something_goes_wrong)

    def some_time_ms(self) -> int:
        return round(self.chance.choice([300, 3_000, 15_000]) * self.chance.random())

    def any_process(self, happens: Callable[[SimulatedProcess], object]) -> None:
        living = [process for process in self.processes if process.living]
        if living:
            happens(self.chance.choice(living))

    def any_thread(self, happens: Callable[[SimulatedThread], object]) -> None:
        if self.living:
            happens(self.chance.choice(self.living))

    def start(self) -> None:
        if sum(bool(process.living) for process in self.processes) < MOST_PROCESSES:
            instance = f"i{self.timeline.fresh()}" if self.timeline.happens(0.3) else None
            self._start(self.chance.randint(1, 2), instance)

    def start_anew(self) -> None:
        """A process with static members, while the one before it may still live on."""
        before = [process for process in self.processes if process.instance is not None]
        if before:
            one = self.chance.choice(before)
            if self.timeline.happens(0.5) and not one.dead:
                one.kill()
            self._start(len(one.threads), one.instance)

    def _start(self, threads: int, instance: str | None) -> None:
        process = SimulatedProcess(self.timeline, self.service, self.network, self.log, threads, instance)
        self.timeline.say(f"process {process.number} started, {threads} threads, {instance}")
        self.processes.append(process)

    def declare(self) -> None:
        self.service.ask(declared(f"v{self.timeline.fresh()}"), lambda _: None)

    def drain(self) -> None:
        """For a while: who hears of it leaves and ends."""
        self.service.ask(Drain(), lambda _: None)
        self.timeline.after(self.some_time_ms(), self.declare)

    def slow_passes(self) -> None:
        self.any_process(lambda one: setattr(one, "pass_ms", self.chance.choice([50, 1_000, 5_000])))

    def kill_coordinator(self) -> None:
        if self.service.is_up:
            self.service.kill(round(self.chance.choice([50, 3_000, 10_000]) * self.chance.random()))

    def overload(self) -> None:
        self.service.overloaded = not self.service.overloaded

    def slow_commits(self) -> None:
        self.service.commit_ms = self.chance.choice([5, 500, 3_000])

    def failing_commits(self) -> None:
        self.service.commit_fails = self.chance.choice([0.0, 0.2])

    def heal(self) -> None:
        self.timeline.say("the faults end")
        self.network.loss, self.network.delay_ms = 0.0, 5
        self.service.overloaded, self.service.commit_ms, self.service.commit_fails = False, 5, 0.0
        for process in self.processes:
            process.heal()
        if not self.living:
            self._start(1, None)

    # --- what has to hold

    def check(self) -> bool:
        """Raises when a rule is broken; False, so that the run goes on."""
        image, owners = self.service.image, dict[TaskId, SimulatedThread]()
        for thread in self.living:
            known = image.members.get(thread.machine.member_id or "")
            if known is None or not image.takes_part(known):
                continue  # the log fences it
            for task in thread.running:
                assert task not in owners, self.story(f"{task} runs at {owners[task].name} and {thread.name}")
                owners[task] = thread
        if image is not self._checked:
            self._checked = image
            names = Counter(member.last_join.client_id for member in image.members.values())
            for thread in self.living:
                assert names[thread.name] <= 1, self.story(f"{thread.name} is in the group twice")
        for process in self.processes:
            for thread in process.threads:
                assert thread.ended is None or thread.ended.failure is None, self.story(str(thread.ended))
        return False

    def is_whole(self) -> bool:
        image, living = self.service.image, self.living
        if not living:  # they were told to close just before
            return image.state is GroupState.EMPTY
        return (
            image.state is GroupState.STABLE
            and image.last_rebalance is not None
            and image.last_rebalance.end.outcome in CALM
            and image.members.keys() == {thread.machine.member_id for thread in living}
            and all(thread.machine.phase is Phase.HOLDING for thread in living)
            and {thread.machine.heartbeat({}).body.generation_id for thread in living} == {image.generation_id}
            and sorted(task for thread in living for task in thread.running) == list(TASKS)
        )

    def story(self, what: str) -> str:
        members = "\n".join(
            f"{thread.name} {thread.machine.member_id} {thread.machine.phase} {sorted(map(str, thread.running))}"
            for thread in self.living
        )
        return "\n".join((what, *self.timeline.lines, members, str(self.service.group.describe())[:300]))


@given(seed=st.integers(0, 2**32 - 1))
@share(0.3)
def test_should_run_no_task_twice_evict_nobody_who_is_heard_and_settle_after_any_faults(seed: int) -> None:
    World(seed).run()
