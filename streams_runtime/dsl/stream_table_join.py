"""Every record of a stream meets the table's value of its key at that moment; updates of the table send nothing.

A record without key or value is left out; a left join passes a record without key on, with no table value (KIP-962).
Source: `KStreamKTableJoin`, `KStreamKTableJoinProcessor` without grace period.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.table_supplier import TableSupplier
from streams_runtime.processors.api import ProcessorContext
from streams_runtime.records import Record

Joiner = Callable[[Any, Any], Any]
"""The stream's value and the table's (None in a left join without match) to the result."""


class StreamTableJoinProcessor(ForwardingProcessor[Any, Any]):
    def __init__(self, table: TableSupplier, joiner: Joiner) -> None:
        super().__init__()
        self._table = table
        self._joiner = joiner

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._get = self._table.getter(context)

    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        if key is None or value is None:
            self.drop("null join key or value")
            return
        found = self._get(key)
        if found is not None:
            self.forward(Record(key, self._joiner(value, found.value), timestamp_ms, headers))


class StreamTableLeftJoinProcessor(StreamTableJoinProcessor):
    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        if value is None:
            self.drop("null join key or value")
            return
        found = None if key is None else self._get(key)
        joined = self._joiner(value, None if found is None else found.value)
        self.forward(Record(key, joined, timestamp_ms, headers))
