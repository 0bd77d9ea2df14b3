"""What all groups of one service share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator_api.clock import SteadyClock
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.groups.connections import GroupsOfConnections
from coordinator_api.groups.quotas import Quotas
from coordinator_api.store.repository import Repository


@dataclass(slots=True)
class Backlog:
    """How many events of all groups wait for their commit."""

    events: int = 0


@dataclass(frozen=True, slots=True)
class GroupEnvironment:
    """`compaction_bytes`: the size from which on a group's log is rewritten as one snapshot. `metadata_max_age_ms`: how
    often a group's cluster is looked at. `unreadable`: called when a group was to be read again and its log turned out
    to be damaged, with the reason; the group takes nothing more then. `changed`: called after each commit of records.
    """

    repository: Repository
    clock: SteadyClock
    limits: GroupLimits
    compaction_bytes: int
    metadata_max_age_ms: int = 30_000
    unreadable: Callable[[str, Exception], None] = lambda group_id, error: None
    changed: Callable[[str], None] = lambda group_id: None
    backlog: Backlog = field(default_factory=Backlog)
    connections: GroupsOfConnections = field(default_factory=GroupsOfConnections)
    quotas: Quotas = field(default_factory=Quotas)
