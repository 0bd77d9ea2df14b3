"""A schedule as it happens: the groups, their processes, the coordinators and their database, in one simulated time.

First the faults, then a quiet network in which everything has to come to rest: stable, each task owned once, all that
came in counted, the levers as their operators left them.
"""

from dataclasses import dataclass

from assignor.configs import AssignmentConfigs
from coordinator_api.group.events import SetLever
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import GroupLimits
from tests.coordinator_api.group.declarations import declared
from tests.simulation.cluster import WORDS, SimulatedCluster
from tests.simulation.coordinated_group import GroupSetting
from tests.simulation.coordinator import SimulatedCoordinator
from tests.simulation.coverage import Coverage
from tests.simulation.database import Rows, SimulatedDatabase
from tests.simulation.faults import Fault, Of
from tests.simulation.happening import happen
from tests.simulation.hosts import Host
from tests.simulation.leader import Leader
from tests.simulation.operators import Operator
from tests.simulation.places import Place
from tests.simulation.rules import Rules
from tests.simulation.schedule import FEWEST_EVENTS, GroupPlan, Schedule
from tests.simulation.timeline import Timeline
from tests.simulation.visits_and_pairs import VisitsAndPairs
from tests.simulation.windows import Windows
from tests.simulation.word_count import COUNTING, WordCounts

GRACE_MS = 200
WORDS_EVERY_MS = 2_500
MOST_WORDS = 16
LONGEST_MS = 200_000
"""No history goes on for longer."""


@dataclass(slots=True)
class SimulatedGroup:
    """`failing`: its next rebalance fails. `weighed`: it is taken for larger than it is. `is_told_to_stop`: its
    processes are to end, and not to start.
    """

    plan: GroupPlan
    group_id: str
    cluster: SimulatedCluster
    leader: Leader
    windows: Windows
    operator: Operator
    failing: Fault | None = None
    weighed: Fault | None = None
    is_told_to_stop: bool = False


