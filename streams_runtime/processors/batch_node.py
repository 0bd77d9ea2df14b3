"""The nodes of processors that take batches. This module decides whether a node that takes batches collects records,
and passes each batch to the processor.

A processor takes batches if it has `process_batch`. Consecutive records of one partition form a run. A collecting node
stores the records of a run, and passes them to its processor as one batch at the end of the run. A single record is a
record that is not part of a batch. If the processor also has `process`, the node calls `process` for each single
record.

When a node collects records, the order of processing changes. Nodes in other branches process the whole run first. Then
the nodes below the collecting node process the records of the run. So a node collects records only if the different
order does not change results. The conditions are:
- Each record reaches the collecting node on only one path. With two paths, a node of one path could collect a record,
  and the next record could overtake it on the other path.
- The collecting node and the nodes below it do not share a state store or a topic with other nodes. Records reach the
  nodes below the collecting node only through the collecting node.
- No node above the collecting node has a state store, and every user's processor above it has `process_batch`. If an
  error of the log interrupts a run, the run is processed again. In the second try, a store above the collecting node
  would already contain the changes of the first try.
If a node that takes batches does not meet these conditions, it gets batches of one record.

Rules of a batch:
- A record is single if it has headers, or if a punctuation or a flush forwards it. A record is also single if a node
  above processes a batch and calls `forward` instead of `forward_batch`. It is not known from which input record such a
  record was made.
- During `process_batch`, the current record of the task is the last record of the batch. While the nodes below process
  a forwarded row, the current record is the input record from which the row was made.
- If a node below fails for a row, the handler of processing errors gets the input record of this row. If the handler
  decides to continue, the next row is processed.
- If `process_batch` itself raises an error and `retries_one_by_one` is False, the handler is called for each record of
  the batch. If `retries_one_by_one` is True, `process_batch` is called again, once for each record of the batch. The
  handler is called only for records that fail again.
- Some errors do not belong to one record: for example, the log does not answer, or the handler ends the thread. After
  an error that does not belong to one record, no record of the run counts as processed. With at-least-once, the task
  processes the whole run again after this error. With exactly-once, the task commits no part of the run.

Kafka has no batches of records for processors. As in KIP-1033, each call of the handler of processing errors concerns
one record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from streams_runtime.common.errors import SchemaRegistryUnavailable, WrongBatchResult
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Headers, Record
from streams_runtime.processors.api import Processor
from streams_runtime.processors.context import Children, CurrentNode, NodeContext, Receiver
from streams_runtime.processors.nodes import NodeRunner, ProcessorRunner, SinkRunner, SourceRunner
from streams_runtime.processors.runtime import TASK_ERRORS, RunPosition, TaskRuntime

_NOT_RETRIED = (*TASK_ERRORS, SchemaRegistryUnavailable, WrongBatchResult)
"""If `process_batch` raises one of these errors, it is not called again for single records. Further calls would fail
again, or would hide a mistake in the user's function.
"""

AnyColumns = RecordColumns[Any, Any]


class RunsHow(StrEnum):
    """How often the task calls a node: once for each batch, or once for each record."""

    ONCE_A_BATCH = "once a batch"
    ONCE_A_RECORD = "once a record"


class NodeRun(NamedTuple):
    """A result of `TopologyTestDriver.node_runs`. `how`: how often the node is called.

    `why`: the reason why a node that takes batches gets batches of one record; empty for other nodes.
    """

    how: RunsHow
    why: str = ""

    def __str__(self) -> str:
        return f"{self.how}: {self.why}" if self.why else str(self.how)


class _CollectedRecords(NamedTuple):
    """The collected records of a node, as columns. `positions`: for each row, the position of its input record."""

    columns: AnyColumns
    positions: Sequence[RunPosition]

    def row(self, index: int) -> _CollectedRecords:
        """Returns a batch that contains only the row at this index."""
        columns = self.columns
        row: AnyColumns = RecordColumns.trusted(
            [columns.keys[index]], [columns.values[index]], [columns.timestamps_ms[index]]
        )
        return _CollectedRecords(row, [self.positions[index]])


class BatchContext(NodeContext):
    """The context of a node that takes batches. During a call of `process_batch`, the context stores the batch. For
    each row, it also stores the position of the input record.
    """

    __slots__ = ("_batch",)

    def __init__(self, name: str, connected_stores: frozenset[str], current: CurrentNode) -> None:
        super().__init__(name, connected_stores, current)
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
                task.move_to(batch.positions[origin], in_batch=False)
                self.forward(record, child)
        finally:
            task.move_to(last, in_batch=len(batch.positions) > 1)

    def hand_over(self, batch: _CollectedRecords, process_batch: Callable[[AnyColumns], None]) -> None:
        """Calls `process_batch` of the processor with this batch. Raises the errors of the processor."""
        task, current = self._task("process_batch"), self.current
        self._batch = batch
        task.move_to(batch.positions[-1], in_batch=len(batch.positions) > 1)
        current.name = self.name
        current.timestamp_ms, current.headers = batch.columns.timestamps_ms[-1], ()
        try:
            process_batch(batch.columns)
        finally:
            self._batch = None
            current.name = None

    def row_failed(self, position: RunPosition, error: Exception) -> None:
        """Calls the handler of processing errors for the input record at this position. Raises the error if the task
        cannot continue.
        """
        self._task("process_batch").move_to(position, in_batch=False)
        if not self.failed(error):
            raise error


class BatchRunner(ProcessorRunner):
    """The node of a user's processor with `process_batch`.

    `reason_against_batches`: the reason why the node gets batches of one record; empty if the node collects records.
    See `decide_on_batches`.
    """

    def __init__(self, processor: Processor[Any, Any], context: BatchContext) -> None:
        super().__init__(processor, context)
        self.reason_against_batches = ""
        self._batch_context = context
        self.clear()

    def clear(self) -> None:
        """Drops the collected records."""
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
        process = self._overridden_process() or self._batch_of_one
        collects = not self.reason_against_batches

        def receive(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            position = runtime.position if collects and not headers else None
            if position is not None and not position.in_batch:
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

        return receive

    def run_collected(self) -> None:
        """Passes the collected records to the processor. If an error of the processor ends the run, the method raises
        this error. For an error that does not end the run, it calls the handler of processing errors.
        """
        if not self._positions:
            return
        batch = _CollectedRecords(RecordColumns.trusted(self._keys, self._values, self._timestamps_ms), self._positions)
        self.clear()
        before = self._runtime.position
        try:
            self._run(batch)
        finally:
            if before is not None:
                self._runtime.move_to(before, in_batch=before.in_batch)

    def _run(self, batch: _CollectedRecords) -> None:
        try:
            self._batch_context.hand_over(batch, self._call_processor)
        except Exception as error:
            retries = getattr(self.processor, "retries_one_by_one", False) and not isinstance(error, _NOT_RETRIED)
            if retries and len(batch.positions) > 1:
                self._run_one_by_one(batch)
                return
            # remove duplicates: several rows may come from one input record, and the handler is called once for each
            # input record
            for position in dict.fromkeys(batch.positions):
                self._batch_context.row_failed(position, error)

    def _run_one_by_one(self, batch: _CollectedRecords) -> None:
        for index, position in enumerate(batch.positions):
            try:
                self._batch_context.hand_over(batch.row(index), self._call_processor)
            except Exception as error:
                self._batch_context.row_failed(position, error)

    def _call_processor(self, batch: AnyColumns) -> None:
        process = self._overridden_process() if len(batch) == 1 else None
        if process is not None:
            process(next(iter(batch)))
        else:
            self.processor.process_batch(batch)  # type: ignore[attr-defined]  # checked by `takes_batches`

    def _overridden_process(self) -> Callable[[Record[Any, Any]], None] | None:
        """Returns the method `process` of the user's class; None if the class has only `process_batch`."""
        process = self.processor.process
        return None if getattr(process, "__func__", None) is Processor.process else process

    def _batch_of_one(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        batch: AnyColumns = RecordColumns.trusted([key], [value], [timestamp_ms], headers)
        self.processor.process_batch(batch)  # type: ignore[attr-defined]  # a caller has checked `takes_batches`


def takes_batches(processor: object) -> bool:
    """Returns True if the processor has a method `process_batch`."""
    return callable(getattr(processor, "process_batch", None))


def node_run(node: NodeRunner) -> NodeRun:
    """Returns how often the node is called: once for each record or once for each batch."""
    if not isinstance(node, BatchRunner):
        return NodeRun(RunsHow.ONCE_A_RECORD)
    why = node.reason_against_batches
    return NodeRun(RunsHow.ONCE_A_RECORD if why else RunsHow.ONCE_A_BATCH, why)


def decide_on_batches(nodes: Sequence[NodeRunner]) -> None:
    """Sets `reason_against_batches` of the nodes that take batches. If a node may not collect the records of one
    source, it collects no records at all.
    """
    for source in nodes:
        if isinstance(source, SourceRunner):
            reasons = reasons_against_batches(source.below)
            for node in nodes:
                if isinstance(node, BatchRunner) and not node.reason_against_batches:
                    node.reason_against_batches = reasons.get(node.name, "")


def reasons_against_batches(below_source: Sequence[NodeRunner]) -> Mapping[str, str]:
    """For each node that takes batches, returns the reason why the node must not collect records of this source. The
    reason is empty if the node may collect the records.
    """
    nodes = _reached(below_source)
    parents: dict[str, list[NodeRunner]] = {name: [] for name in nodes}
    for node in nodes.values():
        for child in node.below:
            parents[child.name].append(node)
    return {
        name: _reason_above(node, below_source, parents) or _reason_in_other_branches(node, below_source)
        for name, node in nodes.items()
        if isinstance(node, BatchRunner)
    }


def _reason_above(
    node: NodeRunner, below_source: Sequence[NodeRunner], parents: Mapping[str, Sequence[NodeRunner]]
) -> str:
    at = node
    while above := parents[at.name]:
        if len(above) > 1 or at in below_source:
            return f"{at.name} gets the same records in more than one way"
        at = above[0]
        if at.stores:
            return f"it is below {at.name}, which has a state store"
        if isinstance(at, ProcessorRunner) and not isinstance(at, BatchRunner):
            return f"it is below {at.name}, a processor that takes one record at a time"
    return ""


def _reason_in_other_branches(node: NodeRunner, below_source: Sequence[NodeRunner]) -> str:
    mine = _reached([node])
    others = _reached(below_source, without=node.name)
    if merged := next((name for name in mine if name in others), None):
        return f"{merged} below it gets records from beside it, too"
    if any(_chooses_topics(one) and _writes(other) for one, other in ((mine, others), (others, mine))):
        return "a sink chooses the topic of each record, and another branch may write to this topic"
    used = {shared: name for name, other in others.items() for shared in _shared(other)}
    for name, each in mine.items():
        if shared := next(iter(sorted(_shared(each) & used.keys())), None):
            what = "it" if name == node.name else f"{name} below it"
            return f"{what} uses {shared}, and so does {used[shared]}"
    return ""


def _chooses_topics(nodes: Mapping[str, NodeRunner]) -> bool:
    return any(isinstance(node, SinkRunner) and not node.topic for node in nodes.values())


def _writes(nodes: Mapping[str, NodeRunner]) -> bool:
    return any(isinstance(node, SinkRunner) for node in nodes.values())


def _shared(node: NodeRunner) -> frozenset[str]:
    """Returns a text for each store and topic that the node uses. A reason against batches may contain one of these
    texts.
    """
    topics = (f"topic {node.topic}",) if isinstance(node, SinkRunner) else ()
    return frozenset((*topics, *(f"store {store}" for store in node.stores)))


def _reached(roots: Iterable[NodeRunner], without: str | None = None) -> dict[str, NodeRunner]:
    """Returns the nodes in `roots` and all nodes below them, by name. `without`: the name of a node. The result leaves
    out this node, and the nodes that can be reached only through this node.
    """
    reached: dict[str, NodeRunner] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node.name != without and node.name not in reached:
            reached[node.name] = node
            waiting += node.below
    return reached
