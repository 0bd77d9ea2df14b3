"""What is to be different in a recorded round: configs, instances, threads, tags, partitions, topology, lags, assignor.

A process is named by its id, by the beginning of its id, or by its client id, group instance id or member id (or the
beginning of one), as long as that names one process; `*` names all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.topology.group_topology import GroupTopology

EVERY_PROCESS = "*"


@dataclass(frozen=True, slots=True)
class AddedInstances:
    """`count` processes of `threads` stream threads each, which have no state. `tags`: their client tags."""

    count: int
    threads: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """All of it optional; `Changes()` changes nothing.

    `configs`: dotted names, over the recorded ones. `remove`: processes that are gone, and what they ran with them.
    `threads`: process to its stream threads. `tags`: process to client tags, over those it has. `partitions`: topic to
    partitions. `topology`: instead of the recorded one. `lags`: task, or `process/task`, to the records that every
    process which reported the task, or that one process, is behind; running tasks stay running.
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
