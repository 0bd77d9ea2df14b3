"""The options that ask for changes (`--set`, `--add-instances` and so on), and the `Changes` they make.

what-if, simulate, replay and sweep have the same options, so that the same words mean the same thing in each.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Annotated

import typer

from assignor.errors import InputError
from assignor.recording import document_of_line
from assignor.recording.fields import as_assignor, as_configs, as_object, as_partitions
from assignor.recording.topology_fields import as_topology
from assignor.topology.group_topology import GroupTopology
from rebalance_analysis.what_if.changes import EVERY_PROCESS, Changes
from rebalance_analysis.what_if.typed_changes import (
    typed_configs,
    typed_instances,
    typed_lags,
    typed_number,
    typed_pairs,
    typed_tag,
    typed_threads,
)

_ASSIGNOR_AS_CONFIG = "assignor"
"""`--set assignor=NAME` is `--assignor NAME`: who sets configs need not know which of them a line has apart."""

SET = "--set"
ADD_INSTANCES = "--add-instances"
REMOVE = "--remove"
THREADS = "--threads"
TAGS = "--tags"
ASSIGNOR = "--assignor"
PARTITIONS = "--partitions"
TOPOLOGY = "--topology"
LAGS = "--lags"

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        SET, metavar="KEY=VALUE", help="Change a config, by its dotted name, or the assignor; may be repeated."
    ),
]
AddInstancesOption = Annotated[
    list[str] | None,
    typer.Option(
        ADD_INSTANCES,
        metavar="NxT[,TAG=V]",
        help="Add N empty instances of T threads: 3x4, 2 or 3x4,zone=a; may be repeated.",
    ),
]
RemoveOption = Annotated[
    list[str] | None,
    typer.Option(
        REMOVE,
        metavar="P",
        help="Remove an instance: its process, client, member or instance id, or a prefix.",
    ),
]
ThreadsOption = Annotated[
    list[str] | None,
    typer.Option(THREADS, metavar="[P=]N", help="Stream threads of every instance, or of P; may be repeated."),
]
TagsOption = Annotated[
    list[str] | None,
    typer.Option(TAGS, metavar="[P:]TAG=V,..", help="Client tags to add to every instance, or to P; may be repeated."),
]
AssignorOption = Annotated[
    str | None, typer.Option(ASSIGNOR, metavar="NAME", help="A task assignor, or your own class as module:Class.")
]
PartitionsOption = Annotated[
    list[str] | None,
    typer.Option(PARTITIONS, metavar="TOPIC=N", help="Change the partition count of a topic; may be repeated."),
]
TopologyOption = Annotated[
    str | None,
    typer.Option(
        TOPOLOGY, metavar="FILE", help="Another topology: the JSON of rebalance/1, or a file that contains it."
    ),
]
LagsOption = Annotated[
    list[str] | None,
    typer.Option(
        LAGS,
        metavar="TASK=N",
        help="Lag in records: 0_3=5000, P/0_3=5000 for instance P, *=0 for all tasks; may be repeated.",
    ),
]


def changes_from_options(
    *,
    set: SetOption = None,
    add_instances: AddInstancesOption = None,
    remove: RemoveOption = None,
    threads: ThreadsOption = None,
    tags: TagsOption = None,
    assignor: AssignorOption = None,
    partitions: PartitionsOption = None,
    topology: TopologyOption = None,
    lags: LagsOption = None,
) -> Changes:
    """`Changes()` when no option is given. Reads the file that `topology` names.

    Raises InputError naming the option. Processes, topics and tasks are looked up when a rebalance is changed.
    """
    pairs = typed_configs(set or (), SET)
    also_set = pairs.pop(_ASSIGNOR_AS_CONFIG, None)
    if also_set is not None and assignor not in (None, also_set):
        raise InputError(f"names another assignor than {ASSIGNOR} {assignor}", f"{SET} {_ASSIGNOR_AS_CONFIG}")
    assignor = assignor or also_set
    configs: dict[str, object] = {**pairs}
    as_configs(configs, SET)
    for process in remove or ():
        if not process or process == EVERY_PROCESS:
            raise InputError(f"must name one instance, not {process!r}", REMOVE)
    return Changes(
        assignor=None if assignor is None else as_assignor(assignor, ASSIGNOR),
        configs=configs,
        add_instances=tuple(typed_instances(text, ADD_INSTANCES) for text in add_instances or ()),
        remove=tuple(dict.fromkeys(remove or ())),
        threads=typed_threads(threads or (), THREADS),
        tags=_tags(tags or ()),
        partitions=typed_pairs(partitions or (), PARTITIONS, "TOPIC=N", _partition_count),
        topology=None if topology is None else _topology(topology),
        lags=typed_lags(lags or (), LAGS),
    )


def _partition_count(topic: str, value: str) -> tuple[str, int]:
    return topic, as_partitions(typed_number(value, PARTITIONS), PARTITIONS)


def _tags(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    by_process: dict[str, dict[str, str]] = {}
    for text in texts:
        before, equals, value = text.partition("=")
        process, colon, first_key = before.rpartition(":")
        if colon and not process:
            raise InputError(f"must be [P:]TAG=VALUE,.., not {text!r}", TAGS)
        tags = by_process.setdefault(process or EVERY_PROCESS, {})
        tags.update(typed_tag(tag, TAGS) for tag in f"{first_key}{equals}{value}".split(","))
    return by_process


def _topology(file: str) -> GroupTopology:
    """The file has a topology, the definition of a group as it is PUT, or a whole rebalance/1."""
    where = f"{TOPOLOGY} {file}"
    try:
        with open(file, "rb") as stream:
            content = stream.read()
        document: object = document_of_line(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    except InputError as error:
        raise InputError(f"{error} (one JSON document is wanted)", where) from None
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where) from None
    at = where
    for field in ("input", "topology"):
        fields = as_object(document, at)
        if field in fields:
            document, at = fields[field], f"{at}: {field}" if at == where else f"{at}.{field}"
    return as_topology(document, at)
