"""Groups to forecast: a settled one to which something happened, as recorded round and as placement problem."""

from collections.abc import Mapping
from dataclasses import replace

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import RecordedPlacement, RecordedRebalance
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.types import ProcessId, TaskId
from tests.group_model import NOW_MS, SimulatedGroup, topology_of
from tests.known import known

A, B, C = (ProcessId(number, -number) for number in (1, 2, 3))


def recorded_round(snapshot: RebalanceSnapshot, id: str = "generated") -> RecordedRebalance:
    return RecordedRebalance(id, "app", 1, NOW_MS, "generated", snapshot)


def as_placement(recorded: RecordedRebalance) -> RecordedPlacement:
    """What the task assignor is asked in that round."""
    problem = assign(recorded.snapshot, recorded.now_ms).problem
    return RecordedPlacement(recorded.id, recorded.snapshot.assignor, known(problem))


def settled_group(
    clients: int, tasks: int, threads: int = 1, configs: AssignmentConfigs | None = None
) -> SimulatedGroup:
    topology, cluster = topology_of([tasks])
    group = SimulatedGroup(topology, cluster, configs or AssignmentConfigs())
    for number in range(1, clients + 1):
        group.add_process(number, threads)
    group.rebalance_until_stable(at_most=100)
    group.restore_standbys()
    return group


def grown_by_one(
    clients: int, tasks: int, threads: int = 1, configs: AssignmentConfigs | None = None
) -> RecordedRebalance:
    """The round in which one more instance has joined."""
    group = settled_group(clients, tasks, threads, configs)
    group.add_process(clients + 1, threads)
    return recorded_round(group.snapshot())


def problem_of(
    configs: AssignmentConfigs, stateful: int, lags: Mapping[ProcessId, Mapping[TaskId, int]], stateless: int = 0
) -> RecordedPlacement:
    """One thread each; tasks 0_0 and up are stateful, 1_0 and up are not. A task with lag -2 is active there."""
    tasks = tuple(TaskId(0, number) for number in range(stateful))
    others = tuple(TaskId(1, number) for number in range(stateless))
    clients = {
        process: PlacementClient(
            process,
            1,
            TaskLags(dict(of_tasks)),
            previous_active=frozenset(task for task, lag in of_tasks.items() if lag == -2),
        )
        for process, of_tasks in lags.items()
    }
    return RecordedPlacement(
        "problem", "HighAvailabilityTaskAssignor", PlacementProblem(configs, tasks + others, tasks, clients)
    )


def with_assignor(recorded: RecordedRebalance, name: str) -> RecordedRebalance:
    return replace(recorded, snapshot=replace(recorded.snapshot, assignor=name))
