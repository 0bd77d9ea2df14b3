"""The user functions of cases. Each has a twin in Java that Kafka ran; the format's README defines both."""

from __future__ import annotations

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

VALUES = Registry("value function")


@VALUES.named("identity")
def same_value(_key: Any, value: Any) -> Any:
    return value


@VALUES.named("upper")
def upper_value(_key: Any, value: Any) -> Any:
    return None if value is None else upper(text(value))


@VALUES.named("reverse")
def reversed_value(_key: Any, value: Any) -> Any:
    return None if value is None else text(value)[::-1]


@VALUES.named("append")
def appended_value(suffix: str, _key: Any, value: Any) -> Any:
    return None if value is None else text(value) + suffix


@VALUES.named("orElse")
def value_or_else(other: Any, _key: Any, value: Any) -> Any:
    return other if value is None else value


@VALUES.named("length")
def length_of_value(_key: Any, value: Any) -> int:
    return length(value)


@VALUES.named("number")
def number_of_value(_key: Any, value: Any) -> int | None:
    return number(value)


@VALUES.named("numberOrThrow")
def number_or_failure(_key: Any, value: Any) -> int:
    found = number(value)
    if found is None:
        raise Boom(f"boom: {text(value)}")
    return found


@VALUES.named("toText")
def text_of_value(_key: Any, value: Any) -> str | None:
    return None if value is None else text(value)


@VALUES.named("add")
def value_plus(addend: int, _key: Any, value: Any) -> int | None:
    return None if value is None else as_long(num(value) + addend)


@VALUES.named("withKey")
def value_with_key(key: Any, value: Any) -> str:
    return f"{text(key)}:{text(value)}"


@VALUES.named("nullIf")
def value_unless_hash(modulus: int, rest: int, _key: Any, value: Any) -> Any:
    return None if hash_of(value) % modulus == rest else value


@VALUES.named("throwOn")
def value_unless_failing(part: str, _key: Any, value: Any) -> Any:
    fail_on(part, value)
    return value


@VALUES.named("hash")
def hash_of_value(modulus: int, _key: Any, value: Any) -> int:
    return hash_of(value) % modulus


# keys of key and value

KEYS = Registry("key function")


@KEYS.named("firstLetter")
def first_letter_of_value(_key: Any, value: Any) -> str | None:
    return first_letter(value)


@KEYS.named("keyFirstLetter")
def first_letter_of_key(key: Any, _value: Any) -> str | None:
    return first_letter(key)


@KEYS.named("valueAsKey")
def value_as_key(_key: Any, value: Any) -> str | None:
    return None if value is None else text(value)


@KEYS.named("bucket")
def bucket_of_value(modulus: int, _key: Any, value: Any) -> str:
    return f"b{hash_of(value) % modulus}"


@KEYS.named("constant")
def constant_key(constant: str, _key: Any, _value: Any) -> str:
    return constant


@KEYS.named("keyUpper")
def upper_key(key: Any, _value: Any) -> str | None:
    return None if key is None else upper(text(key))


@KEYS.named("keyText")
def text_of_key(key: Any, _value: Any) -> str | None:
    return None if key is None else text(key)


@KEYS.named("beforeColon")
def value_before_colon(_key: Any, value: Any) -> str | None:
    return text(value).split(":", 1)[0] if value is not None and ":" in text(value) else None


@KEYS.named("nullIfKey")
def key_unless_hash(modulus: int, rest: int, key: Any, _value: Any) -> Any:
    return None if hash_of(key) % modulus == rest else key


@KEYS.named("keyAndFirstLetter")
def key_and_first_letter(key: Any, value: Any) -> str | None:
    return None if value is None else f"{text(key)}.{text(first_letter(value))}"


@KEYS.named("throwOn")
def key_unless_failing(part: str, key: Any, value: Any) -> Any:
    fail_on(part, value)
    return key


# pairs of key and value

PAIRS = Registry("pair function")


