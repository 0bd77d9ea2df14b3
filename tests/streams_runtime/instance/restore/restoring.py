"""A changelog reader with a real log, real stores and real state directories, for tests."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from assignor.types import TaskId, TopicPartition
from streams_runtime import BYTES, ProcessingGuarantee, StreamsConfig, key_value_store
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.states import TaskType
from streams_runtime.instance.restore.changelog_reader import ChangelogReader
from streams_runtime.logs.base import Consumer, Log, NewTopic
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.state_stores.key_value import KeyValueStore
from streams_runtime.state_stores.state_store import StoreContext
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from streams_runtime.tasks.task import Task
from tests.streams_runtime.logs.reading_and_writing import write_pairs
from tests.streams_runtime.manual_clock import ManualClock

APPLICATION = "app"
Entries = Iterable[tuple[bytes, bytes | None]]


class NoRecords:
    record_timestamp_ms = -1
    stream_time_ms = -1
    current_system_time_ms = -1


class SpyingListener:
    """`told`: every call as (what, topic-partition, store, numbers). `fail_at`: the calls that raise."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, tuple[int, ...]]] = []
        self.fail_at: set[str] = set()

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self._tell("start", partition, store, start, end)

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        self._tell("batch", partition, store, batch_end, count)

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        self._tell("end", partition, store, total)

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        self._tell("suspended", partition, store, total)

    def _tell(self, what: str, partition: TopicPartition, store: str, *numbers: int) -> None:
        self.told.append((what, str(partition), store, numbers))
        if what in self.fail_at:
            raise RuntimeError(f"no {what} please")


class RestoringTask:
    """A task as far as the reader knows one: its state manager, opened on the state directory."""

    def __init__(self, task: TaskId, state: StateManager) -> None:
        self.id = task
        self.state = state
        self.store = cast("KeyValueStore[bytes, bytes]", next(iter(state.stores.values())))

    def content(self) -> dict[bytes, bytes]:
        return dict(self.store.all())


class Restoring:
    """One thread's changelog reader, and the tasks that it reads for."""

    def __init__(self, directory: Path, log: Log, **changes: object) -> None:
        self.log = log
        self.metrics = InstanceMetrics()
        self.clock = ManualClock()
        self.listener = SpyingListener()
        configs = StreamsConfig(APPLICATION, "memory:restore", directory, poll_ms=0, commit_interval_ms=1_000)
        self.configs = replace(configs, **changes)  # type: ignore[arg-type]
        self.directory = StateDirectory(directory, APPLICATION, self.clock)
        self.consumer: Consumer = self.log.consumer(self.configs.isolation_level)
        self.reader = ChangelogReader(
            self.log,
            self.consumer,
            configs=self.configs,
            clock=self.clock,
            listener=self.listener,
            metrics=self.metrics.thread("t-1"),
        )
        self.tasks: dict[TaskId, RestoringTask] = {}

    def state(
        self,
        task: TaskId,
        task_type: TaskType,
        changelog: TopicPartition,
        *,
        source: bool = False,
        compacted: bool = False,
        store: str = "counts",
        second: TopicPartition | None = None,
    ) -> StateManager:
        changelogs = {store: changelog} if second is None else {store: changelog, "second": second}
        return StateManager(
            task,
            task_type,
            options=StoreOptions(exactly_once=self.configs.exactly_once),
            directory=self.directory,
            stores=[key_value_store(name, BYTES, BYTES).build() for name in changelogs],
            changelogs=changelogs,
            source_changelogs={changelog: lambda batch: batch} if source else {},
            compacted_changelogs=frozenset([changelog] if compacted else []),
        )

    def add(
        self,
        changelog: TopicPartition,
        *,
        standby: bool = False,
        source: bool = False,
        compacted: bool = False,
        applied: int | None = None,
        second: TopicPartition | None = None,
    ) -> RestoringTask:
        """A task that was just initialised, its changelog registered. `applied`: as from its checkpoint. `compacted`:
        the changelog is one that is created with compaction alone. `second`: the changelog of a second store.
        """
        task = TaskId(len(self.tasks), changelog.partition)
        task_type = TaskType.STANDBY if standby else TaskType.ACTIVE
        state = self.state(task, task_type, changelog, source=source, compacted=compacted, second=second)
        state.lock()
        state.open_stores(StoreContext(task, state.task_directory, None, NoRecords()))
        state.load_checkpoint()
        state.metadata(changelog).offset = applied
        self.tasks[task] = added = RestoringTask(task, state)
        self.reader.register(changelog, state)
        if second is not None:
            self.reader.register(second, state)
        return added

    def restore(self, *, others_run: bool = False, only: Iterable[RestoringTask] | None = None) -> int:
        tasks = self.tasks.values() if only is None else only
        return self.reader.restore(as_tasks({task.id: task for task in tasks}), others_run=others_run)

    def restore_until_completed(self, *changelogs: TopicPartition, passes: int = 1_000) -> None:
        for _ in range(passes):
            if self.reader.completed_changelogs() >= set(changelogs):
                return
            self.restore()
        raise AssertionError(f"not restored after {passes} passes: {self.reader.lags()}")

    def update_standbys(self, passes: int = 5) -> int:
        self.reader.transit_to_update_standby()
        return sum(self.restore() for _ in range(passes))

    def close(self) -> None:
        self.reader.clear()
        for task in self.tasks.values():
            task.state.close()
            task.state.unlock()
        self.consumer.close()
        self.directory.close()


def as_tasks(tasks: Mapping[TaskId, RestoringTask | StandbyTask]) -> Mapping[TaskId, Task]:
    """The reader asks of tasks only whether they are there."""
    return cast("Mapping[TaskId, Task]", tasks)


def exactly_once() -> dict[str, object]:
    return {"processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE_V2}


def create(log: InMemoryLog, topic: str, partitions: int = 1, **configs: str) -> TopicPartition:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    log.create_topics([NewTopic(topic, partitions, named)])
    return TopicPartition(topic, 0)


def write(log: InMemoryLog, partition: TopicPartition, entries: Entries) -> None:
    write_pairs(log, partition, *entries, timestamp_ms=0)


def fill(log: InMemoryLog, partition: TopicPartition, records: int) -> None:
    """A new topic with so many records."""
    create(log, partition.topic)
    write(log, partition, numbered(0, records))


def numbered(start: int, stop: int) -> list[tuple[bytes, bytes | None]]:
    """Keys and values by the offsets they get."""
    return [(b"k%d" % number, b"v%d" % number) for number in range(start, stop)]


def contents(start: int, stop: int) -> dict[bytes, bytes]:
    return {key: value for key, value in numbered(start, stop) if value is not None}
