"""What an instance shows to its query server: its open copies of stores, the group's host maps, and its status.

Source: `QueryableStoreProvider`, `StreamsMetadataState`; KIP-535.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from assignor.types import TaskId
from streams_runtime.membership.task_holder import PartitionHosts
from streams_runtime.state_stores.base import StateStore, StoreBuilder
from streams_runtime.task_states import TaskState, TaskType


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """One open copy of a store. `lag`: changelog records it was behind when last measured, None when not known.

    `published`: the snapshot that this copy is from. The same snapshot is shown only until the store is closed or a
    newer snapshot is published. So when a reader finds it again after the read, and the store is open, nothing of this
    has changed in between. A store that was opened again counts as another copy, although it is the same object.
    """

    task_id: TaskId
    type: TaskType
    state: TaskState
    store: StateStore
    lag: int | None
    published: object = field(compare=False, repr=False)

    @property
    def is_current(self) -> bool:
        """Whether it is the running active copy, which all others follow."""
        return self.type is TaskType.ACTIVE and self.state is TaskState.RUNNING


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a store is. `source_topics`: the source topics of its subtopology, by full name, with their numbers of
    partitions; 0 while not known.

    `own_partitioner`: a sink of the topology writes to one of these topics with a partitioner of its own. `builder`:
    makes the store; None in a client, which does not have the topology.
    """

    name: str
    subtopology: int
    source_topics: Mapping[str, int]
    own_partitioner: bool = False
    builder: StoreBuilder | None = None

    @property
    def partitions(self) -> int:
        """0 while one of its topics is not known; counting the others only could place a key wrongly."""
        counts = self.source_topics.values()
        return max(counts) if counts and all(counts) else 0


class Queryable(Protocol):
    """An instance, as its query server sees it. Any thread may call."""

    @property
    def application_id(self) -> str: ...

    def store_locations(self) -> Mapping[str, StoreLocation]:
        """Every store of the topology, by name."""
        ...

    def store_copies(self, store: str) -> list[StoreCopy]:
        """The copies of this store that are open here now."""
        ...

    def generation_id(self) -> int:
        """Of the newest assignment; 0 before the first. A later call of `host_maps` does not return older ones."""
        ...

    def host_maps(self) -> PartitionHosts:
        """Of the newest assignment; empty before the first."""
        ...

    def status_document(self) -> Mapping[str, object]:
        """Threads, tasks, lags, restore progress, as JSON."""
        ...

    def metrics_text(self) -> bytes:
        """In Prometheus' text format."""
        ...
