"""A changed round as a line that every command reads: run it with `assignor assign`, look further with `simulate`."""

from __future__ import annotations

import json

from assignor.recording import (
    PLACEMENT_FORMAT,
    RecordedPlacement,
    RecordedRebalance,
    dotted_configs,
    rebalance_document,
)
from assignor.task_assignors.base import PlacementClient
from assignor.types import TaskId
from assignor.what_if.changes import Changes
from assignor.what_if.changes_document import changes_document


def changed_document(recorded: RecordedRebalance | RecordedPlacement, changes: Changes) -> dict[str, object]:
    """rebalance/1 or placement/1 of what `changed` gave, under its id, without output. A rebalance has the source
    `generated` and says in its note what was changed, so that nobody takes it for a recording.
    """
    if isinstance(recorded, RecordedPlacement):
        return {**_placement(recorded), "meta": {"what_if": changes_document(changes)}}
    document = rebalance_document(
        id=recorded.id,
        group_id=recorded.group_id,
        generation_id=recorded.generation_id,
        now_ms=recorded.now_ms,
        source="generated",
        snapshot=recorded.snapshot,
    )
    asked = changes_document(changes)
    if "topology" in asked:
        asked["topology"] = "another one"  # it is in the document already
    return {**document, "note": f"what if: {json.dumps(asked, ensure_ascii=False)}"}


def _placement(recorded: RecordedPlacement) -> dict[str, object]:
    problem = recorded.problem
    return {
        "format": PLACEMENT_FORMAT,
        "id": recorded.id,
        "assignor": recorded.assignor,
        "configs": dotted_configs(problem.configs),
        "tasks": [str(task) for task in problem.tasks],
        "stateful": [str(task) for task in problem.stateful_tasks],
        "clients": {str(process): _client(client) for process, client in problem.clients.items()},
    }


def _client(client: PlacementClient) -> dict[str, object]:
    return {
        "capacity": client.capacity,
        "consumers": list(client.consumers),
        "prev_active": _tasks(client.previous_active),
        "prev_standby": _tasks(client.previous_standby),
        "lags": {str(task): client.lags.lag_for(task) for task in client.lags},
        "tags": dict(client.tags),
        "rack": client.rack,
    }


def _tasks(tasks: frozenset[TaskId]) -> list[str]:
    return [str(task) for task in sorted(tasks)]
