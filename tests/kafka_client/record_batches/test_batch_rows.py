"""Records inside of a batch, in every form that there is of their reader and writer, beside aiokafka's."""

import gc
from collections.abc import Sequence
from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_client.record_batches import Headers, batch_rows, library_rows, record_batch_v2
from kafka_client.record_batches.batch_rows import HEADER_BYTES, Columns
from tests.compiled_modules import compiled_file, compiled_modules
from tests.kafka_client.record_batches.batches import FORMS, OWN_FORMS, Row, batch_of, rows

OURS = "kafka_client/record_batches/batch_rows"
MANY = 2**31 - 1
BASE = 7_000_000_000


def read(form: ModuleType, body: bytes, count: int, base_ms: int, append_time_ms: int | None = None) -> Columns | str:
    """Or why not."""
    try:
        found: Columns = form.read_rows(body, count, BASE, base_ms, append_time_ms)
    except ValueError as error:
        return str(error)
    return found


def columns_of(found: Sequence[Row]) -> Columns:
    offsets: Sequence[int] = [BASE + row[0] for row in found]
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        offsets = range(offsets[0], offsets[-1] + 1)
    headers: list[Headers] = [row[4] for row in found]
    times, keys, values = [row[1] for row in found], [row[2] for row in found], [row[3] for row in found]
    return offsets, times, keys, values, headers if any(headers) else None


def written(form: ModuleType, found: Sequence[Row], limit: int = MANY, most: int = MANY) -> tuple[bytes, int, int, int]:
    """Records, how many and how large, and what of the rows was refused first, or -1."""
    writer = form.row_writer(limit, most)
    refused = -1
    for at, (_, timestamp_ms, key, value, headers) in enumerate(found):
        if not writer.append(key, value, timestamp_ms, headers):
            refused = at
            break
    count, size = writer.count, writer.size
    batch, first_ms, max_ms = writer.finish()
    taken = found[:count]
    assert (first_ms, max_ms) == (found[0][1], max(row[1] for row in taken))
    return bytes(batch[HEADER_BYTES:]), count, size, refused


@pytest.mark.parametrize("name", FORMS)
@given(found=rows())
def test_should_read_what_aiokafka_has_written(name: str, found: list[Row]) -> None:
    body = batch_of(found)[HEADER_BYTES:]

    assert read(FORMS[name], body, len(found), found[0][1]) == columns_of(found)
    append_time = (columns_of(found)[0], [5] * len(found), *columns_of(found)[2:])
    assert read(FORMS[name], body, len(found), found[0][1], 5) == append_time


@pytest.mark.parametrize("name", FORMS)
def test_should_start_no_collection_of_cycles_while_it_reads(name: str) -> None:
    many: list[Row] = [(place, place, b"key", b"value", ()) for place in range(5_000)]
    body = batch_of(many)[HEADER_BYTES:]
    collections: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        columns = read(FORMS[name], body, len(many), 0)
    finally:
        gc.callbacks.remove(note)

    assert columns == columns_of(many)
    assert collections == []


@pytest.mark.parametrize("name", FORMS)
@given(found=rows(has_gaps=False))
def test_should_write_what_aiokafka_writes(name: str, found: list[Row]) -> None:
    size = sum(len(key or b"") + len(value or b"") for _, _, key, value, _ in found)
    size += sum(len(text.encode()) + len(value or b"") for row in found for text, value in row[4])

    assert written(FORMS[name], found) == (batch_of(found)[HEADER_BYTES:], len(found), size, -1)


@pytest.mark.parametrize("name", FORMS)
@given(found=rows(has_gaps=False), limit=st.integers(0, 700), most=st.integers(0, 500))
def test_should_take_rows_until_one_does_not_fit(name: str, found: list[Row], limit: int, most: int) -> None:
    sizes = [written(FORMS[name], found[: at + 1])[2] for at in range(len(found))]
    lengths = [len(batch_of(found[: at + 1])) + (name == "library") for at in range(len(found))]  # < limit, not <=
    fits = next((at for at in range(1, len(found)) if lengths[at] > limit or sizes[at] > most), len(found))

    assert written(FORMS[name], found, limit, most)[1] == fits


@pytest.mark.parametrize("name", FORMS)
@given(found=rows(has_gaps=False), limit=st.integers(0, 700), most=st.integers(0, 500))
def test_should_take_columns_as_it_takes_rows_one_by_one(name: str, found: list[Row], limit: int, most: int) -> None:
    plain = [(at, timestamp_ms, key, value, ()) for at, timestamp_ms, key, value, _ in found]
    _, times, keys, values, _ = columns_of(plain)
    batches, at = [], 0
    while at < len(plain):
        writer = FORMS[name].row_writer(limit, most)
        after = writer.extend(keys, values, times, at, len(plain))
        assert writer.count == after - at > 0
        size = writer.size
        batches.append((bytes(writer.finish()[0][HEADER_BYTES:]), after - at, size))
        at = after
    one_by_one, at = [], 0
    while at < len(plain):
        body, count, size, _ = written(FORMS[name], plain[at:], limit, most)
        one_by_one.append((body, count, size))
        at += count

    assert batches == one_by_one


