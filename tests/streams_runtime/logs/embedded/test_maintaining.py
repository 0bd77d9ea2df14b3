"""`maintain` works in small pieces, and one process at a time compacts a partition."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.embedded import EmbeddedLog, maintenance
from streams_runtime.logs.embedded.embedded_log import LOG_FILE_NAME
from streams_runtime.logs.embedded.maintenance import delete_topics
from tests.streams_runtime.logs.conformance.conftest import CHANGELOG_CONFIGS
from tests.streams_runtime.logs.reading_and_writing import (
    C0,
    NOW_MS,
    T0,
    T1,
    compact,
    read_from,
    values_of,
    write,
    write_pairs,
)
from tests.streams_runtime.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def piecemeal(directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedLog]:
    """A log whose `maintain` does one step for each call."""
    monkeypatch.setattr(maintenance, "MINIMUM_DIRTY_BYTES", 0)
    monkeypatch.setattr(maintenance, "MAINTENANCE_S", 0.0)
    log = EmbeddedLog(directory, clock=clock)
    log.create_topics([NewTopic("topic", 2, {"retention.ms": "0"}), NewTopic("changelog", 1, CHANGELOG_CONFIGS)])
    yield log
    log.close()


def write_dirt(log: EmbeddedLog, batches: int = 100) -> None:
    for number in range(batches):
        write_pairs(log, C0, *[(b"%d" % key, b"%d" % number) for key in range(10)])


def test_should_compact_in_pieces_that_are_right_at_every_moment(piecemeal: EmbeddedLog) -> None:
    write_dirt(piecemeal)
    counts = []
    for _ in range(30):
        piecemeal.maintain()
        records = read_from(piecemeal, C0)
        assert {record.key: record.value for record in records} == {b"%d" % key: b"99" for key in range(10)}
        counts.append(len(records))
    assert len(set(counts)) > 3
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 20


def test_should_leave_a_partition_to_the_process_that_compacts_it_until_its_lease_runs_out(
    piecemeal: EmbeddedLog, directory: Path, clock: ManualClock
) -> None:
    write_dirt(piecemeal)
    other = EmbeddedLog(directory, clock=clock)
    piecemeal.maintain()  # begins a pass
    other.maintain()
    assert len(read_from(other, C0)) == 1_000
    clock.advance(30_001)
    other.maintain()
    while len(read_from(other, C0)) > 20:
        other.maintain()
    for _ in range(10):
        piecemeal.maintain()  # notices, and does no harm
    assert {record.key: record.value for record in read_from(other, C0)} == {b"%d" % key: b"99" for key in range(10)}
    other.close()


def test_should_compact_at_least_so_much(directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MINIMUM_DIRTY_BYTES", 20_000)
    monkeypatch.setattr(maintenance, "MAINTENANCE_S", 600.0)
    log = EmbeddedLog(directory, clock=clock)
    log.create_topics([NewTopic("changelog", 1, CHANGELOG_CONFIGS)])
    write_dirt(log, 10)
    log.maintain()
    assert len(read_from(log, C0)) == 100
    write_dirt(log, 100)
    log.maintain()
    assert len(read_from(log, C0)) == 20
    log.close()


def test_should_come_to_every_partition_when_each_call_has_no_time(piecemeal: EmbeddedLog, clock: ManualClock) -> None:
    write(piecemeal, T0, b"1", timestamp_ms=NOW_MS)
    write(piecemeal, T1, b"1", timestamp_ms=NOW_MS)
    clock.advance(1)
    for _ in range(3):
        piecemeal.maintain()
    assert piecemeal.begin_offsets([T0, T1]) == {T0: 1, T1: 1}


def test_should_delete_many_batches_in_steps(piecemeal: EmbeddedLog, clock: ManualClock) -> None:
    for number in range(150):
        write(piecemeal, T0, b"%d" % number, timestamp_ms=NOW_MS)
    clock.advance(1)
    begins = []
    for _ in range(9):
        piecemeal.maintain()
        begins.append(piecemeal.begin_offsets([T0])[T0])
    assert sorted(set(begins) - {0}) == [64, 128, 150]
    assert values_of(piecemeal, T0, 150) == []


def test_should_return_at_once_while_another_thread_maintains(piecemeal: EmbeddedLog) -> None:
    write_dirt(piecemeal)
    with piecemeal._maintenance.lock:
        thread = threading.Thread(target=piecemeal.maintain)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert len(read_from(piecemeal, C0)) == 1_000


def test_should_compact_many_keys_in_several_passes(piecemeal: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_MAX_KEYS", 50)
    for start in (0, 500, 0, 0):
        for at in range(start, start + 500, 10):
            write_pairs(piecemeal, C0, *[(b"%d" % key, b"%d" % start) for key in range(at, at + 10)])
    write_pairs(piecemeal, C0, (b"z", b""))
    compact(piecemeal, "changelog")
    records = read_from(piecemeal, C0)
    assert [record.offset for record in records] == [*range(500, 1_000), *range(1_500, 2_001)]


def test_should_leave_what_was_deleted_while_it_was_being_compacted(piecemeal: EmbeddedLog) -> None:
    write_dirt(piecemeal)
    known = piecemeal._catalog.find([C0])[C0]
    steps = piecemeal._maintenance.cleaner.steps(C0, known, 990)
    for _ in range(8):
        next(steps)
    piecemeal.delete_records({C0: 500})
    for _ in steps:
        pass
    assert piecemeal.begin_offsets([C0]) == {C0: 500}
    assert [record.offset for record in read_from(piecemeal, C0, 500)] == list(range(980, 1_000))


def test_should_give_no_partition_the_id_of_a_deleted_one_and_keep_none_of_its_rows(directory: Path) -> None:
    with closing(EmbeddedLog(directory)) as log:
        log.create_topics([NewTopic("topic", 2)])
        for _ in range(100):
            write(log, T1, b"row")
        log.delete_topics(["topic"])
        log.create_topics([NewTopic("another", 1)])
        log.maintain()
        log.delete_topics(["another"])
        log.create_topics([NewTopic("third", 1)])
        log.maintain()
    with closing(sqlite3.connect(directory / LOG_FILE_NAME)) as file:
        assert file.execute("SELECT COUNT(*) FROM batches").fetchone() == (0,)
        assert file.execute("SELECT id, topic FROM partitions").fetchall() == [(4, "third")]


def test_should_finish_what_a_dead_process_had_begun_to_delete(directory: Path) -> None:
    with closing(EmbeddedLog(directory)) as log:
        log.create_topics([NewTopic("topic", 2), NewTopic("another", 1)])
        for _ in range(100):
            write(log, T0, b"row")
        with sqlite3.connect(directory / LOG_FILE_NAME) as file:  # it got as far as this
            delete_topics(file, ["topic"])
        file.close()
        for _ in range(5):
            log.maintain()
    with closing(sqlite3.connect(directory / LOG_FILE_NAME)) as file:
        assert file.execute("SELECT COUNT(*) FROM batches").fetchone() == (0,)
        assert file.execute("SELECT topic FROM partitions").fetchall() == [("another",)]
