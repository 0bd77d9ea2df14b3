"""A group that grows, round by round until it is stable, with any task assignor: what moves on the way."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import Placement
from assignor.task_assignors.registry import task_assignor_named
from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from tests.properties.simulated_clients import SimulatedClients


@dataclass(frozen=True, slots=True)
class Growth:
    """From `clients` to `grown_to` of `threads` each. The process ids are random, by the seed."""

    clients: int
    grown_to: int
    threads: int
    subtopologies: int
    tasks: int
    standbys: int
    seed: int


@dataclass(frozen=True, slots=True)
class Grown:
    """`active_moves`: from one client to another; `copies_restored`: standbys and warm-ups where nothing of it was.
    `skew`: copies per thread, the most less the least, in the end; `uneven`: the same within any one subtopology.
    """

    rounds: int
    active_moves: int
    copies_restored: int
    skew: float
    uneven: int

    @property
    def moves(self) -> int:
        return self.active_moves + self.copies_restored


def grow(growth: Growth, assignor: str, max_rounds: int = 3_000) -> Grown:
    """Warm-ups are caught up by the next round, as in Kafka's convergence tests; all configs have Kafka's defaults."""
    ids = random.Random(growth.seed)
    group = SimulatedClients(
        AssignmentConfigs(num_standby_replicas=growth.standbys),
        tuple(TaskId(number % growth.subtopologies, number // growth.subtopologies) for number in range(growth.tasks)),
        assignor=task_assignor_named(assignor),
    )
    for _ in range(growth.clients):
        group.join(_process(ids), growth.threads)
    assert group.rounds_until_stable(max_rounds) is not None
    for _ in range(growth.grown_to - growth.clients):
        group.join(_process(ids), growth.threads)
    active_moves = copies_restored = 0
    for rounds in range(1, max_rounds + 1):
        ran_on, held = _owners(group), _copies(group)
        placement = group.rebalance()
        runs_on = _owners(group)
        active_moves += sum(ran_on[task] != process for task, process in runs_on.items())
        restored = {(task, process) for process, client in placement.clients.items() for task in client.standby}
        copies_restored += len(restored - held)
        if not placement.probing_rebalance_needed:
            return Grown(rounds, active_moves, copies_restored, _skew(group, placement), _uneven(placement))
    raise AssertionError(f"{growth} with {assignor} is not stable after {max_rounds} rounds")


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
