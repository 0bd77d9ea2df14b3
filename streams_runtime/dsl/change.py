"""The changes that the nodes of a table forward. A change is a pair: the new value and the old value of a key. The old
value is None if no node below needs old values.

In the repartition topic of a grouped table, the last byte of a change is a flag. If the flag is 1, the bytes before it
are the new value. If the flag is 0, the bytes before it are the old value. If the flag is 2, the bytes before it are
the length of the new value, the new value, and the old value.
Source: `Change`, `ChangedSerializer`, `ChangedDeserializer` (KIP-904). Differs from Kafka: the flags 3 to 5, which
Kafka uses for versioned tables, raise an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, NamedTuple

from assignor.errors import StreamsError
from streams_runtime.common.records import V
from streams_runtime.serdes import Serde, WithInnerSerdes
from streams_runtime.serdes.varints import read_varint, varint

_OLD, _NEW, _BOTH = 0, 1, 2


class Change(NamedTuple, Generic[V]):
    """The new and the old value of a key. `new`: None if the key is no longer in the table. `old`: None if the key was
    not in the table, or if no node below needs the old value.

    Nodes forward plain tuples (new, old), because making a `Change` takes three times as long.
    """

    new: V | None
    old: V | None = None


class OutOfOrderChange(tuple[Any, Any]):
    """A change (new, old) that does not change the newest value of its key: a versioned table got a value that is older
    than the newest one. Most operators treat it like any other change. A filter, a join of tables and a grouping of a
    versioned table have rules for it. Source: `Change.isLatest`; KIP-914.
    """

    __slots__ = ()


def in_order_of(change: tuple[Any, Any], new: Any, old: Any) -> tuple[Any, Any]:
    """Returns the change (new, old), which is out of order if `change` is."""
    return OutOfOrderChange((new, old)) if change.__class__ is OutOfOrderChange else (new, old)


value_of_change: Callable[[tuple[V | None, V | None]], V | None] = itemgetter(0)
"""Returns the new value of a change. `KTable.to_stream` makes records with the new value."""


@dataclass(frozen=True)  # without slots, because C[int](...) fails in Python 3.11 for a frozen generic class with slots
class ChangedSerde(WithInnerSerdes, Generic[V]):
    """The serde of changes. Raises StreamsError if both values of a change are None, or if bytes are not a change."""

    value_serde: Serde[V]

    def serialize(self, value: Change[V], /) -> bytes:
        new, old = value
        if new is not None and old is not None:
            new_data = self.value_serde.serialize(new)
            return b"".join((varint(len(new_data)), new_data, self.value_serde.serialize(old), b"\2"))
        if new is not None:
            return b"".join((self.value_serde.serialize(new), b"\1"))
        if old is not None:
            return b"".join((self.value_serde.serialize(old), b"\0"))
        raise StreamsError("Both old and new values are null in ChangeSerializer, which is not allowed.")

    def deserialize(self, data: bytes, /) -> Change[V]:
        if not data:
            raise StreamsError("A change needs at least one byte, its flag")
        flag = data[-1]
        if flag == _NEW:
            return Change(self.value_serde.deserialize(data[:-1]), None)
        if flag == _OLD:
            return Change(None, self.value_serde.deserialize(data[:-1]))
        if flag == _BOTH:
            size, at = read_varint(data, 0, StreamsError, "A change's length does not end within five bytes")
            if not 0 <= size <= len(data) - 1 - at:
                raise StreamsError(f"A change of {len(data)} bytes cannot hold a new value of {size} bytes")
            return Change(
                self.value_serde.deserialize(data[at : at + size]), self.value_serde.deserialize(data[at + size : -1])
            )
        raise StreamsError(f"Encountered unknown byte value `{flag}` for encodingFlag in ChangedDeserializer.")
