"""Whole batches, compressed or not: aiokafka reads what we write, and we read what it writes."""

import contextlib
import random
import struct

import pytest
from aiokafka import codec as aiokafka_codec
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from kafka_client.record_batches import record_batch_v2 as v2
from kafka_client.record_batches.batch_rows import HEADER_BYTES, BatchRowWriter
from tests.kafka_client.record_batches.batches import APPEND_TIME, CODECS, Row, batch_of, read_by_aiokafka, rows

MANY = 2**31 - 1


def written(found: list[Row], codec: int, *, is_transactional: bool = False) -> bytearray:
    writer = BatchRowWriter(MANY, MANY)
    for _, timestamp_ms, key, value, headers in found:
        assert writer.append(key, value, timestamp_ms, headers)
    batch = v2.encoded(writer, codec, is_transactional=is_transactional)
    v2.number(batch, 7, 3, 11)
    return batch


def rows_of(batch: bytes | bytearray) -> list[Row]:
    """With offsets in place of deltas."""
    view = memoryview(batch)
    header = v2.BatchHeader.of(view)
    v2.check(view, header)
    offsets, times, keys, values, headers = v2.decoded(view, header)
    return list(zip(offsets, times, keys, values, headers or [()] * len(offsets), strict=True))


@pytest.mark.parametrize("codec", CODECS)
@given(found=rows(has_gaps=False), repeats=st.integers(1, 8), is_transactional=st.booleans())
def test_should_be_read_by_aiokafka(codec: str, found: list[Row], repeats: int, is_transactional: bool) -> None:
    found = [(at, *row[1:]) for at, row in enumerate(found * repeats)]  # repetition is what compresses
    batch = bytes(written(found, CODECS[codec], is_transactional=is_transactional))

    assert read_by_aiokafka(batch) == found
    header = DefaultRecordBatch(batch)
    assert header.is_transactional == is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.next_offset == len(found)
    assert header.max_timestamp == max(row[1] for row in found)
    assert rows_of(batch) == found


@pytest.mark.parametrize("codec", CODECS)
@given(found=rows(), repeats=st.integers(1, 8), base_offset=st.integers(0, 2**50))
def test_should_read_what_aiokafka_has_written(codec: str, found: list[Row], repeats: int, base_offset: int) -> None:
    after = found[-1][0] + 1
    found = [(turn * after + row[0], *row[1:]) for turn in range(repeats) for row in found]
    batch = batch_of(found, codec=CODECS[codec], base_offset=base_offset)

    assert rows_of(batch) == [(base_offset + row[0], *row[1:]) for row in found]


@pytest.mark.parametrize("codec", CODECS)
def test_should_read_the_time_at_which_the_broker_appended_the_records(codec: str) -> None:
    found: list[Row] = [(0, 5, b"a", b"b", ()), (1, 6, b"a", b"b", ())]
    batch = batch_of(found, codec=CODECS[codec], attributes=APPEND_TIME, max_timestamp_ms=77)

    assert [row[1] for row in rows_of(batch)] == [77, 77]


@pytest.mark.parametrize("codec", CODECS)
def test_should_compress_what_becomes_smaller(codec: str) -> None:
    zeros: list[Row] = [(at, at, b"%d" % at, bytes(100), ()) for at in range(100)]
    noise: list[Row] = [(0, 0, None, random.Random(1).randbytes(5_000), ())]
    plain = len(written(zeros, CODECS["none"]))

    assert v2.BatchHeader.of(memoryview(written(zeros, CODECS[codec]))).attributes == CODECS[codec]
    assert codec == "none" or len(written(zeros, CODECS[codec])) < plain / 2
    assert v2.BatchHeader.of(memoryview(written(noise, CODECS[codec]))).attributes == 0
    assert rows_of(written(noise, CODECS[codec])) == noise


def test_should_write_lz4_as_brokers_can_read_it() -> None:
    """Version 1, blocks that stand alone, no size or checksum of the whole. Source: KIP-57."""
    frame = bytes(v2.compressed(CODECS["lz4"], bytes(300_000)))

    assert frame[:4] == struct.pack("<I", 0x184D2204)
    assert frame[4] & 0b11_1_0_1_1_01 == 0b01_1_0_0_0_00


