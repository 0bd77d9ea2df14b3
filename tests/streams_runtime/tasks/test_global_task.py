"""The global task: its offsets are in its stores, and it starts again where they are."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from assignor.types import TopicPartition
from streams_runtime import (
    LONG,
    STRING,
    Application,
    HandlerResponse,
    NewTopic,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    StreamsRuntimeError,
    key_value_store,
    log_and_continue,
    window_store,
)
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import ProcessingFailed
from streams_runtime.common.losses import TaskLosses
from streams_runtime.common.notices import NoticeBoard, NoticeCode
from streams_runtime.common.states import GLOBAL_TASK
from streams_runtime.instance.task_creation import global_task
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.tasks.global_task import GlobalTask
from streams_runtime.tasks.state_directory import StateDirectory

TOPIC, STORE = "users", "users"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(2)]


def user_table() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.global_table(TOPIC, STRING, STRING, store=STORE)
    return builder


class Count(Processor[str, Any]):
    """Counts the records of each key, so that a record that is processed twice is noticed."""

    def init(self, context: ProcessorContext) -> None:
        self.store = context.state_store(STORE)

    def process(self, record: Record[str, Any]) -> None:
        if record.value == "poison":
            raise ValueError("poison")
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)


def counting(*, persistent: bool = True) -> StreamsBuilder:
    builder = StreamsBuilder()
    store = key_value_store(STORE, STRING, LONG, persistent=persistent)
    return builder.add_global_store(store, TOPIC, Count, STRING, STRING)


class Rig:
    """A log with the global topic, and a state directory, in which global tasks run one after the other."""

    def __init__(self, directory: Path) -> None:
        self.log = InMemoryLog()
        self.log.create_topics([NewTopic(TOPIC, len(PARTITIONS))])
        self.directory = StateDirectory(directory, "app", SystemClock())
        self.notices = NoticeBoard(SystemClock())

    def write(self, *records: tuple[str, str], partition: int = 0) -> None:
        rows = [(key.encode(), value.encode(), 7, ()) for key, value in records]
        self.log.append_records(PARTITIONS[partition], rows)

    def task(self, builder: StreamsBuilder, configs: dict[str, object] | None = None, **handlers: Any) -> GlobalTask:
        configs = {"application.id": "app", "bootstrap.servers": "memory:x", **(configs or {})}
        application = Application(builder.build(), configs, **handlers)
        losses = TaskLosses(GLOBAL_TASK, None, self.notices)
        task = global_task(application, self.directory, self.log, SystemClock(), lambda _task: losses)
        assert task is not None
        return task

    @contextmanager
    def opened(
        self, builder: StreamsBuilder, configs: dict[str, object] | None = None, **handlers: Any
    ) -> Iterator[Any]:
        """The task, and a function that processes all records and returns the entries of its store."""
        task = self.task(builder, configs, **handlers)
        try:
            task.open()

            def entries() -> dict[str, Any]:
                while task.update(0):
                    pass
                store: Any = task.stores[STORE]
                return dict(store.all())

            yield task, entries
        finally:
            task.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as closing:
        made = Rig(tmp_path)
        closing.callback(made.directory.close)
        yield made


def test_should_read_all_partitions_and_continue_at_the_offsets_in_its_store(rig: Rig) -> None:
    rig.write(("a", "1"), ("b", "1"))
    rig.write(("c", "1"), partition=1)
    with rig.opened(counting()) as (task, entries):
        assert task.starts == dict.fromkeys(PARTITIONS, 0)
        assert entries() == {"a": 1, "b": 1, "c": 1}
        assert all(task.is_restored(partition) for partition in PARTITIONS)
    rig.write(("a", "2"))
    with rig.opened(counting()) as (task, entries):
        assert task.starts == {PARTITIONS[0]: 2, PARTITIONS[1]: 1}
        assert entries() == {"a": 2, "b": 1, "c": 1}
    assert not rig.notices.newest()


def test_should_continue_where_a_crash_has_left_its_store(rig: Rig) -> None:
    rig.write(("a", "1"), ("a", "poison"))
    with rig.opened(counting(), {"max.poll.records": 1}) as (_, entries), pytest.raises(ProcessingFailed):
        entries()
    with rig.opened(
        counting(),
        {"processing.exception.handler.global.enabled": True},
        processing_exception_handler=lambda _record: HandlerResponse.DEAD_LETTER,
    ) as (task, entries):
        assert task.starts[PARTITIONS[0]] == 1
        assert entries() == {"a": 1}
        assert task.losses.by_reason() == {"processing-error": 1}


def test_should_fill_a_store_in_memory_from_the_beginning(rig: Rig) -> None:
    rig.write(("a", "1"))
    for _ in range(2):
        with rig.opened(counting(persistent=False)) as (task, entries):
            assert (task.starts[PARTITIONS[0]], entries()) == (0, {"a": 1})


def test_should_read_a_partition_that_was_added_from_its_beginning(rig: Rig) -> None:
    rig.write(("a", "1"))
    with rig.opened(counting()) as (_, entries):
        assert entries() == {"a": 1}
    rig.log.alter_topic(TOPIC, 3, {})
    rig.log.append_records(TopicPartition(TOPIC, 2), [(b"c", b"1", 1, ())])
    with rig.opened(counting()) as (task, entries):
        assert (task.starts[TopicPartition(TOPIC, 2)], task.starts[PARTITIONS[0]]) == (0, 1)
        assert entries() == {"a": 1, "c": 1}


def deleted_records(rig: Rig) -> None:
    rig.log.delete_records({PARTITIONS[0]: 2})


def recreated_topic(rig: Rig) -> None:
    rig.log.delete_topics([TOPIC])
    rig.log.create_topics([NewTopic(TOPIC, len(PARTITIONS))])
    rig.write(("c", "1"))


@pytest.mark.parametrize("changed", [deleted_records, recreated_topic])
def test_should_fill_its_store_again_if_the_topic_no_longer_fits(rig: Rig, changed: Callable[[Rig], None]) -> None:
    rig.write(("a", "1"))
    with rig.opened(counting()) as (_, entries):
        assert entries() == {"a": 1}
    rig.write(("b", "1"), ("c", "1"))
    changed(rig)
    with rig.opened(counting()) as (_, entries):
        assert entries() == {"c": 1}
    assert [notice.code for notice in rig.notices.newest()] == [NoticeCode.STORE_REBUILT]


def test_should_fill_a_store_of_another_kind_again(rig: Rig) -> None:
    rig.write(("a", "1"))
    with rig.opened(counting()) as (_, entries):
        entries()
    with rig.opened(user_table()) as (_, entries):
        assert [value.value for value in entries().values()] == ["1"]


class CountInWindows(Count):
    def process(self, record: Record[str, Any]) -> None:
        self.store.put(record.key, (self.store.fetch(record.key, 0) or 0) + 1, 0)


def test_should_count_each_record_once_when_the_retention_of_its_store_is_raised(rig: Rig) -> None:
    rig.write(("a", "1"), ("a", "2"))
    for retention_ms in (600_000, 36_000_000):
        store = window_store(STORE, STRING, LONG, retention_ms=retention_ms, window_size_ms=60_000)
        builder = StreamsBuilder().add_global_store(store, TOPIC, CountInWindows, STRING, STRING)
        with rig.opened(builder) as (task, _):
            while task.update(0):
                pass
            assert task.stores[STORE].fetch("a", 0) == 2
    (notice,) = rig.notices.newest()
    assert "its retention is 36000000 ms and was 600000 ms" in notice.text


def test_should_skip_the_same_records_in_a_restore_as_before(rig: Rig) -> None:
    rig.log.append_records(PARTITIONS[0], [(b"a", b"1", 1, ()), (b"a", b"\xff", 2, ()), (None, b"1", 3, ())])
    for _ in range(2):
        with rig.opened(user_table(), deserialization_exception_handler=log_and_continue) as (task, entries):
            assert {key: value.value for key, value in entries().items()} == {"a": "1"}
            assert task.losses.by_reason() == {"deserialization-error": 1, "null-key": 1}
        rig.directory.wipe(GLOBAL_TASK)


def test_should_refuse_a_topic_that_does_not_exist(rig: Rig) -> None:
    rig.log.delete_topics([TOPIC])
    with pytest.raises(StreamsRuntimeError, match="the log has no topic users, which fills global store users"):
        rig.task(user_table()).open()
