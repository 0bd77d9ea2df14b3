"""Punctuations, choice of partitions, bytes and changelog offsets are exactly those of Kafka's own classes."""

import struct
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from assignor import TaskId, TopicPartition
from streams_runtime import BYTES, DOUBLE, LONG, STRING, FailedRecord, StreamsConfig, ValueAndTimestamp, Windowed
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import TaskCorrupted
from streams_runtime.common.states import TaskType
from streams_runtime.dsl.change import Change, ChangedSerde
from streams_runtime.dsl.windows import TimeWindowedSerde, WindowedStreamPartitioner
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.partitioner import murmur2, partition_of
from streams_runtime.processors.context import CurrentNode
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.processors.topology import SourceSettings
from streams_runtime.state_stores.value_and_timestamp import ValueAndTimestampSerde
from streams_runtime.state_stores.window_keys import window_key
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from streams_runtime.tasks.input_offsets import encode_partition_time
from streams_runtime.tasks.partition_group import PartitionGroup
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, PunctuationSchedule
from streams_runtime.tasks.record_queue import RecordQueue
from streams_runtime.tasks.state_directory import STORES_DIRECTORY, StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.known import known
from tests.streams_runtime.golden.recorded import Recorded, recorded
from tests.streams_runtime.tasks.file_store import FileStore, MemoryStore, store_context

_MOST_SCHEDULES = 20


