"""The buffer of a suppressed table: its order, its size, its changelog and its restore."""

from pathlib import Path
from typing import Any

import pytest

from assignor.types import JAVA_LONG_MAX
from streams_runtime import LONG, STRING
from streams_runtime.common.errors import ChangelogOfAnotherKind
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.log_errors import LogTimeout, RecordTooLarge
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.state_stores.thread_cache import ContextTuple
from streams_runtime.state_stores.time_ordered_change_buffer import (
    CHANGELOG_HEADERS,
    InMemoryTimeOrderedKeyValueChangeBuffer,
    TimeOrderedChangeBufferBuilder,
)
from tests.streams_runtime.state_stores.surroundings import CHANGELOG, RecordedChanges, SetClock, context

Buffer = InMemoryTimeOrderedKeyValueChangeBuffer


def made_by(offset: int, *, headers: Any = (), timestamp_ms: int = 5) -> ContextTuple:
    size = 2 + sum(len(name) + len(value or b"") for name, value in headers)
    return timestamp_ms, headers, ("in", 0), offset, None, size


def opened(path: Path, changes: RecordedChanges | None = None) -> Buffer:
    buffer = TimeOrderedChangeBufferBuilder("buffer", STRING, STRING).build()
    buffer.open(context(path, changes, SetClock(current_system_time_ms=77)))
    return buffer


def evicted(buffer: Buffer) -> list[tuple[Any, ...]]:
    gone: list[tuple[Any, ...]] = []
    while len(buffer):
        gone.append(buffer.first())
        buffer.remove_first()
    return gone


def logged(changes: RecordedChanges, first_offset: int = 0) -> RecordBatch:
    return RecordBatch(
        CHANGELOG,
        range(first_offset, first_offset + len(changes.changes)),
        [change.timestamp_ms for change in changes.changes],
        [change.key for change in changes.changes],
        [change.value for change in changes.changes],
        [change.headers for change in changes.changes],
    )


def test_should_keep_the_place_of_a_key_and_break_ties_by_key(tmp_path: Path) -> None:
    buffer = opened(tmp_path)
    buffer.put(20, "b", ("1", None), made_by(0))
    buffer.put(10, "z", ("2", None), made_by(1))
    buffer.put(20, "a", ("3", None), made_by(2))
    buffer.put(30, "z", ("4", "2"), made_by(3))  # keeps its time of 10
    assert buffer.min_time_ms == 10
    gone = evicted(buffer)
    assert [change[:2] for change in gone] == [("z", ("4", "2")), ("a", ("3", None)), ("b", ("1", None))]
    assert (buffer.min_time_ms, buffer.size_bytes) == (JAVA_LONG_MAX, 0)


def test_should_count_sizes_as_kafka_does(tmp_path: Path) -> None:
    buffer = opened(tmp_path)
    fixed = 8 + 8 + 8 + 4 + len("in")
    buffer.put(1, "key", ("new", "old"), made_by(0))
    assert buffer.size_bytes == fixed + 3 + 3 + 3  # the old value is the prior value, too
    buffer.put(1, "key", ("newer", "new"), made_by(0, headers=(("h", b"12"), ("n", None))))
    assert buffer.size_bytes == fixed + 3 + len("old") + len("new") + len("newer") + 3 + 1


def test_should_not_count_the_input_record_that_an_error_handler_needs(tmp_path: Path) -> None:
    buffer = opened(tmp_path)
    timestamp_ms, headers, place, offset, _, size = made_by(0, headers=(("h", b"12"),))
    buffer.put(1, "key", ("new", None), (timestamp_ms, headers, place, offset, None, size))
    before = buffer.size_bytes
    raw: Any = (b"key", b"a long input", headers, timestamp_ms)
    buffer.put(1, "key", ("new", None), (timestamp_ms, headers, place, offset, raw, size + 99))
    assert buffer.size_bytes == before


def test_should_log_each_changed_key_once_in_kafkas_format(tmp_path: Path) -> None:
    changes = RecordedChanges()
    buffer = opened(tmp_path, changes)
    buffer.put(10, "\0\0\0\0\0\0\0\n", ("+hello world", ""), made_by(0, timestamp_ms=10))
    buffer.put(20, "gone", ("1", None), made_by(1))
    buffer.put(20, "gone", ("2", "1"), made_by(2))
    assert changes.changes == []
    buffer.remove_first()
    buffer.put(10, "\0\0\0\0\0\0\0\n", ("+hello world", ""), made_by(0, timestamp_ms=10))
    buffer.log_changes()
    first, second = changes.changes
    # the bytes are those that Kafka has written for this change
    kafkas = (
        "000000000000000a000000000000000000000002696e0000000000000000"
        "00000000fffffffe0000000c2b68656c6c6f20776f726c64000000000000000a"
    )
    assert (first.key, first.value, first.headers) == (b"\0\0\0\0\0\0\0\n", bytes.fromhex(kafkas), CHANGELOG_HEADERS)
    assert (second.key, second.timestamp_ms) == (b"gone", 77)
    buffer.log_changes()
    assert len(changes.changes) == 2
    buffer.remove_first()
    buffer.log_changes()
    assert changes.changes[2:] == [("buffer", b"\0\0\0\0\0\0\0\n", None, 77, ())]


