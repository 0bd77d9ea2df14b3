"""Keys and values of records: as bytes, as objects, and as the JSON of cases."""

from typing import Any

from streams_runtime import BYTES, LONG, STRING, Serde, SessionWindowedSerde, TimeWindowedSerde, Windowed
from tests.dsl_vectors.cases import NotKnown

MAX_LONG = (1 << 63) - 1


def serde_named(name: str) -> Serde[Any]:
    """Raises NotKnown."""
    match name.split(":"):
        case ["string"]:
            return STRING
        case ["long"]:
            return LONG
        case ["bytes"]:
            return BYTES
        case ["timeWindowed", inner, size_ms]:
            return TimeWindowedSerde(serde_named(inner), int(size_ms))
        case ["sessionWindowed", inner]:
            return SessionWindowedSerde(serde_named(inner))
    raise NotKnown(f"serde {name.split(':')[0]}")


def optional_serde(name: str | None) -> Serde[Any] | None:
    return None if name is None else serde_named(name)


def to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, Windowed):
        return {"key": to_json(value.key), "start_ms": value.start_ms, "end_ms": min(value.end_ms, MAX_LONG)}
    return value


def decode(data: bytes | None, serde: str) -> Any:
    """As JSON. Bytes that the serde cannot read are `{"hex"}`."""
    if data is None:
        return None
    if serde == "string":
        return data.decode("utf-8", "replace")  # Java's deserializer takes any bytes
    reader = serde_named(serde)
    try:
        return to_json(reader.deserialize(data))
    except Exception:
        return {"hex": data.hex()}


def encode(record: dict[str, Any], part: str, serde: str) -> bytes | None:
    """The key or the value (`part`) of an input."""
    if f"{part}_hex" in record:
        return bytes.fromhex(record[f"{part}_hex"])
    value = record[part]
    if value is None:
        return None
    if serde == "bytes":
        return bytes.fromhex(value["hex"])
    return serde_named(serde).serialize(value)
