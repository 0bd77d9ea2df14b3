"""The serdes of an application where a topology names none: `default.key.serde`, `default.value.serde`.

The DSL leaves a `DefaultSerde` where a serde is missing. It is replaced when the topology meets its configs, in an
Application. Source: `WrappingNullableUtils.prepareSerde`, `StreamsConfig.defaultKeySerde`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from assignor.errors import InputError, TopologyError
from streams_runtime.configured_objects import imported_object, made
from streams_runtime.serdes.base import NestedSerde, Serde
from streams_runtime.serdes.standard import BYTES, DOUBLE, JSON, LONG, STRING


@dataclass(frozen=True, slots=True)
class DefaultSerde:
    """Stands for a serde that nobody gave. `what`: "key" or "value". `node`: the node or store that needs it."""

    what: str
    node: str

    def serialize(self, value: object, /) -> NoReturn:
        raise self.missing()

    def deserialize(self, data: bytes, /) -> NoReturn:
        raise self.missing()

    def missing(self) -> TopologyError:
        return TopologyError(
            f"Invalid topology: {self.node} needs a {self.what} serde, and no call before it gives one; "
            f"give it there or before as {self.what}_serde=..., or set default.{self.what}.serde"
        )


@dataclass(frozen=True, slots=True)
class DefaultSerdes:
    """None: there is no default."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None

    def in_place_of(self, serde: Serde[Any]) -> Serde[Any]:
        """The serde itself, unless it stands for a default, also deep inside of others.

        Raises TopologyError for a missing one, which names the node.
        """
        if isinstance(serde, DefaultSerde):
            default = self.key if serde.what == "key" else self.value
            if default is None:
                raise serde.missing()
            return default
        if isinstance(serde, NestedSerde):
            changed: Serde[Any] = self.inside_of(serde)
            return changed
        return serde

    def inside_of(self, nested: NestedSerde) -> Any:
        """The same with its inner serdes changed; the object itself if none is. Raises as `in_place_of` does."""
        return nested.with_inner(self.in_place_of) if _has_default(nested) else nested


def _has_default(serde: NestedSerde) -> bool:
    found = False

    def look(inner: Serde[Any]) -> Serde[Any]:
        nonlocal found
        found = found or isinstance(inner, DefaultSerde) or (isinstance(inner, NestedSerde) and _has_default(inner))
        return inner

    serde.with_inner(look)
    return found


_KAFKAS = "org.apache.kafka.common.serialization.Serdes$"
_BY_NAME: dict[str, Serde[Any]] = {
    "string": STRING,
    "long": LONG,
    "double": DOUBLE,
    "bytes": BYTES,
    "json": JSON,
    f"{_KAFKAS}StringSerde": STRING,
    f"{_KAFKAS}LongSerde": LONG,
    f"{_KAFKAS}DoubleSerde": DOUBLE,
    f"{_KAFKAS}ByteArraySerde": BYTES,
}
_NAMES = "string, long, double, bytes, json"


def configured_serde(key: str, value: object, where: str) -> Serde[Any]:
    """`value`: a serde; its name; or `package.module.NAME` of a serde or of a class to be called without arguments.

    Raises InputError, which names the config.
    """
    found = value
    if isinstance(value, str):
        found = _BY_NAME.get(value) or imported_object(key, value, where, f"one of {_NAMES}, or ")
    found = made(key, found, where)
    if not (callable(getattr(found, "serialize", None)) and callable(getattr(found, "deserialize", None))):
        raise InputError(
            f"{key} must be a serde, one of {_NAMES}, or the full name of a serde or its class, not {value!r}", where
        )
    return found  # type: ignore[return-value]
