"""Plain values: what does not fit or is not there is named, with the offset."""

import re
import struct
from collections.abc import Callable

import pytest

from assignor.errors import DecodeError, InputError, TaskAssignmentError
from assignor.protocol.primitives import Reader, Writer, pack_ints, pack_modified_utf8
from assignor.types import ProcessId


def test_should_read_back_each_kind_of_value() -> None:
    writer = Writer()
    writer.int8(-1, "a")
    writer.int16(-2, "b")
    writer.int32(-3, "c")
    writer.int64(-4, "d")
    writer.ints((5, -6), "e")
    writer.nullable_byte_array(b"bytes", "f")
    writer.nullable_byte_array(None, "g")
    writer.nullable_string("größe", "h")
    writer.nullable_string(None, "i")
    writer.modified_utf8("\0€", "j")
    writer.process_id(ProcessId(7, -8))
    writer.raw(b"rest")
    reader = Reader(memoryview(writer.to_bytes()), "test")

    assert [reader.int8("a"), reader.int16("b"), reader.int32("c"), reader.int64("d")] == [-1, -2, -3, -4]
    assert reader.peek_ints(2, "e") == (5, -6)
    assert list(reader.peek_rows(struct.Struct(">ii"), 1, "e")) == [(5, -6)]
    assert reader.ints(2, "e") == (5, -6)
    assert [reader.nullable_byte_array("f"), reader.nullable_byte_array("g")] == [b"bytes", None]
    assert [reader.nullable_string("h"), reader.nullable_string("i")] == ["größe", None]
    assert reader.modified_utf8("j") == "\0€"
    assert reader.process_id("k") == ProcessId(7, -8)
    assert (reader.remaining, reader.raw(4, "l"), reader.remaining) == (4, b"rest", 0)


@pytest.mark.parametrize(
    "raw, read, message",
    [
        (b"\0", lambda reader: reader.int16("port"), "test: port needs 2 bytes but 1 remain at byte 0"),
        (b"", lambda reader: reader.process_id("id"), "test: id needs 16 bytes but 0 remain at byte 0"),
        (
            b"\xff\xff\xff\xfe",
            lambda reader: reader.count("tasks", 8),
            "test: count of tasks is negative (-2) at byte 0",
        ),
        (
            b"\0\0\0\2" + bytes(15),
            lambda reader: reader.count("tasks", 8),
            "test: count of tasks is 2 but 15 bytes remain, at least 8 for each at byte 0",
        ),
        (b"\xff\xff", lambda reader: reader.string("topic"), "test: length of topic is negative at byte 0"),
        (b"\0\5abc", lambda reader: reader.string("topic"), "test: topic needs 5 bytes but 3 remain at byte 2"),
        (
            b"\xff\xff\xff\xff",
            lambda reader: reader.byte_array("end point"),
            "test: length of end point is negative at byte 0",
        ),
        (b"\0\2a\x80", lambda reader: reader.modified_utf8("host"), "test: host is not modified UTF-8 at byte 3"),
        (b"abc", lambda reader: reader.skip(4, "rows"), "test: rows needs 4 bytes but 3 remain at byte 0"),
    ],
)
def test_should_say_what_is_missing_and_where(raw: bytes, read: Callable[[Reader], object], message: str) -> None:
    with pytest.raises(DecodeError, match=f"^{re.escape(message)}$"):
        read(Reader(raw, "test"))


def test_should_accept_a_count_that_the_rest_can_just_hold() -> None:
    assert Reader(b"\0\0\0\2" + bytes(16), "test").count("tasks", 8) == 2


@pytest.mark.parametrize(
    "write, message",
    [
        (lambda: Writer().int8(128, "unique field"), "unique field: 128 does not fit an int8"),
        (lambda: Writer().int32(2**31, "port"), "port: 2147483648 does not fit an int32"),
        (lambda: pack_ints((1, 2**31), "task id"), "task id: a number does not fit an int32"),
        (
            lambda: Writer().nullable_string("ü" * 16384, "topic"),
            f"topic: {'ü' * 40 + '…'!r} takes 32768 bytes, more than 32767",
        ),
    ],
)
def test_should_refuse_to_write_what_does_not_fit(write: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        write()


def test_should_refuse_a_text_that_is_too_long_for_an_assignment_as_kafka_does() -> None:
    with pytest.raises(TaskAssignmentError) as raised:
        pack_modified_utf8("\0" * 32768, "host")

    assert raised.value.message == "Failed to encode AssignmentInfo"
    assert raised.value.hint == f"host: {chr(0) * 40 + '…'!r} takes 65536 bytes, more than 65535"
