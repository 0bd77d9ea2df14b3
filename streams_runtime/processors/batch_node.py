"""A running node whose processor takes batches: columns from the loop, else one record after the other.

A processor takes batches if it has `process_batch`. If it has `process` as well, that is called for a record that
comes alone. Source: none in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Record
from streams_runtime.processors.api import Processor
from streams_runtime.processors.batch_sections import BatchSection
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.processors.nodes import ProcessorRunner, SinkRunner


class BatchProcessorRunner(ProcessorRunner):
    """A user's processor that has `process_batch`, with its context."""

    __slots__ = ()

    takes_batches = True

    def _for_one(self) -> Callable[[Record[Any, Any]], None]:
        return self._own_process() or self._batch_of_one

    def _own_process(self) -> Callable[[Record[Any, Any]], None] | None:
        process = getattr(self.processor, "process", None)
        return None if getattr(process, "__func__", None) is Processor.process else process

    def fuse(self, loop: LoopWriter, given: Given) -> None:
        why = "it gets the changes of a table" if given.old else loop.hindrances.get(self.name, "")
        if not loop.takes_batches:
            why = "a node above it hands on one record after the other"
        if why:
            self.call_in(loop, given, why)
        else:
            loop.collect(self.name, self._section, given)

    def _section(self, below: LoopWriter) -> BatchSection:
        below.written(self.below, partial(below.forward, below.row))
        retries = bool(getattr(self.processor, "retries_one_by_one", False))
        only = self.below[0] if len(self.below) == 1 else None
        to_sink = only.columns_writer(below.outputs) if isinstance(only, SinkRunner) else None
        return BatchSection(
            self.name, self._give, self._context, self._current, below, to_sink, retries_one_by_one=retries
        )

    def _give(self, batch: RecordColumns[Any, Any]) -> None:
        process = self._own_process() if len(batch) == 1 else None
        if process is not None:
            process(next(iter(batch)))
        else:
            self.processor.process_batch(batch)  # type: ignore[attr-defined]  # else the graph makes another runner

    def _batch_of_one(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        batch: RecordColumns[Any, Any] = RecordColumns.trusted([key], [value], [timestamp_ms], headers)
        self.processor.process_batch(batch)  # type: ignore[attr-defined]  # as above


def takes_batches(processor: object) -> bool:
    """Whether a processor has `process_batch`."""
    return callable(getattr(processor, "process_batch", None))