def test_should_compress_by_lz4_as_quickly_as_kafka_does() -> None:
    """Its slow compressor, which the client library takes, finds more. Source: `Lz4BlockOutputStream`."""
    chance = random.Random(7)
    text = b"".join(b"%d words of %d" % (chance.randrange(99), chance.randrange(9)) for _ in range(3_000))

    assert len(aiokafka_codec.lz4_encode(text)) < len(bytes(v2.compressed(CODECS["lz4"], text))) < len(text) / 2


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
@given(plain=st.binary(min_size=1, max_size=100), repeats=st.integers(1, 3_000))
def test_should_compress_as_others_do(codec: str, plain: bytes, repeats: int) -> None:
    """Above all snappy in blocks, of which a long text has several."""
    text = plain * repeats
    theirs = getattr(aiokafka_codec, f"{codec}_decode")(bytes(v2.compressed(CODECS[codec], text)))

    assert theirs == text
    assert v2.decompressed(CODECS[codec], memoryview(getattr(aiokafka_codec, f"{codec}_encode")(text))) == text


@pytest.mark.parametrize("size", [0, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20, 9 * 2**20])
def test_should_decompress_lz4_beyond_the_buffer_that_it_keeps(size: int) -> None:
    """The buffer begins with 1 MiB, and is not kept above 8. Zeros are what lz4 makes the most of."""
    for text in (bytes(size), random.Random(size).randbytes(4_096) * (size // 4_096)):
        packed = memoryview(bytes(v2.compressed(CODECS["lz4"], text)))
        cut = packed[: len(packed) // 2]

        assert v2.decompressed(CODECS["lz4"], packed) == text
        with pytest.raises(ValueError, match="its compressed records are broken"):
            v2.decompressed(CODECS["lz4"], cut)
        assert v2.decompressed(CODECS["lz4"], packed) == text


def test_should_read_raw_snappy() -> None:
    raw = aiokafka_codec.snappy_encode(b"abc" * 50, xerial_compatible=False)

    assert v2.decompressed(CODECS["snappy"], memoryview(raw)) == b"abc" * 50


@pytest.mark.parametrize("length", [-1, -4, -(2**31), 2**31 - 1, 40])
def test_should_refuse_a_block_of_snappy_that_says_a_wrong_length(length: int) -> None:
    packed = bytearray(v2.compressed(CODECS["snappy"], b"abc" * 50))
    struct.pack_into(">i", packed, 16, length)

    with pytest.raises(ValueError, match=f"a block of its snappy records has {length} bytes"):
        v2.decompressed(CODECS["snappy"], memoryview(packed))


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
@given(data=st.data())
def test_should_refuse_compressed_records_that_are_broken(codec: str, data: st.DataObject) -> None:
    whole = bytearray(v2.compressed(CODECS[codec], bytes(range(256)) * 20))
    packed = whole[: data.draw(st.integers(0, len(whole)))]
    for at, octet in data.draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3)):
        if packed:
            packed[at % len(packed)] = octet

    with contextlib.suppress(ValueError):  # some of them are still right
        assert v2.decompressed(CODECS[codec], memoryview(packed)) is not None


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_should_name_a_compression_that_it_does_not_know(codec: int) -> None:
    batch = batch_of([(0, 5, b"k", b"v", ())], attributes=codec)

    with pytest.raises(ValueError, match=f"number {codec}"):
        rows_of(batch)


def test_should_refuse_records_beyond_the_end_of_their_batch() -> None:
    batch = batch_of([(0, 5, b"a", None, ()), (1, 5, b"b", None, ())], base_offset=4, last_offset_delta=0)

    with pytest.raises(ValueError, match="it has the offset 5, and ends at 5"):
        rows_of(batch)


@pytest.mark.parametrize("size", [0, 16, HEADER_BYTES - 1])
def test_should_refuse_less_than_a_header(size: int) -> None:
    with pytest.raises(ValueError, match="fewer than a header"):
        v2.BatchHeader.of(memoryview(bytes(size)))
