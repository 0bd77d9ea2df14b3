"""A consumer asks the file for its version only, unless the file has changed or it needs records."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer
from streams_runtime.logs.embedded import EmbeddedLog, reads_and_writes
from streams_runtime.logs.embedded.reads_and_writes import EmbeddedSource
from streams_runtime.logs.log_errors import OffsetOutOfRange, UnknownTopicOrPartition
from tests.streams_runtime.logs.reading_and_writing import C0, T0, T1, reading, records_of, write


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[TopicPartition]]:
    """The partitions of each snapshot."""
    taken: list[Sequence[TopicPartition]] = []
    snapshot = EmbeddedSource.snapshot

    def noting(source: EmbeddedSource, partitions: Sequence[TopicPartition]) -> Any:
        taken.append(partitions)
        return snapshot(source, partitions)

    monkeypatch.setattr(EmbeddedSource, "snapshot", noting)
    return taken


def at_the_end(log: EmbeddedLog, *partitions: TopicPartition) -> Consumer:
    consumer = log.consumer()
    consumer.assign(partitions)
    for partition, end in log.end_offsets(partitions).items():
        consumer.seek(partition, end)
    return consumer


def values(consumer: Consumer) -> list[bytes | None]:
    return [record.value for record in records_of(consumer.poll(0, 100))]


def test_should_snapshot_only_news(
    log: EmbeddedLog, directory: Path, snapshots: list[Sequence[TopicPartition]]
) -> None:
    consumer = at_the_end(log, T0, T1)
    assert [values(consumer) for _ in range(3)] == [[], [], []]
    assert snapshots == [[T0, T1]]

    write(log, T0, b"in this process")
    assert values(consumer) == [b"in this process"]
    other = EmbeddedLog(directory)
    write(other, T1, b"as by another")
    other.close()
    assert values(consumer) == [b"as by another"]
    assert consumer.poll(20, 100) == []
    taken = len(snapshots)
    assert (values(consumer), len(snapshots)) == ([], taken)


def test_should_take_a_snapshot_where_the_consumer_was_moved(log: EmbeddedLog) -> None:
    write(log, T0, b"a")
    write(log, T1, b"b")
    consumer = at_the_end(log, T0)
    assert values(consumer) == []
    consumer.seek(T0, 0)
    assert values(consumer) == [b"a"]
    assert values(consumer) == []
    consumer.assign([T0, T1])
    consumer.seek(T1, 0)
    assert values(consumer) == [b"b"]


def test_should_give_the_rest_to_a_partition_that_is_read_again(log: EmbeddedLog) -> None:
    consumer = at_the_end(log, T0, T1)
    consumer.pause([T1])
    write(log, T1, b"a")
    assert [values(consumer), values(consumer)] == [[], []]
    consumer.resume([T1])
    assert values(consumer) == [b"a"]


def test_should_read_bounds_again_only_after_a_change(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[TopicPartition]] = []
    bounds_of = reads_and_writes.bounds_of

    def noting(connection: Any, known: Mapping[TopicPartition, Any]) -> Any:
        asked.append(list(known))
        return bounds_of(connection, known)

    monkeypatch.setattr(reads_and_writes, "bounds_of", noting)
    write(log, T0, *[b"x"] * 6)
    write(log, T1, *[b"x"] * 6)
    consumer = reading(log, T0)
    assert [len(consumer.poll(0, 1)) for _ in range(3)] == [1, 1, 1]
    assert asked == [[T0]]
    consumer.assign([T0, T1])
    consumer.seek(T1, 0)
    assert [len(consumer.poll(0, 2)) for _ in range(2)] == [2, 2]
    consumer.pause([T0])
    assert len(consumer.poll(0, 1)) == 1
    assert asked == [[T0], [T0, T1]]
    write(log, T1, b"y")
    assert values(consumer) == [b"x", b"x", b"x", b"y"]
    assert asked == [[T0], [T0, T1], [T1]]


def test_should_read_on_after_a_poll_of_a_topic_deleted_elsewhere(log: EmbeddedLog, directory: Path) -> None:
    write(log, T0, b"a")
    write(log, T0, b"b")
    write(log, C0, b"c")  # so this process knows the partition
    other = EmbeddedLog(directory)
    other.delete_topics([C0.topic])
    other.close()
    consumer = reading(log, T0)
    assert len(consumer.poll(0, 1)) == 1
    consumer.assign([C0])
    consumer.seek(C0, 0)
    with pytest.raises(UnknownTopicOrPartition):
        consumer.poll(0, 1)
    consumer.assign([T0])
    consumer.seek(T0, 1)
    assert values(consumer) == [b"b"]


def test_should_notice_an_append_while_a_snapshot_begins(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    data_version = reads_and_writes._data_version

    def overtaken(connection: Any) -> int:
        version = data_version(connection)
        monkeypatch.setattr(reads_and_writes, "_data_version", data_version)
        write(log, T0, b"just after")
        return version

    consumer = at_the_end(log, T0)
    monkeypatch.setattr(reads_and_writes, "_data_version", overtaken)
    assert values(consumer) == []
    assert values(consumer) == [b"just after"]


def test_should_notice_records_that_were_deleted_behind_it(log: EmbeddedLog) -> None:
    consumer = at_the_end(log, T0)
    assert values(consumer) == []
    write(log, T0, b"a", b"b")
    log.delete_records({T0: 2})
    with pytest.raises(OffsetOutOfRange):
        consumer.poll(0, 100)
    with pytest.raises(OffsetOutOfRange):
        consumer.poll(0, 100)


def test_should_not_look_again_and_again_without_a_partition(
    log: EmbeddedLog, snapshots: list[Sequence[TopicPartition]], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    wait = EmbeddedSource.wait

    def noting(source: EmbeddedSource, signal: Any, timeout_s: float) -> None:
        waits.append(timeout_s)
        wait(source, signal, timeout_s)

    monkeypatch.setattr(EmbeddedSource, "wait", noting)
    consumer = at_the_end(log, T0)
    assert consumer.poll(1, 1) == []
    consumer.assign([])
    write(log, T0, b"a")
    snapshots.clear()
    waits.clear()
    began_s = time.monotonic()
    assert consumer.poll(50, 1) == []
    assert time.monotonic() - began_s >= 0.05
    consumer.wakeup()
    assert consumer.poll(10_000, 1) == []
    assert (snapshots, waits) == ([], [])


def test_should_still_know_its_partitions_when_the_log_is_closed(log: EmbeddedLog) -> None:
    """Another thread may close the log while a consumer's own thread looks at its positions."""
    write(log, T0, b"1", b"2")
    consumer = reading(log, T0)
    assert len(consumer.poll(0, 1)) == 1
    consumer.pause([T0])
    log.close()
    assert (consumer.assignment(), consumer.position(T0), consumer.paused()) == (frozenset((T0,)), 1, frozenset((T0,)))
