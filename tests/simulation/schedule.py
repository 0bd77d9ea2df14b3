"""A history as data: the groups, their processes, and everything that goes wrong, each with its time.

A schedule is drawn from a seed, or read from text. Its text is a scenario file, which a person can read and write. Each
seed draws which kinds of faults it has at all (swarm testing): in a history with everything, much hides the rest.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from random import Random

from tests.simulation.faults import LASTING_MS, MORE_OFTEN, NEEDS, ON_POSTGRESQL, Fault, Kind, Of, parsed, pattern_of

FAULTS_MS = 24_000
"""When the last fault begins in the longest histories."""

LASTING = ((9_000, (225, 450, 900)), (12_000, (300, 600, 1_200)), (FAULTS_MS, (600, 1_200, 2_400)))
"""How long a history may last, and the usual time between two faults: a short one has as many, and more at one time."""

FEWEST_GROUPS = 3
FEWEST_MEMBERS = 10
FEWEST_EVENTS = 500
"""A history that came to rest before goes on until it has had so many."""

FIRST_WORD = "simulated"
"""The first word of a scenario file of this kind."""

_HEAD = FIRST_WORD + " seed={seed} until={faults_ms} compaction={compact_at}"
_COORDINATORS = "{count} coordinators, lease timeout {lease_ms} ms"
_GROUP = (
    "group {number}: {guarantee}, {standbys} standbys, initial delay {initial_delay_ms} ms, "
    "rebalance timeout {rebalance_timeout_ms} ms"
)
_WINDOWS = "group {number} counts visits and pairs words"
_PROCESS = "process {number} of group {group}: {threads} {kind} members, from {start_ms} ms"


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """`initial_delay_ms`: group.initial.rebalance.delay.ms. `exactly_once`: its processing guarantee.
    `rebalance_timeout_ms`: max.poll.interval.ms; the session timeout is 6,000 ms, which may be more or less.
    `has_windows`: it has sessions and a join of streams, and else it counts words.
    """

    number: int
    initial_delay_ms: int = 500
    standbys: int = 1
    exactly_once: bool = True
    rebalance_timeout_ms: int = 8_000
    has_windows: bool = False

    def text(self) -> str:
        line = _GROUP.format(guarantee="exactly-once" if self.exactly_once else "at-least-once", **asdict(self))
        return f"{line}\n{_WINDOWS.format(number=self.number)}" if self.has_windows else line


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """`start_ms`: when it is first started. `is_static`: its members have instance ids."""

    number: int
    group: int
    threads: int
    is_static: bool = False
    start_ms: int = 0

    def text(self) -> str:
        return _PROCESS.format(kind="static" if self.is_static else "dynamic", **asdict(self))


@dataclass(frozen=True, slots=True)
class CoordinatorPlan:
    """`lease_ms`: `lease.timeout.ms` of those that share a database, PostgreSQL. None for one that has a file."""

    count: int = 1
    lease_ms: int | None = None

    def text(self) -> str:
        return _COORDINATORS.format(**asdict(self))


ONE_WITH_A_FILE = CoordinatorPlan()


@dataclass(frozen=True, slots=True)
class Schedule:
    """`compact_at`: how many records of a group the database has before they are rewritten as a snapshot."""

    seed: int
    groups: tuple[GroupPlan, ...]
    processes: tuple[ProcessPlan, ...]
    faults: tuple[Fault, ...]
    faults_ms: int = FAULTS_MS
    compact_at: int = 1_000
    coordinators: CoordinatorPlan = ONE_WITH_A_FILE

    def text(self) -> str:
        """The scenario file."""
        lines = [_HEAD.format(seed=self.seed, faults_ms=self.faults_ms, compact_at=self.compact_at)]
        if self.coordinators != ONE_WITH_A_FILE:
            lines.append(self.coordinators.text())
        lines += [each.text() for each in self.groups]
        lines += [each.text() for each in self.processes]
        lines += [each.text() for each in self.faults]
        return "\n".join(lines) + "\n"


def drawn(seed: int) -> Schedule:
    chance = Random(f"{seed} schedule")
    groups = tuple(
        GroupPlan(
            number,
            chance.choice((0, 500, 2_000)),
            chance.choice((0, 1, 1, 1)),
            chance.random() < 0.75,
            chance.choice((3_000, 8_000)),
        )
        for number in range(1, FEWEST_GROUPS + 1)
    )
    has_windows = Random(f"{seed} windows").randint(1, 3 * FEWEST_GROUPS)  # in two seeds of three none of them
    groups = tuple(replace(group, has_windows=group.number == has_windows) for group in groups)
    faults_ms, gaps_ms = chance.choice(LASTING)
    processes = _processes(groups, faults_ms, chance)
    coordinators = _coordinators(chance)
    kinds = chance.sample(list(Kind), chance.randint(3, 15))
    kinds += [needed for kind in kinds for needed in NEEDS.get(kind, ())]
    kinds += [kind for kind in kinds for _ in range(MORE_OFTEN.get(kind, 0))]
    faults, at_ms, gap_ms = [], 0, chance.choice(gaps_ms)
    while (at_ms := at_ms + chance.randint(1, 2 * gap_ms)) < faults_ms:
        fault = _drawn_fault(chance.choice(kinds), at_ms, groups, processes, coordinators, chance)
        if fault is None:
            continue
        if fault.kind in (Kind.APPROVED, Kind.DISCARDED):  # whoever decides has asked for it
            faults.append(Fault(at_ms, Kind.HELD, fault.target, LASTING_MS, 8_000))
        if fault.kind is Kind.COORDINATOR_SLOW:  # a beat that is answered late matters when no other one follows
            frozen_ms = min(at_ms + chance.randint(0, fault.for_ms), faults_ms)
            faults.append(Kind.COORDINATOR_FROZEN.drawn(frozen_ms, fault.target, chance))
        faults.append(fault)
    compact_at = chance.choice((20, 60, 1_000))
    return Schedule(seed, groups, processes, tuple(faults), faults_ms, compact_at, coordinators)


def _coordinators(chance: Random) -> CoordinatorPlan:
    count = chance.choice((0, 1, 2, 2, 2, 3, 3, 3))
    return CoordinatorPlan(count, chance.choice((3_000, 6_000))) if count else ONE_WITH_A_FILE


def _processes(groups: Sequence[GroupPlan], faults_ms: int, chance: Random) -> tuple[ProcessPlan, ...]:
    processes: list[ProcessPlan] = []
    while len(processes) < 2 * len(groups) or sum(one.threads for one in processes) < FEWEST_MEMBERS:
        number = len(processes) + 1
        group = groups[(number - 1) % len(groups)].number
        is_early = number <= len(groups) or chance.random() < 0.7
        start_ms = chance.randint(0, 2_000) if is_early else chance.randint(2_000, faults_ms // 2)
        processes.append(ProcessPlan(number, group, chance.choice((1, 1, 2, 2, 3)), chance.random() < 0.4, start_ms))
    return tuple(processes)


def _drawn_fault(
    kind: Kind,
    at_ms: int,
    groups: Sequence[GroupPlan],
    processes: Sequence[ProcessPlan],
    coordinators: CoordinatorPlan,
    chance: Random,
) -> Fault | None:
    """None when there is nothing that it could happen to."""
    if coordinators.lease_ms is None and kind in ON_POSTGRESQL:
        return None
    match kind.of:
        case Of.GROUP:
            targets = [each.number for each in groups]
        case Of.PROCESS:
            targets = [each.number for each in processes]
        case Of.STATIC_PROCESS:
            targets = [each.number for each in processes if each.is_static]
        case Of.COORDINATOR:
            targets = list(range(1, coordinators.count + 1))
        case Of.ALL:
            targets = [0]
    return kind.drawn(at_ms, chance.choice(targets), chance) if targets else None


# --- reading


def is_simulated(text: str) -> bool:
    """Whether a scenario file is of this kind."""
    return any(line.startswith(f"{FIRST_WORD} ") for line in text.splitlines())


def parse(text: str) -> Schedule:
    """Reads `Schedule.text`; empty lines and comments, which begin with `#`, say nothing. Raises ValueError."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    head = _said(_HEAD, lines[0]) if lines else {}
    if not head:
        raise ValueError(f"the first line has to begin with {FIRST_WORD} seed=")
    groups, processes, faults, coordinators = [], [], [], ONE_WITH_A_FILE
    for line in lines[1:]:
        if said := _said(_GROUP, line):
            exactly_once = said.pop("guarantee") == "exactly-once"
            groups.append(GroupPlan(exactly_once=exactly_once, has_windows=False, **_numbers(said)))
        elif said := _said(_WINDOWS, line):
            number = int(said["number"])
            groups = [replace(group, has_windows=group.has_windows or group.number == number) for group in groups]
        elif said := _said(_PROCESS, line):
            processes.append(ProcessPlan(is_static=said.pop("kind") == "static", **_numbers(said)))
        elif said := _said(_COORDINATORS, line):
            coordinators = CoordinatorPlan(**_numbers(said))
        else:
            faults.append(parsed(line))
    numbers = _numbers(head)
    return Schedule(
        groups=tuple(groups), processes=tuple(processes), faults=tuple(faults), coordinators=coordinators, **numbers
    )


def _said(sentence: str, line: str) -> dict[str, str]:
    """By their names, what stands in a line of this form; nothing in any other."""
    found = pattern_of(sentence).fullmatch(line)
    return {} if found is None else found.groupdict()


def _numbers(said: dict[str, str]) -> dict[str, int]:
    return {name: int(each) for name, each in said.items()}
