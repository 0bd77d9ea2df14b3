"""Records inside of a batch: columns, limits, names of headers, and bytes that are no records."""

import gc
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_client.record_batches import Headers
from kafka_client.record_batches.batch_rows import HEADER_BYTES, BatchRowWriter, Columns, read_rows
from tests.kafka_client.record_batches.batches import Row, batch_of, rows

MANY = 2**31 - 1
BASE = 7_000_000_000
names = st.binary(max_size=5).map(lambda octets: octets.decode(errors="surrogateescape"))
named_rows = st.lists(st.lists(st.tuples(names, st.none() | st.binary(max_size=9)), max_size=3).map(tuple), min_size=1)


def of_body(body: bytes, count: int = 1) -> bytes:
    """A batch with these records, from offset BASE and timestamp 0 on."""
    header = bytearray(batch_of([(0, 0, None, None, ())], base_offset=BASE)[:HEADER_BYTES])
    struct.pack_into(">i", header, HEADER_BYTES - 4, count)
    return bytes(header) + body


def columns_of(found: list[Row]) -> Columns:
    headers: list[Headers] = [row[4] for row in found]
    times, keys, values = [row[1] for row in found], [row[2] for row in found], [row[3] for row in found]
    return [BASE + row[0] for row in found], times, keys, values, headers if any(headers) else None


def size_of(row: Row) -> int:
    return sum(len(octets or b"") for octets in (*row[2:4], *(value for _, value in row[4]))) + sum(
        len(name.encode()) for name, _ in row[4]
    )


@given(found=rows())
def test_should_read_columns(found: list[Row]) -> None:
    offsets, *others = read_rows(batch_of(found, base_offset=BASE), len(found))

    assert [list(offsets), *others] == list(columns_of(found))
    assert isinstance(offsets, range) == (found[-1][0] - found[0][0] == len(found) - 1)


def test_should_start_no_collection_of_cycles_while_it_reads() -> None:
    batch = batch_of([(place, place, b"key", b"value", ()) for place in range(5_000)])
    collections: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        read_rows(batch, 5_000)
    finally:
        gc.callbacks.remove(note)

    assert collections == []


@given(found=rows(has_gaps=False), limit=st.integers(0, 700), most=st.integers(0, 500))
def test_should_take_rows_until_one_does_not_fit(found: list[Row], limit: int, most: int) -> None:
    writer = BatchRowWriter(limit, most)
    taken = [writer.append(key, value, timestamp_ms, headers) for _, timestamp_ms, key, value, headers in found]

    sizes = [sum(map(size_of, found[: at + 1])) for at in range(len(found))]
    lengths = [len(batch_of(found[: at + 1])) for at in range(len(found))]
    fits = next((at for at in range(1, len(found)) if lengths[at] >= limit or sizes[at] > most), len(found))
    assert taken[: fits + 1] == [True] * fits + [False] * (fits < len(found))


def test_should_take_as_many_bytes_as_the_limits_have() -> None:
    length = len(batch_of([(0, 5, None, b"12", ()), (1, 5, None, b"34", ())]))

    for limit, most, fits in ((MANY, 4, True), (MANY, 3, False), (length + 1, MANY, True), (length, MANY, False)):
        writer = BatchRowWriter(limit, most)
        assert writer.append(None, b"12", 5, ())
        assert writer.append(None, b"34", 5, ()) == fits, (limit, most)


@given(found=rows(has_gaps=False), limit=st.integers(0, 700), most=st.integers(0, 500))
def test_should_take_columns_as_it_takes_rows_one_by_one(found: list[Row], limit: int, most: int) -> None:
    _, times, keys, values, headers = columns_of(found)
    at = 0
    while at < len(found):
        columns, one_by_one = BatchRowWriter(limit, most), BatchRowWriter(limit, most)
        after = columns.extend(keys, values, times, headers, at, len(found))
        taken = next((row for row in range(at, len(found)) if not one_by_one.append(*_of(found[row]))), len(found))
        assert after == taken
        assert (columns.count, columns.size) == (after - at, one_by_one.size)
        assert columns.finish() == one_by_one.finish()
        at = after


def _of(row: Row) -> tuple[bytes | None, bytes | None, int, Headers]:
    return row[2], row[3], row[1], row[4]


def test_should_take_whatever_has_bytes_and_nothing_else() -> None:
    writer = BatchRowWriter(MANY, MANY)
    assert writer.append(bytearray(b"key"), memoryview(b"value"), 5, ())  # type: ignore[arg-type]
    assert writer.extend([b"k"], [bytearray(b"v")], [6], None, 0, 1) == 1  # type: ignore[list-item]
    with pytest.raises(TypeError):
        writer.append("text", b"", 7, ())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        writer.extend([b""], [5], [7], None, 0, 1)  # type: ignore[list-item]
    assert writer.append(b"", None, 7, ())

    found: list[Row] = [(0, 5, b"key", b"value", ()), (1, 6, b"k", b"v", ()), (2, 7, b"", None, ())]
    assert writer.finish()[HEADER_BYTES:] == batch_of(found)[HEADER_BYTES:]


