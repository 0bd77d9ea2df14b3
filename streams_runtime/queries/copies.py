"""What an instance shows of itself to the outside: its open store copies, the group's host maps, and how it is doing.

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
    """One open copy of a store. `lag`: changelog records it was behind when last looked at, None when not known.

    `published`: stands for the moment at which all of this was so. The same object comes again only for as long as the
    store has not been closed and opened anew: so whoever finds it after a read, too, and the store open, knows that
    nothing of this has changed in between. A store that was opened anew is another copy, although the same object.
    """

    task_id: TaskId
    type: TaskType
    state: TaskState
    store: StateStore
    lag: int | None
    published: object = field(compare=False, repr=False)

    @property
    def is_current(self) -> bool:
        """The running active copy: the one that everybody else follows."""
        return self.type is TaskType.ACTIVE and self.state is TaskState.RUNNING


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a store lives. `source_topics`: of its subtopology, full names; number of partitions, 0 while not known.

    `own_partitioner`: a sink of the topology places the records of one of these topics by a partitioner of its own.
    `builder`: how the store is made; None to a client that has only heard of it.
    """

    name: str
    subtopology: int
    source_topics: Mapping[str, int]
    own_partitioner: bool = False
    builder: StoreBuilder | None = None

    @property
    def partitions(self) -> int:
        """0 while one of its topics is not known: with fewer partitions a key would seem to be elsewhere."""
        counts = self.source_topics.values()
        return max(counts) if counts and all(counts) else 0


class Queryable(Protocol):
    """An instance, as its query server sees it; every call may come from any thread."""

    @property
    def application_id(self) -> str: ...

    def store_locations(self) -> Mapping[str, StoreLocation]:
        """Every store of the topology, by name."""
        ...

    def store_copies(self, store: str) -> list[StoreCopy]:
        """Copies of this store that are open here now."""
        ...

    def generation_id(self) -> int:
        """Of the newest assignment; 0 before the first. `host_maps` called afterwards are not older."""
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
