"""Reads placement/1: the input of a task assignor alone, without topics or subscription bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assignor.clients.client_state import TaskLags
from assignor.configs import RACK_AWARE_ASSIGNMENT_STRATEGY
from assignor.errors import InputError
from assignor.recording.fields import (
    RECORDING_FIELDS,
    Fields,
    as_assignor,
    as_boolean,
    as_choice,
    as_configs,
    as_integer,
    as_long,
    as_object,
    as_process_id,
    as_release,
    as_task_id,
    as_text,
    by_name,
    configs_of_release,
    each_of,
    list_items,
    object_entries,
)
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem, RackInformation
from assignor.topology.cluster import Racks
from assignor.types import JAVA_INT_MAX, ProcessId, TaskId, TopicPartition

PLACEMENT_FORMAT = "placement/1"

_RACK_FIELDS = ("task_partitions", "changelog_partitions", "partition_racks")


@dataclass(frozen=True, slots=True)
class RecordedPlacement:
    """One parsed line of placement/1. `output`: the recorded placement; None if the line has no output.
    `kafka_version`: as in `RecordedRebalance`.
    """

    id: str
    assignor: str
    problem: PlacementProblem
    output: Placement | None = None
    kafka_version: str | None = None


def parse_recorded_placement(document: Mapping[str, object]) -> RecordedPlacement:
    """Reads a whole line of placement/1. Raises InputError with the path of the mistake, and NotBuiltYet for a feature
    of a later release.
    """
    fields = Fields(
        document,
        "",
        ("format", "id", "assignor", "configs", "tasks", "stateful", "clients"),
        (*_RACK_FIELDS, "meta", "output", *RECORDING_FIELDS),
    )
    fields.read("format", lambda value, where: as_choice(value, where, (PLACEMENT_FORMAT,)))
    fields.read_or_none("meta", as_object)
    assignor = fields.read("assignor", as_assignor)
    release = fields.read_or_none("kafka_version", as_release)
    configs = configs_of_release(fields.read("configs", as_configs), release)
    tasks = fields.read("tasks", _as_tasks)
    stateful_tasks = fields.read("stateful", _as_tasks)
    unknown = set(stateful_tasks).difference(tasks)
    if unknown:
        raise InputError(f"{min(unknown)} is not in tasks", "stateful")
    clients = fields.read("clients", _as_clients)
    _check_one_topology(tasks, clients)
    racks = _rack_information(fields, configs.rack_aware, tasks, stateful_tasks)
    problem = PlacementProblem(configs, tasks, stateful_tasks, clients, racks)
    return RecordedPlacement(fields.text("id"), assignor, problem, fields.read_or_none("output", _as_output), release)


def _check_one_topology(tasks: Iterable[TaskId], clients: Mapping[ProcessId, PlacementClient]) -> None:
    """Raises InputError for tasks of several topologies, because tasks of different named topologies cannot be sorted.
    Source: `TaskId.compareTo`.
    """
    names = {task.topology_name for task in tasks}
    for client in clients.values():
        for reported in (client.previous_active, client.previous_standby, client.lags):
            names.update(task.topology_name for task in reported)
    if len(names) > 1:
        raise InputError("all tasks have to be of one topology", "tasks")


def parse_placement(document: Mapping[str, object]) -> PlacementProblem:
    """Reads only the placement problem of a line of placement/1. Raises the errors of `parse_recorded_placement`."""
    return parse_recorded_placement(document).problem


def _rack_information(
    fields: Fields, rack_aware: bool, tasks: Iterable[TaskId], stateful_tasks: Iterable[TaskId]
) -> RackInformation | None:
    """Reads the fields about racks. Returns None if the line has no field about racks. With a rack-aware strategy, all
    fields about racks are required, for all tasks. The fields about racks are read even without a rack-aware strategy,
    because a what-if analysis may set a strategy later.
    """
    given = [name for name in _RACK_FIELDS if fields.raw(name) is not None]
    if not given and not rack_aware:
        return None
    for name in _RACK_FIELDS:
        if name not in given:
            reason = f"with a {RACK_AWARE_ASSIGNMENT_STRATEGY}" if rack_aware else f"beside {given[0]}"
            raise InputError(f"is missing; it is needed {reason}", name)
    information = RackInformation(
        fields.read("task_partitions", _as_task_partitions),
        fields.read("changelog_partitions", _as_task_partitions),
        fields.read("partition_racks", by_name(each_of(_as_racks))),
    )
    for name, needed, partitions in (
        ("task_partitions", tasks, information.task_partitions),
        ("changelog_partitions", stateful_tasks, information.changelog_partitions),
    ):
        missing = set(needed).difference(partitions)
        if missing:
            raise InputError(f"{min(missing)} is missing", name)
    return information


def _as_task_partitions(value: object, where: str) -> dict[TaskId, tuple[TopicPartition, ...]]:
    return {as_task_id(key, at): _as_topic_partitions(each, at) for key, each, at in object_entries(value, where)}


def _as_topic_partitions(value: object, where: str) -> tuple[TopicPartition, ...]:
    partitions = []
    for item, at in list_items(value, where):
        if not isinstance(item, (list, tuple)) or len(item) != 2:
            raise InputError("must be a list of a topic and a partition", at)
        topic, partition = item
        number = as_integer(partition, f"{at}[1]", 0, JAVA_INT_MAX)
        partitions.append(TopicPartition(as_text(topic, f"{at}[0]"), number))
    return tuple(partitions)


def _as_racks(value: object, where: str) -> Racks:
    return frozenset(None if rack is None else as_text(rack, at) for rack, at in list_items(value, where))


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
        tags=fields.read_or_none("tags", by_name(as_text)) or {},
        rack=fields.text_or_none("rack"),
    )


def _as_tasks(value: object, where: str) -> tuple[TaskId, ...]:
    tasks = each_of(as_task_id)(value, where)
    if len(set(tasks)) != len(tasks):
        raise InputError("a task is given twice", where)
    return tasks


def _as_lags(value: object, where: str) -> dict[TaskId, int]:
    return {as_task_id(key, at): as_long(lag, at) for key, lag, at in object_entries(value, where)}


def _as_output(value: object, where: str) -> Placement:
    fields = Fields(value, where, ("probing_rebalance_needed", "clients"))
    clients: dict[ProcessId, ClientPlacement] = {}
    for key, entry, at in fields.entries("clients"):
        client = Fields(entry, at, ("active", "standby"))
        clients[as_process_id(key, at)] = ClientPlacement(
            frozenset(client.read("active", _as_tasks)), frozenset(client.read("standby", _as_tasks))
        )
    return Placement(fields.read("probing_rebalance_needed", as_boolean), clients)
