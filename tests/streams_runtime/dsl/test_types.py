"""The types that mypy finds in a user's topology; it checks this file with the rest."""

from typing import assert_type

from streams_runtime import LONG, STRING, KGroupedStream, KStream, KTable, StreamsBuilder, TimeWindows
from streams_runtime.state_stores.state_store import Windowed


def _repeated(key: str, line: str, n: int) -> list[str]:
    return [key, line * n]


def _pair(left: int, right: int | None) -> tuple[int, int | None]:
    return left, right


def test_should_know_keys_and_values_of_every_step() -> None:
    builder = StreamsBuilder()
    lines = assert_type(builder.stream("lines", STRING, STRING), KStream[str, str])
    words = assert_type(lines.flat_map_values(str.split), KStream[str, str])
    grouped = assert_type(words.group_by(lambda key, word: len(word), key_serde=LONG), KGroupedStream[int, str])
    assert_type(grouped.count(), KTable[int, int])
    assert_type(grouped.windowed_by(TimeWindows(10)).count(), KTable[Windowed[int], int])
    lengths = assert_type(lines.map(lambda key, line: (line, len(line))), KStream[str, int])
    total = assert_type(lengths.group_by_key(key_serde=STRING, value_serde=LONG).reduce(int.__add__), KTable[str, int])
    assert_type(lines.join(total, str.__mul__), KStream[str, str])
    assert_type(total.map_values(str), KTable[str, str])
    assert_type(lines.join(total, _repeated, with_key=True), KStream[str, list[str]])
    assert_type(total.left_join(total, _pair), KTable[str, tuple[int, int | None]])
    assert_type(total.to_stream(), KStream[str, int])


def test_should_know_keys_and_values_of_batches() -> None:
    lines = StreamsBuilder().stream("lines", STRING, STRING)
    lengths = assert_type(lines.map_values_batches(lambda batch: list(map(len, batch.values))), KStream[str, int])
    swapped = assert_type(lengths.map_batches(lambda batch: (batch.values, batch.keys)), KStream[int, str])
    assert_type(swapped.map_batches(lambda batch: batch.take([0])), KStream[int, str])
    assert_type(swapped.filter_batches(lambda batch: [key > 0 for key in batch.keys]), KStream[int, str])