class Punctuations:
    """Schedules that note when they fire, cancel themselves or others, and make new ones."""

    def __init__(self) -> None:
        self.queue = PunctuationQueue()
        self.schedules: list[PunctuationSchedule] = []
        self.noted: list[int] = []
        self.now_ms = 0

    def make(self, time_ms: int, interval_ms: int, firings: int, cancels: int, nested: int) -> None:
        number = len(self.schedules)
        fired = 0

        def punctuate(now_ms: int) -> None:
            nonlocal fired
            fired += 1
            self.noted.append(number * 1_000_000 + now_ms)
            if 0 < firings <= fired:
                schedule.cancel()
            if cancels >= 0:
                self.cancel(cancels)
            if nested > 0 and fired == 1 and len(self.schedules) < _MOST_SCHEDULES:
                self.make(self.now_ms + nested - 10, interval_ms + nested, 1, -1, 0)

        schedule = PunctuationSchedule("node", time_ms, interval_ms, punctuate)
        self.schedules.append(schedule)
        self.queue.add(schedule)

    def cancel(self, number: int) -> None:
        if number < len(self.schedules):
            self.schedules[number].cancel()

    def visit(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.queue.next_time_ms()  # asking changes nothing
        punctuated = self.queue.maybe_punctuate(now_ms, lambda schedule: schedule.callback(now_ms))
        self.noted.append(-1 if punctuated else -2)


@pytest.mark.parametrize("one", recorded("punctuations"), ids=Recorded.label)
def test_should_fire_punctuations_when_and_in_the_order_kafka_does(one: Recorded) -> None:
    """Includes punctuations of the same time, cancelled ones, and ones scheduled inside a callback."""
    punctuations = Punctuations()
    for operation, *arguments in one.case["ops"]:
        getattr(punctuations, {"s": "make", "c": "cancel", "p": "visit"}[operation])(*arguments)
    assert punctuations.noted == one.kafka


class KnownLags:
    """`InputLags` that a test sets. None: the lag is unknown."""

    def __init__(self) -> None:
        self.lags: dict[TopicPartition, int | None] = {}

    def behind(self, partitions: Collection[TopicPartition], now_ms: int) -> set[TopicPartition]:
        return {partition for partition in partitions if self.lags.get(partition) != 0}

    def forget_end(self, partition: TopicPartition) -> None:
        pass

    def clear(self) -> None:
        pass


def never(failed: FailedRecord) -> None:
    raise AssertionError(failed)


class Group:
    def __init__(self, partitions: int, max_task_idle_ms: int) -> None:
        self.partitions = [TopicPartition(f"t{number}", 0) for number in range(partitions)]
        self.lags = KnownLags()
        runner = SourceRunner("source", SourceSettings(), CurrentNode())

        def new_queue(partition: TopicPartition) -> RecordQueue:
            return RecordQueue(TaskId(0, 0), partition, runner, never)

        configs = StreamsConfig("app", "memory:test", max_task_idle_ms=max_task_idle_ms)
        consumer = InMemoryLog().consumer()
        self.group = PartitionGroup(self.partitions, new_queue, consumer, self.lags, configs)  # type: ignore[arg-type]
        self.offsets: Counter[TopicPartition] = Counter()
        self.noted: list[object] = []
        self.stream_time_ms = -1

    def add(self, number: int, times: list[int]) -> None:
        partition, nothing = self.partitions[number], [b""] * len(times)
        offsets = range(self.offsets[partition], self.offsets[partition] + len(times))
        self.noted.append(self.group.add(RecordBatch(partition, offsets, times, nothing, nothing)))
        self.offsets[partition] += len(times)

    def lag(self, number: int, lag: int | None) -> None:
        self.lags.lags[self.partitions[number]] = lag

    def clear(self) -> None:
        self.group.clear()
        self.stream_time_ms = -1

    def take(self, now_ms: int, records: int) -> None:
        for _ in range(records):
            if not self.group.ready(now_ms):
                self.noted.append("no")
                return
            queue, _ = known(self.group.next_run(now_ms, 1))
            record = known(queue.poll())
            self.stream_time_ms = max(self.stream_time_ms, record.timestamp_ms)
            place = (queue.partition.topic, queue.polled_metadata().offset, record.timestamp_ms)
            self.noted.append("@".join(map(str, (*place, self.stream_time_ms, queue.partition_time_ms))))


@pytest.mark.parametrize("one", recorded("partition_groups"), ids=Recorded.label)
def test_should_take_records_and_wait_for_partitions_as_kafka_does(one: Recorded) -> None:
    """Includes equal timestamps, for every kind of max.task.idle.ms."""
    group = Group(one.case["n"], one.case["idle"])
    for operation, *arguments in one.case["ops"]:
        getattr(group, operation)(*arguments)
    assert group.noted == one.kafka


@pytest.mark.parametrize("one", recorded("bytes"), ids=Recorded.label)
def test_should_write_the_bytes_that_kafka_writes(one: Recorded) -> None:
    case = one.case
    key, value, time_ms, text, partitions = (
        bytes.fromhex(case["key"]),
        bytes.fromhex(case["val"]),
        case["ts"],
        case["s"],
        case["n"],
    )
    windowed = Windowed(text, time_ms, time_ms + 10)
    windows, changes = TimeWindowedSerde(STRING, 10), ChangedSerde(BYTES)
    read = windows.deserialize(windows.serialize(windowed))
    (double,) = struct.unpack(">d", struct.pack(">q", case["d"]))
    assert one.kafka == [
        window_key(key, time_ms, case["seq"]).hex(),
        window_key(STRING.serialize(text), time_ms, case["seq"]).hex(),
        windows.serialize(windowed).hex(),
        ValueAndTimestampSerde(BYTES).serialize(ValueAndTimestamp(value, time_ms)).hex(),
        LONG.serialize(case["l"]).hex(),
        DOUBLE.serialize(double).hex(),
        partition_of(key, partitions),
        murmur2(key),
        STRING.serialize(text).hex(),
        changes.serialize(Change(value, key)).hex(),
        changes.serialize(Change(value, None)).hex(),
        changes.serialize(Change(None, value)).hex(),
        f"{read.key}|{read.start_ms}|{read.end_ms}",
        encode_partition_time(time_ms),
        partition_of(STRING.serialize(text), partitions),
        WindowedStreamPartitioner(STRING)(windowed, None, partitions),
    ]


class StateOfTask:
    """A task's state manager, opened and closed again and again over one directory."""

    task = TaskId(0, 1)

    def __init__(self, case: dict[str, Any], root: Path) -> None:
        self.case = case
        self.root = root
        self.directory: StateDirectory | None = None
        self.state: StateManager

    def step(self, operation: str, arguments: list[Any]) -> str:
        """Gives the changelog offsets after the step or, when the step ends the task, the checkpoint."""
        try:
            getattr(self, operation)(*arguments)
        except TaskCorrupted:
            return f"{operation} TaskCorrupted"
        if operation not in ("close", "crash"):
            return operation + shown(self.state.changelog_offsets())
        return f"{operation} file {shown(CheckpointFile(self.state.task_directory).read())}"

    def open(self) -> None:
        self.release()
        self.directory = StateDirectory(self.root, "app", SystemClock())
        stores = self.case["stores"]
        self.state = StateManager(
            self.task,
            TaskType.STANDBY if self.case["standby"] else TaskType.ACTIVE,
            options=StoreOptions(exactly_once=self.case["eos"]),
            directory=self.directory,
            stores=[(FileStore if persistent else MemoryStore)(name) for name, persistent, _ in stores],
            changelogs={name: changelog(name) for name, _, logged in stores if logged},
        )
        self.state.lock()
        self.state.open_stores(store_context(self.task, self.state.task_directory))
        self.state.load_checkpoint()
        (self.state.task_directory / STORES_DIRECTORY).mkdir(exist_ok=True)
        (self.state.task_directory / STORES_DIRECTORY / "state").touch()

    def release(self) -> None:
        if self.directory is not None:
            self.directory.unlock(self.task)
            self.directory.close()

    def restore(self, store: str, offsets: list[int]) -> None:
        data = [b"x"] * len(offsets)
        self.state.restore(changelog(store), RecordBatch(changelog(store), offsets, [0] * len(data), data, data))

    def write(self, written: dict[str, int]) -> None:
        self.state.commit({changelog(store): offset + 1 for store, offset in written.items()})

    def commit(self) -> None:
        self.state.maybe_checkpoint(enforce=False)

    def close(self) -> None:
        self.state.maybe_checkpoint(enforce=True)
        self.state.close()

    def crash(self) -> None:
        """Nothing is closed and nothing written."""


def changelog(store: str) -> TopicPartition:
    return TopicPartition(f"app-{store}-changelog", 1)


def shown(offsets: dict[TopicPartition, int]) -> str:
    return "{" + ", ".join(f"{topic}={offset}" for (topic, _), offset in sorted(offsets.items())) + "}"


@pytest.mark.parametrize("one", recorded("offsets"), ids=Recorded.label)
def test_should_keep_and_checkpoint_changelog_offsets_as_kafka_does(one: Recorded, tmp_path: Path) -> None:
    """The file holds the offset of the last record (OFFSET_UNKNOWN for none), everything else that of the next one.

    Stores in memory start from the beginning.
    """
    task = StateOfTask(one.case, tmp_path)
    try:
        for (operation, *arguments), said in zip(one.case["ops"], one.kafka, strict=False):
            assert task.step(operation, arguments) == said
    finally:
        task.release()
