"""The buffer of a join with a grace period. The recorded cases of `tests/dsl_vectors` show its order and its bytes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streams_runtime import STRING
from streams_runtime.common.records import Headers
from streams_runtime.state_stores.buffer_values import deserialize_buffer_value, serialize_buffer_value
from streams_runtime.state_stores.join_buffer import JoinBuffer, JoinBufferBuilder
from streams_runtime.state_stores.thread_cache import ContextTuple
from tests.streams_runtime.state_stores.surroundings import RecordedChanges, as_batch, commit, context

GRACE_MS = 10
Open = Callable[..., JoinBuffer[str, str]]


@pytest.fixture
def open_buffer(tmp_path: Path) -> Iterator[Open]:
    opened: list[JoinBuffer[str, str]] = []

    def open_one(directory: str = "a", changes: RecordedChanges | None = None) -> JoinBuffer[str, str]:
        buffer = JoinBufferBuilder("join-Buffer", STRING, STRING, grace_ms=GRACE_MS).build()
        buffer.open(context(tmp_path / directory, changes))
        opened.append(buffer)
        return buffer

    yield open_one
    for buffer in opened:
        buffer.close()


def at(timestamp_ms: int, headers: Headers = ()) -> ContextTuple:
    return timestamp_ms, headers, ("in", 3), 7, None, 0


def evicted(buffer: JoinBuffer[str, str]) -> list[tuple[str, str, int]]:
    return [(key, value, made_by[0]) for key, value, made_by in buffer.evict()]


def test_should_keep_records_in_the_order_of_their_timestamps_until_the_grace_period_has_ended(
    open_buffer: Open,
) -> None:
    buffer = open_buffer()
    assert all(buffer.put("a", str(time_ms), at(time_ms)) for time_ms in (5, 3, 12))
    assert evicted(buffer) == []
    assert buffer.put("b", "now", at(15))
    assert evicted(buffer) == [("a", "3", 3), ("a", "5", 5)]
    assert not buffer.put("a", "late", at(4))
    assert buffer.put("a", "just in time", at(5))
    assert evicted(buffer) == [("a", "just in time", 5)]


@pytest.mark.parametrize("how", ["restart", "restore"])
def test_should_have_its_records_and_its_stream_time_after(open_buffer: Open, how: str) -> None:
    changes = RecordedChanges()
    buffer = open_buffer(changes=changes)
    for key, value, time_ms in (("a", "one", 1), ("a", "two", 13), ("a", "two again", 13), ("a", "three", 20)):
        buffer.put(key, value, at(time_ms))
        assert len(evicted(buffer)) == (time_ms == 13 and value == "two")
    commit(buffer)
    buffer.close()
    again = open_buffer("a" if how == "restart" else "b")
    if how == "restore":
        again.restore(as_batch(changes.changes))
    assert not again.put("a", "late", at(9))
    assert again.put("a", "new", at(13))  # its sequence number is higher than the numbers that were used
    assert again.put("a", "four", at(23))
    assert evicted(again) == [("a", "two", 13), ("a", "two again", 13), ("a", "new", 13)]


def test_should_keep_a_record_whose_join_has_failed(open_buffer: Open) -> None:
    buffer = open_buffer()
    buffer.put("a", "one", at(1))
    buffer.put("a", "two", at(20))
    next(buffer.evict())  # the caller fails, and does not take the next record
    assert evicted(buffer) == [("a", "one", 1)]


@pytest.mark.parametrize(
    "prior, old", [(None, None), (b"p", None), (None, b"o"), (b"p", b"o"), (b"s", b"s"), (b"", b"")]
)
def test_should_read_what_it_writes(prior: bytes | None, old: bytes | None) -> None:
    written = at(5, (("name", b"value"), ("\udc80", None))), b"new", old, prior, 9
    read = deserialize_buffer_value(serialize_buffer_value(written))
    assert (read[1:], read[0][:5]) == (written[1:], written[0][:5])
