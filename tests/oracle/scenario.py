"""One real group taken through events one after another: how many rounds each took, and which tasks it moved.

An event is over when the group has settled: every instance that runs is RUNNING with exactly the tasks of the last
generation, every task is with somebody, nobody has to give anything up or was told to rejoin, and for a while no
other generation came. Rounds that a leader causes for itself are told apart: a Python leader by coming, as it is a
member; a JVM leader when it has created internal topics, which its own consumer then takes for a change of its topics.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.known import known
from tests.oracle.assignor_process import AssignorProcess
from tests.oracle.group_watch import Generation, GroupWatch
from tests.oracle.jars import DEFAULT_RELEASE
from tests.oracle.streams_app import StreamsInstance

QUIET_S = 1.5
"""Seven heartbeats: a member that wants another round says so with its next poll, well within one."""

_LONGEST_EVENT_S = 120.0
_NOT_SOON_MS = 20_000
_OVERTAKEN = "rebalance failed due to 'The group is rebalancing"
_TOPICS_CHANGED = "Request joining group due to: cached metadata has changed"

Placement = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""Instance to its active and its standby tasks."""


@dataclass(frozen=True, slots=True)
class EventResult:
    """`rounds`: generations, without `own`: those that the leader caused for itself. `moved`: active tasks that are now
    elsewhere, with the instances before and after. `probing`: who was given a time for the next round.

    `overtaken`: how often a member asked for its assignment when the next round had begun already. Whoever is faster,
    which the machine decides, it is told only then what to revoke, and that may take a round more.
    """

    name: str
    rounds: int
    overtaken: int
    own: int
    moved: tuple[str, ...]
    placement: Placement
    probing: tuple[str, ...]
    seconds: float


@dataclass(slots=True)
class GroupScenario:
    """`lead`: the Python leader, or None for a group that is led by the first of its own members.

    `configs`: of every instance. `static`: whether they are static members. `tasks`: all there are. `release`: the
    Kafka release of instances that start next.
    """

    application_id: str
    bootstrap_servers: str
    watch: GroupWatch
    directory: Path
    topology: str
    tasks: frozenset[str]
    configs: Mapping[str, str]
    static: bool
    lead: AssignorProcess | None
    release: str = DEFAULT_RELEASE
    results: list[EventResult] = field(default_factory=list)
    instances: dict[str, StreamsInstance] = field(default_factory=dict)
    _running: dict[str, int] = field(default_factory=dict)
    _placement: Placement = field(default_factory=dict)
    _stopped: bool = False

    def start(self, name: str, configs: Mapping[str, str] = MappingProxyType({})) -> None:
        """`name`: one letter from a to f; process ids are in the order of names. `configs`: of this life only."""
        instance_id = {"group.instance.id": name} if self.static else {}
        instance = self.instances[name] = StreamsInstance(
            self.bootstrap_servers,
            self.application_id,
            self.directory / name,
            topology=self.topology,
            configs={**self.configs, **instance_id, **configs},
            process_id=_process_id(name),
            release=self.release,
        )
        instance.start()
        self._running[name] = 1

    def leave(self, name: str) -> None:
        del self._running[name]
        self.instances[name].leave()

    def kill(self, name: str) -> None:
        del self._running[name]
        self.instances[name].kill()

    def bounce(self, name: str) -> None:
        """Close and start again, with one thread, back before its session ends."""
        self.instances[name].close()
        self.instances[name].start()
        self.instances[name].wait_for_state("RUNNING")

    def add_thread(self, name: str) -> None:
        self._running[name] += 1
        self.instances[name].add_thread()

    def leading_instance(self) -> str:
        """Which instance leads the last generation."""
        generation = self._latest()
        leader = next(member for member in generation.members if member.member_id == generation.leader)
        return leader.process_id[-1]

    def leader(self) -> str | None:
        """Member id of who leads the last generation; a static member that comes back has another."""
        return self._latest().leader

    def event(self, name: str, action: Callable[[], None], *, probing: bool = False) -> EventResult:
        """Do it, wait until the group has settled, and note what happened. `probing`: a later round may be due."""
        last = self.watch.latest(self.application_id)
        before, noticed, started = self._placement, self._noticed_topics(), time.monotonic()
        overtaken = self._overtaken()
        action()
        self._settle(name, probing)
        seconds = time.monotonic() - started - QUIET_S
        generations = self.watch.generations(self.application_id)
        first = 0 if last is None else last.id
        pairs = list(zip((None, *generations[:-1]), generations, strict=True))
        own = sum(_is_own(earlier, later) for earlier, later in pairs if later.id > first)
        again = sum(_is_repetition(earlier, later) for earlier, later in pairs if later.id > first)
        own += min(again, self._noticed_topics() - noticed)
        rounds = generations[-1].id - first - own
        self._placement = placement(generations[-1])
        moved = _moved(before, self._placement)
        overtaken = self._overtaken() - overtaken
        result = EventResult(name, rounds, overtaken, own, moved, self._placement, _probing(generations[-1]), seconds)
        self.results.append(result)
        return result

    def lead_alone(self) -> None:
        """Start the Python leader in the empty group, and wait until it has it."""
        assert self.lead is not None
        self.lead.start()
        self.wait(lambda: "the leader has not joined" if not self._has_leader() else None, "leader", _LONGEST_EVENT_S)

    def hand_back(self) -> None:
        """Have the Python leader leave; one of the application's own leads from then on."""
        assert self.lead is not None
        lead, self.lead = self.lead, None
        assert lead.terminate() == 0, lead.last_words()
        self.wait(lambda: "the leader is still in" if self._has_leader() else None, "hand-back", _LONGEST_EVENT_S)

    def stop(self) -> None:
        """End whatever runs, quickly, and have who waits for it fail."""
        self._stopped = True
        for instance in self.instances.values():
            instance.kill()
        if self.lead is not None:
            self.lead.kill()

    def _settle(self, event: str, probing: bool) -> None:
        deadline = time.monotonic() + _LONGEST_EVENT_S
        while True:
            self.wait(lambda: self._unsettled(probing), event, deadline - time.monotonic())
            settled = self._latest().id
            quiet_until = time.monotonic() + QUIET_S
            while time.monotonic() < quiet_until and self._latest().id == settled:
                time.sleep(0.02)  # that nothing happens cannot be awaited otherwise
            if self._latest().id == settled and self._unsettled(probing) is None:
                return

    def wait(self, unfinished: Callable[[], str | None], what: str, timeout_s: float) -> None:
        """Until it says no more why not; fails when an instance or the leader does."""
        deadline = time.monotonic() + timeout_s
        while (reason := unfinished()) is not None:
            assert not self._stopped, f"{self.application_id}, {what}: stopped while waiting: {reason}"
            for name in self._running:
                assert not self.instances[name].exceptions, self.instances[name].last_words()
            if self.lead is not None:
                self.lead.check()
            assert time.monotonic() < deadline, f"{self.application_id}, {what}: {reason}\n{self._picture()}"
            time.sleep(0.02)  # two processes and the broker have to agree

    def _unsettled(self, probing: bool) -> str | None:
        """Why the group has not settled."""
        generation = self.watch.latest(self.application_id)
        if generation is None:
            return "there is no generation"
        members = Counter(member.process_id for member in generation.workers)
        if members != {_process_id(name): threads for name, threads in self._running.items()}:
            return f"members are {sorted(members.elements())}"
        if self.lead is not None and not self._has_leader():
            return "the leader is no member"
        for member in generation.workers:
            if member.loses_partitions:
                return f"{member.client_id} has to give up {sorted(member.owned - member.assigned)}"
            due = member.next_rebalance_ms
            if due is not None and (not probing or due < time.time() * 1000 + _NOT_SOON_MS):
                return f"{member.client_id} rejoins at {due}"
        placed = [task for member in generation.workers for task in member.active]
        if self._running and Counter(placed) != Counter(self.tasks):
            return f"active tasks are {sorted(placed)}"
        return self._not_running(generation)

    def _not_running(self, generation: Generation) -> str | None:
        for name, (active, standby) in placement(generation).items():
            instance = self.instances[name]
            held = instance.tasks()
            if instance.state != "RUNNING" or (held.active, held.standby) != (active, standby):
                return f"{name} is {instance.state} with {held}, and should have {active} and {standby}"
        return None

    def _has_leader(self) -> bool:
        generation = self.watch.latest(self.application_id)
        return generation is not None and generation.is_led_from_outside

    def _latest(self) -> Generation:
        return known(self.watch.latest(self.application_id))

    def _overtaken(self) -> int:
        return sum(instance.log().count(_OVERTAKEN) for instance in self.instances.values())

    def _noticed_topics(self) -> int:
        return sum(instance.log().count(_TOPICS_CHANGED) for instance in self.instances.values())

    def _picture(self) -> str:
        words = [f"{generation}" for generation in self.watch.generations(self.application_id)[-3:]]
        words += [f"{name}: {instance.last_words()}" for name, instance in self.instances.items()]
        return "\n".join([*words, *([] if self.lead is None else [self.lead.last_words()])])


