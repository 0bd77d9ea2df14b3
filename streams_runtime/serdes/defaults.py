"""The default serdes of an application (`default.key.serde`, `default.value.serde`). Nodes and stores without a serde
use these serdes.

The value of some configs is the name of a Python object. `imported_object` imports the object with this name. If the
object is a class, `made` makes an instance of the class. If a serde is missing, the DSL uses a `DefaultSerde` in its
place. The Application knows the configs, and replaces each `DefaultSerde` by the default serde. If there is no default,
the node or store that needs the serde fails when it is initialized. Source: `WrappingNullableUtils.prepareSerde`,
`StreamsConfig.defaultKeySerde`.
"""

import importlib
from dataclasses import dataclass
from typing import Any, NoReturn

from assignor.errors import InputError, TopologyError
from streams_runtime.serdes import (
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
    NestedSerde,
    Serde,
)


def imported_object(key: str, name: str, where: str, otherwise: str = "") -> object:
    """Imports and returns the object with the name `package.module.NAME` or `package.module:NAME`. Raises InputError
    with the name of the config.

    `otherwise`: the other accepted values, for the error message; the text ends with " or ".
    """
    module, _, attribute = name.replace(":", ".").rpartition(".")
    if not module or not attribute:
        raise InputError(f"{key} must be {otherwise}a full name such as package.module.NAME, not {name!r}", where)
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise InputError(f"{key}: {module} cannot be imported: {error}", where) from error
    except AttributeError:
        raise InputError(f"{key}: {module} has no {attribute}", where) from None


def made(key: str, found: object, where: str) -> object:
    """Makes an instance if the object `found` is a class; returns any other object unchanged. Raises InputError if the
    class cannot be called without arguments.
    """
    if not isinstance(found, type):
        return found
    try:
        return found()
    except Exception as error:
        raise InputError(f"{key}: {found.__name__} cannot be made without arguments: {error}", where) from error


@dataclass(frozen=True, slots=True)
class DefaultSerde:
    """A placeholder for a missing serde. `what`: the kind of the serde, "key" or "value". `node`: the node or store
    that needs the serde.
    """

    what: str
    node: str

    def serialize(self, value: object, /) -> NoReturn:
        raise self.missing()

    def deserialize(self, data: bytes, /) -> NoReturn:
        raise self.missing()

    def for_topic(self, topic: str, *, is_key: bool) -> NoReturn:
        """Fails, because a node or store asks for the serde of its topic when it is initialized."""
        raise self.missing()

    def missing(self) -> TopologyError:
        return TopologyError(
            f"Invalid topology: {self.node} needs a {self.what} serde, and no call before it gives one; "
            f"give {self.what}_serde to its call or to a call before, such as the group_by_key of a count, "
            f"or set default.{self.what}.serde"
        )


@dataclass(frozen=True, slots=True)
class DefaultSerdes:
    """The default serdes of an application for keys and values. A default serde that is not in the configs is None.
    `required`: True if a missing serde without a default is an error.
    """

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    required: bool = False

    def in_place_of(self, serde: Serde[Any]) -> Serde[Any]:
        """Returns the default serde if `serde` is a `DefaultSerde` and there is a default. In a nested serde, each
        inner `DefaultSerde` is replaced. If a serde is missing and required, raises TopologyError with the name of the
        node.
        """
        if isinstance(serde, DefaultSerde):
            default = self.key if serde.what == "key" else self.value
            if default is None and self.required:
                raise serde.missing()
            return serde if default is None else default
        if isinstance(serde, NestedSerde):
            with_others: Serde[Any] = self.applied_to_inner(serde)
            return with_others
        return serde

    def applied_to_inner(self, nested: NestedSerde) -> Any:
        """Calls `in_place_of` for each inner serde, and returns a copy with the results. If no inner serde changes, the
        object itself is returned. Raises TopologyError as `in_place_of` does.
        """
        is_changed = False

        def changed(inner: Serde[Any]) -> Serde[Any]:
            nonlocal is_changed
            found = self.in_place_of(inner)
            is_changed = is_changed or found is not inner
            return found

        other = nested.with_inner(changed)
        return other if is_changed else nested


REQUIRED = DefaultSerdes(required=True)
"""No default serdes: finds a missing serde."""

_KAFKAS = "org.apache.kafka.common.serialization.Serdes$"
_BY_NAME: dict[str, Serde[Any]] = {
    "string": STRING,
    "long": LONG,
    "double": DOUBLE,
    "bytes": BYTES,
    "json": JSON,
    "integer": INTEGER,
    "short": SHORT,
    "float": FLOAT,
    "boolean": BOOLEAN,
    "uuid": UUID,
    "void": VOID,
}
_NAMES = ", ".join(_BY_NAME)
# the names of Kafka's classes are the names of the classes here
_BY_NAME |= {f"{_KAFKAS}{type(serde).__name__}": serde for serde in _BY_NAME.values() if serde is not JSON}
_BY_NAME[f"{_KAFKAS}ByteArraySerde"] = BYTES


def configured_serde(key: str, value: object, where: str) -> Serde[Any]:
    """Returns the serde that a config gives. `value`: a serde or a name. A name is the short name of a serde, the name
    of Kafka's serde class, or `package.module.NAME`. The object `NAME` is a serde, or a class of serdes with a
    constructor without arguments. Raises InputError with the name of the config.
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
