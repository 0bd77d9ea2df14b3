"""Hashes are those of Kafka's `Murmur3.hash128` 4.3.1, which was run once."""

import runpy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime.common.murmur3 import murmur3_128
from tests.checkout import ROOT

SOURCE: dict[str, Any] = runpy.run_path(str(ROOT / "streams_runtime" / "common" / "murmur3.py"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", "9d2764a018e329428c3cf3b035938518"), (b"value", "2e7425dec1f8bcdf51e014f04aa41568")],
)
def test_should_hash_as_kafka_does(data: bytes, expected: str) -> None:
    assert murmur3_128(data).hex() == expected


def test_should_hash_bytes_of_every_value_and_length_as_kafka_does() -> None:
    everything = bytes(range(256))
    folded = 0
    for length in range(256):
        data = murmur3_128(everything[256 - length :])
        folded = folded * 31 + int.from_bytes(data[:8], "big") * 7 + int.from_bytes(data[8:], "big")
    assert (folded + 2**63) % 2**64 - 2**63 == -4803648073627734602


@given(st.binary(max_size=100))
def test_should_hash_alike_compiled_or_not(data: bytes) -> None:
    assert SOURCE["murmur3_128"](data) == murmur3_128(data)
