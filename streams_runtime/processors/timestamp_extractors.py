"""Timestamp extractors that are ready to use. A source without an extractor uses the timestamp of the record, and drops
a record with a negative timestamp.

A timestamp is invalid if it is negative. Kafka's brokers give the timestamp -1 to records of producers that know no
timestamps. Source: `FailOnInvalidTimestamp`, `LogAndSkipOnInvalidTimestamp`, `UsePartitionTimeOnInvalidTimestamp`,
`WallclockTimestampExtractor`.
"""

import logging
from typing import Any

from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Record

_logger = logging.getLogger(__name__)


def fail_on_invalid_timestamp(record: Record[Any, Any], partition_time_ms: int) -> int:
    """Returns the record's timestamp. Raises StreamsRuntimeError for an invalid timestamp."""
    if record.timestamp_ms < 0:
        raise StreamsRuntimeError(
            f"the record has the invalid timestamp {record.timestamp_ms}; use another timestamp extractor to process it"
        )
    return record.timestamp_ms


def log_and_skip_on_invalid_timestamp(record: Record[Any, Any], partition_time_ms: int) -> int:
    """Returns the record's timestamp. A record with an invalid timestamp is logged and dropped."""
    if record.timestamp_ms < 0:
        _logger.warning("a record is dropped, because it has the invalid timestamp %d", record.timestamp_ms)
    return record.timestamp_ms


def use_partition_time_on_invalid_timestamp(record: Record[Any, Any], partition_time_ms: int) -> int:
    """Returns the record's timestamp, or the partition time if the timestamp is invalid. Raises StreamsRuntimeError if
    there is no partition time yet.
    """
    if record.timestamp_ms >= 0:
        return record.timestamp_ms
    if partition_time_ms < 0:
        raise StreamsRuntimeError(
            f"the record has the invalid timestamp {record.timestamp_ms}, and its partition has no time yet"
        )
    return partition_time_ms


def wallclock_timestamp(record: Record[Any, Any], partition_time_ms: int) -> int:
    """Returns the time of this machine's clock, so that the time of a record is the time of its processing."""
    return SystemClock().now_ms()
