"""A running node whose processor takes batches: it collects the records of a run, and hands them over at the end of it.

A processor takes batches if it has `process_batch`. If it has `process` as well, that is called for a record that comes
alone.

Rules:
- `batch_order` decides which nodes collect: those where collecting changes no result.
- A record comes alone if it has headers, or if it comes from a punctuation or a flush instead of a run. So does one
  that a node above forwards by itself while it has a batch: its input record is not known.
- During `process_batch` the record that is processed is the last one of the batch. While a row that the node hands on
  goes through the nodes below, it is the record of which the row was made.
- A row that fails below goes to the handler of processing errors with its input record, as it would alone, and the
  next row goes on.
- When `process_batch` itself fails, the handler decides about each record of the batch. A node that says
  `retries_one_by_one` is called again with one record after the other first, and only those that fail count.
- After an error that is not about a record (the log is away, the handler wants the thread to end), nothing of the run
  counts as processed. At-least-once, the whole run comes again; exactly-once, nothing of it was committed.

Source: none in Kafka. What a handler decides is that of KIP-1033, record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streams_runtime.common.errors import SchemaRegistryUnavailable, WrongBatchResult
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Headers, Record
from streams_runtime.processors.api import Processor
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.current_node import CurrentNode
from streams_runtime.processors.nodes import ProcessorRunner
from streams_runtime.processors.receivers import Children, Receiver, ReceiverNames
from streams_runtime.processors.runtime import ABOUT_THE_TASK, RunPosition, TaskRuntime

_NEVER_AGAIN = (*ABOUT_THE_TASK, SchemaRegistryUnavailable, WrongBatchResult)
"""Another try with less records would hide what is wrong, or fail as well."""

AnyColumns = RecordColumns[Any, Any]


class _CollectedRecords(NamedTuple):
    """`positions`: of the input record of each row."""

    columns: AnyColumns
    positions: Sequence[RunPosition]

    def row(self, index: int) -> _CollectedRecords:
        given = self.columns
        alone: AnyColumns = RecordColumns.trusted(
            [given.keys[index]], [given.values[index]], [given.timestamps_ms[index]]
        )
        return _CollectedRecords(alone, [self.positions[index]])


class BatchContext(NodeContext):
    """The context of a node that takes batches: it knows of which record each row was made."""

    __slots__ = ("_batch",)

    def __init__(self, name: str, connected_stores: frozenset[str], current: CurrentNode, names: ReceiverNames) -> None:
        super().__init__(name, connected_stores, current, names)
        self._batch: _CollectedRecords | None = None

    def forward_batch(self, columns: AnyColumns, child: str | None = None) -> None:
        """See `ProcessorContext.forward_batch`."""
        batch = self._batch
        if batch is None or not isinstance(columns, RecordColumns):
            super().forward_batch(columns, child)
            return
        task, last = self._task("forward_batch"), batch.positions[-1]
        try:
            for record, origin in zip(columns, columns.origins(batch.columns), strict=True):
                task.move_to(batch.positions[origin], several=False)
                self.forward(record, child)
        finally:
            task.move_to(last, several=len(batch.positions) > 1)

    def hand_over(self, batch: _CollectedRecords, process_batch: Callable[[AnyColumns], None]) -> None:
        """Call the processor with these records. Raises what it raises."""
        task, current = self._task("process_batch"), self.current
        self._batch = batch
        task.move_to(batch.positions[-1], several=len(batch.positions) > 1)
        current.name = self.name
        current.works_on(batch.columns.timestamps_ms[-1], ())
        try:
            process_batch(batch.columns)
        finally:
            self._batch = None
            current.name = None

    def row_failed(self, position: RunPosition, error: Exception) -> None:
        """As `failed`, for the record at this position of the run."""
        task = self._task("process_batch")
        task.move_to(position, several=False)
        if not task.node_failed(self._names.failed_node(error) or self.name, error):
            raise error


class BatchRunner(ProcessorRunner):
    """A user's processor that has `process_batch`, with its context.

    `alone_because`: the reason why the node gets batches of one record; empty where it collects. The graph sets it.
    """

    takes_batches = True

    __slots__ = ("_batches", "_keys", "_positions", "_runtime", "_timestamps_ms", "_values", "alone_because")

    def __init__(self, processor: Processor[Any, Any], context: BatchContext) -> None:
        super().__init__(processor, context)
        self.alone_because = ""
        self._batches = context
        self.clear()

    def clear(self) -> None:
        """Forget what was collected."""
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._timestamps_ms: list[int] = []
        self._positions: list[RunPosition] = []

    def init(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime
        super().init(runtime)

    def connect(self, children: Children) -> Receiver:
        self._context.connect(children)
        runtime, name, current = self._runtime, self.name, self._context.current
        process = self._own_process() or self._batch_of_one
        collects = not self.alone_because

        def batches(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            position = runtime.position if collects and not headers else None
            if position is not None and not position.several:
                self._keys.append(key)
                self._values.append(value)
                self._timestamps_ms.append(timestamp_ms)
                self._positions.append(position)
                return
            if collects:
                self.run_collected()
            current.name, current.timestamp_ms, current.headers = name, timestamp_ms, headers
            try:
                process(Record(key, value, timestamp_ms, headers))
            finally:
                current.name = None

        return batches

    def run_collected(self) -> None:
        """Hand over what was collected. Raises what ends the run; handlers decide about the rest."""
        if not self._positions:
            return
        batch = _CollectedRecords(RecordColumns.trusted(self._keys, self._values, self._timestamps_ms), self._positions)
        self.clear()
        before = self._runtime.position
        try:
            self._run(batch)
        finally:
            if before is not None:
                self._runtime.move_to(before, several=before.several)

    def _run(self, batch: _CollectedRecords) -> None:
        try:
            self._batches.hand_over(batch, self._give)
        except Exception as error:
            retries = getattr(self.processor, "retries_one_by_one", False) and not isinstance(error, _NEVER_AGAIN)
            if retries and len(batch.positions) > 1:
                self._run_one_by_one(batch)
                return
            for position in dict.fromkeys(batch.positions):
                self._batches.row_failed(position, error)

    def _run_one_by_one(self, batch: _CollectedRecords) -> None:
        for index, position in enumerate(batch.positions):
            try:
                self._batches.hand_over(batch.row(index), self._give)
            except Exception as error:
                self._batches.row_failed(position, error)

    def _give(self, batch: AnyColumns) -> None:
        process = self._own_process() if len(batch) == 1 else None
        if process is not None:
            process(next(iter(batch)))
        else:
            self.processor.process_batch(batch)  # type: ignore[attr-defined]  # else the graph makes another runner

    def _own_process(self) -> Callable[[Record[Any, Any]], None] | None:
        process = self.processor.process
        return None if getattr(process, "__func__", None) is Processor.process else process

    def _batch_of_one(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        batch: AnyColumns = RecordColumns.trusted([key], [value], [timestamp_ms], headers)
        self.processor.process_batch(batch)  # type: ignore[attr-defined]  # as above


def takes_batches(processor: object) -> bool:
    """Whether a processor has `process_batch`."""
    return callable(getattr(processor, "process_batch", None))
