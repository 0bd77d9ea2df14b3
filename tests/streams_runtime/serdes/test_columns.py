"""Columns go to bytes and back as their values do one by one: the same results, the same errors, None for None."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime.serdes import (
    BYTES,
    DOUBLE,
    INTEGER,
    JSON,
    LONG,
    STRING,
    Serde,
    column_deserializer,
    column_serializer,
)

VALUES: dict[Serde[Any], st.SearchStrategy[Any]] = {
    BYTES: st.binary(max_size=9),
    STRING: st.text(max_size=5),
    INTEGER: st.integers(-(2**31), 2**31 - 1),
    LONG: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats(allow_nan=False),
    JSON: st.lists(st.integers()),
}


@pytest.mark.parametrize("serde", VALUES, ids=lambda serde: type(serde).__name__)
@given(data=st.data())
def test_should_be_equal_to_one_by_one(serde: Serde[Any], data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[serde], max_size=6))
    written = [None if value is None else serde.serialize(value) for value in values]

    assert list(column_serializer(serde)(values)) == written
    assert list(column_deserializer(serde)(written)) == values


@pytest.mark.parametrize(
    ("serde", "wrong", "values", "error"),
    [
        (LONG, b"1234567", 2**63, struct.error),
        (LONG, b"123456789", "1", struct.error),
        (INTEGER, b"12345678", 1.5, struct.error),
        (DOUBLE, b"", "1", struct.error),
        (STRING, b"\xff", 1, (UnicodeDecodeError, AttributeError)),
    ],
)
def test_should_raise_as_one_by_one(serde: Serde[Any], wrong: bytes, values: Any, error: Any) -> None:
    good = b"12345678" if serde in (LONG, DOUBLE) else b"1234"
    with pytest.raises(error):
        column_deserializer(serde)([good, wrong, good])
    with pytest.raises(error):
        column_serializer(serde)([values])


def test_should_not_take_lengths_that_only_add_up() -> None:
    with pytest.raises(struct.error):
        column_deserializer(LONG)([b"1234567", b"123456789"])
