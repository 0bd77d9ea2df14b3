"""Batches inside a fused loop: the loop goes over the records and collects those that a node takes together. Then the
node is called with them, and what it hands on goes through a loop of its own.

    loop over records  ->  batch  ->  process_batch  ->  loop over the rows that it forwards  ->  ...

Rules:
- `batch_order` says which nodes may. Then nothing can be told from calling the node with one record after the other.
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
from typing import Any, NamedTuple, Protocol

from streams_runtime.common.errors import SchemaRegistryUnavailable, WrongBatchResult
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Record
from streams_runtime.processors.current_node import CurrentNode
from streams_runtime.processors.fused_loop import FusedLoop, Given, LoopWriter, WriteColumns
from streams_runtime.processors.runtime import ABOUT_THE_TASK

_NEVER_AGAIN = (*ABOUT_THE_TASK, SchemaRegistryUnavailable, WrongBatchResult)
"""Another try with less records would hide what is wrong, or fail as well."""


class ForwardsRows(Protocol):
    """The context of a node that takes batches."""

    take_rows: Callable[[RecordColumns[Any, Any]], None] | None
    """Takes what the node hands on to all its children, while it has a batch of a loop."""


class BatchRuntime(Protocol):
    """What a section asks of its task, and tells it. `ProcessorRuntime` is one."""

    record: Record[Any, Any] | None
    stream_time_ms: int
    has_several: bool
    """Whether a node has several input records at once: no error of one that it hands on alone is about `record`."""

    def record_failed(self, place: int, node: str, error: Exception) -> None:
        """An error about the record at this place of the polled columns came from this node.

        Returns when the task may go on without the record; raises an error that is not about it.
        """
        ...


class SectionBatch(NamedTuple):
    """`places`: of the input record of each row in the polled columns. `offsets` and `input_ms` are of those."""

    columns: RecordColumns[Any, Any]
    places: Sequence[int]
    stream_times_ms: Sequence[int]
    queue: Any
    offsets: Sequence[int]
    input_ms: Sequence[int]

    def row(self, index: int) -> SectionBatch:
        given, only = self.columns, slice(index, index + 1)
        alone: RecordColumns[Any, Any] = RecordColumns.trusted(
            [given.keys[index]], [given.values[index]], [given.timestamps_ms[index]]
        )
        return self._replace(columns=alone, places=self.places[only], stream_times_ms=self.stream_times_ms[only])


class BatchSection:
    """A node that takes batches, the rows collected for it, and the loop of what is below it.

    `give`: calls the node with a batch. `to_sink`: writes columns, where a sink is all that is below. The lists stay
    the same objects, because loops know their `append`.
    """

    __slots__ = (
        "_batch", "_below", "_context", "_current", "_give", "_name", "_retries", "_runtime", "_tail", "_to_sink",
        "keys", "places", "stream_times_ms", "timestamps_ms", "values",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        give: Callable[[RecordColumns[Any, Any]], None],
        context: ForwardsRows,
        current: CurrentNode,
        below: LoopWriter,
        to_sink: WriteColumns | None,
        *,
        retries_one_by_one: bool,
    ) -> None:
        self._name = name
        self._give = give
        self._context = context
        self._current = current
        self._below = below
        self._to_sink = to_sink
        self._retries = retries_one_by_one
        self._runtime: BatchRuntime
        self._tail: FusedLoop | None = None
        self._batch: SectionBatch | None = None
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.timestamps_ms: list[int] = []
        self.places: list[int] = []
        self.stream_times_ms: list[int] = []

    # --- while the loop is written

    def write(self, loop: LoopWriter, given: Given) -> None:
        """See `Section`."""
        for column, variable in (
            (self.keys, given.key),
            (self.values, given.value),
            (self.timestamps_ms, given.timestamp_ms),
            (self.places, "at"),
            (self.stream_times_ms, "stream_time_ms"),
        ):
            loop.line(f"{loop.bind('add', column.append)}({variable})")

    def compile(self, runtime: Any) -> None:
        """See `Section`."""
        self._runtime = runtime
        self._tail = self._below.compiled(self._current, runtime)

    # --- while it runs

    def clear(self) -> None:
        """Forget what was collected here and below."""
        for column in (self.keys, self.values, self.timestamps_ms, self.places, self.stream_times_ms):
            column.clear()
        for section in self._sections:
            section.clear()

    def run(self, queue: Any, offsets: Sequence[int], input_ms: Sequence[int]) -> None:
        """Call the node with what was collected. Raises what ends the run; handlers decide about the rest."""
        if not self.places:
            return
        columns = RecordColumns.trusted(self.keys[:], self.values[:], self.timestamps_ms[:])
        batch = SectionBatch(columns, self.places[:], self.stream_times_ms[:], queue, offsets, input_ms)
        self.clear()
        self.run_batch(batch)

    def run_batch(self, batch: SectionBatch) -> None:
        """As `run`, with what the loop did not have to collect."""
        try:
            self._call(batch)
        except Exception as error:
            node = self._failed_at()
            if len(batch.places) > 1 and self._retries and not isinstance(error, _NEVER_AGAIN):
                self._run_one_by_one(batch)
                return
            for place in dict.fromkeys(batch.places):
                self._runtime.record_failed(place, node, error)

    def _run_one_by_one(self, batch: SectionBatch) -> None:
        for index, place in enumerate(batch.places):
            try:
                self._call(batch.row(index))
            except Exception as error:
                self._runtime.record_failed(place, self._failed_at(), error)

    def _call(self, batch: SectionBatch) -> None:
        current, context = self._current, self._context
        if current.failed_at:
            current.forget()
        self._batch = batch
        self._stand_at_the_last(batch)
        context.take_rows = self._take
        try:
            self._give(batch.columns)
        except BaseException as error:
            current.failed(error, None)
            raise
        finally:
            self._runtime.has_several = False
            context.take_rows = None
            self._batch = None
            current.name = None
            current.timestamp_ms = -1

    def _stand_at_the_last(self, batch: SectionBatch) -> None:
        """While the node runs, the record that is processed is the last one of the batch."""
        columns, runtime, current = batch.columns, self._runtime, self._current
        batch.queue.polled(batch.places[-1])
        timestamp_ms = columns.timestamps_ms[-1]
        runtime.record = Record(columns.keys[-1], columns.values[-1], timestamp_ms)
        runtime.stream_time_ms = batch.stream_times_ms[-1]
        runtime.has_several = len(batch.places) > 1
        current.name = self._name
        current.timestamp_ms, current.headers = timestamp_ms, ()

    def _take(self, rows: RecordColumns[Any, Any]) -> None:
        """Run what the node hands on through the loop below."""
        batch, tail = self._batch, self._tail
        assert batch is not None
        assert tail is not None
        if self._to_sink is not None and self._to_sink(rows.keys, rows.values, rows.timestamps_ms):
            return
        origins = rows.origins(batch.columns)
        if isinstance(origins, range):
            places, stream_times_ms = batch.places, batch.stream_times_ms
        else:
            places = [batch.places[origin] for origin in origins]
            stream_times_ms = [batch.stream_times_ms[origin] for origin in origins]
        columns = (rows.keys, rows.values, rows.timestamps_ms, places, stream_times_ms)
        start, count = 0, len(rows)
        self._current.name = None
        self._runtime.has_several = False
        while start < count:
            try:
                tail.run(batch.queue, *columns, batch.offsets, batch.input_ms, start)
                break
            except Exception as error:
                failed = tail.at
                self._runtime.record_failed(places[failed], self._failed_at(), error)
                start = failed + 1
        for section in self._sections:
            section.run(batch.queue, batch.offsets, batch.input_ms)
        self._stand_at_the_last(batch)

    def _failed_at(self) -> str:
        """The node that the error came from, which is forgotten with that."""
        node = self._current.failed_at or self._name
        self._current.forget()
        return node

    @property
    def _sections(self) -> list[BatchSection]:
        return list(self._below.sections.values())  # type: ignore[arg-type]  # there are no others
