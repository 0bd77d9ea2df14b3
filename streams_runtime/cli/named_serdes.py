"""Finds serdes by name. Each serde comes with functions that convert its objects to text or JSON and back.

A serde has a short name, such as `long`. The name of Kafka's class, such as `LongSerializer`, is also accepted, with or
without its Java package. The name of a serde with an inner serde is a prefix and the inner name, such as
`list-of-long`.
"""

import base64
import binascii
import json
import math
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assignor.errors import InputError
from streams_runtime import serdes
from streams_runtime.serdes import Serde

_TIME_WINDOWED = "time-windowed-"
_SESSION_WINDOWED = "session-windowed-"
_LIST_OF = "list-of-"
_WITH_INNER = (_TIME_WINDOWED, _SESSION_WINDOWED, _LIST_OF)
_KAFKA_CLASS = re.compile(r"(?:[\w.]+\.)?(\w+?)(?:Serializer|Deserializer|Serde)\Z")


@dataclass(frozen=True, slots=True)
class NamedSerde:
    """A serde, with functions that convert its objects to text or JSON and back.

    The functions `of_text` and `of_json` return the object, or raise a ValueError that describes the expected form. The
    function `to_text` returns one line of text. The function `to_json` returns a value that can be written as JSON.
    """

    name: str
    serde: Serde[Any]
    of_text: Callable[[str], Any]
    to_text: Callable[[Any], str]
    of_json: Callable[[Any], Any]
    to_json: Callable[[Any], Any]


def named_serde(name: str, option: str, topic: str, schema_registry: str | None = None) -> NamedSerde:
    """Returns the serde for the keys or the values of a topic. Raises InputError if the name is unknown; the error
    lists the known names.

    `option`: the command-line option that gives the name. `schema_registry`: the URL of the schema registry; only the
    serdes avro, json-schema and protobuf need it.
    """
    match = _KAFKA_CLASS.match(name)
    short = (match[1] if match else name).lower()
    if (of_registry := _OF_REGISTRY.get(short.removeprefix("kafka"))) is not None:
        return _of_registry(of_registry, option, topic, schema_registry)
    if (found := _found(short, option)) is None:
        or_inner = " or ".join(f"{prefix}string" for prefix in _WITH_INNER)
        raise InputError(f"must be one of {', '.join(NAMES)}, or {or_inner} and so on, not {name!r}", option)
    return found


def _found(short: str, option: str) -> NamedSerde | None:
    """Returns the serde of a short name; None if the name is unknown."""
    for prefix in _WITH_INNER:
        if short.startswith(prefix):
            if (inner := _found(short.removeprefix(prefix), option)) is None:
                return None
            return _list_of(inner) if prefix == _LIST_OF else _windowed(prefix, inner, option)
    return _SERDES.get({"bytearray": "bytes"}.get(short, short))


def _list_of(inner: NamedSerde) -> NamedSerde:
    def of_json(given: Any) -> list[Any]:
        if not isinstance(given, list):
            raise ValueError(f"must be a list, not {given!r}")
        return [None if entry is None else inner.of_json(entry) for entry in given]

    def to_json(entries: list[Any]) -> list[Any]:
        return [None if entry is None else inner.to_json(entry) for entry in entries]

    return NamedSerde(
        f"{_LIST_OF}{inner.name}",
        serdes.ListSerde(inner.serde),
        lambda text: of_json(_of_json_text(text)),
        lambda entries: _json_text(to_json(entries)),
        of_json,
        to_json,
    )


def _windowed(prefix: str, inner: NamedSerde, option: str) -> NamedSerde:
    """Returns a serde that can read windowed keys, but not write them.

    A producer would hash the whole windowed key, and would choose a wrong partition. The right partition depends only
    on the key without the window.
    """
    if "deserializer" not in option:
        raise InputError(f"{prefix}{inner.name} can only be read: such keys are written by an application", option)

    # imported here, because this import loads the DSL, which few commands need
    from streams_runtime.dsl.windows import SessionWindowedSerde, TimeWindowedSerde

    is_session = prefix == _SESSION_WINDOWED

    def refused(_given: Any) -> Any:
        raise ValueError("a windowed key cannot be written")

    def to_text(window: Any) -> str:
        end = f"/{window.end_ms}" if is_session else ""
        return f"{inner.to_text(window.key)}@{window.start_ms}{end}"

    def to_json(window: Any) -> dict[str, Any]:
        key = inner.to_json(window.key)
        if is_session:
            return {"key": key, "session_start_ms": window.start_ms, "session_end_ms": window.end_ms}
        return {"key": key, "window_start_ms": window.start_ms}

    serde = SessionWindowedSerde(inner.serde) if is_session else TimeWindowedSerde(inner.serde, 0)
    return NamedSerde(f"{prefix}{inner.name}", serde, refused, to_text, refused, to_json)


