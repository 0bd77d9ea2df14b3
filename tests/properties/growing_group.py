"""A group that grows, round by round until it is stable, with any task assignor: what moves on the way."""

import random
from collections import Counter
from dataclasses import dataclass

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import Placement, RackInformation
from assignor.task_assignors.registry import task_assignor_named
from assignor.types import LATEST_OFFSET, ProcessId, TaskId, TopicPartition
from rebalance_analysis.measures import cross_rack_reads
from tests.properties.simulated_clients import SimulatedClients


@dataclass(frozen=True, slots=True)
class Growth:
    """From `clients` to `grown_to` of `threads` each. The process ids are random, by the seed.

    `racks`: over how many racks the clients are dealt out, 0 for none. Each task then reads one partition, which is on
    a random one of them, as its changelog is.
    """

    clients: int
    grown_to: int
    threads: int
    subtopologies: int
    tasks: int
    standbys: int
    seed: int
    racks: int = 0


@dataclass(frozen=True, slots=True)
class Grown:
    """`active_moves`: from one client to another; `copies_restored`: standbys and warm-ups where nothing of it was.
    `skew`: copies per thread, the most less the least, in the end; `uneven`: the same within any one subtopology.
    `cross_rack_reads`: partitions read across racks in the end; None without racks.
    """

    rounds: int
    active_moves: int
    copies_restored: int
    skew: float
    uneven: int
    cross_rack_reads: int | None = None

    @property
    def moves(self) -> int:
        return self.active_moves + self.copies_restored


def grow(growth: Growth, assignor: str, strategy: str = "none", max_rounds: int = 3_000) -> Grown:
    """Warm-ups are caught up by the next round, as in Kafka's convergence tests; all other configs have Kafka's
    defaults. `strategy`: rack.aware.assignment.strategy.
    """
    ids = random.Random(growth.seed)
    tasks = _tasks(growth)
    group = SimulatedClients(
        AssignmentConfigs(num_standby_replicas=growth.standbys, rack_aware_assignment_strategy=strategy),
        tuple(tasks),
        read=_read_by(tasks, growth) if growth.racks else None,
        assignor=task_assignor_named(assignor),
    )
    _join(group, growth.clients, growth, ids)
    assert group.rounds_until_stable(max_rounds) is not None
    _join(group, growth.grown_to - growth.clients, growth, ids)
    active_moves = copies_restored = 0
    for rounds in range(1, max_rounds + 1):
        ran_on, held = _owners(group), _copies(group)
        placement = group.rebalance()
        runs_on = _owners(group)
        active_moves += sum(ran_on[task] != process for task, process in runs_on.items())
        restored = {(task, process) for process, client in placement.clients.items() for task in client.standby}
        copies_restored += len(restored - held)
        if not placement.probing_rebalance_needed:
            reads = cross_rack_reads(group.problem(), placement)
            return Grown(rounds, active_moves, copies_restored, _skew(group, placement), _uneven(placement), reads)
    raise AssertionError(f"{growth} with {assignor} is not stable after {max_rounds} rounds")


def _join(group: SimulatedClients, clients: int, growth: Growth, ids: random.Random) -> None:
    for _ in range(clients):
        process = _process(ids)
        if growth.racks:
            group.racks[process] = _rack(len(group.capacity), growth)
        group.join(process, growth.threads)


def least_cross_rack_reads(growth: Growth) -> int:
    """What any placement in which each grown client has its share has to read across racks, however much moves: a rack
    runs no more tasks than the shares of its clients, rounded up.
    """
    on_rack = Counter(rack for (racks,) in _read_by(_tasks(growth), growth).partition_racks.values() for rack in racks)
    clients = Counter(_rack(number, growth) for number in range(growth.grown_to))
    share = -(-growth.tasks // growth.grown_to)
    return sum(max(0, tasks - clients[str(rack)] * share) for rack, tasks in on_rack.items())


def _tasks(growth: Growth) -> list[TaskId]:
    return [TaskId(number % growth.subtopologies, number // growth.subtopologies) for number in range(growth.tasks)]


def _rack(client: int, growth: Growth) -> str:
    return f"rack {client % growth.racks}"


def _read_by(tasks: list[TaskId], growth: Growth) -> RackInformation:
    where, racks = random.Random(f"racks {growth.seed}"), [_rack(number, growth) for number in range(growth.racks)]
    on = {str(task): (frozenset([where.choice(racks)]),) for task in tasks}
    partitions = {task: (TopicPartition(str(task), 0),) for task in tasks}
    return RackInformation(partitions, partitions, on)


def _process(ids: random.Random) -> ProcessId:
    return ProcessId(ids.getrandbits(64) - 2**63, ids.getrandbits(64) - 2**63)


def _owners(group: SimulatedClients) -> dict[TaskId, ProcessId]:
    return {
        task: process for process in group.capacity for task, lag in group.lags[process].items() if lag == LATEST_OFFSET
    }


def _copies(group: SimulatedClients) -> set[tuple[TaskId, ProcessId]]:
    return {(task, process) for process in group.capacity for task in group.lags[process]}


def _skew(group: SimulatedClients, placement: Placement) -> float:
    loads = [
        (len(client.active) + len(client.standby)) / group.capacity[process]
        for process, client in placement.clients.items()
    ]
    return max(loads) - min(loads)


def _uneven(placement: Placement) -> int:
    counts = [Counter(task.subtopology for task in client.active) for client in placement.clients.values()]
    subtopologies = {subtopology for of_client in counts for subtopology in of_client}
    return max(
        max(of_client[number] for of_client in counts) - min(of_client[number] for of_client in counts)
        for number in subtopologies
    )
