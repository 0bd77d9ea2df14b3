"""Small placement problems, written as a test reads best: clients by number, tasks as text."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import Placement, PlacementClient, PlacementProblem
from assignor.types import ProcessId, TaskId

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
        {each.process_id: replace(each, lags=TaskLags(each.lags.reported, end_offsets)) for each in clients},
    )


def held(placement: Placement) -> Held:
    return {
        process_id.low: (_text(placed.active), _text(placed.standby))
        for process_id, placed in sorted(placement.clients.items())
    }


def _text(task_ids: Iterable[TaskId]) -> str:
    return " ".join(map(str, sorted(task_ids)))
