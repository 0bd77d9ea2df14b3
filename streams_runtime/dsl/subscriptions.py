"""The records of the two internal topics of a foreign-key join, and the keys of its subscription store, in Kafka's
format (KIP-213).

A row of the left table subscribes to a row of the right table. The left table's task sends a subscription to the task
that has the right table's row, and this task answers with a response. The bytes of a record have these parts:

- a byte: the version of the format, plus 128 if the hash is missing
- in a subscription: a byte, the instruction
- 16 bytes, unless the hash is missing: the murmur3 hash of the left value's bytes
- the left row's key in a subscription, or the right row's value in a response
- in a subscription of version 1: four bytes, the partition of the left row

Source: `SubscriptionWrapper`, `SubscriptionWrapperSerde`, `SubscriptionResponseWrapper`,
`SubscriptionResponseWrapperSerde`, `CombinedKeySchema`. Differs from Kafka: the configuration `upgrade.from` has no
effect, so subscriptions always have version 1. Subscriptions of version 0 can be read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic

from assignor.errors import StreamsError
from streams_runtime.common.records import V
from streams_runtime.serdes import Serde, WithInnerSerdes

_NO_HASH = 0x80
_HASH_BYTES = 16
_NEWEST_SUBSCRIPTION, _NEWEST_RESPONSE = 1, 0
_INT32 = struct.Struct(">i")


class Instruction(IntEnum):
    """The instructions of a subscription for the task of the right table. Two of them delete the subscription, and the
    others store it. ..._NO_PROPAGATE requests no response, and PROPAGATE_ONLY_... requests a response only if the right
    table has the row.
    """

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3

    @property
    def deletes(self) -> bool:
        return self <= Instruction.DELETE_KEY_AND_PROPAGATE


_INSTRUCTIONS = tuple(Instruction)


@dataclass  # no slots: Cython does not know them
class SubscriptionWrapper:
    """`value_hash`: the hash of the left row's value; None if the row was deleted. `primary_key`: the serialized key of
    the left row. `primary_partition`: the partition of the left row, to which the response is sent; None in a record of
    version 0.
    """

    value_hash: bytes | None
    instruction: Instruction
    primary_key: bytes
    primary_partition: int | None

    def response(self, foreign_value: Any) -> SubscriptionResponseWrapper:
        return SubscriptionResponseWrapper(self.value_hash, foreign_value, self.primary_partition)


@dataclass  # no slots: Cython does not know them
class SubscriptionResponseWrapper:
    """`value_hash`: the hash of the subscription. `foreign_value`: the value of the right row; None if the right table
    does not have the row. `primary_partition`: the partition of the left row. The bytes do not contain the partition,
    so it is None in a response that was read from the topic.
    """

    value_hash: bytes | None
    foreign_value: Any
    primary_partition: int | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionWrapperSerde:
    """Raises StreamsError for bytes that are not a subscription."""

    def serialize(self, value: SubscriptionWrapper, /) -> bytes:
        partition = value.primary_partition
        version = 0 if partition is None else _NEWEST_SUBSCRIPTION
        head = _with_hash(bytes((version, value.instruction)), value.value_hash)
        return head + value.primary_key + (b"" if partition is None else _INT32.pack(partition))

    def deserialize(self, data: bytes, /) -> SubscriptionWrapper:
        version, value_hash, key_at = _read_head(data, 2, _NEWEST_SUBSCRIPTION, "SubscriptionWrapper")
        if data[1] >= len(_INSTRUCTIONS):
            raise StreamsError(f"Unknown instruction byte value = {data[1]}")
        key_end, partition = len(data), None
        if version:
            key_end -= _INT32.size
            if key_end < key_at:
                raise StreamsError(f"A SubscriptionWrapper of {len(data)} bytes cannot hold a partition")
            partition = _INT32.unpack_from(data, key_end)[0]
        return SubscriptionWrapper(value_hash, _INSTRUCTIONS[data[1]], data[key_at:key_end], partition)


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class SubscriptionResponseWrapperSerde(WithInnerSerdes, Generic[V]):
    """`value_serde`: the serde of the right table's values. As in Kafka, a right value whose serialized form has no
    bytes, such as an empty text, is read as None. Raises StreamsError for bytes that are not a response.
    """

    value_serde: Serde[V]

    def serialize(self, value: SubscriptionResponseWrapper, /) -> bytes:
        foreign_value = value.foreign_value
        data = None if foreign_value is None else self.value_serde.serialize(foreign_value)
        return _with_hash(bytes((_NEWEST_RESPONSE,)), value.value_hash) + (data or b"")

    def deserialize(self, data: bytes, /) -> SubscriptionResponseWrapper:
        _, value_hash, value_at = _read_head(data, 1, _NEWEST_RESPONSE, "SubscriptionResponseWrapper")
        foreign_value = self.value_serde.deserialize(data[value_at:]) if len(data) > value_at else None
        return SubscriptionResponseWrapper(value_hash, foreign_value)


def subscription_prefix(foreign_key: bytes) -> bytes:
    """Returns the beginning of all keys of the subscription store that belong to a row of the right table. The rest of
    such a key is the serialized key of the left row. The length at the beginning separates the two keys.
    """
    return _INT32.pack(len(foreign_key)) + foreign_key


def _with_hash(first: bytes, value_hash: bytes | None) -> bytes:
    """Returns the bytes of a record up to and including the hash. `first`: the bytes before the hash, of which the
    first one is the version.
    """
    return bytes((first[0] | _NO_HASH,)) + first[1:] if value_hash is None else first + value_hash


def _read_head(data: bytes, hash_at: int, newest_version: int, kind: str) -> tuple[int, bytes | None, int]:
    """Returns the version, the hash, and the index of the first byte after the hash. Raises StreamsError if the version
    is above `newest_version`, or if bytes are missing. `kind`: the name of the record, for error messages.
    """
    version = data[0] & ~_NO_HASH if data else 0
    if version > newest_version:
        raise StreamsError(f"{kind} does not support version {version}")
    end = hash_at if data and data[0] & _NO_HASH else hash_at + _HASH_BYTES
    if len(data) < end:
        raise StreamsError(f"A {kind} needs at least {end} bytes, and has {len(data)}")
    return version, data[hash_at:end] or None, end
