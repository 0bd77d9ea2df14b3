"""Small placement problems, written as a test reads best: clients by number, tasks as text."""

from collections.abc import Iterable, Mapping

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import Placement, PlacementClient, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor
from assignor.types import ProcessId, Role, TaskId

END = 100_000
"""The lag of a client that has nothing of a task."""

Held = dict[int, tuple[str, str]]
"""Client number to its active and its standby tasks, each as sorted text."""


def process(number: int) -> ProcessId:
    """Sorts as `number`."""
    return ProcessId(0, number)


def tasks(text: str) -> tuple[TaskId, ...]:
    return tuple(TaskId.parse(word) for word in text.split())


def client(
    number: int, lags: Mapping[str, int] | None = None, capacity: int = 1, tags: Mapping[str, str] | None = None
) -> PlacementClient:
    """`lags`: what the client reports; for all other tasks it is END behind."""
    reported = {TaskId.parse(task): lag for task, lag in (lags or {}).items()}
    return PlacementClient(process(number), capacity, TaskLags(reported), tags=tags or {})


def problem(
    configs: AssignmentConfigs, clients: Iterable[PlacementClient], stateful: str, stateless: str = ""
) -> PlacementProblem:
    end_offsets = dict.fromkeys(tasks(stateful), END)
    return PlacementProblem(
        configs,
        tasks(stateful) + tasks(stateless),
        tasks(stateful),
        {
            each.process_id: PlacementClient(
                each.process_id, each.capacity, TaskLags(each.lags.reported, end_offsets), tags=each.tags
            )
            for each in clients
        },
    )


def assign(placement_problem: PlacementProblem) -> Placement:
    return HighAvailabilityTaskAssignor().assign(placement_problem, DecisionLog())


def decisions(placement_problem: PlacementProblem, task: str) -> list[Decision]:
    log = DecisionLog()
    HighAvailabilityTaskAssignor().assign(placement_problem, log)
    return [decision for decision in log if decision.task == TaskId.parse(task)]


def decision(kind: DecisionKind, task: str, role: Role, number: int, other: int | None = None) -> Decision:
    return Decision(kind, TaskId.parse(task), role, process(number), None if other is None else process(other))


def held(placement: Placement) -> Held:
    return {
        process_id.low: (_text(placed.active), _text(placed.standby))
        for process_id, placed in sorted(placement.clients.items())
    }


def warm_ups(placement: Placement) -> dict[int, str]:
    """Only clients that have any."""
    return {
        process_id.low: _text(placed.warm_ups)
        for process_id, placed in sorted(placement.clients.items())
        if placed.warm_ups
    }


def _text(task_ids: Iterable[TaskId]) -> str:
    return " ".join(map(str, sorted(task_ids)))
