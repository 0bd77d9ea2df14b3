"""What an application wrote, as one small value that is equal when the results are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from streams_runtime.logs.base import Log
from streams_runtime.logs.topic_reading import read_topic
from streams_runtime.serdes import BYTES

_DIGEST_BYTES = 8
_MASK = (1 << 64) - 1


class OutputRecord(NamedTuple):
    key: bytes
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Outputs:
    """`written`: how many records there were. `compared`: how many of them `digest` is of, in no order."""

    written: int
    compared: int
    digest: str


def outputs_of(records: Iterable[OutputRecord], *, every_record: bool) -> Outputs:
    """Of every record, or else of the last one of each key: how many a record cache lets through is up to its size."""
    written = total = compared = 0
    if not every_record:
        newest: dict[bytes, OutputRecord] = {}
        for record in records:
            written += 1
            newest[record.key] = record
        records = newest.values()
    for record in records:
        compared += 1
        total = (total + _number_of(record)) & _MASK
    return Outputs(compared if every_record else written, compared, f"{total:016x}")


def _number_of(record: OutputRecord) -> int:
    key, value, timestamp_ms = record
    text = b"%d %d %b%b" % (timestamp_ms, len(key), key, b"-" if value is None else b"+" + value)
    return int.from_bytes(blake2b(text, digest_size=_DIGEST_BYTES).digest(), "big")


def read_records(log: Log, topic: str) -> Iterable[OutputRecord]:
    """Committed ones, as far as there are any when the reading begins. Each key is in order."""
    for record in read_topic(log, topic, BYTES, BYTES):
        assert record.key is not None, "every result has a key"
        yield OutputRecord(record.key, record.value, record.timestamp_ms)


def check_equal(cell: str, found: Mapping[str, Outputs], *, every_record: bool) -> Outputs:
    """What all of them wrote. Raises AssertionError that names those who wrote something else than the first one."""
    first, *others = found
    expected = found[first]
    for other in others:
        outputs = found[other]
        same = (outputs.compared, outputs.digest) == (expected.compared, expected.digest)
        what = "results" if every_record else "last results of the keys"
        assert same, f"{cell}: the {what} of {other} ({outputs}) are not those of {first} ({expected})"
    return expected
