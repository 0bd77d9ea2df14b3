"""Whole columns to bytes and back, for what works on many records at once. None stays None.

A serde may say how, if it can do better than one call after the other, by `serialize_column` and `deserialize_column`:
a list without None in it to a list, with the results and the errors that a call for each has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streams_runtime.serdes.base import Serde
from streams_runtime.serdes.standard import BytesSerde

ColumnSerializer = Callable[[Sequence[Any]], Sequence[bytes | None]]
ColumnDeserializer = Callable[[Sequence[bytes | None]], Sequence[Any]]


def column_serializer(serde: Serde[Any]) -> ColumnSerializer:
    return _unchanged if isinstance(serde, BytesSerde) else _of(serde.serialize, serde, "serialize_column")


def column_deserializer(serde: Serde[Any]) -> ColumnDeserializer:
    return _unchanged if isinstance(serde, BytesSerde) else _of(serde.deserialize, serde, "deserialize_column")


def _of(one: Callable[[Any], Any], serde: Serde[Any], for_many: str) -> Callable[[Sequence[Any]], Sequence[Any]]:
    many: Callable[[Sequence[Any]], Sequence[Any]] | None = getattr(serde, for_many, None)

    def one_by_one(column: Sequence[Any]) -> Sequence[Any]:
        return [None if each is None else one(each) for each in column]

    def convert(column: Sequence[Any]) -> Sequence[Any]:
        try:
            return many(column)  # type: ignore[misc]  # not called where there is none
        except Exception:  # there is a None in it, or the call for the one that is wrong says so again
            return one_by_one(column)

    return one_by_one if many is None else convert


def _unchanged(column: Sequence[Any]) -> Sequence[Any]:
    return column
