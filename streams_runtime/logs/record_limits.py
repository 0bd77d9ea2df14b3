"""Checks a record against the limits of its topic, so that `send` itself refuses a record that the log would refuse.

The method `send` of every producer first calls `RecordLimits.checked`. If `send` refuses an invalid record, only this
record is refused, and earlier records are still written.

Kafka's brokers check more than the size of a record. If one record is invalid, the brokers refuse its whole batch. The
brokers refuse a batch long after `send`. The Streams task then no longer knows which input record led to the invalid
record. So in two cases, `send` itself refuses a record that the brokers would refuse. In the first case, the record's
timestamp is too far from the clock. The limits are `message.timestamp.after.max.ms`, which is one hour by default, and
`message.timestamp.before.max.ms`. In the second case, the brokers have already refused the same record. `send` had
accepted the record because this machine's clock differs from the brokers' clocks, or because the topic's configs have
changed. After the brokers have refused a record, the Streams task processes its input again and sends the same record
again. `send` then recognises the record and refuses it.

Source: `LogValidator`. Differs from Kafka: in Kafka, the broker refuses the timestamp, and then the transaction can
only be aborted.
"""

from functools import lru_cache
from typing import Any, Final

from assignor.types import JAVA_LONG_MAX, TopicPartition
from streams_runtime.common.clock import Clock, SystemClock, duration_text
from streams_runtime.common.records import (
    LATEST_MS,
    NAME_ERRORS,
    Headers,
    record_bytes,
    record_headers,
    record_timestamp,
)
from streams_runtime.logs.log_errors import InvalidRecord, InvalidTimestamp, RecordTooLarge

AnyRecord = tuple[bytes | None, bytes | None, int, Headers]
"""A record as a tuple of key, value, timestamp in milliseconds and headers."""

_MARGIN_MS = 1_000
_MOST_REFUSED = 10_000


class BrokerChecks:
    """Checks a record as the brokers do, except for its size. All producers of a log share one object for each topic.
    Any thread may call the methods of `BrokerChecks`.

    `accepted_to_ms`: a record with this timestamp or an earlier timestamp needs no check; -1 if each record needs a
    check. `check_timestamp` moves `accepted_to_ms` forward as the clock moves. So `accepted_to_ms` is never later than
    the latest timestamp that the topic allows.
    """

    def __init__(
        self, after_max_ms: int = JAVA_LONG_MAX, before_max_ms: int = JAVA_LONG_MAX, clock: Clock | None = None
    ) -> None:
        """See `configure`."""
        self.accepted_to_ms = -1
        self._clock = clock or SystemClock()
        self._after_max_ms = self._before_max_ms = -1
        self._refused: dict[AnyRecord, str] = {}
        self.configure(after_max_ms, before_max_ms)

    def configure(self, after_max_ms: int, before_max_ms: int) -> None:
        """Set the limits to the topic's present values of message.timestamp.after.max.ms and
        message.timestamp.before.max.ms.
        """
        if (after_max_ms, before_max_ms) != (self._after_max_ms, self._before_max_ms):
            self._after_max_ms, self._before_max_ms = after_max_ms, before_max_ms
            self._ahead_ms = 0  # this machine's clock is assumed to be this much ahead of the brokers' clocks
        self._move()

    def check_timestamp(self, timestamp_ms: int) -> None:
        """Raises ValueError for a timestamp that the brokers would refuse. The message of the error is the second half
        of a sentence that begins with "record for <partition>".
        """
        self._move()
        later_ms = timestamp_ms - self._clock.now_ms()
        if later_ms > self._after_max_ms - self._ahead_ms:
            if later_ms > self._after_max_ms:
                why = f"its topic takes {duration_text(self._after_max_ms)}"
            else:
                why = "the brokers have refused a record that was no further ahead"
            raise ValueError(
                f"has the timestamp {timestamp_ms}, {duration_text(later_ms)} ahead of the clock; {why} "
                "(message.timestamp.after.max.ms)"
            )
        if -later_ms > self._before_max_ms:
            raise ValueError(
                f"has the timestamp {timestamp_ms}, {duration_text(-later_ms)} behind the clock; its topic takes "
                f"{duration_text(self._before_max_ms)} (message.timestamp.before.max.ms)"
            )

    def take_refusal(self, record: AnyRecord) -> str | None:
        """If the brokers have already refused this record, returns their reason and forgets the refusal. Returns None
        for any other record.
        """
        return self._refused.pop(record, None) if self._refused else None

    def was_refused(self, record: AnyRecord, reason: str, *, for_its_timestamp: bool) -> None:
        """Remember that the brokers have refused a record, although it had passed these checks."""
        if for_its_timestamp:
            # The record's timestamp is further ahead of the brokers' clock than the topic allows. So the brokers would
            # also refuse other records that are as far ahead of this machine's clock.
            ahead_ms = self._after_max_ms - (record[2] - self._clock.now_ms()) + _MARGIN_MS
            if 0 < ahead_ms < self._after_max_ms:
                self._ahead_ms = max(self._ahead_ms, ahead_ms)
        if len(self._refused) >= _MOST_REFUSED:
            self._refused.clear()
        self._refused[record] = reason
        self._move()

    def _move(self) -> None:
        if self._refused or self._before_max_ms < JAVA_LONG_MAX:
            self.accepted_to_ms = -1
        else:
            self.accepted_to_ms = self._clock.now_ms() + self._after_max_ms - self._ahead_ms