@PAIRS.named("pair")
def pair(key_function: Function, value_function: Function, key: Any, value: Any) -> tuple[Any, Any]:
    return key_function(key, value), value_function(key, value)


@PAIRS.named("null")
def no_pair(_key: Any, _value: Any) -> None:
    return None


def pair_function(written: list[Any]) -> Function:
    """Raises NotKnown, also for a function that makes only the key or the value."""
    if written[0] != "pair":
        return PAIRS.get(written)
    _name, key_function, value_function = written
    return PAIRS.get(["pair", KEYS.get(key_function), VALUES.get(value_function)])


# several values, and several pairs, of key and value

FLAT_VALUES = Registry("flat value function")
FLAT_PAIRS = Registry("flat pair function")


@FLAT_VALUES.named("words")
def words_of_value(_key: Any, value: Any) -> list[str]:
    return words(value)


@FLAT_VALUES.named("copies")
def copies_of_value(count: int, _key: Any, value: Any) -> list[str]:
    return [f"{text(value)}#{index}" for index in range(count)]


@FLAT_VALUES.named("none")
@FLAT_PAIRS.named("none")
def nothing(_key: Any, _value: Any) -> list[Any]:
    return []


@FLAT_PAIRS.named("perWord")
def pair_for_each_word(_key: Any, value: Any) -> list[tuple[Any, Any]]:
    return [(word, value) for word in words(value)]


@FLAT_PAIRS.named("spread")
def spread_keys(count: int, key: Any, value: Any) -> list[tuple[Any, Any]]:
    return [(f"{text(key)}#{index}", value) for index in range(count)]


@FLAT_PAIRS.named("nullKeys")
def without_and_with_key(key: Any, value: Any) -> list[tuple[Any, Any]]:
    return [(None, value), (key, value)]


# predicates of key and value

PREDICATES = Registry("predicate")


@PREDICATES.named("valueHash")
def value_has_hash(modulus: int, rest: int, _key: Any, value: Any) -> bool:
    return hash_of(value) % modulus == rest


@PREDICATES.named("keyHash")
def key_has_hash(modulus: int, rest: int, key: Any, _value: Any) -> bool:
    return hash_of(key) % modulus == rest


@PREDICATES.named("lengthAtLeast")
def value_is_long(least: int, _key: Any, value: Any) -> bool:
    return length(value) >= least


@PREDICATES.named("valueNotNull")
def has_value(_key: Any, value: Any) -> bool:
    return value is not None


@PREDICATES.named("valueIsNull")
def has_no_value(_key: Any, value: Any) -> bool:
    return value is None


@PREDICATES.named("keyNotNull")
def has_key(key: Any, _value: Any) -> bool:
    return key is not None


@PREDICATES.named("contains")
def value_contains(part: str, _key: Any, value: Any) -> bool:
    return value is not None and part in text(value)


@PREDICATES.named("always")
def always(_key: Any, _value: Any) -> bool:
    return True


@PREDICATES.named("never")
def never(_key: Any, _value: Any) -> bool:
    return False


@PREDICATES.named("throwOn")
def true_unless_failing(part: str, _key: Any, value: Any) -> bool:
    fail_on(part, value)
    return True


# aggregates of key, value and aggregate so far; reducers are the same without key

AGGREGATORS = Registry("aggregator")


@AGGREGATORS.named("concat")
def concatenated(_key: Any, value: Any, so_far: Any) -> str:
    return added(so_far, value)


@AGGREGATORS.named("minus")
def taken_away(_key: Any, value: Any, so_far: Any) -> str:
    return f"-{text(value)}" if so_far is None else f"{text(so_far)}-{text(value)}"


@AGGREGATORS.named("sum")
def summed(_key: Any, value: Any, so_far: Any) -> int:
    return as_long(num(so_far) + num(value))


@AGGREGATORS.named("subtract")
def subtracted(_key: Any, value: Any, so_far: Any) -> int:
    return as_long(num(so_far) - num(value))


@AGGREGATORS.named("count")
def counted(_key: Any, _value: Any, so_far: Any) -> int:
    return num(so_far) + 1


