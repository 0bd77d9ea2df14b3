"""What a reader gets of the bytes of a fetch: everything from its position on that it may see, or an error that names
the place.
"""

import random
import struct
from collections.abc import Sequence

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from assignor.types import TopicPartition
from streams_runtime.logs.kafka.completed_fetch import CompletedFetch
from streams_runtime.logs.log_errors import LogError
from tests.kafka_client.record_batches.batches import (
    APPEND_TIME,
    ATTRIBUTES_AT,
    CODECS,
    CONTROL,
    NOT_CHECKED,
    TRANSACTIONAL,
    Row,
    batch_of,
    checked,
    marker,
    read_by_aiokafka,
    rows,
)
from tests.known import known

P = TopicPartition("topic", 3)


def fetched(
    records: bytes, position: int = 0, aborted: Sequence[tuple[int, int]] | None = ()
) -> tuple[list[Row], CompletedFetch]:
    """All that it gives, with offsets, and the fetch."""
    fetch = CompletedFetch(P, records, position, aborted)
    found: list[Row] = []
    while (batch := fetch.read()) is not None:
        assert batch.partition == P
        assert len(batch) > 0
        headers = batch.headers or [()] * len(batch)
        found += zip(batch.offsets, batch.timestamps_ms, batch.keys, batch.values, headers, strict=True)
    assert fetch.is_read
    return found, fetch


def some(count: int, text: bytes = b"v") -> list[Row]:
    return [(at, 1_000 + at, b"%d" % at, text, ()) for at in range(count)]


def numbers(found: list[Row]) -> list[int]:
    return [row[0] for row in found]


@given(
    batches=st.lists(rows(), max_size=5), codec=st.sampled_from(list(CODECS.values())), skipped=st.integers(0, 2**18)
)
def test_should_equal_aiokafka_from_the_position_on(batches: list[list[Row]], codec: int, skipped: int) -> None:
    parts, base = [], 0
    for found in batches:
        parts.append(batch_of(found, codec=codec, base_offset=base, last_offset_delta=found[-1][0] + 2))
        base += found[-1][0] + 3  # compaction leaves gaps also at the end of a batch
    payload = b"".join(parts)

    found, fetch = fetched(payload, skipped)
    assert found == [row for row in read_by_aiokafka(payload) if row[0] >= skipped]
    assert fetch.next_offset == fetch.end_offset == max(base, skipped)


def test_should_give_each_batch_for_itself_and_know_where_to_go_on() -> None:
    fetch = CompletedFetch(P, batch_of(some(3)) + batch_of(some(2), base_offset=10), 1, None)

    assert (fetch.next_offset, fetch.end_offset, fetch.is_read) == (1, 12, False)
    assert known(fetch.read()).offsets == range(1, 3)
    assert (fetch.next_offset, fetch.is_read) == (3, False)
    assert known(fetch.read()).offsets == range(10, 12)
    assert (fetch.next_offset, fetch.is_read) == (12, True)
    assert fetch.read() is None


@pytest.mark.parametrize("cut", range(1, 80))
def test_should_leave_out_a_batch_that_is_not_whole(cut: int) -> None:
    second = batch_of(some(1, bytes(20)), base_offset=3)
    assert len(second) > 80

    found, fetch = fetched(batch_of(some(3)) + second[:-cut])
    assert numbers(found) == [0, 1, 2]
    assert fetch.end_offset == 3


def test_should_pass_a_batch_that_compaction_has_emptied() -> None:
    empty = checked(batch_of(some(1))[:57] + struct.pack(">i", 0))
    empty = checked(empty[:8] + struct.pack(">i", len(empty) - 12) + empty[12:])

    found, fetch = fetched(empty + batch_of(some(1), base_offset=1))
    assert numbers(found) == [1]
    assert fetched(empty)[0] == []
    assert fetch.next_offset == 2


def test_should_give_the_time_of_the_broker_where_the_topic_has_it() -> None:
    found, _ = fetched(batch_of(some(3), attributes=APPEND_TIME, max_timestamp_ms=77))

    assert [row[1] for row in found] == [77, 77, 77]


