"""The context of a processor: one for each node of a task, bound to the children and stores of the node.

Source: `ProcessorContextImpl`. Differs from Kafka: a context belongs to its node, so forwarding never has to ask which
node runs; and nothing can be forwarded from `init`, when the nodes below are not initialised yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError, WrongBatchResult
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import LATEST_MS, Headers, Record, RecordMetadata, record_headers, record_timestamp
from streams_runtime.processors.api import Cancellable, PunctuationType, Punctuator
from streams_runtime.processors.current_node import Child, CurrentNode
from streams_runtime.processors.fused_loop import FusableFlush
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.reporting.losses import DropReason

MOST_UNSETTLED = 10_000
"""How many records a processor hands on before the log is given what came of them. Mostly, it is after each turn."""


class NodeContext:
    """The `ProcessorContext` of one node. Open from the processor's `init` until its `close` has returned."""

    __slots__ = (
        "_children",
        "_current",
        "_handed_on",
        "_name",
        "_runtime",
        "connected_stores",
        "flush",
        "take_one",
        "take_rows",
    )

    def __init__(self, name: str, connected_stores: frozenset[str], current: CurrentNode) -> None:
        self.connected_stores = connected_stores
        self._name = name
        self._current = current
        self._children: tuple[Child, ...] = ()
        self._runtime: TaskRuntime | None = None
        self._handed_on = 0
        self.flush: FusableFlush | None = None
        """Of the store whose record cache forwards as this node."""
        self.take_one: Callable[[Any, Any, int], None] | None = None
        """Does to key, value and timestamp of a record without headers what all children would do."""
        self.take_rows: Callable[[RecordColumns[Any, Any]], None] | None = None
        """See `ForwardsRows`."""

    def open(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime

    def link(self, children: tuple[Child, ...]) -> None:
        self._children = children

    def close(self) -> None:
        self._runtime = None
        self._children = ()
        self.flush = self.take_one = self.take_rows = None

    @property
    def application_id(self) -> str:
        return self._task("application_id").application_id

    @property
    def task_id(self) -> TaskId:
        return self._task("task_id").task_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return self._task("record_metadata").record_metadata

    @property
    def headers(self) -> Headers:
        return self._task("headers").headers

    @property
    def current_stream_time_ms(self) -> int:
        return self._task("current_stream_time_ms").current_stream_time_ms

    @property
    def current_system_time_ms(self) -> int:
        return self._task("current_system_time_ms").current_system_time_ms

    def state_store(self, name: str) -> Any:
        """The store, as its builder makes it. Raises StreamsRuntimeError when the processor is not connected to it."""
        task = self._task("state_store")
        if name not in self.connected_stores:
            connected = ", ".join(sorted(self.connected_stores)) or "none"
            raise StreamsRuntimeError(
                f"processor {self._name} has no access to state store {name} (connected: {connected}): name the "
                "processor in add_state_store, or the store in add_processor or connect_processor_and_stores",
                task.task_id,
            )
        store = task.stores.get(name)
        if store is None:
            raise StreamsRuntimeError(f"state store {name} of processor {self._name} is not open", task.task_id)
        return store

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand a record to all children in the order they were added, or to the child of this name.

        An error of a node below goes to the handler of processing errors. When that goes on, so do the other children
        and the caller; else this raises. Raises StreamsRuntimeError for what is no record, a timestamp or headers that
        no record can have, an unknown child, or a call from outside of `process`, punctuators and `close`.
        Source: `ProcessorNode.process` (KIP-1033).
        """
        current = self._current
        caller = current.name
        if caller is None:
            raise self._runs_outside()
        if record.__class__ is not Record:
            record = self._as_record(record)
        if record[2].__class__ is not int or not 0 <= record[2] <= LATEST_MS:
            record = self._with_timestamp(record)
        if record[3] is not current.checked_headers and record[3]:
            record = self._with_headers(record)
        if child is None and (take := self.take_one) is not None:
            key, value, timestamp_ms, headers = record
            if not headers:
                try:
                    take(key, value, timestamp_ms)
                    self._handed_on += 1
                    if self._handed_on >= MOST_UNSETTLED:
                        self._settle()
                finally:
                    current.name = caller
                return
        children = self._children if child is None else self._child(child)
        for name, process in children:
            current.name = name
            try:
                process(record)
            except BaseException as error:
                self._child_failed(error, caller)
        current.name = caller

    def forward_batch(self, columns: RecordColumns[Any, Any], child: str | None = None) -> None:
        """What `forward` does with each row as a record, in their order; to all children in one loop where that is
        possible.

        Raises StreamsRuntimeError as `forward` does, and for what are no columns.
        """
        if not isinstance(columns, RecordColumns):
            raise WrongBatchResult(
                f"processor {self._name} forwards a {type(columns).__name__} as a batch: give RecordColumns, as "
                "`batch.with_values(...)` makes them"
            )
        if self._current.name is None:
            raise self._runs_outside()
        if child is None and self.take_rows is not None:
            self.take_rows(columns)
            return
        for record in columns:
            self.forward(record, child)

    def forward_flushed(self, record: Record[Any, Any]) -> None:
        """Hand on what the record cache of a store of this node held back, whatever runs now; nothing after a close.

        Source: `TimestampedCacheFlushListener`.
        """
        if self._runtime is None:
            return
        current = self._current
        before = current.name
        current.name = self._name
        try:
            self.forward(record)
        finally:
            current.name = before

    def schedule(
        self, interval_ms: int, type: PunctuationType, callback: Punctuator, *, start_time_ms: int | None = None
    ) -> Cancellable:
        """See `ProcessorContext.schedule`."""
        task = self._task("schedule")
        kind = self._punctuation_type(type)
        if not isinstance(interval_ms, int) or not callable(callback):
            raise StreamsRuntimeError(
                f"processor {self._name}: a punctuation needs an interval in whole milliseconds and a function to call,"
                f" not {interval_ms!r} and {callback!r}",
                task.task_id,
            )
        if interval_ms < 1:
            raise StreamsRuntimeError(
                f"processor {self._name}: the shortest interval of a punctuation is 1 ms, not {interval_ms}",
                task.task_id,
            )
        if start_time_ms is not None and start_time_ms < 0:
            raise StreamsRuntimeError(
                f"processor {self._name}: a punctuation cannot start before the epoch, at {start_time_ms} ms",
                task.task_id,
            )

        def punctuate(time_ms: int) -> None:
            current = self._current
            current.forget()
            current.name = self._name
            current.timestamp_ms = time_ms
            try:
                callback(time_ms)
            except BaseException as error:
                current.failed(error, None)
                raise
            finally:
                current.timestamp_ms = -1
            current.name = None

        return task.schedule(self._name, interval_ms, kind, punctuate, start_time_ms)

    def commit(self) -> None:
        self._task("commit").request_commit()

    def dropped(self, reason: DropReason, detail: str = "") -> int:
        """The record that this node has is left out; the level at which to log it. See `TaskLosses.dropped`."""
        return self._task("dropped").losses.log_level(reason, self._name, detail)

    def _task(self, used: str) -> TaskRuntime:
        if self._runtime is None:
            raise StreamsRuntimeError(
                f"processor {self._name} uses `{used}` of a closed context: "
                "its task no longer runs here, or is a standby"
            )
        return self._runtime

    def _punctuation_type(self, given: str) -> PunctuationType:
        """The type, or its text. Anything else is refused, because it would schedule by the wrong clock."""
        try:
            return PunctuationType(given)
        except ValueError:
            raise StreamsRuntimeError(
                f"processor {self._name}: the type of a punctuation is {' or '.join(PunctuationType)}, not {given!r}",
                self._task("schedule").task_id,
            ) from None

    def _child_failed(self, error: BaseException, caller: str) -> None:
        """Returns when the others may go on. Raises what ends the record."""
        current = self._current
        current.failed(error, caller)
        if not isinstance(error, Exception):
            raise error
        self._task("forward").node_failed(current.failed_at, error)
        current.forget()

    def _settle(self) -> None:
        """A punctuator may forward without end, and what it forwards has to leave."""
        self._handed_on = 0
        self._task("forward").settle()

    def _child(self, name: str) -> tuple[Child, ...]:
        for child in self._children:
            if child[0] == name:
                return (child,)
        children = ", ".join(each for each, _ in self._children) or "none"
        raise StreamsRuntimeError(
            f"processor {self._name} cannot forward to {name}, which is not its child (children: {children})",
            self._task("forward").task_id,
        )

    def _as_record(self, given: Any) -> Record[Any, Any]:
        """Any tuple of four parts is good enough."""
        if not isinstance(given, tuple) or len(given) != len(Record._fields):
            raise StreamsRuntimeError(
                f"processor {self._name} forwards a {type(given).__name__}, which is no Record(key, value, "
                "timestamp_ms, headers)",
                self._task("forward").task_id,
            )
        return Record(*given)

    def _with_timestamp(self, record: Record[Any, Any]) -> Record[Any, Any]:
        try:
            return record._replace(timestamp_ms=record_timestamp(record.timestamp_ms))
        except ValueError as error:
            raise self._cannot_forward(error) from None

    def _with_headers(self, record: Record[Any, Any]) -> Record[Any, Any]:
        """They are checked once on their way through the nodes of a task."""
        try:
            headers = self._current.checked_headers = record_headers(record.headers)
        except ValueError as error:
            raise self._cannot_forward(error) from None
        return record._replace(headers=headers)

    def _cannot_forward(self, error: ValueError) -> StreamsRuntimeError:
        return StreamsRuntimeError(
            f"processor {self._name} forwards a record that {error}", self._task("forward").task_id
        )

    def _runs_outside(self) -> StreamsRuntimeError:
        return StreamsRuntimeError(
            f"processor {self._name} forwards outside of `process`, a punctuator or `close`; is one processor "
            "object shared, or used by a thread of its own?",
            self._task("forward").task_id,
        )