class World:
    """`places`: where coordinators run."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.timeline = Timeline(schedule.seed)
        self.coverage = Coverage()
        self.open_connections: set[int] = set()
        self.rules = Rules(self)
        plan = schedule.coordinators
        table = None if plan.lease_ms is None else Rows(self.timeline)
        self.database = SimulatedDatabase(self.timeline, table, self.struck, self.rules.stored)
        self.coordinator_windows = Windows(self.timeline, "the coordinators", self.struck)
        settings: dict[str, GroupSetting] = {}
        self.places = [Place(self, number, plan.lease_ms, settings) for number in range(1, plan.count + 1)]
        self.is_quiet = False
        self.groups = {plan.number: self._group(plan) for plan in schedule.groups}
        settings.update((group.group_id, self._setting(group)) for group in self.groups.values())
        for group in self.groups.values():
            group.operator.ask(declared("v0", WORDS))
            self._words_come(group)
        self.hosts = {plan.number: Host(self, plan, self.groups[plan.group]) for plan in schedule.processes}
        for fault in schedule.faults:
            self._will_happen(fault)

    # --- the parts

    def _group(self, plan: GroupPlan) -> SimulatedGroup:
        group_id = f"group-{plan.number}"
        log_windows = Windows(self.timeline, f"the log of {group_id}", self.struck)
        cluster: SimulatedCluster
        if plan.has_windows:
            cluster = VisitsAndPairs(self.timeline, group_id, log_windows, exactly_once=plan.exactly_once)
        else:
            kind = COUNTING[(plan.number - 1) % len(COUNTING)]
            cluster = WordCounts(self.timeline, group_id, log_windows, kind, exactly_once=plan.exactly_once)
        configs = AssignmentConfigs(num_standby_replicas=plan.standbys, acceptable_recovery_lag=10)
        leader = Leader(group_id, configs, cluster.changelog_ends)
        windows = Windows(self.timeline, group_id, self.struck)
        return SimulatedGroup(plan, group_id, cluster, leader, windows, Operator(self, group_id))

    def _setting(self, group: SimulatedGroup) -> GroupSetting:
        limits = GroupLimits(initial_rebalance_delay_ms=group.plan.initial_delay_ms, disconnect_grace_ms=GRACE_MS)

        def fails_next() -> bool:
            failing, group.failing = group.failing, None
            if failing is not None:
                self.struck(failing)
            return failing is not None

        return GroupSetting(limits, group.leader, self.schedule.compact_at, group.windows, fails_next, self.rules)

    def _words_come(self, group: SimulatedGroup) -> None:
        chance = self.timeline.chance(f"input of {group.group_id}")

        def come() -> None:
            if not self.is_quiet:
                group.cluster.produce(chance.randint(1, MOST_WORDS))
                self.timeline.after(chance.randint(1, 2 * WORDS_EVERY_MS), come)

        self.timeline.after(chance.randint(1, WORDS_EVERY_MS), come)

    def _will_happen(self, fault: Fault) -> None:
        self.timeline.after(fault.at_ms, lambda: happen(self, fault))

    # --- coordinators

    @property
    def lease_ms(self) -> int | None:
        return self.schedule.coordinators.lease_ms

    @property
    def coordinators(self) -> list[SimulatedCoordinator]:
        """Those that are up."""
        return [one for place in self.places for one in place.coordinators]

    def place_at(self, url: str) -> Place:
        return next(place for place in self.places if place.url == url)

    # --- what is met

    def struck(self, fault: Fault) -> None:
        """A fault took effect."""
        self.timeline.say("--- {}", fault.kind.words)
        match fault.kind.of:
            case Of.ALL | Of.COORDINATOR:
                images = [self.rules.image_of(group.group_id) for group in self.groups.values()]
                hosts = list(self.hosts.values()) if hasattr(self, "hosts") else []
            case Of.GROUP:
                images = [self.rules.image_of(self.groups[fault.target].group_id)]
                hosts = [host for host in self.hosts.values() if host.plan.group == fault.target]
            case Of.PROCESS | Of.STATIC_PROCESS:
                hosts = [self.hosts[fault.target]]
                images = [self.rules.image_of(hosts[0].group.group_id)]
        phases = {member.machine.phase for host in hosts for process in host.processes for member in process.living}
        self.coverage.met(fault.kind, images, phases)

    def image_of(self, group_id: str) -> GroupImage:
        return self.rules.image_of(group_id)

    # --- the whole history

    def run(self) -> None:
        """Raises RuleBroken, or whatever a part fails with."""
        self.timeline.run_until(self.schedule.faults_ms, self.rules.check)
        self._heal()
        self._come_to_rest()
        paused = [group for group in self.groups.values() if group.operator.is_paused]
        if paused:  # what came in meanwhile is to be counted as well
            self.timeline.say("=== the last pauses end")
            for group in paused:
                group.operator.ask(SetLever(LeverName.PAUSE, False, "ann"))
            self.rules.quiet()
            self._come_to_rest()
        while self.timeline.events < FEWEST_EVENTS and self.timeline.now_ms < LONGEST_MS:
            self.timeline.run_until(self.timeline.now_ms + WORDS_EVERY_MS, self.rules.check)
            self._feed()
            self._come_to_rest()

    def go_on(self, group: SimulatedGroup) -> None:
        """If it was told to stop."""
        if group.is_told_to_stop:
            group.is_told_to_stop = False
            group.operator.ask(declared(f"v{self.timeline.fresh()}", WORDS))

    def _feed(self) -> None:
        """There is work to do, for whoever has the tasks."""
        for group in self.groups.values():
            group.cluster.produce(MOST_WORDS)

    def _come_to_rest(self) -> None:
        if not self.timeline.run_until(self.timeline.now_ms + self.rules.rest_within_ms(), self._check_whole):
            self.rules.never_rested()
        self.rules.check_at_rest()

    def _check_whole(self) -> bool:
        self.rules.check()
        return self.rules.is_whole()

    def _heal(self) -> None:
        self.timeline.say("=== the faults end")
        self.is_quiet = True
        self.database.windows.heal()
        self.database.dies_before_commit = self.database.dies_after_commit = None
        self.coordinator_windows.heal()
        for place in self.places:
            place.heal()
        self._feed()
        for group in self.groups.values():
            group.windows.heal()
            group.cluster.log.windows.heal()
            group.failing = group.weighed = None
            self.go_on(group)
        for host in self.hosts.values():
            host.heal()
        self.rules.quiet()
