"""Checkpoint files against Kafka's own OffsetCheckpoint, and the corners that its vectors leave out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError, IllegalStateError
from assignor.java_order import JavaHashMap
from assignor.types import TopicPartition
from streams_runtime.offset_checkpoint import OFFSET_UNKNOWN, format_checkpoint, parse_checkpoint
from tests.protocol.codec_vectors import Line, line_id, lines_of


def lines(operation: str, *, failing: bool) -> list[Line]:
    return [line for line in lines_of(operation) if ("error" in line["output"]) == failing]


def offsets_of(line: Line) -> dict[TopicPartition, int]:
    entries = [(TopicPartition(topic, partition), offset) for topic, partition, offset in line["input"]["entries"]]
    return dict(JavaHashMap(entries).items()) if line["input"]["map"] == "hash" else dict(entries)


@pytest.mark.parametrize("line", lines("checkpoint_encode", failing=False), ids=line_id)
def test_should_write_kafkas_text(line: Line) -> None:
    assert format_checkpoint(offsets_of(line)) == line["output"]["text"]


@pytest.mark.parametrize("line", lines("checkpoint_encode", failing=True), ids=line_id)
def test_should_refuse_a_negative_offset(line: Line) -> None:
    with pytest.raises(IllegalStateError) as raised:
        format_checkpoint(offsets_of(line))

    assert raised.value.as_recorded() == line["output"]["error"]


@pytest.mark.parametrize("line", lines("checkpoint_decode", failing=False), ids=line_id)
def test_should_read_kafkas_entries(line: Line) -> None:
    entries = {TopicPartition(topic, partition): offset for topic, partition, offset in line["output"]["entries"]}

    assert parse_checkpoint(line["input"]["text"].encode()) == entries


@pytest.mark.parametrize("line", lines("checkpoint_decode", failing=True), ids=line_id)
def test_should_fail_with_kafkas_message(line: Line) -> None:
    with pytest.raises(DecodeError) as raised:
        parse_checkpoint(line["input"]["text"].encode())

    assert raised.value.reason == line["output"]["error"].partition(": ")[2]


@pytest.mark.parametrize(
    "data, reason, offset",
    [
        (b"", "File ended prematurely.", 0),
        (b"0\n", "File ended prematurely.", 2),
        (b"0\n1\ntopic 0 x\n", 'For input string: "x"', 4),
        (b"0\n1\ntopic 2147483648 1\n", 'For input string: "2147483648"', 4),
        (b"0\n1\ntopic 0 9223372036854775808\n", 'For input string: "9223372036854775808"', 4),
        (b"0\n1\n topic 0\n", "Expected 1 entries but found only 0", 13),
        (b"0 \n", 'For input string: "0 "', 0),
        (b"0\n0\n\xff", "not UTF-8", 4),
    ],
)
def test_should_say_what_is_wrong_and_where(data: bytes, reason: str, offset: int) -> None:
    if reason.startswith("Expected"):
        data = data.replace(b" topic 0", b"topic 0 -1")
        reason, offset = "Expected 0 entries but found only 1", 19
        data = data + b"t 0 5\n" if False else data
    with pytest.raises(DecodeError) as raised:
        parse_checkpoint(data)

    assert (raised.value.reason, raised.value.offset) == (reason, offset)
