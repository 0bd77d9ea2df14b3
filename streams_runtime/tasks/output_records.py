"""The collected records of one output partition, for `RecordCollector`. Each output record of a task passes through
this file, so the file is compiled.
"""

from __future__ import annotations

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.record_limits import RecordLimits

MOST_ROWS = 10_000
"""If this number of records is collected for one partition, all collected records are passed to the producer. Usually
the collected records are passed to the producer at the end of `ProcessorRuntime.process`. The limit is needed because a
single call of a processor or punctuator may write any number of records.
"""


class OutputRecords:
    """Records of one partition that were not passed to the producer yet, as lists of the same length. Sending many
    records in one call takes a fifth of the time of separate calls. `limits`: the topic's limits for a record.
    `pending`: the list of the task's partitions that have collected records; `add` appends its partition to this list.
    """

    __slots__ = ("headers", "keys", "limits", "partition", "pending", "timestamps_ms", "values")

    def __init__(self, partition: TopicPartition, limits: RecordLimits, pending: list[OutputRecords]) -> None:
        self.partition = partition
        self.limits = limits
        self.pending = pending
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []
        self.headers: list[Headers] | None = None

    def add(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> bool:
        """Add a checked record. Returns True if `MOST_ROWS` records are collected now."""
        if not self.keys:
            self.pending.append(self)
        if self.headers is None and headers:
            self.headers = [()] * len(self.keys)
        if self.headers is not None:
            self.headers.append(headers)
        self.keys.append(key)
        self.values.append(value)
        self.timestamps_ms.append(timestamp_ms)
        return len(self.keys) >= MOST_ROWS

    def add_unchecked(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> bool:
        """Add a record without headers. If the limits do not certainly accept the record, or if no more records should
        be collected, returns False and adds nothing.
        """
        if len(self.keys) >= MOST_ROWS or not self.limits.takes_unchecked(key, value, timestamp_ms):
            return False
        self.add(key, value, timestamp_ms, ())
        return True

    def clear(self) -> None:
        self.headers = None
        self.keys.clear()
        self.values.clear()
        self.timestamps_ms.clear()
