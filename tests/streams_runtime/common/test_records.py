"""What a record has to be, part by part."""

from enum import Enum, IntEnum, StrEnum
from typing import Any

import numpy as np
import pytest

from assignor.types import JAVA_LONG_MAX
from streams_runtime import Serdes
from streams_runtime.common.records import record_bytes, record_headers, record_partition, record_timestamp
from streams_runtime.serdes import BYTES, STRING, StringSerde, serializer_of


class Five(IntEnum):
    FIVE = 5


class Name(StrEnum):
    TRACE = "trace"


class OlderName(str, Enum):  # noqa: UP042 - its `str` is the member's name, not the text
    TRACE = "trace"


class Text(StringSerde):
    """A user's serde that forgets to encode."""

    def serialize(self, value: str, /) -> bytes:
        return value  # type: ignore[return-value]


def test_should_take_whatever_has_bytes_in_it_and_keep_no_hold_of_it() -> None:
    buffer = bytearray(b"one")
    taken = record_bytes("value", buffer), record_bytes("value", memoryview(buffer)), BYTES.serialize(buffer)  # type: ignore[arg-type]
    buffer[:] = b"two"
    assert taken == (b"one", b"one", b"one")
    assert record_bytes("key", None) is None


@pytest.mark.parametrize("wrong", ["text", 5, 5.0, True, ["b"], {}, np.int64(5), object()])
def test_should_refuse_what_is_no_bytes(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"has a value of type [\w.]+: a log takes bytes or None"):
        record_bytes("value", wrong)
    with pytest.raises(TypeError, match="bytes are needed, not "):
        BYTES.serialize(wrong)
    made: Serdes[Any] = Serdes(lambda value: value, lambda data: data)
    with pytest.raises(TypeError, match="bytes are needed, not "):
        made.serialize(wrong)


def test_should_check_what_a_serde_of_the_user_gives() -> None:
    with pytest.raises(TypeError, match=r"Text\.serialize: bytes are needed, not str"):
        serializer_of(Text())("text")
    assert serializer_of(STRING)("text") == b"text"


@pytest.mark.parametrize("given", [5, np.int64(5), np.uint8(5), Five.FIVE])
def test_should_take_whole_numbers_as_timestamps_and_partitions(given: Any) -> None:
    assert type(record_timestamp(given)) is type(record_partition(given, 6)) is int
    assert record_timestamp(given) == record_partition(given, 6) == 5


@pytest.mark.parametrize("wrong", [5.0, float("nan"), "5", None, True, np.float64(5), np.bool_(True), -1, 2**63, 2**70])
def test_should_refuse_what_is_no_timestamp(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"^has (a timestamp of type|the timestamp -?[0-9]+;)"):
        record_timestamp(wrong)


@pytest.mark.parametrize("wrong", [5.0, "5", None, True, -1, 6])
def test_should_refuse_what_is_no_partition(wrong: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^has (a partition of type|the partition -?[0-9]+, and its topic has 0 to 5)"
    ):
        record_partition(wrong, 6)


def test_should_take_every_timestamp_that_there_is() -> None:
    assert [record_timestamp(each) for each in (0, JAVA_LONG_MAX)] == [0, JAVA_LONG_MAX]


@pytest.mark.parametrize("none", [(), [], None, {}])
def test_should_take_no_headers(none: Any) -> None:
    assert record_headers(none) == ()


def test_should_take_lists_as_headers_and_names_that_were_read_of_other_bytes_than_text() -> None:
    foreign = b"\xff\xc3".decode(errors="surrogateescape")
    given = [["a", bytearray(b"1")], ("a", None), ("", b""), (foreign, b"x")]
    assert record_headers(given) == (("a", b"1"), ("a", None), ("", b""), (foreign, b"x"))


@pytest.mark.parametrize("name", [Name.TRACE, OlderName.TRACE, np.str_("trace")])
def test_should_take_the_text_of_every_kind_of_str_as_a_name(name: str) -> None:
    ((taken, _),) = record_headers([(name, b"1")])
    assert (taken, type(taken)) == ("trace", str)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((("trace", "abc"),), "has a header 'trace' with a value of type str: headers have bytes or None"),
        ((("trace", 5),), "has a header 'trace' with a value of type int"),
        (((b"trace", b"abc"),), "has a header with a name of type bytes: names are text"),
        (((None, b"abc"),), "has a header with a name of type NoneType"),
        ((("trace",),), "has a header that is no pair"),
        ((("a", b"b", b"c"),), "has a header that is no pair"),
        (("ab",), "has a header that is no pair"),
        ((5,), "has a header that is no pair"),
        ({"trace": b"abc"}, "has headers of type dict: a tuple of pairs"),
        ("ab", "has headers of type str"),
        (5, "has headers of type int"),
        ((("\ud800", b""),), r"has a header whose name cannot be written as UTF-8: '\\ud800'"),
    ],
)
def test_should_say_what_is_wrong_with_headers(wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        record_headers(wrong)
