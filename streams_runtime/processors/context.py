"""The context of a node of a task, bound to the nodes below it and to its stores.

It is the `ProcessorContext` of a user's processor, and the task that an operator of the DSL is connected to.
Source: `ProcessorContextImpl`. Differs from Kafka: a context belongs to its node, so forwarding never has to ask which
node runs; and nothing can be forwarded from `init`, when the nodes below are not initialised yet.
"""

from __future__ import annotations

import logging
from typing import Any

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError, WrongBatchResult
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import LATEST_MS, Headers, Record, RecordMetadata, record_headers, record_timestamp
from streams_runtime.processors.api import Cancellable, PunctuationType, Punctuator
from streams_runtime.processors.current_node import CurrentNode
from streams_runtime.processors.receivers import Children, Receiver, ReceiverNames, fan_out, guarded
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.reporting.losses import TOLD_AS_NOTICE, DropReason

_logger = logging.getLogger(__name__)


class NodeContext:
    """One for each node. Open from `open` (a processor's `init`) until `close`, after the processor's `close`.

    `current`: which node of the task runs, and with which record. `names`: of the receivers of the task.
    """

    __slots__ = ("_children", "_forward", "_names", "_runtime", "connected_stores", "current", "name")

    def __init__(self, name: str, connected_stores: frozenset[str], current: CurrentNode, names: ReceiverNames) -> None:
        self.name = name
        self.connected_stores = connected_stores
        self.current = current
        self._names = names
        self._runtime: TaskRuntime | None = None
        self._children: Children = ()
        self._forward: dict[str | None, Receiver] = {}

    def open(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime

    def connect(self, children: Children) -> None:
        """Hand records on to these receivers, in this order."""
        self._children = children
        self._forward = {name: self.guarded(child) for name, child in children}
        self._forward[None] = self.guarded(self.all_children())

    def close(self) -> None:
        self._runtime = None
        self._children = ()
        self._forward = {}

    @property
    def is_open(self) -> bool:
        return self._runtime is not None

    # --- for operators

    def all_children(self) -> Receiver:
        """Hands a record to every node below."""
        return fan_out([receiver for _, receiver in self._children], self.failed)

    def child(self, name: str) -> Receiver:
        """Hands a record to the node of this name below."""
        return dict(self._children)[name]

    def guarded(self, receiver: Receiver) -> Receiver:
        """See `receivers.guarded`."""
        return guarded(receiver, self.failed)

    def failed(self, error: Exception) -> bool:
        """An error came from this node, or from one below it. See `receivers.OnError`."""
        return self._task("forward").node_failed(self._names.failed_node(error) or self.name, error)

    def drop(self, reason: DropReason, message: str, *values: Any, detail: str = "") -> None:
        """Count a record that this node leaves out, and log it.

        `message` and `values`: of `logging`, what is wrong with it. `detail`: what notices say of this reason from now
        on. Source: the `dropped-records` sensor of a task.
        """
        task = self._task("drop")
        level = task.losses.log_level(reason, self.name, detail)
        if not _logger.isEnabledFor(level):
            return
        where = task.record_metadata
        if where is None:
            text, values = ". Topic, partition, and offset not known.", values
        else:
            text, values = ". topic=[%s] partition=[%d] offset=[%d]", (*values, *where)
        _logger.log(level, "Skipping record due to " + message + text, *values, extra=TOLD_AS_NOTICE)

    # --- for operators, and for processors of the user: `ProcessorContext`

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
                f"processor {self.name} has no access to state store {name} (connected: {connected}): name the "
                "processor in add_state_store, or the store in add_processor or connect_processor_and_stores",
                task.task_id,
            )
        store = task.stores.get(name)
        if store is None:
            raise StreamsRuntimeError(f"state store {name} of processor {self.name} is not open", task.task_id)
        return store

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand a record to all children in the order they were added, or to the child of this name.

        An error of a node below goes to the handler of processing errors. When that goes on, so do the other children
        and the caller; else this raises. Raises StreamsRuntimeError for what is no record, a timestamp or headers that
        no record can have, an unknown child, or a call from outside of `process`, punctuators and `close`.
        Source: `ProcessorNode.process` (KIP-1033).
        """
        current = self.current
        caller = current.name
        if caller is None:
            raise self._runs_outside()
        if record.__class__ is not Record:
            record = self._as_record(record)
        if record[2].__class__ is not int or not 0 <= record[2] <= LATEST_MS:
            record = self._with_timestamp(record)
        if record[3] is not current.checked_headers and record[3]:
            record = self._with_headers(record)
        receiver = self._forward.get(child)
        if receiver is None:
            raise self._no_child(child)
        timestamp_ms, headers = current.timestamp_ms, current.headers
        try:
            receiver(*record)
        finally:  # this node goes on with its own record
            current.name, current.timestamp_ms, current.headers = caller, timestamp_ms, headers

    def forward_batch(self, columns: RecordColumns[Any, Any], child: str | None = None) -> None:
        """What `forward` does with each row as a record, in their order.

        Raises StreamsRuntimeError as `forward` does, and for what are no columns.
        """
        if not isinstance(columns, RecordColumns):
            raise WrongBatchResult(
                f"processor {self.name} forwards a {type(columns).__name__} as a batch: give RecordColumns, as "
                "`batch.with_values(...)` makes them"
            )
        for record in columns:
            self.forward(record, child)

    def schedule(
        self, interval_ms: int, type: PunctuationType, callback: Punctuator, *, start_time_ms: int | None = None
    ) -> Cancellable:
        """See `ProcessorContext.schedule`."""
        task = self._task("schedule")
        kind = self._punctuation_type(type)
        if not isinstance(interval_ms, int) or not callable(callback):
            raise StreamsRuntimeError(
                f"processor {self.name}: a punctuation needs an interval in whole milliseconds and a function to call,"
                f" not {interval_ms!r} and {callback!r}",
                task.task_id,
            )
        if interval_ms < 1:
            raise StreamsRuntimeError(
                f"processor {self.name}: the shortest interval of a punctuation is 1 ms, not {interval_ms}",
                task.task_id,
            )
        if start_time_ms is not None and start_time_ms < 0:
            raise StreamsRuntimeError(
                f"processor {self.name}: a punctuation cannot start before the epoch, at {start_time_ms} ms",
                task.task_id,
            )

        def punctuate(time_ms: int) -> None:
            current = self.current
            current.name, current.timestamp_ms = self.name, time_ms
            try:
                callback(time_ms)
            finally:
                current.clear()

        return task.schedule(self.name, interval_ms, kind, punctuate, start_time_ms)

    def commit(self) -> None:
        self._task("commit").request_commit()

    def _task(self, used: str) -> TaskRuntime:
        if self._runtime is None:
            raise StreamsRuntimeError(
                f"processor {self.name} uses `{used}` of a closed context: "
                "its task no longer runs here, or is a standby"
            )
        return self._runtime

    def _punctuation_type(self, given: str) -> PunctuationType:
        """The type, or its text. Anything else is refused, because it would schedule by the wrong clock."""
        try:
            return PunctuationType(given)
        except ValueError:
            raise StreamsRuntimeError(
                f"processor {self.name}: the type of a punctuation is {' or '.join(PunctuationType)}, not {given!r}",
                self._task("schedule").task_id,
            ) from None

    def _no_child(self, name: str | None) -> StreamsRuntimeError:
        children = ", ".join(dict(self._children)) or "none"
        return StreamsRuntimeError(
            f"processor {self.name} cannot forward to {name}, which is not its child (children: {children})",
            self._task("forward").task_id,
        )

    def _as_record(self, given: Any) -> Record[Any, Any]:
        """Any tuple of four parts is good enough."""
        if not isinstance(given, tuple) or len(given) != len(Record._fields):
            raise StreamsRuntimeError(
                f"processor {self.name} forwards a {type(given).__name__}, which is no Record(key, value, "
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
            headers = self.current.checked_headers = record_headers(record.headers)
        except ValueError as error:
            raise self._cannot_forward(error) from None
        return record._replace(headers=headers)

    def _cannot_forward(self, error: ValueError) -> StreamsRuntimeError:
        return StreamsRuntimeError(
            f"processor {self.name} forwards a record that {error}", self._task("forward").task_id
        )

    def _runs_outside(self) -> StreamsRuntimeError:
        return StreamsRuntimeError(
            f"processor {self.name} forwards outside of `process`, a punctuator or `close`; is one processor "
            "object shared, or used by a thread of its own?",
            self._task("forward").task_id,
        )