@given(found=named_rows)
def test_should_keep_the_bytes_of_names_of_headers_that_are_no_text(found: list[Headers]) -> None:
    found = [headers for headers in found for _ in range(2)]  # the writer keeps the forms of the last headers
    writer = BatchRowWriter(MANY, MANY)
    for headers in found:
        assert writer.append(b"\xff?", b"?\xff", 5, headers)
    size = writer.size
    batch = bytes(writer.finish())

    assert read_rows(batch, len(found))[3:] == ([b"?\xff"] * len(found), found if any(found) else None)
    names_in = [name.encode(errors="surrogateescape") for headers in found for name, _ in headers]
    octets = sum(len(value or b"") for headers in found for _, value in headers)
    assert size == 4 * len(found) + sum(map(len, names_in)) + octets


NO_TEXT = b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"
"""A record with a header whose name is the byte 0xff."""


@pytest.mark.parametrize("count", [2, MANY])
@pytest.mark.parametrize("end", [b"", b"\x12", b"\x12\x00\x00\x02\x01\x01\x02\xff"])
def test_should_refuse_a_record_that_is_cut_short_behind_a_name_that_is_no_text(end: bytes, count: int) -> None:
    assert read_rows(of_body(NO_TEXT), 1)[4] == [(("\udcff", None),)]
    with pytest.raises(ValueError, match="ends inside of a record"):
        read_rows(of_body(NO_TEXT + end, count), count)


def test_should_find_a_name_that_is_no_text_behind_attributes_that_aiokafka_reads_as_two_bytes() -> None:
    longer = b"\x14\x80\x00" + NO_TEXT[2:]

    assert read_rows(of_body(longer), 1)[4] == [(("\udcff", None),)]


@given(
    found=rows(),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 20),
    more=st.integers(-2, 2),
)
def test_should_read_or_refuse_changed_bytes(
    found: list[Row], changes: list[tuple[int, int]], cut: int, more: int
) -> None:
    body = bytearray(batch_of(found)[HEADER_BYTES:])
    del body[len(body) - cut :]
    for at, octet in changes:
        if body:
            body[at % len(body)] = octet

    _read_or_refused(bytes(body), len(found) + more)


@given(body=st.binary(max_size=60), count=st.integers(-1, MANY))
@example(body=b"\xff" * 10, count=1)
@example(body=b"\x0e\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x00", count=1)
@example(body=b"\x0c\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x00", count=1)
def test_should_read_or_refuse_any_bytes(body: bytes, count: int) -> None:
    _read_or_refused(body, count)


def _read_or_refused(body: bytes, count: int) -> None:
    try:
        columns = read_rows(of_body(body, count), count)
    except ValueError:
        return
    assert len(columns[0]) == max(0, count) <= len(body) // 7


REFUSED = {
    "a number without an end": b"\xff" * 11,
    "a record longer than all": b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + bytes(20),
    "a record of no length": b"\x00" + bytes(20),
    "a record of negative length": b"\x01" + bytes(20),
    "a key of nearly 2**63 bytes": b"\x1e\x00\x00\x00" + b"\xae" + b"\xff" * 8 + b"\x01" + b"\x01\x00",
    "a key longer than all": b"\x0c\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x00",
    "a value longer than the record": b"\x0c\x00\x00\x00\x01\x04\x00",
    "headers without an end": b"\x14\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f",
    "fewer than no headers": b"\x0c\x00\x00\x00\x01\x01\x01",
    "a header without a name": b"\x10\x00\x00\x00\x01\x01\x02\x01\x01",
    "a record that is shorter than it says": b"\x0e\x00\x00\x00\x01\x01\x00\x00",
    "a record that is longer than it says": b"\x0a\x00\x00\x00\x01\x01\x00",
    "bytes after the last record": b"\x0c\x00\x00\x00\x01\x01\x00\x00",
    "an offset before the first one": b"\x0c\x00\x00\x01\x01\x01\x00",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_should_refuse(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - aiokafka words most of them
        read_rows(of_body(body), 1)


def test_should_read_offsets_as_far_apart_as_can_be() -> None:
    found: list[Row] = [(0, 5, b"a", None, ()), (2**63 - 1, 6, b"b", None, ())]

    assert read_rows(batch_of(found), 2)[0] == [0, 2**63 - 1]


@pytest.mark.parametrize("second", [3, 2], ids=["twice", "back"])
def test_should_refuse_offsets_that_do_not_rise(second: int) -> None:
    found: list[Row] = [(3, 5, b"a", None, ()), (second, 6, b"b", None, ())]

    with pytest.raises(ValueError, match="its offsets do not rise"):
        read_rows(batch_of(found), 2)
