"""What a what-if makes different: configs, instances, threads, tags, partitions, topology, lags, assignor.

A process is named by its id, by the beginning of its id, or by its client id, group instance id or member id (or the
beginning of one), as long as only one process has that name; `*` names all. `Changes` also travel as a JSON document:
to executors, over HTTP, and as the note of a changed recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.errors import InputError
from assignor.recording.fields import (
    Fields,
    as_assignor,
    as_integer,
    as_object,
    as_offset,
    as_partitions,
    as_text,
    list_items,
    object_entries,
)
from assignor.recording.topology_fields import as_topology, topology_document
from assignor.topology.group_topology import GroupTopology

EVERY_PROCESS = "*"


@dataclass(frozen=True, slots=True)
class AddedInstances:
    """`count` new processes with `threads` stream threads each and no state. `tags`: their client tags."""

    count: int
    threads: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """Every field is optional; `Changes()` changes nothing.

    `configs`: dotted names; they override recorded ones. `remove`: processes to take away, with all that they ran.
    `threads`: how many stream threads a process gets. `tags`: client tags of a process; they override those it has.
    `partitions`: partition counts of input topics. `topology`: replaces the recorded one. `lags`: a task, or
    `process/task`, with the number of records by which every process that reported the task, or only that process, is
    behind; a running task keeps running.
    """

    assignor: str | None = None
    configs: Mapping[str, object] = field(default_factory=dict)
    add_instances: tuple[AddedInstances, ...] = ()
    remove: tuple[str, ...] = ()
    threads: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    topology: GroupTopology | None = None
    lags: Mapping[str, int] = field(default_factory=dict)


MAX_INSTANCES = 10_000
"""The most instances added at once, and the most threads of one. No real group comes near it; it bounds what a
document from anywhere can ask for.
"""

_FIELDS = ("assignor", "configs", "add_instances", "remove", "threads", "tags", "partitions", "topology", "lags")


def changes_document(changes: Changes) -> dict[str, object]:
    """The changes under the names of their fields. A field that changes nothing is left out, so `Changes()` is `{}`."""
    document: dict[str, object] = {
        "assignor": changes.assignor,
        "configs": dict(changes.configs),
        "add_instances": [
            {"count": added.count, "threads": added.threads, "tags": dict(added.tags)}
            for added in changes.add_instances
        ],
        "remove": list(changes.remove),
        "threads": dict(changes.threads),
        "tags": {process: dict(tags) for process, tags in changes.tags.items()},
        "partitions": dict(changes.partitions),
        "topology": None if changes.topology is None else topology_document(changes.topology),
        "lags": dict(changes.lags),
    }
    return {name: value for name, value in document.items() if value}


def changes_from_document(document: object, where: str = "changes") -> Changes:
    """Raises InputError with the path of the mistake. Process names are looked up later, by `changed`."""
    fields = Fields(document, where, (), _FIELDS)
    return Changes(
        assignor=fields.read_or_none("assignor", as_assignor),
        configs=fields.read_or_none("configs", as_object) or {},
        add_instances=fields.read_or_none("add_instances", _as_all_added) or (),
        remove=fields.texts("remove") if fields.raw("remove") is not None else (),
        threads=fields.read_or_none("threads", _as_threads) or {},
        tags=fields.read_or_none("tags", _as_tags_by_process) or {},
        partitions=fields.read_or_none("partitions", _as_partition_counts) or {},
        topology=fields.read_or_none("topology", as_topology),
        lags=fields.read_or_none("lags", _as_lags) or {},
    )


def check_count(value: object, where: str) -> int:
    """Checks a number of instances, or of threads of one. Raises InputError."""
    return as_integer(value, where, 1, MAX_INSTANCES)


def check_added(added: AddedInstances, where: str) -> AddedInstances:
    """Raises InputError when there would be more members than a group can have."""
    if added.count * added.threads > MAX_INSTANCES:
        raise InputError(f"{added.count} x {added.threads} threads are more than {MAX_INSTANCES}", where)
    return added


def _as_all_added(value: object, where: str) -> tuple[AddedInstances, ...]:
    return tuple(_as_added(item, at) for item, at in list_items(value, where))


def _as_added(value: object, where: str) -> AddedInstances:
    fields = Fields(value, where, ("count",), ("threads", "tags"))
    return check_added(
        AddedInstances(
            fields.read("count", check_count),
            fields.read_or_none("threads", check_count) or 1,
            fields.read_or_none("tags", _as_tags) or {},
        ),
        where,
    )


def _as_tags(value: object, where: str) -> dict[str, str]:
    return {key: as_text(tag, at) for key, tag, at in object_entries(value, where)}


def _as_threads(value: object, where: str) -> dict[str, int]:
    return {process: check_count(threads, at) for process, threads, at in object_entries(value, where)}


def _as_tags_by_process(value: object, where: str) -> dict[str, Mapping[str, str]]:
    return {process: _as_tags(tags, at) for process, tags, at in object_entries(value, where)}


def _as_partition_counts(value: object, where: str) -> dict[str, int]:
    return {topic: as_partitions(count, at) for topic, count, at in object_entries(value, where)}


def _as_lags(value: object, where: str) -> dict[str, int]:
    return {task: as_offset(lag, at) for task, lag, at in object_entries(value, where)}
