"""The functions that cases name, as the program that asked Kafka has them."""

from typing import Any

from streams_runtime.common.records import Record

Text = str | None


def shown(value: object) -> str:
    """Java's `String.valueOf`."""
    return "null" if value is None else str(value)


def text(value: object) -> Text:
    return None if value is None else str(value)


def first(value: str) -> str:
    return value[:1] or "z"


def extract_timestamp(name: str, record: Record[Any, Any], partition_time_ms: int) -> int:
    if name == "minus":
        return record.timestamp_ms - 20
    return partition_time_ms if record.timestamp_ms % 3 == 0 else record.timestamp_ms


def map_value(name: str, key: object, given: object) -> Text:
    value = text(given)
    match name:
        case "bang":
            return None if value is None else value + "!"
        case "nul":
            return None if value is None or first(value) == "a" else value
        case "n":
            return "N" if value is None else value
        case "boom":  # cases in which it would raise are not recorded
            return value
        case _:
            return f"{shown(key)}:{shown(value)}"


def map_entry(name: str, key: Any, given: object) -> tuple[Text, Text]:
    value = text(given)
    match name:
        case "swap":
            return value, key
        case "first":
            return None if value is None else first(value), value
        case "unwin":
            return f"{key.key}@{key.start_ms}-{key.end_ms}", value
        case _:
            return "X" if key is None else key + "x", value


def flat_map(name: str, key: Text, value: Text) -> list[tuple[Text, Text]]:
    if name == "dup":
        return [(key, value), (value, key)]
    return [(letter, value) for letter in value or ""]


def flat_map_values(name: str, value: Text) -> list[Text]:
    return [value, None] if name == "dup" else list(value or "")


def select_key(name: str, key: Text, value: Text) -> Text:
    match name:
        case "val":
            return value
        case "first":
            return None if value is None else first(value)
        case "const":
            return "c"
        case _:
            return key


def accepts(name: str, key: object, given: object) -> bool:
    value = text(given)
    match name:
        case "even":
            return value is not None and ord(first(value)) % 2 == 0
        case "knn":
            return key is not None
        case _:
            return value is not None and len(value) < 3


def select_entry(name: str, key: object, given: object) -> tuple[Text, Text]:
    value = shown(given)
    match name:
        case "first":
            return first(value), value
        case "const":
            return "c", value
        case "nulk":
            return None if first(value) == "a" else first(value), value
        case _:
            return first(value), None if len(value) > 2 else value


def add(name: str, value: Text, so_far: Text) -> Text:
    if name == "nul" and value is not None and first(value) == "d":
        return None
    if name == "max":
        return so_far if shown(so_far) > shown(value) else value
    return (shown(so_far) + shown(value))[-12:]


def subtract(name: str, value: str, so_far: str) -> Text:
    if name == "nul" and first(value) == "b":
        return None
    return f"{so_far}-{value}"[-12:]


def join(name: str, one: Any, other: Any) -> Text:
    if name == "nul" and one is not None and first(shown(one)) == "c":
        return None
    return f"{shown(one)}+{shown(other)}"[-16:]
