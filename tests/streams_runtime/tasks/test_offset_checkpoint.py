"""Checkpoint files against Kafka's own OffsetCheckpoint, and the corners that its vectors leave out."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError, IllegalStateError
from assignor.java.order import JavaHashMap
from assignor.types import TopicPartition
from streams_runtime.tasks.offset_checkpoint import OFFSET_UNKNOWN, format_checkpoint, parse_checkpoint
from tests.assignor.protocol.codec_vectors import Line, line_id, lines_of


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
        (b"0 \n", 'For input string: "0 "', 0),
        (b"0\n1\ntopic 0 x\n", 'For input string: "x"', 4),
        (b"0\n1\n topic 0\n", 'For input string: "topic"', 4),
        (b"0\n1\ntopic 2147483648 1\n", 'For input string: "2147483648"', 4),
        (b"0\n1\ntopic 0 9223372036854775808\n", 'For input string: "9223372036854775808"', 4),
        (b"0\n1\ntopic 0 " + b"9" * 30 + b"\n", 'For input string: "' + "9" * 30 + '"', 4),
        (b"0\n2\nt 0 5\n", "Expected 2 entries but found only 1", 10),
        ("0\n2\n\u00e9 0 5\nt 0\n".encode(), "Malformed line in offset checkpoint file: 't 0'.", 11),
        (b"0\n0\n\xff", "not UTF-8", 4),
    ],
)
def test_should_say_what_is_wrong_and_in_which_line(data: bytes, reason: str, offset: int) -> None:
    with pytest.raises(DecodeError) as raised:
        parse_checkpoint(data)

    assert (raised.value.reason, raised.value.offset) == (reason, offset)


@pytest.mark.parametrize(
    "data, offsets",
    [
        (b"0\n1\ntopic 3 5", {TopicPartition("topic", 3): 5}),
        (b"0\r\n1\r\ntopic 3 5\r\n", {TopicPartition("topic", 3): 5}),
        (b"0\r1\rtopic 3 5\r", {TopicPartition("topic", 3): 5}),
        (b"0\n1\ntopic \t 3 +5 \n", {TopicPartition("topic", 3): 5}),
        (b"0\n2\ntopic 3 -1\ntopic 4 -4\n", {TopicPartition("topic", 4): OFFSET_UNKNOWN}),
    ],
)
def test_should_read_lines_and_columns_as_java_does(data: bytes, offsets: dict[TopicPartition, int]) -> None:
    assert parse_checkpoint(data) == offsets


def test_should_keep_no_file_when_there_are_no_offsets() -> None:
    assert format_checkpoint({}) is None


PARTITIONS = st.builds(
    TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 2**31 - 1)
)


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1) | st.just(OFFSET_UNKNOWN), min_size=1))
def test_should_read_back_what_was_written(offsets: dict[TopicPartition, int]) -> None:
    text = format_checkpoint(offsets)

    assert text is not None
    assert parse_checkpoint(text.encode()) == offsets


@given(st.binary() | st.from_regex(rb"0\n[0-9]\n([ a-z0-9-]*\n){0,4}", fullmatch=True))
def test_should_read_or_raise_decode_error_whatever_the_bytes(data: bytes) -> None:
    with suppress(DecodeError):
        assert all(offset >= 0 or offset == OFFSET_UNKNOWN for offset in parse_checkpoint(data).values())
