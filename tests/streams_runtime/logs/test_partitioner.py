"""Keys go where Kafka's own clients send them. Golden values: `Utils.murmur2` of kafka-clients 4.3.1, run once."""

import runpy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime.logs.partitioner import murmur2, partition_of, positive_hash
from tests.checkout import ROOT

SOURCE: dict[str, Any] = runpy.run_path(str(ROOT / "streams_runtime" / "logs" / "partitioner.py"))

GOLDEN = [
    ("", 275646681, 2, 81),
    ("a", -1563381124, 5, 24),
    ("ab", 316155434, 0, 34),
    ("abc", 479470107, 4, 7),
    ("abcd", -1323649548, 5, 0),
    ("abcde", 461995741, 4, 41),
    ("hello", 2132663229, 4, 29),
    ("21", -973932308, 3, 40),
    ("foobar", -790332482, 0, 66),
    ("a-little-bit-long-string", -985981536, 1, 12),
    ("a-little-bit-longer-string", -1486304829, 0, 19),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 3, 77),
    ("ключ", 2122343024, 4, 24),
    ("the quick brown fox", 2136040129, 6, 29),
    ("0_0", 1708795023, 5, 23),
]


@pytest.mark.parametrize(("key", "expected", "of_7", "of_100"), GOLDEN)
def test_should_choose_the_partition_that_kafka_chooses(key: str, expected: int, of_7: int, of_100: int) -> None:
    data = key.encode()
    assert (murmur2(data), partition_of(data, 7), partition_of(data, 100)) == (expected, of_7, of_100)


def test_should_hash_bytes_of_every_value_and_length_as_kafka_does() -> None:
    everything = bytes(range(256))
    folded = 0
    for length in range(257):
        folded = folded * 31 + murmur2(everything[256 - length :])
    assert (folded + 2**63) % 2**64 - 2**63 == -1043511024731130429
    assert (murmur2(b"\xff" * 5), murmur2(bytes(8))) == (-363838622, -522759933)


@given(st.binary(max_size=300))
def test_should_hash_alike_compiled_or_not(key: bytes) -> None:
    assert SOURCE["murmur2"](key) == murmur2(key)
    assert SOURCE["positive_hash"](key) == positive_hash(key)