def test_should_log_a_key_once_that_was_removed_and_put_again(tmp_path: Path) -> None:
    changes = RecordedChanges()
    buffer = opened(tmp_path, changes)
    for key in ("kept", "gone", "kept", "gone"):
        if len(buffer) == 2:
            evicted(buffer)
        buffer.put(1, key, ("1", None), made_by(0))
    buffer.remove_first()  # "gone", which has the lower bytes
    buffer.log_changes()
    assert [(change.key, change.value is None) for change in changes.changes] == [(b"kept", False), (b"gone", True)]


def test_should_restore_what_was_logged_and_go_on(tmp_path: Path) -> None:
    changes = RecordedChanges()
    buffer = opened(tmp_path, changes)
    buffer.put(30, "late", ("1", None), made_by(0, headers=(("é", b"\xff"), ("n", None))))
    buffer.put(20, "deleted", (None, "old"), made_by(1))
    buffer.put(10, "changed", ("2", "first"), made_by(2))
    buffer.put(99, "changed", ("3", "2"), made_by(3))
    buffer.put(5, "gone", ("4", None), made_by(4))
    buffer.log_changes()
    buffer.remove_first()
    buffer.log_changes()
    standby = opened(tmp_path)
    standby.restore(logged(changes))
    assert (len(standby), standby.size_bytes) == (3, buffer.size_bytes)
    assert standby.prior_value("changed", "not buffered") == "first"
    assert standby.prior_value("late", "not buffered") is None
    assert standby.prior_value("gone", "not buffered") == "not buffered"
    again = RecordedChanges()
    standby.rebind(context(tmp_path, again, SetClock()))  # it becomes active, and keeps its content
    for one in (buffer, standby):
        one.put(15, "new", ("5", None), made_by(5))
    assert evicted(standby) == evicted(buffer)
    standby.log_changes()
    assert {change.key for change in again.changes} == {b"late", b"deleted", b"changed", b"new"}


def test_should_restore_a_key_at_the_time_of_its_last_record(tmp_path: Path) -> None:
    changes = RecordedChanges()
    buffer = opened(tmp_path, changes)
    buffer.put(10, "k", ("1", None), made_by(0))
    buffer.log_changes()
    buffer.remove_first()
    buffer.put(50, "k", ("2", "1"), made_by(1))
    buffer.log_changes()
    restored = opened(tmp_path)
    restored.restore(logged(changes))
    restored.put(70, "z", ("3", None), made_by(2))
    assert restored.min_time_ms == 50


@pytest.mark.parametrize("headers", [(), (("v", b"\2"),)])
def test_should_refuse_a_changelog_in_another_format(tmp_path: Path, headers: Any) -> None:
    batch = RecordBatch(CHANGELOG, range(1), [0], [b"k"], [LONG.serialize(1)], [headers] if headers else None)
    with pytest.raises(ChangelogOfAnotherKind, match="suppression buffer"):
        opened(tmp_path).restore(batch)


class SmallTopic(RecordedChanges):
    def limits_of(self, store: str) -> RecordLimits:
        return RecordLimits(max_bytes=200, compacts=True)

    def check_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Any = ()) -> None:
        if value is not None and len(value) > 200:
            raise RecordTooLarge("too large")


def test_should_refuse_a_change_that_is_too_large_for_the_changelog(tmp_path: Path) -> None:
    buffer = opened(tmp_path, SmallTopic())
    buffer.put(1, "k", ("x" * 100, None), made_by(0))
    with pytest.raises(RecordTooLarge):
        buffer.put(1, "k", ("x" * 190, None), made_by(1))
    assert [change for _, change, _ in evicted(buffer)] == [("x" * 100, None)]


class Away(RecordedChanges):
    """Does not answer the second call."""

    calls = 0

    def log_change(self, *change: Any) -> None:
        self.calls += 1
        if self.calls == 2:
            raise LogTimeout("away")
        super().log_change(*change)


def test_should_log_the_rest_after_a_time_out(tmp_path: Path) -> None:
    changes = Away()
    buffer = opened(tmp_path, changes)
    for key in "abc":
        buffer.put(1, key, ("1", None), made_by(0))
    with pytest.raises(LogTimeout):
        buffer.log_changes()
    buffer.log_changes()
    assert [change.key for change in changes.changes] == [b"a", b"b", b"c"]
