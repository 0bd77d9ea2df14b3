"""Records, their origins (topic, partition, offset), and the checks that each record has to pass.

- `record_bytes` checks a key or a value, which must be bytes or None.
- `record_timestamp` checks a timestamp, which must be a whole number of milliseconds from 0 to 2^63-1.
- `record_headers` checks headers, which must be pairs of a name and bytes or None.
- `check_milliseconds` checks the times of windows and stores, which must be whole numbers.

Records are checked when user code passes them to `forward`, `send`, a sink or a store. So an error shows the record,
the node and the line of user code, and only this record fails. Rules: a bytearray or memoryview is copied into bytes,
because its owner may change the content before the record is written. A whole number of another type, such as a numpy
integer, becomes an int. The name of a header may contain surrogates, because another client may have written a name
that is not UTF-8. A check raises ValueError for an invalid value. The error's text has no subject, for example "has a
timestamp of type str", because the caller adds the subject. Source: `Record`, `RecordMetadata` of the processor API.
"""

from operator import index
from typing import Any, Final, Generic, NamedTuple, SupportsIndex, TypeVar

from assignor.errors import IllegalArgumentError
from kafka_client.record_batches import NAME_ERRORS as NAME_ERRORS
from kafka_client.record_batches import BytesColumn as BytesColumn
from kafka_client.record_batches import Headers as Headers

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class Record(NamedTuple, Generic[K, V]):
    """A record. A record is immutable; `_replace` makes a changed copy. `timestamp_ms`: milliseconds since 1970, not
    negative.
    """

    key: K
    value: V
    timestamp_ms: int
    headers: Headers = ()


class RecordMetadata(NamedTuple):
    """The origin of the input record that is being processed."""

    topic: str
    partition: int
    offset: int


class RawRecord(NamedTuple):
    """An input record as it was read, before serdes and timestamp extractors. If a record fails, the dead letter is
    made from its `RawRecord`.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


LATEST_MS: Final = 2**63 - 1


def bytes_of(given: Any) -> bytes:
    """Converts bytes, a bytearray or a memoryview to bytes. Raises TypeError for other types, so that the number 5 does
    not become five zero bytes.
    """
    if type(given) is bytes:
        return given
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"bytes are needed, not {_type_name(given)}")


def record_bytes(part: str, given: Any) -> bytes | None:
    """`part`: "key" or "value"."""
    try:
        return None if given is None else bytes_of(given)
    except TypeError:
        raise ValueError(f"has a {part} of type {_type_name(given)}: a log takes bytes or None") from None


def record_timestamp(given: Any) -> int:
    timestamp_ms = given if type(given) is int else _whole_number(given)
    if timestamp_ms is None:
        raise ValueError(
            f"has a timestamp of type {_type_name(given)}: whole milliseconds since the epoch are needed, as in "
            "int(time.time() * 1000)"
        )
    if 0 <= timestamp_ms <= LATEST_MS:
        return timestamp_ms
    if timestamp_ms < 0:
        raise ValueError(f"has the timestamp {timestamp_ms}; it must not be negative")
    raise ValueError(f"has the timestamp {timestamp_ms}; the greatest one is 2^63-1 milliseconds")


def check_milliseconds(**times: object) -> None:
    """Raises IllegalArgumentError if a time is no whole number, for example a timedelta."""
    for name, time in times.items():
        if not isinstance(time, SupportsIndex):
            raise IllegalArgumentError(f"{name} must be a whole number of milliseconds, such as 300_000, not {time!r}")


def record_headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    if not given:
        return ()
    if not isinstance(given, tuple | list):
        raise ValueError(f"has headers of type {_type_name(given)}: a tuple of pairs (name, bytes or None) is needed")
    return tuple(map(_header, given))


def record_partition(given: Any, count: int) -> int:
    """`count`: the number of partitions of the topic."""
    partition = given if type(given) is int else _whole_number(given)
    if partition is None:
        raise ValueError(f"has a partition of type {_type_name(given)}: a whole number from 0 to {count - 1} is needed")
    if not 0 <= partition < count:
        raise ValueError(f"has the partition {partition}, and its topic has 0 to {count - 1}")
    return partition


def _header(given: Any) -> tuple[str, bytes | None]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"has a header that is no pair (name, bytes or None) but of type {_type_name(given)}")
    name, value = given
    if not isinstance(name, str):
        raise ValueError(f"has a header with a name of type {_type_name(name)}: names are text")
    # If the header's name is a member of a string enum, use the value of this member. `str(name)` could return the
    # member's name instead.
    name = str.__str__(name)
    try:
        name.encode(errors=NAME_ERRORS)
    except UnicodeEncodeError:
        raise ValueError(f"has a header whose name cannot be written as UTF-8: {name!a}") from None
    try:
        return name, record_bytes("value", value)
    except ValueError:
        raise ValueError(
            f"has a header {name!a} with a value of type {_type_name(value)}: headers have bytes or None, as "
            "text.encode() gives"
        ) from None


def _whole_number(given: Any) -> int | None:
    """Returns the value as an int, or None if it is not a whole number. A bool is not accepted, although Python treats
    it as an int.
    """
    if isinstance(given, bool):
        return None
    try:
        return index(given)
    except TypeError:
        return None


def _type_name(given: object) -> str:
    kind = type(given)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
