"""Reads placement/1: a problem for the task assignor alone, without topics or bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assignor.clients.task_lags import TaskLags
from assignor.errors import InputError, NotBuiltYet
from assignor.recording.assignor_fields import as_assignor, as_configs
from assignor.recording.fields import (
    Fields,
    as_boolean,
    as_choice,
    as_integer,
    as_long,
    as_object,
    as_process_id,
    as_task_id,
    as_text,
    list_items,
    object_entries,
)
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem
from assignor.types import JAVA_INT_MAX, ProcessId, TaskId

PLACEMENT_FORMAT = "placement/1"

_RACK_FIELDS = ("task_partitions", "changelog_partitions", "partition_racks")


@dataclass(frozen=True, slots=True)
class RecordedPlacement:
    """One line. `output`: None when it has none."""

    id: str
    assignor: str
    problem: PlacementProblem
    output: Placement | None = None


def parse_recorded_placement(document: Mapping[str, object]) -> RecordedPlacement:
    """The whole line. Raises InputError with the path of the mistake, NotBuiltYet for a feature of a later release."""
    fields = Fields(
        document,
        "",
        ("format", "id", "assignor", "configs", "tasks", "stateful", "clients"),
        (*_RACK_FIELDS, "meta", "output"),
    )
    fields.read("format", lambda value, where: as_choice(value, where, (PLACEMENT_FORMAT,)))
    fields.read_or_none("meta", as_object)
    assignor = fields.read("assignor", as_assignor)
    configs = fields.read("configs", as_configs)
    for name in _RACK_FIELDS:
        if fields.raw(name) is not None:
            raise NotBuiltYet("rack-aware placement is not built yet; leave the field out", name)
    tasks = fields.read("tasks", _as_tasks)
    stateful_tasks = fields.read("stateful", _as_tasks)
    unknown = set(stateful_tasks).difference(tasks)
    if unknown:
        raise InputError(f"{min(unknown)} is not in tasks", "stateful")
    clients = fields.read("clients", _as_clients)
    _check_one_topology(tasks, clients)
    problem = PlacementProblem(configs, tasks, stateful_tasks, clients)
    return RecordedPlacement(fields.text("id"), assignor, problem, fields.read_or_none("output", _as_output))


def _check_one_topology(tasks: Iterable[TaskId], clients: Mapping[ProcessId, PlacementClient]) -> None:
    """Tasks of different named topologies cannot be sorted together. Source: `TaskId.compareTo`."""
    names = {task.topology_name for task in tasks}
    for client in clients.values():
        for reported in (client.previous_active, client.previous_standby, client.lags):
            names.update(task.topology_name for task in reported)
    if len(names) > 1:
        raise InputError("all tasks have to be of one topology", "tasks")


def parse_placement(document: Mapping[str, object]) -> PlacementProblem:
    """Only the problem. Raises as `parse_recorded_placement` does."""
    return parse_recorded_placement(document).problem


def _as_clients(value: object, where: str) -> dict[ProcessId, PlacementClient]:
    clients: dict[ProcessId, PlacementClient] = {}
    for key, entry, at in object_entries(value, where):
        process_id = as_process_id(key, at)
        if process_id in clients:
            raise InputError("the same process id is given twice", at)
        clients[process_id] = _as_client(process_id, entry, at)
    if not clients:
        raise InputError("at least one client is needed", where)
    return clients


def _as_client(process_id: ProcessId, value: object, where: str) -> PlacementClient:
    fields = Fields(value, where, ("capacity",), ("consumers", "prev_active", "prev_standby", "lags", "tags", "rack"))
    capacity = fields.read("capacity", lambda item, at: as_integer(item, at, 1, JAVA_INT_MAX))
    consumers = () if fields.raw("consumers") is None else fields.texts("consumers")
    if consumers and len(consumers) != capacity:
        raise InputError(f"has {len(consumers)} consumers for a capacity of {capacity}", fields.at("consumers"))
    return PlacementClient(
        process_id=process_id,
        capacity=capacity,
        lags=TaskLags(fields.read_or_none("lags", _as_lags) or {}),
        consumers=consumers,
        previous_active=frozenset(fields.read_or_none("prev_active", _as_tasks) or ()),
        previous_standby=frozenset(fields.read_or_none("prev_standby", _as_tasks) or ()),
        tags=fields.read_or_none("tags", _as_tags) or {},
        rack=fields.text_or_none("rack"),
    )


def _as_tasks(value: object, where: str) -> tuple[TaskId, ...]:
    tasks = tuple(as_task_id(item, at) for item, at in list_items(value, where))
    if len(set(tasks)) != len(tasks):
        raise InputError("a task is given twice", where)
    return tasks


def _as_lags(value: object, where: str) -> dict[TaskId, int]:
    return {as_task_id(key, at): as_long(lag, at) for key, lag, at in object_entries(value, where)}


def _as_tags(value: object, where: str) -> dict[str, str]:
    return {key: as_text(tag, at) for key, tag, at in object_entries(value, where)}


def _as_output(value: object, where: str) -> Placement:
    fields = Fields(value, where, ("probing_rebalance_needed", "clients"))
    clients: dict[ProcessId, ClientPlacement] = {}
    for key, entry, at in fields.entries("clients"):
        client = Fields(entry, at, ("active", "standby"))
        clients[as_process_id(key, at)] = ClientPlacement(
            frozenset(client.read("active", _as_tasks)), frozenset(client.read("standby", _as_tasks))
        )
    return Placement(fields.read("probing_rebalance_needed", as_boolean), clients)