def test_should_leave_out_aborted_transactions_and_all_markers() -> None:
    def of(producer: int, base: int) -> bytes:
        return batch_of(some(2), base_offset=base, attributes=TRANSACTIONAL, producer_id=producer)

    first = of(1, 0) + of(2, 2) + marker(1, 4, commits=False) + of(1, 5) + marker(2, 7, commits=True)
    second = batch_of(some(1), base_offset=8) + marker(1, 9, commits=True) + of(2, 10) + marker(2, 12, commits=False)
    payload = first + second

    found, fetch = fetched(payload, aborted=[(2, 10), (1, 0)])
    assert numbers(found) == [2, 3, 5, 6, 8]
    assert fetch.next_offset == 13
    assert numbers(fetched(payload, aborted=None)[0]) == [0, 1, 2, 3, 5, 6, 8, 10, 11]
    assert numbers(fetched(payload, 6, aborted=[(2, 10), (1, 0)])[0]) == [6, 8]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_should_read_messages_of_before_version_2(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 100_000)
    for at in range(3):
        builder.append(at, 500 + at, b"%d" % at, None)
    built = builder.build()
    if codec:
        struct.pack_into(">q", built, 0, 2)  # the broker says the offset of the last message
    old = bytes(built)
    found, fetch = fetched(old + batch_of(some(1), base_offset=3), 1)

    first_ms, second_ms = (501, 502) if magic == 1 else (-1, -1)
    assert found[:2] == [(1, first_ms, b"1", None, ()), (2, second_ms, b"2", None, ())]
    assert fetch.next_offset == 4
    broken = bytearray(old)
    broken[-1] ^= 1
    with pytest.raises(LogError, match="topic-3 at offset 2: its checksum is wrong"):
        fetched(bytes(broken))


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_should_never_give_a_wrong_record_when_a_byte_is_wrong(codec: str, flip: int) -> None:
    before, broken = batch_of(some(2)), batch_of(some(20, bytes(9)), codec=CODECS[codec], base_offset=2)
    expected, _ = fetched(before)
    for at in range(len(broken)):
        if at in NOT_CHECKED:
            continue
        wrong = bytearray(broken)
        wrong[at] ^= flip
        fetch = CompletedFetch(P, before + wrong, 0, ())
        assert list(known(fetch.read()).offsets) == numbers(expected)
        for _ in range(2):  # also when it is asked for again
            try:
                assert fetch.read() is None
                assert 8 <= at < 12, "only a greater length can say that the batch is not there yet"
                assert fetch.next_offset == 2
            except LogError as error:
                assert str(error).startswith("batch of topic-3 at offset 2: ")  # noqa: PT017
                assert fetch.next_offset == 2


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 13, 14, 48])
def test_should_refuse_a_length_that_no_batch_has(length: int) -> None:
    wrong = bytearray(batch_of(some(3), base_offset=6))
    struct.pack_into(">i", wrong, 8, length)

    with pytest.raises(LogError, match="topic-3 at offset 6: "):
        fetched(bytes(wrong))


@pytest.mark.parametrize("codec", CODECS)
def test_should_read_or_refuse_whatever_has_a_right_checksum(codec: str) -> None:
    whole = batch_of([(at, at, b"%d" % at, bytes(9), (("h", b"v"),)) for at in range(20)], codec=CODECS[codec])
    chance = random.Random(codec)
    refused = 0
    for at in range(ATTRIBUTES_AT, len(whole)):
        wrong = bytearray(whole)
        wrong[at] ^= chance.randrange(1, 256)
        try:
            found, fetch = fetched(checked(wrong))
            assert numbers(found) == sorted(set(numbers(found)))
            assert all(number < fetch.end_offset for number in numbers(found))
        except LogError as error:
            assert str(error).startswith("batch of topic-3 at offset 0: ")  # noqa: PT017
            refused += 1
    assert refused > 10


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_should_refuse_a_marker_that_does_not_say_which(key: bytes | None) -> None:
    strange = batch_of([(0, 1, key, b"", ())], attributes=TRANSACTIONAL | CONTROL, producer_id=1)

    with pytest.raises(LogError, match="topic-3 at offset 0: it is a marker"):
        fetched(strange, aborted=[(1, 0)])


@given(
    batches=st.lists(rows(), max_size=8), most=st.integers(1, 60), skipped=st.integers(0, 2**18), dense=st.booleans()
)
def test_should_join_batches_up_to_a_number(batches: list[list[Row]], most: int, skipped: int, dense: bool) -> None:
    parts, base = [], 0
    for found in batches:
        own = [(at, *row[1:]) for at, row in enumerate(found)] if dense else found
        parts.append(batch_of(own, base_offset=base))
        base += own[-1][0] + 1
    payload = b"".join(parts)
    expected = [row for row in read_by_aiokafka(payload) if row[0] >= skipped]

    fetch = CompletedFetch(P, payload, skipped, None)
    found, given_at_once = [], []
    while (batch := fetch.read(most)) is not None:
        assert fetch.next_offset > batch.offsets[-1]
        assert isinstance(batch.offsets, range) == (batch.offsets[-1] - batch.offsets[0] == len(batch) - 1)
        assert batch.headers is None or any(batch.headers)
        headers = batch.headers or [()] * len(batch)
        given_at_once.append(len(batch))
        found += zip(batch.offsets, batch.timestamps_ms, batch.keys, batch.values, headers, strict=True)
    assert found == expected
    assert all(count >= most for count in given_at_once[:-1])


def test_should_give_what_lies_before_a_broken_batch_and_then_the_error() -> None:
    broken = bytearray(batch_of(some(2), base_offset=4))
    broken[-1] ^= 1
    fetch = CompletedFetch(P, batch_of(some(2)) + batch_of(some(2), base_offset=2) + broken, 0, None)

    assert known(fetch.read(100)).offsets == range(4)
    assert fetch.next_offset == 4
    for _ in range(2):
        with pytest.raises(LogError, match="topic-3 at offset 4: its checksum is wrong"):
            fetch.read(100)
        assert fetch.next_offset == 4
