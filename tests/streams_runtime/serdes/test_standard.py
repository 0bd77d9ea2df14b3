"""The formats of Kafka's own serdes, byte for byte. Kafka's: `SerializationTest`."""

import math
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INTEGER,
    JSON,
    LONG,
    SHORT,
    STRING,
    UUID,
    VOID,
    ListSerde,
    Serde,
    Serdes,
    TimeWindowedSerde,
)
from streams_runtime.serdes.defaults import DefaultSerde, DefaultSerdes
from streams_runtime.state_stores.state_store import Windowed

_UUID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "serde, value, data",
    [
        (BYTES, b"\0\xff", b"\0\xff"),
        (STRING, "", b""),
        (STRING, "Grüße €", b"Gr\xc3\xbc\xc3\x9fe \xe2\x82\xac"),
        (INTEGER, 0, bytes(4)),
        (INTEGER, 2**31 - 1, b"\x7f\xff\xff\xff"),
        (INTEGER, -(2**31), b"\x80\0\0\0"),
        (LONG, 0, bytes(8)),
        (LONG, 258, b"\0\0\0\0\0\0\x01\x02"),
        (LONG, -1, b"\xff" * 8),
        (LONG, 2**63 - 1, b"\x7f" + b"\xff" * 7),
        (LONG, -(2**63), b"\x80" + bytes(7)),
        (BOOLEAN, True, b"\x01"),
        (BOOLEAN, False, b"\x00"),
        (SHORT, -2, b"\xff\xfe"),
        (FLOAT, 1.5, b"\x3f\xc0\0\0"),
        (UUID, _UUID, str(_UUID).encode()),
        (DOUBLE, 0.0, bytes(8)),
        (DOUBLE, 1.5, b"\x3f\xf8" + bytes(6)),
        (DOUBLE, -math.inf, b"\xff\xf0" + bytes(6)),
        (JSON, {"b": [1, None], "a": "ü"}, '{"a":"ü","b":[1,null]}'.encode()),
    ],
)
def test_should_write_and_read_kafkas_bytes(serde: Serde[object], value: object, data: bytes) -> None:
    assert (serde.serialize(value), serde.deserialize(data)) == (data, value)


@pytest.mark.parametrize(
    ("inner", "value", "data"),
    [
        (LONG, [1, None, -1, None], "00000000020000000100000003000000040000000000000001ffffffffffffffff"),
        (INTEGER, [7], "00000000000000000100000007"),
        (SHORT, [7, -2], "0000000000000000020007fffe"),
        (FLOAT, [1.5], "0000000000000000013fc00000"),
        (DOUBLE, [1.5], "0000000000000000013ff8000000000000"),
        (STRING, ["a", None, "", "é"], "01000000040000000161ffffffff0000000000000002c3a9"),
        (UUID, [_UUID, None], f"00000000010000000100000002{str(_UUID).encode().hex()}"),
        (BOOLEAN, [True, False], "010000000200000001010000000100"),
        (BYTES, [b"\1\2"], "0100000001000000020102"),
        (STRING, [], "0100000000"),
        (LONG, [], "000000000000000000"),
        (ListSerde(LONG), [[5], None], "0100000002000000110000000000000000010000000000000005ffffffff"),
    ],
)
def test_should_write_and_read_kafkas_lists(inner: Serde[Any], value: list[Any], data: str) -> None:
    """The bytes are what Kafka 4.3.1 writes."""
    serde = ListSerde(inner)
    assert (serde.serialize(value).hex(), serde.deserialize(bytes.fromhex(data))) == (data, value)


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (BOOLEAN, b"\x02"),
        (BOOLEAN, b""),
        (VOID, b"x"),
        (UUID, b"no-uuid"),
        (ListSerde(LONG), b"\x01\0\0\0\0"),
        (ListSerde(STRING), b"\x00\0\0\0\0"),
        (ListSerde(STRING), b"\x01\0\0\0\1\xff\xff\xff\xfe"),
        (ListSerde(STRING), b"\x01\0\0\0\1\0\0\0\5a"),
    ],
)
def test_should_refuse_bytes_that_kafka_does_not_write(serde: Serde[Any], data: bytes) -> None:
    with pytest.raises(ValueError, match=r"the byte 0 or 1|null is needed|badly formed|does not begin|are left"):
        serde.deserialize(data)


@pytest.mark.parametrize(("serde", "value"), [(BOOLEAN, 1), (VOID, "x"), (UUID, str(_UUID))])
def test_should_refuse_a_value_of_another_type(serde: Serde[Any], value: Any) -> None:
    with pytest.raises(TypeError):
        serde.serialize(value)


@given(st.binary(), st.text(st.characters(exclude_categories=["Cs"])), st.integers(-(2**63), 2**63 - 1), JSON_VALUES)
def test_should_read_back_what_was_written(data: bytes, text: str, number: int, document: object) -> None:
    assert BYTES.deserialize(BYTES.serialize(data)) == data
    assert STRING.deserialize(STRING.serialize(text)) == text
    assert LONG.deserialize(LONG.serialize(number)) == number
    assert JSON.deserialize(JSON.serialize(document)) == document


@given(st.dictionaries(st.text(), st.integers(), max_size=5))
def test_should_write_equal_documents_as_equal_bytes(document: dict[str, int]) -> None:
    assert JSON.serialize(dict(reversed(document.items()))) == JSON.serialize(document)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_should_refuse_a_long_that_has_no_eight_bytes(number: int) -> None:
    with pytest.raises(struct.error):
        LONG.serialize(number)


@pytest.mark.parametrize(
    "serde, data", [*((serde, bytes(size)) for serde in (LONG, DOUBLE) for size in (0, 7, 9)), (STRING, b"\xff")]
)
def test_should_refuse_bytes_of_another_kind(serde: Serde[object], data: bytes) -> None:
    with pytest.raises((struct.error, UnicodeDecodeError)):
        serde.deserialize(data)


def test_should_change_a_serde_only_where_a_default_is_inside() -> None:
    defaults = DefaultSerdes(key=LONG)
    given = TimeWindowedSerde(STRING, 10)
    assert defaults.in_place_of(given) is given
    missing: Serde[Windowed[int]] = TimeWindowedSerde(DefaultSerde("key", "node"), 10)
    assert defaults.in_place_of(missing) == TimeWindowedSerde(LONG, 10)
    assert defaults.in_place_of(ListSerde[int](DefaultSerde("key", "node"))) == ListSerde(LONG)


def test_should_make_a_serde_of_two_functions() -> None:
    pairs: Serdes[tuple[int, int]] = Serdes(bytes, lambda data: (data[0], data[1]))

    assert (pairs.serialize((1, 2)), pairs.deserialize(b"\x01\x02")) == (b"\x01\x02", (1, 2))


def test_should_be_made_with_its_type_named() -> None:
    numbers = Serdes[int](lambda number: str(number).encode(), int)

    assert (numbers.serialize(7), numbers.deserialize(b"7")) == (b"7", 7)
    windowed = TimeWindowedSerde[str](STRING, 1_000)
    key = Windowed("k", 5_000, 6_000)
    assert windowed.deserialize(windowed.serialize(key)) == key