@pytest.mark.parametrize("name", FORMS)
def test_should_take_whatever_has_bytes_and_nothing_else(name: str) -> None:
    writer = FORMS[name].row_writer(MANY, MANY)
    assert writer.append(bytearray(b"key"), memoryview(b"value"), 5, ())
    assert writer.extend([b"k"], [bytearray(b"v")], [6], 0, 1) == 1
    with pytest.raises(TypeError):
        writer.append("text", b"", 7, ())
    with pytest.raises(TypeError):
        writer.extend([b""], [5], [7], 0, 1)
    assert writer.append(b"", None, 7, ())

    found: list[Row] = [(0, 5, b"key", b"value", ()), (1, 6, b"k", b"v", ()), (2, 7, b"", None, ())]
    assert bytes(writer.finish()[0][HEADER_BYTES:]) == batch_of(found)[HEADER_BYTES:]


@given(
    found=rows(),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 20),
    more=st.integers(-2, 2),
    base_ms=st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
)
def test_should_say_the_same_in_both_forms_of_bytes_that_nobody_has_written(
    found: list[Row], changes: list[tuple[int, int]], cut: int, more: int, base_ms: int
) -> None:
    body = bytearray(batch_of(found)[HEADER_BYTES:])
    del body[len(body) - cut :]
    for at, octet in changes:
        if body:
            body[at % len(body)] = octet

    first, second = (read(form, bytes(body), len(found) + more, base_ms) for form in OWN_FORMS.values())
    assert first == second


@pytest.mark.parametrize("name", OWN_FORMS)
@given(body=st.binary(max_size=60), count=st.integers(-1, 2**31 - 1))
@example(body=b"\xff" * 9 + b"\x01", count=1)
@example(body=b"\xff" * 10, count=1)
@example(body=b"\x0e\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x00", count=1)
def test_should_refuse_what_is_no_record(name: str, body: bytes, count: int) -> None:
    columns = read(OWN_FORMS[name], body, count, 0)

    if not isinstance(columns, str):
        assert len(columns[0]) == max(0, count) <= len(body) // 7


REFUSED = {
    "a number without an end": b"\xff" * 11,
    "a number of 65 bits": b"\x1e\x00\x00" + b"\x80" * 9 + b"\x02\x01\x01\x00",
    "a record longer than all": b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + bytes(20),
    "a record of no length": b"\x00" + bytes(20),
    "a record of negative length": b"\x01" + bytes(20),
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


@pytest.mark.parametrize("name", OWN_FORMS)
@pytest.mark.parametrize("what", REFUSED)
def test_should_refuse(name: str, what: str) -> None:
    assert read(OWN_FORMS[name], b"\x0c\x00\x00\x00\x01\x01\x00", 1, 0) == (
        range(BASE, BASE + 1),
        [0],
        [None],
        [None],
        None,
    )
    assert isinstance(read(OWN_FORMS[name], REFUSED[what], 1, 0), str)


@pytest.mark.parametrize("name", FORMS)
def test_should_keep_the_bytes_of_a_header_s_name_that_is_no_text(name: str) -> None:
    columns = read(FORMS[name], b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01", 1, 0)

    assert columns == (range(BASE, BASE + 1), [0], [None], [None], [(("\udcff", None),)])


@pytest.mark.parametrize("name", FORMS)
def test_should_refuse_offsets_that_do_not_rise(name: str) -> None:
    twice: list[Row] = [(3, 5, b"a", None, ()), (3, 6, b"b", None, ())]
    back: list[Row] = [(3, 5, b"a", None, ()), (2, 6, b"b", None, ())]

    for found in (twice, back):
        assert "offsets do not rise" in str(read(FORMS[name], batch_of(found)[HEADER_BYTES:], 2, 5))


@pytest.mark.parametrize("name", OWN_FORMS)
def test_should_refuse_timestamps_that_no_number_of_64_bits_has(name: str) -> None:
    body = batch_of([(0, 10, b"a", None, ()), (1, 11, b"b", None, ())])[HEADER_BYTES:]

    assert read(OWN_FORMS[name], body, 2, 2**63 - 2)[1] == [2**63 - 2, 2**63 - 1]
    assert "out of range" in str(read(OWN_FORMS[name], body, 2, 2**63 - 1))


def test_should_be_left_to_the_library_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compiled_file(OURS)
    assert (compiled is not None and batch_rows.__file__ == str(compiled)) == record_batch_v2.IS_COMPILED

    for is_compiled, expected in ((True, batch_rows), (False, library_rows)):
        monkeypatch.setattr(record_batch_v2, "IS_COMPILED", is_compiled)
        assert isinstance(record_batch_v2.row_writer(MANY, MANY), expected.row_writer)


def test_should_be_among_what_is_compiled() -> None:
    assert OURS in compiled_modules()
