"""The user functions of cases. Each has a twin in Java that Kafka ran; the format's README defines both."""

import re
from collections.abc import Callable
from typing import Any

from streams_runtime import Windowed
from tests.dsl_vectors.registry import Registry

Function = Callable[..., Any]


class Boom(Exception):
    """What functions raise that are told to fail."""


# what the functions are made of


def text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Windowed):
        return f"{text(value.key)}@{value.start_ms}-{value.end_ms}"
    return str(value)


def hash_of(value: Any) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else sum(text(value).encode())


def length(value: Any) -> int:
    return 0 if value is None else len(text(value))


def num(value: Any) -> int:
    return value if isinstance(value, int) else length(value)


def as_long(value: int) -> int:
    """With signed 64 bits, which wrap around."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def number(value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    return int(value) if re.fullmatch("-?[0-9]{1,15}", value) else None


def first_letter(value: Any) -> str | None:
    return (text(value)[:1] or None) if value is not None else None


def upper(value: str) -> str:
    return "".join(letter.upper() if "a" <= letter <= "z" else letter for letter in value)


def fail_on(part: str, value: Any) -> None:
    if value is not None and part in text(value):
        raise Boom(f"boom: {text(value)}")


def words(value: Any) -> list[str]:
    return [] if value is None else [word for word in text(value).split(" ") if word]


def added(so_far: Any, value: Any) -> str:
    return text(value) if so_far is None else f"{text(so_far)}+{text(value)}"


# values of key and value

VALUES = Registry(
    "value function",
    {
        "identity": lambda _key, value: value,
        "upper": lambda _key, value: None if value is None else upper(text(value)),
        "reverse": lambda _key, value: None if value is None else text(value)[::-1],
        "append": lambda suffix, _key, value: None if value is None else text(value) + suffix,
        "orElse": lambda other, _key, value: other if value is None else value,
        "length": lambda _key, value: length(value),
        "number": lambda _key, value: number(value),
        "toText": lambda _key, value: None if value is None else text(value),
        "add": lambda addend, _key, value: None if value is None else as_long(num(value) + addend),
        "withKey": lambda key, value: f"{text(key)}:{text(value)}",
        "nullIf": lambda modulus, rest, _key, value: None if hash_of(value) % modulus == rest else value,
        "hash": lambda modulus, _key, value: hash_of(value) % modulus,
    },
)


@VALUES.named("numberOrThrow")
def number_or_failure(_key: Any, value: Any) -> int:
    found = number(value)
    if found is None:
        raise Boom(f"boom: {text(value)}")
    return found


@VALUES.named("throwOn")
def value_unless_failing(part: str, _key: Any, value: Any) -> Any:
    fail_on(part, value)
    return value


# keys of key and value

KEYS = Registry(
    "key function",
    {
        "firstLetter": lambda _key, value: first_letter(value),
        "keyFirstLetter": lambda key, _value: first_letter(key),
        "valueAsKey": lambda _key, value: None if value is None else text(value),
        "bucket": lambda modulus, _key, value: f"b{hash_of(value) % modulus}",
        "constant": lambda constant, _key, _value: constant,
        "keyUpper": lambda key, _value: None if key is None else upper(text(key)),
        "keyText": lambda key, _value: None if key is None else text(key),
        "beforeColon": lambda _key, value: (
            text(value).split(":", 1)[0] if value is not None and ":" in text(value) else None
        ),
        "nullIfKey": lambda modulus, rest, key, _value: None if hash_of(key) % modulus == rest else key,
        "keyAndFirstLetter": lambda key, value: None if value is None else f"{text(key)}.{text(first_letter(value))}",
    },
)


@KEYS.named("throwOn")
def key_unless_failing(part: str, key: Any, value: Any) -> Any:
    fail_on(part, value)
    return key


# pairs of key and value

PAIRS = Registry("pair function", {"null": lambda _key, _value: None})


@PAIRS.named("pair")
def pair(key_function: Function, value_function: Function, key: Any, value: Any) -> tuple[Any, Any]:
    return key_function(key, value), value_function(key, value)


def pair_function(written: list[Any]) -> Function:
    """Raises NotKnown, also for a function that makes only the key or the value."""
    if written[0] != "pair":
        return PAIRS.get(written)
    _name, key_function, value_function = written
    return PAIRS.get(["pair", KEYS.get(key_function), VALUES.get(value_function)])


# several values, and several pairs, of key and value

FLAT_VALUES = Registry(
    "flat value function",
    {
        "words": lambda _key, value: words(value),
        "copies": lambda count, _key, value: [f"{text(value)}#{index}" for index in range(count)],
        "none": lambda _key, _value: [],
    },
)
FLAT_PAIRS = Registry(
    "flat pair function",
    {
        "none": lambda _key, _value: [],
        "perWord": lambda _key, value: [(word, value) for word in words(value)],
        "spread": lambda count, key, value: [(f"{text(key)}#{index}", value) for index in range(count)],
        "nullKeys": lambda key, value: [(None, value), (key, value)],
    },
)


# predicates of key and value

PREDICATES = Registry(
    "predicate",
    {
        "valueHash": lambda modulus, rest, _key, value: hash_of(value) % modulus == rest,
        "keyHash": lambda modulus, rest, key, _value: hash_of(key) % modulus == rest,
        "lengthAtLeast": lambda least, _key, value: length(value) >= least,
        "valueNotNull": lambda _key, value: value is not None,
        "valueIsNull": lambda _key, value: value is None,
        "keyNotNull": lambda key, _value: key is not None,
        "contains": lambda part, _key, value: value is not None and part in text(value),
        "always": lambda _key, _value: True,
        "never": lambda _key, _value: False,
    },
)


@PREDICATES.named("throwOn")
def true_unless_failing(part: str, _key: Any, value: Any) -> bool:
    fail_on(part, value)
    return True


# aggregates of key, value and aggregate so far; reducers are the same without key

AGGREGATORS = Registry(
    "aggregator",
    {
        "concat": lambda _key, value, so_far: added(so_far, value),
        "minus": lambda _key, value, so_far: f"-{text(value)}" if so_far is None else f"{text(so_far)}-{text(value)}",
        "sum": lambda _key, value, so_far: as_long(num(so_far) + num(value)),
        "subtract": lambda _key, value, so_far: as_long(num(so_far) - num(value)),
        "count": lambda _key, _value, so_far: num(so_far) + 1,
        "uncount": lambda _key, _value, so_far: num(so_far) - 1,
        "keepLongest": lambda _key, value, so_far: (
            value if so_far is None or length(value) > length(so_far) else so_far
        ),
        "max": lambda _key, value, so_far: value if so_far is None or num(value) > num(so_far) else so_far,
        "last": lambda _key, value, _so_far: value,
        "first": lambda _key, value, so_far: value if so_far is None else so_far,
        "keyed": lambda key, value, so_far: f"{text(so_far)}+{text(key)}={text(value)}",
        "resetOn": lambda part, _key, value, so_far: (
            None if value is not None and part in text(value) else added(so_far, value)
        ),
    },
)


@AGGREGATORS.named("nullAtSum")
def summed_or_null(modulus: int, _key: Any, value: Any, so_far: Any) -> int | None:
    total = as_long(num(so_far) + num(value))
    return None if total % modulus == 0 else total


@AGGREGATORS.named("throwOn")
def concatenated_or_failing(part: str, _key: Any, value: Any, so_far: Any) -> str:
    fail_on(part, value)
    return added(so_far, value)


# joined values of key, left and right value

JOINERS = Registry(
    "joiner",
    {
        "keyed": lambda key, left, right: f"{text(key)}:{text(left)}/{text(right)}",
        "left": lambda _key, left, _right: left,
        "right": lambda _key, _left, right: right,
        "numSum": lambda _key, left, right: as_long(num(left) + num(right)),
    },
)


@JOINERS.named("pairText")
def both_as_text(_key: Any, left: Any, right: Any) -> str:
    return f"{text(left)}/{text(right)}"


@JOINERS.named("nullIf")
def both_unless_hash(modulus: int, rest: int, key: Any, left: Any, right: Any) -> str | None:
    both = both_as_text(key, left, right)
    return None if hash_of(both) % modulus == rest else both


# mergers of key and two aggregates

MERGERS = Registry(
    "merger",
    {
        "joinText": lambda _key, one, other: (
            other if one is None else one if other is None else f"{text(one)}&{text(other)}"
        ),
        "sum": lambda _key, one, other: as_long(num(one) + num(other)),
        "null": lambda _key, _one, _other: None,
    },
)


# timestamps of value, record's timestamp and partition time

TIMESTAMPS = Registry(
    "timestamp extractor",
    {
        "negativeOn": lambda part, value, timestamp_ms, _partition_time_ms: (
            -1 if value is not None and part in text(value) else timestamp_ms
        ),
        "plus": lambda by_ms, _value, timestamp_ms, _partition_time_ms: timestamp_ms + by_ms,
        "partitionTime": lambda _value, timestamp_ms, partition_time_ms: (
            timestamp_ms if partition_time_ms < 0 else partition_time_ms
        ),
    },
)


@TIMESTAMPS.named("valueNumber")
def number_as_timestamp(value: Any, _timestamp_ms: int, partition_time_ms: int) -> int:
    found = number(value)
    return partition_time_ms if found is None else found


# topics of a record and the input's metadata

TOPICS = Registry(
    "topic extractor",
    {
        "byHash": lambda modulus, prefix, record, _input: f"{prefix}{hash_of(record.value) % modulus}",
        "byKeyHash": lambda modulus, prefix, record, _input: f"{prefix}{hash_of(record.key) % modulus}",
        "byRecordTopic": lambda prefix, _record, metadata: f"{prefix}{metadata.topic}",
        "byTimestamp": lambda modulus, prefix, record, _input: f"{prefix}{record.timestamp_ms % modulus}",
    },
)