def _of_registry(name: str, option: str, topic: str, schema_registry: str | None) -> NamedSerde:
    """Returns a serde that uses the schema registry. The serde reads each record with the schema of its writer, and
    writes records with the topic's latest schema.
    """
    if schema_registry is None:
        raise InputError(f"{name} needs the URL of the schema registry: --schema-registry", option)
    try:
        from streams_runtime.serdes.schema_registry import AvroSerde, JsonSchemaSerde
        from streams_runtime.serdes.schema_registry.protobuf_serde import DescribedProtobufSerde
    except ImportError as error:
        raise InputError(f"{name} needs pip install 'assignor[schema-registry]' ({error})", option) from None
    configs = {"schema.registry.url": schema_registry, "use.latest.version": "true"}
    serde: Serde[Any]
    if name == "avro":
        serde = AvroSerde(None, configs)
    elif name == "protobuf":
        serde = DescribedProtobufSerde(configs)
    else:  # values are checked against their schema when they are written, and not when they are read
        serde = JsonSchemaSerde(None, {**configs, "json.fail.invalid.schema": "deserializer" not in option})
    bound = serdes.serde_for_topic(serde, topic, is_key="key" in option)
    return NamedSerde(name, bound, _of_json_text, lambda value: _json_text(_plain(value)), _same, _plain)


def _plain(value: Any) -> Any:
    """Converts the value to types that JSON has. Bytes become base64 text. Objects of other types, such as times,
    become text.
    """
    return json.loads(
        json.dumps(value, default=lambda each: _to_base64(each) if isinstance(each, bytes) else str(each))
    )


def _same(given: Any) -> Any:
    return given


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text_of_json(value: Any) -> str:
    """Converts a JSON value to text for the string serde. An object, a list or another value that is not a text becomes
    JSON text.
    """
    return value if isinstance(value, str) else _json_text(value)


def _integer(bits: int) -> Callable[[Any], int]:
    def read(given: Any) -> int:
        try:
            value = int(given) if isinstance(given, str) else given
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError
        except ValueError:
            raise ValueError(f"must be a whole number, not {given!r}") from None
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(f"must fit into {bits} bits, and {value} does not")
        return value

    return read


def _boolean(given: Any) -> bool:
    if given is True or given == "true":
        return True
    if given is False or given == "false":
        return False
    raise ValueError(f"must be true or false, not {given!r}")


def _uuid(given: Any) -> uuid.UUID:
    try:
        return uuid.UUID(given)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"must be a UUID, not {given!r}") from None


def _void(given: Any) -> None:
    raise ValueError(f"must be null, not {given!r}")


def _double(given: Any) -> float:
    try:
        if isinstance(given, bool):
            raise ValueError
        return float(given)
    except (TypeError, ValueError):
        raise ValueError(f"must be a number, not {given!r}") from None


def _float(given: Any) -> float:
    value = _double(given)
    try:
        serdes.FLOAT.serialize(value)
    except OverflowError:
        raise ValueError(f"must fit into 32 bits, and {value} does not") from None
    return value


def _json_number(value: float) -> float | str:
    """Returns a float as a JSON value. Infinity and NaN become text, because JSON does not have them."""
    return value if math.isfinite(value) else repr(value)


def _of_base64(given: Any) -> bytes:
    try:
        return base64.b64decode(given, validate=True)
    except (TypeError, binascii.Error, ValueError):
        raise ValueError(f"must be base64, not {given!r}") from None


def _of_json_text(given: str) -> Any:
    try:
        return json.loads(given)
    except ValueError as error:
        raise ValueError(f"must be JSON: {error}") from None


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_SERDES = {
    each.name: each
    for each in (
        NamedSerde("string", serdes.STRING, _same, _same, _text_of_json, _same),
        NamedSerde("boolean", serdes.BOOLEAN, _boolean, _json_text, _boolean, _same),
        NamedSerde("short", serdes.SHORT, _integer(16), str, _integer(16), _same),
        NamedSerde("integer", serdes.INTEGER, _integer(32), str, _integer(32), _same),
        NamedSerde("long", serdes.LONG, _integer(64), str, _integer(64), _same),
        NamedSerde("float", serdes.FLOAT, _float, repr, _float, _json_number),
        NamedSerde("double", serdes.DOUBLE, _double, repr, _double, _json_number),
        NamedSerde("uuid", serdes.UUID, _uuid, str, _uuid, str),
        NamedSerde("void", serdes.VOID, _void, str, _void, _same),
        NamedSerde("json", serdes.JSON, _of_json_text, _json_text, _same, _same),
        NamedSerde("bytes", serdes.BYTES, _of_base64, _to_base64, _of_base64, _to_base64),
    )
}
_OF_REGISTRY = {"avro": "avro", "json-schema": "json-schema", "jsonschema": "json-schema", "protobuf": "protobuf"}
NAMES = (*_SERDES, *dict.fromkeys(_OF_REGISTRY.values()))