NO_TIMESTAMP_CHECKS: Final = BrokerChecks()
"""Accepts every timestamp: the checks of a topic without limits for timestamps."""

CheckedRecord = tuple[bytes | None, bytes | None, int, Headers, int]
"""A checked record as a tuple: key, value, timestamp in milliseconds, headers, and the total size of key, value and
headers in bytes. One tuple is made for each record, and a plain tuple is cheap.
"""


def checked_headers(given: Any) -> tuple[Headers, int]:
    """Returns the headers in the types that a log accepts, and their size in bytes. Raises the errors of
    `record_headers`.
    """
    try:
        return _checked_headers(given)
    except (TypeError, ValueError):  # a list, a bytearray or a writable memoryview has no hash
        return _checked_headers.__wrapped__(given)


@lru_cache(maxsize=16)
def _checked_headers(given: Any) -> tuple[Headers, int]:
    """Keeps results, because all records of the changelog of a suppression have the same headers."""
    headers = record_headers(given)
    return headers, sum(len(name.encode(errors=NAME_ERRORS)) + len(octets or b"") for name, octets in headers)


class RecordLimits:
    """The limits of one topic. `max_bytes`: the largest total size of key, value and headers. `compacts`: True if each
    record needs a key.
    """

    __slots__ = ("checks", "compacts", "max_bytes")

    def __init__(self, max_bytes: int, compacts: bool, checks: BrokerChecks = NO_TIMESTAMP_CHECKS) -> None:
        self.max_bytes = max_bytes
        self.compacts = compacts
        self.checks = checks

    def takes_unchecked(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> bool:
        """Returns True if a record without headers certainly passes the checks of `checked`. If the result is False,
        call `checked`.
        """
        if key is None and self.compacts:
            return False
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if size > self.max_bytes or timestamp_ms < 0:
            return False
        return timestamp_ms <= self.checks.accepted_to_ms

    def checked(
        self, partition: TopicPartition, key: Any, value: Any, timestamp_ms: Any, headers: Any
    ) -> CheckedRecord:
        """Checks a record, and converts it to the types that a log accepts. Raises InvalidRecord or RecordTooLarge for
        a record that this topic does not accept.
        """
        # Fast path: nearly all records are valid, and these comparisons are cheaper than four calls.
        is_plain = (key is None or type(key) is bytes) and (value is None or type(value) is bytes)
        if not is_plain or headers or type(timestamp_ms) is not int or not 0 <= timestamp_ms <= LATEST_MS:
            try:
                key, value = record_bytes("key", key), record_bytes("value", value)
                timestamp_ms, (headers, headers_size) = record_timestamp(timestamp_ms), checked_headers(headers)
            except ValueError as error:
                raise InvalidRecord(f"record for {partition} {error}") from None
        else:
            headers, headers_size = (), 0
        checks = self.checks
        if timestamp_ms > checks.accepted_to_ms:
            try:
                checks.check_timestamp(timestamp_ms)
            except ValueError as error:
                raise InvalidTimestamp(f"record for {partition} {error}") from None
            if reason := checks.take_refusal((key, value, timestamp_ms, headers)):
                raise InvalidRecord(f"record for {partition} was refused by the brokers: {reason}")
        size = (0 if key is None else len(key)) + (0 if value is None else len(value)) + headers_size
        if key is None and self.compacts:
            raise InvalidRecord(f"record for {partition} has no key, and the topic is compacted by key")
        if size > self.max_bytes:
            raise RecordTooLarge(
                f"record for {partition} has {size} bytes, and its topic takes {self.max_bytes} (max.message.bytes)"
            )
        return key, value, timestamp_ms, headers, size