def placement(generation: Generation) -> Placement:
    """Of the members that may have tasks, by instance."""
    active: dict[str, list[str]] = {}
    standby: dict[str, list[str]] = {}
    for member in generation.workers:
        name = member.process_id[-1]
        active.setdefault(name, []).extend(member.active)
        standby.setdefault(name, []).extend(member.standby)
    return {name: (tuple(sorted(active[name])), tuple(sorted(standby[name]))) for name in sorted(active)}


def _probing(generation: Generation) -> tuple[str, ...]:
    return tuple(sorted(each.process_id[-1] for each in generation.workers if each.next_rebalance_ms is not None))


def _process_id(name: str) -> str:
    assert name in "abcdef"
    return f"00000000-0000-4000-8000-00000000000{name}"


def _moved(before: Placement, after: Placement) -> tuple[str, ...]:
    had = {task: name for name, (active, _) in before.items() for task in active}
    return tuple(
        f"{task} {had[task]}>{name}"
        for task, name in sorted((task, name) for name, (active, _) in after.items() for task in active)
        if had.get(task, name) != name
    )


def _is_own(earlier: Generation | None, later: Generation) -> bool:
    """Whether only the member that leads came, went or came back, and nobody with tasks."""
    if earlier is None:
        return not later.workers
    workers = [{member.member_id for member in each.workers} for each in (earlier, later)]
    leaders = [{member.member_id for member in each.members if member.leads_only} for each in (earlier, later)]
    return workers[0] == workers[1] and leaders[0] != leaders[1]


def _is_repetition(earlier: Generation | None, later: Generation) -> bool:
    """Whether it is the same members with the same tasks, although the one before had called for nothing."""
    if earlier is None or any(
        member.loses_partitions or member.next_rebalance_ms is not None for member in earlier.members
    ):
        return False
    return {each.member_id: (each.active, each.standby) for each in earlier.members} == {
        each.member_id: (each.active, each.standby) for each in later.members
    }
