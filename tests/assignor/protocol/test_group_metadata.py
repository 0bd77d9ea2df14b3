"""Keys and values of `__consumer_offsets`; the hexadecimal bytes were written by Kafka 4.3.1's classes."""

import contextlib
import dataclasses
import json
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError
from assignor.protocol.group_metadata import (
    HIGHEST_VALUE_VERSION,
    GroupKind,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OtherGroupKey,
    decode_group_key,
    decode_group_value,
)
from tests.assignor.protocol.written_group_metadata import encode_group_key, encode_group_value

FULL = GroupMetadataValue(
    "consumer",
    7,
    "stream",
    "m-1",
    (
        MemberMetadata("m-1", "c", "/127.0.0.1", 45_000, b"\0\1\2", b"\x09", 300_000, "i-1"),
        MemberMetadata("m-2é", "", "/127.0.0.1", 2, bytes(200), b"", 1),
    ),
    1_795_256_892_777,
)
EMPTY = GroupMetadataValue("", 0, None, None, ())

BYTES = json.loads((Path(__file__).parent / "group_metadata.json").read_text())
"""In hexadecimal: FULL and EMPTY in each version, and damaged bytes with the error that they give."""
KEYS = {
    "000200056772c3bc6e": GroupMetadataKey("grün"),
    "000100016700017400000005": OffsetCommitKey("g", "t", 5),
    "000000016700017400000005": OffsetCommitKey("g", "t", 5, version=0),
    "0003000167": OtherGroupKey("g", GroupKind.CONSUMER),
    "000b000167": OtherGroupKey("g", GroupKind.SHARE),
    "0011000167": OtherGroupKey("g", GroupKind.STREAMS),
}

VERSIONS = pytest.mark.parametrize("version", range(HIGHEST_VALUE_VERSION + 1))


def as_version_has_it(value: GroupMetadataValue, version: int) -> GroupMetadataValue:
    """Without the fields that came later."""
    members = value.members
    if version < 3:
        members = tuple(dataclasses.replace(member, group_instance_id=None) for member in members)
    if version < 1:
        members = tuple(dataclasses.replace(member, rebalance_timeout_ms=-1) for member in members)
    timestamp_ms = value.state_timestamp_ms if version >= 2 else None
    return dataclasses.replace(value, members=members, state_timestamp_ms=timestamp_ms)


def full_bytes(version: int) -> bytes:
    return bytes.fromhex(BYTES["full"][str(version)])


@pytest.mark.parametrize(("raw", "key"), KEYS.items())
def test_should_read_keys_as_kafka_writes_them(raw: str, key: GroupMetadataKey) -> None:
    assert decode_group_key(bytes.fromhex(raw)) == key
    assert isinstance(key, OffsetCommitKey) or encode_group_key(key).hex() == raw, "other tests write these"


@pytest.mark.parametrize("raw", ["0017000167", "0004000167", "7fff", "ffff00"])
def test_should_pass_over_keys_of_kinds_that_are_not_read(raw: str) -> None:
    assert decode_group_key(bytes.fromhex(raw)) is None


@VERSIONS
def test_should_read_a_generation_as_kafka_writes_it(version: int) -> None:
    assert decode_group_value(full_bytes(version)) == as_version_has_it(FULL, version)
    assert version != 3 or encode_group_value(FULL) == full_bytes(version), "other tests write these"


@VERSIONS
def test_should_read_a_group_without_members_as_kafka_writes_it(version: int) -> None:
    assert decode_group_value(bytes.fromhex(BYTES["empty"][str(version)])) == EMPTY


def test_should_skip_tagged_fields_of_a_later_kafka() -> None:
    tagged = bytes.fromhex("02" + "00" + "03616263" + "8101" + "00")  # tag 0 with 3 bytes, tag 129 with none
    member = bytes.fromhex("026d0002630268" + "00000001" + "00000002" + "0101") + tagged
    raw = bytes.fromhex("0004" + "09636f6e73756d6572" + "00000007" + "00" + "00" + "ff" * 8 + "02") + member + tagged
    assert decode_group_value(raw) == GroupMetadataValue(
        "consumer", 7, None, None, (MemberMetadata("m", "c", "h", 2, b"", b"", 1),)
    )


@pytest.mark.parametrize(("raw", "message"), BYTES["damaged"].items())
def test_should_say_what_is_wrong_and_where(raw: str, message: str) -> None:
    with pytest.raises(DecodeError, match=f"^{re.escape(message)}$"):
        decode_group_value(bytes.fromhex(raw))


@given(version=st.integers(0, HIGHEST_VALUE_VERSION), data=st.data())
def test_should_answer_any_damaged_bytes_with_a_value_or_a_decode_error(version: int, data: st.DataObject) -> None:
    raw = bytearray(full_bytes(version))
    start = data.draw(st.integers(0, len(raw)))
    raw[start : start + data.draw(st.integers(0, 4))] = data.draw(
        st.sampled_from([b"", b"\xff" * 5, b"\x7f\xff\xff\xff"])
    )
    tracemalloc.start()
    try:
        with contextlib.suppress(DecodeError):
            decode_group_value(bytes(raw))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000 + 50 * len(raw)
