"""What a topic takes as one record, so that `send` itself refuses a record that the log would refuse.

`send` of every producer begins with `RecordLimits.checked`, so a wrong record is refused alone: what was taken before
it is still written. Source: `LogValidator`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.broker_checks import BrokerChecks
from streams_runtime.logs.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge
from streams_runtime.record_checks import LATEST_MS, NAME_ERRORS, record_bytes, record_headers, record_timestamp
from streams_runtime.records import Headers

CheckedRecord = tuple[bytes | None, bytes | None, int, Headers, int]
"""Key, value, timestamp in milliseconds, headers, and how many bytes key, value and headers have. Plain, because one is
made for each record.
"""


class RecordLimits(NamedTuple):
    """`max_bytes`: of key, value and headers together. `compacts`: every record needs a key. `checks`: None where
    nobody looks at timestamps.
    """

    max_bytes: int
    compacts: bool
    checks: BrokerChecks | None = None

    def takes_unchecked(self, key: bytes, value: bytes | None, timestamp_ms: int) -> bool:
        """Whether `checked` would take this record without headers, as far as can be seen at a glance."""
        size = len(key) + (0 if value is None else len(value))
        return size <= self.max_bytes and (self.checks is None or timestamp_ms <= self.checks.rows_pass_to_ms)

    def checked(
        self, partition: TopicPartition, key: Any, value: Any, timestamp_ms: Any, headers: Any
    ) -> CheckedRecord:
        """The record as a log takes it. Raises InvalidRecord, RecordTooLarge for one that no log or not this topic
        takes.
        """
        # nearly all records are as they have to be, and to see that here is cheaper than four calls
        is_plain = (key is None or type(key) is bytes) and (value is None or type(value) is bytes)
        if not is_plain or headers or type(timestamp_ms) is not int or not 0 <= timestamp_ms <= LATEST_MS:
            try:
                key, value = record_bytes("key", key), record_bytes("value", value)
                timestamp_ms, headers = record_timestamp(timestamp_ms), record_headers(headers)
            except ValueError as error:
                raise InvalidRecord(f"record for {partition} {error}") from None
        else:
            headers = ()
        checks = self.checks
        if checks is not None and timestamp_ms > checks.rows_pass_to_ms:
            try:
                checks.check_timestamp(timestamp_ms)
            except ValueError as error:
                raise InvalidTimestamp(f"record for {partition} {error}") from None
            if reason := checks.take_refusal((key, value, timestamp_ms, headers)):
                raise InvalidRecord(f"record for {partition} was refused by the brokers: {reason}")
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if headers:
            size += sum(len(name.encode(errors=NAME_ERRORS)) + len(octets or b"") for name, octets in headers)
        if key is None and self.compacts:
            raise InvalidRecord(f"record for {partition} has no key, and the topic is compacted by key")
        if size > self.max_bytes:
            raise RecordTooLarge(
                f"record for {partition} has {size} bytes, and its topic takes {self.max_bytes} (max.message.bytes)"
            )
        return key, value, timestamp_ms, headers, size
