"""Partition time travels in the metadata of committed offsets, in Kafka's own form."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime.tasks.input_offsets import decode_metadata, decode_processor_metadata, encode_partition_time


@given(st.integers(-1, 2**63 - 1))
def test_should_read_back_every_time(time_ms: int) -> None:
    assert decode_metadata(encode_partition_time(time_ms)) == (time_ms, {})


@pytest.mark.parametrize(
    ("data", "time_ms"),
    [
        pytest.param(b"\x01\x00\x00\x01\x8b\xcf\xe5\x68\x00", 1_700_000_000_000, id="version 1"),
        pytest.param(
            b"\x01" + base64.b64decode(encode_partition_time(7, {"n": 300}))[1:],
            7,
            id="no processor metadata in version 1",
        ),
        pytest.param(b"\x02" + (42).to_bytes(8, "big") + b"more", 42, id="version 2 with processor metadata behind"),
    ],
)
def test_should_read_kafkas_versions(data: bytes, time_ms: int) -> None:
    assert decode_metadata(base64.b64encode(data).decode()) == (time_ms, {})


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "hello",
        "not base64 at all!",
        "ключ",
        base64.b64encode(b"\x01\x00").decode(),
        base64.b64encode(b"\x03" + bytes(8)).decode(),
        base64.b64encode(b"\x01" + (-5).to_bytes(8, "big", signed=True)).decode(),
    ],
    ids=["none", "word", "text", "not ascii", "too short", "version from the future", "negative"],
)
def test_should_not_know_the_time_when_metadata_is_foreign_or_broken(metadata: str) -> None:
    assert decode_metadata(metadata) == (-1, {})


@given(st.text(max_size=40))
def test_should_never_fail_on_metadata(metadata: str) -> None:
    time_ms, needed_from = decode_metadata(metadata)
    assert (time_ms >= -1, needed_from) == (True, {})


def test_should_write_processor_metadata_in_kafkas_form() -> None:
    entry = b"\0\0\0\x17changelog-needed-from:n" + (300).to_bytes(8, "big")
    expected = b"\x02" + (5).to_bytes(8, "big") + (1).to_bytes(4, "big") + entry
    assert encode_partition_time(5, {"n": 300}) == base64.b64encode(expected).decode()


@given(st.dictionaries(st.text(max_size=20), st.integers(0, 2**63 - 1), max_size=20))
def test_should_read_back_from_where_changelogs_are_needed(needed_from: dict[str, int]) -> None:
    text = encode_partition_time(7, needed_from)
    assert decode_metadata(text) == (7, needed_from)


@given(st.dictionaries(st.text(max_size=20), st.integers(-1, 2**63 - 1), max_size=20))
def test_should_keep_the_numbers_of_operators_apart(numbers: dict[str, int]) -> None:
    text = encode_partition_time(7, {"n": 300}, numbers)
    assert decode_metadata(text) == (7, {"n": 300})
    assert decode_processor_metadata(text) == numbers


def test_should_leave_out_what_brokers_would_not_take() -> None:
    text = encode_partition_time(7, {f"{number:0200}": number for number in range(100)})
    assert len(text) < 4_096
    assert decode_metadata(text)[1] == {f"{number:0200}": number for number in range(10)}


@given(st.binary(max_size=80))
def test_should_never_fail_on_processor_metadata(data: bytes) -> None:
    foreign = base64.b64encode(b"\x02" + bytes(8) + data).decode()
    assert all(isinstance(offset, int) for offset in decode_metadata(foreign)[1].values())
