"""Batches as bytes: they come out as they went in, and the error for a broken batch says where it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import RecordBatch, concatenated
from streams_runtime.logs.embedded.record_batches import continues_in_next, decoded, encoded
from streams_runtime.logs.log_errors import LogError
from tests.streams_runtime.logs.reading_and_writing import Read, records_of

P = TopicPartition("topic", 3)

nullable = st.none() | st.binary(max_size=50)
one_records_headers = st.lists(st.tuples(st.text(max_size=5), nullable), max_size=3).map(tuple)
records = st.lists(
    st.tuples(st.integers(1, 2**20), st.integers(0, 2**62), nullable, nullable, one_records_headers),
    min_size=1,
    max_size=40,
)


@given(records, st.integers(0, 2**60), st.booleans(), st.booleans())
def test_should_give_back_every_record_when_a_batch_is_encoded_and_decoded(
    rows: list[tuple[int, int, bytes | None, bytes | None, Headers]], base: int, has_gaps: bool, has_headers: bool
) -> None:
    steps = [step if has_gaps else 1 for step, *_ in rows]
    offsets = [base + sum(steps[1 : index + 1]) for index in range(len(rows))]
    headers = [row[4] for row in rows] if has_headers else None
    batch = encoded([row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows], headers, offsets)
    assert batch.record_count == len(rows)
    assert batch.max_timestamp_ms == max(row[1] for row in rows)
    out = decoded(P, base, batch.payload)
    assert out.partition == P
    assert records_of([out]) == [
        Read(offset, timestamp_ms, key, value, own if has_headers else ())
        for offset, (_, timestamp_ms, key, value, own) in zip(offsets, rows, strict=True)
    ]
    assert (out.headers is None) == (not has_headers)
    if not has_gaps:
        assert out.offsets == range(base, base + len(rows))


def test_should_have_offsets_when_it_is_stored_that_it_had_not_when_it_was_encoded() -> None:
    batch = encoded([5, 9, 7], [b"a", b"b", b"c"], [b"1", None, b"3"])
    assert (batch.record_count, batch.max_timestamp_ms) == (3, 9)
    assert records_of([decoded(P, 100, batch.payload)]) == [
        Read(100, 5, b"a", b"1"),
        Read(101, 9, b"b", None),
        Read(102, 7, b"c", b"3"),
    ]


def test_should_mark_a_batch_whose_transaction_continues() -> None:
    plain, marked = (encoded([1], [b"a"], [None], continues=continues).payload for continues in (False, True))
    assert (continues_in_next(plain), continues_in_next(marked)) == (False, True)
    assert decoded(P, 3, marked) == decoded(P, 3, plain)


@given(st.data())
def test_should_say_which_batch_is_broken_when_any_byte_changed_or_the_end_is_missing(data: st.DataObject) -> None:
    payload = encoded([1, 2], [b"a", None], [b"b", b"c"], [(("h", b"x"),), ()]).payload
    at = data.draw(st.integers(0, len(payload) - 1))
    broken = bytearray(payload)
    broken[at] ^= data.draw(st.integers(1, 255))
    for bad in (bytes(broken), payload[:at]):
        with pytest.raises(LogError, match="batch of topic-3 at offset 7 cannot be read"):
            decoded(P, 7, bad)


def test_should_join_batches_to_one() -> None:
    first = RecordBatch(P, range(2), [1, 2], [b"a", b"b"], [b"1", b"2"])
    second = RecordBatch(P, range(2, 3), [3], [b"c"], [None], [(("h", None),)])
    after_gap = RecordBatch(P, range(10, 11), [4], [b"d"], [b"4"])
    assert concatenated([first, second]) == RecordBatch(
        P, range(3), [1, 2, 3], [b"a", b"b", b"c"], [b"1", b"2", None], [(), (), (("h", None),)]
    )
    assert concatenated([first, after_gap]) == RecordBatch(
        P, [0, 1, 10], [1, 2, 4], [b"a", b"b", b"d"], [b"1", b"2", b"4"], None
    )