@AGGREGATORS.named("uncount")
def uncounted(_key: Any, _value: Any, so_far: Any) -> int:
    return num(so_far) - 1


@AGGREGATORS.named("keepLongest")
def longest(_key: Any, value: Any, so_far: Any) -> Any:
    return value if so_far is None or length(value) > length(so_far) else so_far


@AGGREGATORS.named("max")
def largest(_key: Any, value: Any, so_far: Any) -> Any:
    return value if so_far is None or num(value) > num(so_far) else so_far


@AGGREGATORS.named("last")
def last(_key: Any, value: Any, _so_far: Any) -> Any:
    return value


@AGGREGATORS.named("first")
def first(_key: Any, value: Any, so_far: Any) -> Any:
    return value if so_far is None else so_far


@AGGREGATORS.named("keyed")
def added_with_key(key: Any, value: Any, so_far: Any) -> str:
    return f"{text(so_far)}+{text(key)}={text(value)}"


@AGGREGATORS.named("resetOn")
def concatenated_or_reset(part: str, _key: Any, value: Any, so_far: Any) -> str | None:
    return None if value is not None and part in text(value) else added(so_far, value)


@AGGREGATORS.named("nullAtSum")
def summed_or_null(modulus: int, _key: Any, value: Any, so_far: Any) -> int | None:
    total = as_long(num(so_far) + num(value))
    return None if total % modulus == 0 else total


@AGGREGATORS.named("throwOn")
def concatenated_or_failing(part: str, _key: Any, value: Any, so_far: Any) -> str:
    fail_on(part, value)
    return added(so_far, value)


# joined values of key, left and right value

JOINERS = Registry("joiner")


@JOINERS.named("pairText")
def both_as_text(_key: Any, left: Any, right: Any) -> str:
    return f"{text(left)}/{text(right)}"


@JOINERS.named("keyed")
def both_with_key(key: Any, left: Any, right: Any) -> str:
    return f"{text(key)}:{text(left)}/{text(right)}"


@JOINERS.named("left")
def left_value(_key: Any, left: Any, _right: Any) -> Any:
    return left


@JOINERS.named("right")
def right_value(_key: Any, _left: Any, right: Any) -> Any:
    return right


@JOINERS.named("nullIf")
def both_unless_hash(modulus: int, rest: int, key: Any, left: Any, right: Any) -> str | None:
    both = both_as_text(key, left, right)
    return None if hash_of(both) % modulus == rest else both


@JOINERS.named("numSum")
def sum_of_both(_key: Any, left: Any, right: Any) -> int:
    return as_long(num(left) + num(right))


# timestamps of value, record's timestamp and partition time

TIMESTAMPS = Registry("timestamp extractor")


@TIMESTAMPS.named("valueNumber")
def number_as_timestamp(value: Any, _timestamp_ms: int, partition_time_ms: int) -> int:
    found = number(value)
    return partition_time_ms if found is None else found


@TIMESTAMPS.named("negativeOn")
def negative_timestamp(part: str, value: Any, timestamp_ms: int, _partition_time_ms: int) -> int:
    return -1 if value is not None and part in text(value) else timestamp_ms


@TIMESTAMPS.named("plus")
def later_timestamp(by_ms: int, _value: Any, timestamp_ms: int, _partition_time_ms: int) -> int:
    return timestamp_ms + by_ms


@TIMESTAMPS.named("partitionTime")
def partition_time(_value: Any, timestamp_ms: int, partition_time_ms: int) -> int:
    return timestamp_ms if partition_time_ms < 0 else partition_time_ms


@TIMESTAMPS.named("FailOnInvalidTimestamp", "LogAndSkipOnInvalidTimestamp", "UsePartitionTimeOnInvalidTimestamp")
def own_timestamp(_value: Any, timestamp_ms: int, _partition_time_ms: int) -> int:
    """These three of Kafka differ for a negative timestamp only, and no input has one."""
    return timestamp_ms
