"""An instance that is set by hand: its copies, its host maps, and what it shows of them, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assignor.types import HostInfo, TaskId, TopicPartition
from streams_runtime import LONG, STRING, StoreBuilder, key_value_store
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.queries.store_metadata import StoreCopy, StoreLocation
from tests.streams_runtime.state_stores.surroundings import context

APPLICATION = "app"
STORE = "counts"
TOPIC = "words"
PARTITIONS = 4
KEY = b"cat"
PARTITION = partition_of(KEY, PARTITIONS)
TASK = TaskId(1, PARTITION)
ELSEWHERE = TaskId(1, (PARTITION + 1) % PARTITIONS)
COUNTS = key_value_store(STORE, STRING, LONG, persistent=False)

ACTIVE, STANDBY = TaskType.ACTIVE, TaskType.STANDBY
RUNNING, RESTORING = TaskState.RUNNING, TaskState.RESTORING


def location(
    builder: StoreBuilder | None = COUNTS, *, own_partitioner: bool = False, **source_topics: int
) -> StoreLocation:
    name = STORE if builder is None else builder.name
    return StoreLocation(name, 1, source_topics or {TOPIC: PARTITIONS}, own_partitioner, builder)


def open_store(builder: StoreBuilder = COUNTS, directory: Path | None = None) -> Any:
    store = builder.build()
    store.open(context(directory or Path()))
    return store


def counts(**entries: int) -> Any:
    """An open store with these words."""
    store = open_store()
    for word, count in entries.items():
        store.put(word, count)
    return store


def hosts(*addresses: str, partitions: range = range(PARTITIONS)) -> dict[HostInfo, frozenset[TopicPartition]]:
    """Each of these has all these partitions of the input."""
    everything = frozenset(TopicPartition(TOPIC, number) for number in partitions)
    return {host_of(address): everything for address in addresses}


def host_of(address: str) -> HostInfo:
    name, _, port = address.rpartition(":")
    return HostInfo(name, int(port))


@dataclass(slots=True)
class FakeInstance:
    """Answers `Queryable`. `shown`: what the stream threads have published last."""

    shown: tuple[StoreCopy, ...] = ()
    locations: Mapping[str, StoreLocation] = field(default_factory=lambda: {STORE: location()})
    maps: PartitionHosts = field(default_factory=PartitionHosts)
    generation: int = 1
    application_id: str = APPLICATION
    usual_isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    asked: int = 0

    def show(
        self,
        store: Any,
        type: TaskType = ACTIVE,
        state: TaskState = RUNNING,
        *,
        lag: int | None = 0,
        task: TaskId = TASK,
    ) -> FakeInstance:
        """Publish that this is the only copy here; anew, even if nothing is new."""
        self.shown = (StoreCopy(task, type, state, store, lag, object()),)
        return self

    def show_also(self, store: Any, type: TaskType, task: TaskId, lag: int | None = 0) -> FakeInstance:
        self.shown = (*self.shown, StoreCopy(task, type, RUNNING, store, lag, object()))
        return self

    def show_nothing(self) -> None:
        self.shown = ()

    def isolation_level(self, chosen: IsolationLevel | None) -> IsolationLevel:
        return self.usual_isolation if chosen is None else chosen

    def store_locations(self) -> Mapping[str, StoreLocation]:
        return self.locations

    def store_copies(self, store: str) -> list[StoreCopy]:
        self.asked += 1
        return [copy for copy in self.shown if copy.store.name == store]

    def generation_id(self) -> int:
        return self.generation

    def host_maps(self) -> PartitionHosts:
        return self.maps

    def status_document(self) -> Mapping[str, object]:
        return {"state": "running"}

    def metrics_text(self) -> bytes:
        return b"streams_tasks 1.0\n"


@dataclass(slots=True)
class ReadWith:
    """A read in the middle of which something happens: `steps` are done one a read, before the store is asked."""

    steps: Iterator[Callable[[], object]]
    read: Callable[[Any], object]
    times: int = 0

    def __call__(self, store: Any) -> object:
        self.times += 1
        next(self.steps, lambda: None)()
        return self.read(store)
