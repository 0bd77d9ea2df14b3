"""The functions that pass records between the nodes of a task, and the context of each node.

Each node of a task has one function, its receiver. The arguments of a receiver are the key, value, timestamp and
headers of a record. The receiver calls the receivers of the nodes below. Before a task processes records, it makes all
receivers, from the sinks to the sources. A user's processor uses its `NodeContext` as `ProcessorContext`. An operator
of the DSL calls its task through the `NodeContext`.

A guarded receiver catches the errors of the nodes below, and calls the handler of processing errors. If the handler
decides to continue, the guarded receiver returns normally. A node uses a guarded receiver if it forwards another record
or changes its store after the call. Other nodes use receivers without a guard.
Source: `ProcessorNode.process` (KIP-1033), `ProcessorContextImpl`. Differs from Kafka: each node has its own context,
so `forward` does not look up the current node. A processor cannot forward records in `init`, because the nodes below
are not initialised yet.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import CodeType, FrameType, FunctionType
from typing import Any

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError, WrongBatchResult
from streams_runtime.common.losses import DropReason
from streams_runtime.common.notices import ALREADY_A_NOTICE
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import LATEST_MS, Headers, Record, RecordMetadata, record_headers, record_timestamp
from streams_runtime.processors.api import Cancellable, Processor, PunctuationType, Punctuator
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.serdes import Serde
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.read_only_store import ReadOnlyStore
from streams_runtime.state_stores.thread_cache import ContextTuple
from streams_runtime.state_stores.value_and_timestamp import EntryAccess

_logger = logging.getLogger(__name__)

Receiver = Callable[[Any, Any, int, Headers], None]
"""The type of a function that gets the key, value, timestamp in milliseconds and headers of a record. If a table
forwards the record, the value is a `Change`.
"""

Children = Sequence[tuple[str, Receiver]]
"""The names and receivers of a node's children, in the order in which they were added. If a child was added twice to
the same parent, it is in the list twice.
"""


def ignore(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
    """Ignores the record. Nodes that have no children use this function in place of a child."""


class CurrentNode:
    """The node that a task runs at this moment, and the record that this node processes. Each task has one
    `CurrentNode`. This object also finds the failed node in the traceback of an error.

    `name`: the name of the user's processor that runs; None if no user's processor runs.
    `timestamp_ms`, `headers`: the timestamp and the headers of the record that the node processes; -1 and () if there
    is no record. Stores log their changes with this timestamp and these headers. The children of a node change
    `timestamp_ms` and `headers` for their own records. So a node sets the two attributes before it uses a store, and
    `forward` restores them when the children return. Nodes assign these attributes directly, because a method call
    would add 3 % to the time of a `count`. `checked_headers`: the last headers that a node has checked; the next nodes
    do not check the same headers again.
    Source: `AbstractProcessorContext.currentNode`, `ProcessorContextImpl.forward`.
    """

    __slots__ = ("_node_of_code", "checked_headers", "headers", "name", "timestamp_ms")

    def __init__(self) -> None:
        self.name: str | None = None
        self.timestamp_ms = -1
        self.headers: Headers = ()
        self.checked_headers: Headers = ()
        self._node_of_code: dict[CodeType, str] = {}

    def clear(self) -> None:
        """Resets this object after all nodes have processed the record."""
        self.name = None
        self.timestamp_ms = -1
        self.headers = ()

    def with_node_name(self, receiver: Receiver, node: str) -> Receiver:
        """Returns a copy of the receiver with the node's name as function name.

        So the traceback of an error names the nodes on the record's path, and nothing has to be stored for each record.
        If an operator forwards all records unchanged, it uses its child's receiver, which keeps the child's name.
        """
        if not isinstance(receiver, FunctionType) or receiver.__code__ in self._node_of_code or receiver is ignore:
            return receiver
        code = receiver.__code__
        # The code objects are keys of a dict, so the copy must have a different code object than the original. The
        # extra constant makes the two code objects differ, even if the function already has the node's name.
        code = code.replace(co_name=node, co_consts=(*code.co_consts, ("node", node)))
        self._node_of_code[code] = node
        return FunctionType(code, receiver.__globals__, node, receiver.__defaults__, receiver.__closure__)

    def failed_node(self, error: BaseException) -> str:
        """Returns the name of the node that failed: the last node in the traceback of the error. The name is empty if
        the traceback contains no node.
        """
        node, trace, has_caller = "", error.__traceback__, False
        frames: set[FrameType] = set()
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if frame.f_back is not None:  # the frames of generators and of compiled modules have no `f_back`
                if has_caller and frame.f_back not in frames:
                    # the other frames come from an earlier raise of the same error object, for example by a cached
                    # future
                    break
                has_caller = True
            frames.add(frame)
            node = self._node_of_code.get(frame.f_code, node)
        return node


class NodeContext:
    """The context of one node. It can be used from the processor's `init` to its `close`. A `NodeContext` has the
    methods of `ProcessorContext`, and more methods for operators and for the node's runner. `stream_time_ms`: the
    highest timestamp that an operator with windows has received; the suspension of the task does not reset it.
    """

    __slots__ = (
        "_children",
        "_closing",
        "_forward",
        "_runtime",
        "connected_stores",
        "current",
        "name",
        "stream_time_ms",
    )

    def __init__(self, name: str, connected_stores: frozenset[str], current: CurrentNode) -> None:
        self.name = name
        self.connected_stores = connected_stores
        self.current = current
        self.stream_time_ms = -1
        self._runtime: TaskRuntime | None = None
        self._children: Children = ()
        self._forward: dict[str | None, Receiver] = {}
        self._closing = ExitStack()

    def open(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime

    def connect(self, children: Children) -> None:
        """Sets the receivers of the node's children. The node passes each record to the children in this order."""
        self._children = children
        self._forward = {name: self.guarded(child) for name, child in children}
        self._forward[None] = self.guarded(self.all_children())

    def close(self) -> None:
        """Calls the functions of `call_on_close`, the last function first, and closes the context even after errors."""
        try:
            self._closing.close()
        finally:
            self._runtime = None
            self._children = ()
            self._forward = {}

    # --- for operators

    def call_on_close(self, function: Callable[[], object]) -> None:
        """Makes `close` call the function, once."""
        self._closing.callback(function)

    def for_transformer(self, *, reads_table: bool) -> "NodeContext":
        """Returns a context for a transformer of the user, which cannot forward records. This context closes the
        returned context. `reads_table`: True if the transformer is called when the node reads a table. Such a
        transformer has no input record.
        """
        kind = TableReadContext if reads_table else NodeContext
        context = kind(self.name, self.connected_stores, self.current)
        context.open(self._task("init"))
        self.call_on_close(context.close)
        return context

    def all_children(self) -> Receiver:
        """Returns a receiver that passes a record to all children, in order. If one of several children raises an
        error, the other children still get the record.
        """
        receivers = [receiver for _, receiver in self._children]
        if not receivers:
            return ignore
        if len(receivers) == 1:
            return receivers[0]
        receivers = [self.guarded(receiver) for receiver in receivers]

        def each(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            for receiver in receivers:
                receiver(key, value, timestamp_ms, headers)

        return each

    def child(self, name: str) -> Receiver:
        """Returns the receiver of the child with this name."""
        return dict(self._children)[name]

    def guarded(self, receiver: Receiver) -> Receiver:
        """Returns a receiver that calls `receiver` and handles its errors. A node needs a guarded receiver if it
        forwards another record or changes its store after the call. If `receiver` raises an error, the handler of
        processing errors is called. If the handler decides to continue, the guarded receiver returns normally. If the
        task cannot continue, the guarded receiver raises the error.
        """
        failed = self.failed

        def guard(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                receiver(key, value, timestamp_ms, headers)
            except Exception as error:
                if not failed(error):
                    raise

        return guard

    def forwards_when_flushed(self, entries: EntryAccess, child: Receiver, *, sends_old_values: bool) -> bool:
        """Makes the store forward its changes to `child` when its record cache is flushed. Returns False if the store
        has no cache. If the result is True, the node must not forward the changes itself. Source:
        `TimestampedTupleForwarder`, `TimestampedCacheFlushListener`.
        """
        if entries.set_flush_listener is None:
            return False
        forward, read, key_of = self.guarded(child), entries.read, entries.key_of

        def flushed(stored_key: bytes, new: bytes | None, old: bytes | None, made_by: ContextTuple) -> None:
            if self._runtime is None:  # the nodes below are closed, so the change is not forwarded
                return
            record_ms, headers, _, _, _, _ = made_by
            timestamp_ms, value = (record_ms, None) if new is None else read(new)
            old_value = None if old is None else read(old)[1]
            forward(key_of(stored_key), (value, old_value), timestamp_ms, headers)

        entries.set_flush_listener(flushed, sends_old_values=sends_old_values)
        return True

    @property
    def record_context(self) -> Callable[[], ContextTuple]:
        """A function that returns the context of the record that the node processes. The node must set `current` before
        each call.
        """
        return self._task("record_context").record_context

    def delayed_forwarder(self, child: Receiver) -> Callable[[Any, Any, ContextTuple], None]:
        """Returns a function (key, value, context) for records that the node has kept. The function passes a record to
        `child`, with the timestamp and headers of the context. Until `child` returns, this context is the present
        context of the task. So nodes below get the metadata of the kept record. If a node below raises an error, the
        handler of processing errors gets the kept record.
        """
        forward = self.guarded(child)

        def forward_later(key: Any, value: Any, made_by: ContextTuple) -> None:
            task = self._task("forward")
            before = task.begin_flush()
            try:
                task.set_context(made_by)
                forward(key, value, made_by[0], made_by[1])
            finally:
                task.end_flush(before)

        return forward_later

    def failed(self, error: Exception) -> bool:
        """Calls the handler of processing errors for an error of this node or of a node below it. Returns True if the
        task continues. See `TaskRuntime.node_failed`.
        """
        return self._task("forward").node_failed(self.current.failed_node(error) or self.name, error)

    def drop(self, reason: DropReason, message: str, *values: Any, detail: str = "") -> None:
        """Counts and logs a record that this node drops.

        `message`: the text of the reason, as a format string of `logging`. `values`: the arguments for this format
        string. `detail`: a new text for the notice about this reason; empty to keep the old text. Source: the
        `dropped-records` sensor of a task.
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
        _logger.log(level, "Skipping record due to " + message + text, *values, extra=ALREADY_A_NOTICE)

    @property
    def processor_metadata(self) -> dict[str, int]:
        """See `TaskRuntime.processor_metadata`."""
        return self._task("processor_metadata").processor_metadata

    # --- for operators, and for processors of the user: `ProcessorContext`

    @property
    def application_id(self) -> str:
        return self._task("application_id").application_id

    @property
    def task_id(self) -> TaskId:
        return self._task("task_id").task_id

    @property
    def key_serde(self) -> Serde[Any]:
        return self._task("key_serde").default_serdes.in_place_of(DefaultSerde("key", self.name))

    @property
    def value_serde(self) -> Serde[Any]:
        return self._task("value_serde").default_serdes.in_place_of(DefaultSerde("value", self.name))

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return self._task("record_metadata").record_metadata

    @property
    def timestamp_ms(self) -> int:
        return self.current.timestamp_ms

    @property
    def headers(self) -> Headers:
        return self._task("headers").headers

    @property
    def current_stream_time_ms(self) -> int:
        return self._task("current_stream_time_ms").stream_time_ms

    @property
    def current_system_time_ms(self) -> int:
        return self._task("current_system_time_ms").current_system_time_ms

    def state_store(self, name: str) -> Any:
        """See `ProcessorContext.state_store`."""
        task = self._task("state_store")
        if (global_store := task.global_stores.get(name)) is not None:
            return ReadOnlyStore(global_store)
        if name not in self.connected_stores:
            connected = ", ".join(sorted(self.connected_stores)) or "none"
            raise self._error(
                f" has no access to state store {name} (connected: {connected}): name the processor in "
                "add_state_store, or the store in add_processor or connect_processor_and_stores"
            )
        store = task.stores.get(name)
        if store is None:
            raise StreamsRuntimeError(f"state store {name} of processor {self.name} is not open", task.task_id)
        return store

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Passes a record to the children. `child`: the name of the only child that gets the record; None for all
        children, in the order in which they were added.

        If a node below raises an error, the handler of processing errors is called. If the handler decides to continue,
        the other children get the record, and `forward` returns normally. If the task cannot continue, `forward` raises
        the error. Raises StreamsRuntimeError if `record` is not a record, or if its timestamp or headers are invalid.
        Raises StreamsRuntimeError if there is no such child. Raises StreamsRuntimeError if the caller is not `process`,
        `process_batch`, a punctuator or `close`.
        """
        current = self.current
        caller = current.name
        if caller is None:
            raise self._error(
                " forwards outside of `process`, a punctuator or `close`; is one processor object shared, or used by a "
                "thread of its own?"
            )
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
        finally:  # restore these attributes, because the children have set them for their own records
            current.name, current.timestamp_ms, current.headers = caller, timestamp_ms, headers

    def forward_batch(self, columns: RecordColumns[Any, Any], child: str | None = None) -> None:
        """Forwards each row as a record, in the order of the rows. Raises the errors of `forward`. Raises
        WrongBatchResult if `columns` is not a RecordColumns.
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
            raise self._error(
                ": a punctuation needs an interval in whole milliseconds and a function to call, not "
                f"{interval_ms!r} and {callback!r}"
            )
        if interval_ms < 1:
            raise self._error(f": the shortest interval of a punctuation is 1 ms, not {interval_ms}")
        if start_time_ms is not None and start_time_ms < 0:
            raise self._error(f": a punctuation cannot start before the epoch, at {start_time_ms} ms")

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
        """Converts the argument `type` of `schedule` to a PunctuationType. Raises StreamsRuntimeError for an unknown
        type, because the punctuation would use the wrong clock.
        """
        try:
            return PunctuationType(given)
        except ValueError:
            kinds = " or ".join(PunctuationType)
            raise self._error(f": the type of a punctuation is {kinds}, not {given!r}") from None

    def _no_child(self, name: str | None) -> StreamsRuntimeError:
        if name is None:  # only a context of `for_transformer` has no receiver for all children
            return self._error(" is a transformer and cannot forward records")
        children = ", ".join(dict(self._children)) or "none"
        return self._error(f" cannot forward to {name}, which is not its child (children: {children})")

    def _as_record(self, given: Any) -> Record[Any, Any]:
        """Converts a tuple of four values to a record. Raises StreamsRuntimeError for any other object."""
        if not isinstance(given, tuple) or len(given) != len(Record._fields):
            kind = type(given).__name__
            raise self._error(f" forwards a {kind}, which is no Record(key, value, timestamp_ms, headers)")
        return Record(*given)

    def _with_timestamp(self, record: Record[Any, Any]) -> Record[Any, Any]:
        try:
            return record._replace(timestamp_ms=record_timestamp(record.timestamp_ms))
        except ValueError as error:
            raise self._error(f" forwards a record that {error}") from None

    def _with_headers(self, record: Record[Any, Any]) -> Record[Any, Any]:
        """Checks the headers of a record, and returns the record with the checked headers."""
        try:
            headers = self.current.checked_headers = record_headers(record.headers)
        except ValueError as error:
            raise self._error(f" forwards a record that {error}") from None
        return record._replace(headers=headers)

    def _error(self, problem: str) -> StreamsRuntimeError:
        return StreamsRuntimeError(f"processor {self.name}{problem}", self._task("forward").task_id)


class TableReadContext(NodeContext):
    """The context of a transformer that is called when a node reads a table. The value that the node reads is not the
    input record, so the context has no metadata and no headers. Source: `KTableTransformValuesGetter`.
    """

    __slots__ = ()

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return None

    @property
    def headers(self) -> Headers:
        return ()


class Operator(ABC):
    """A stateless or stateful operation of the DSL. All tasks share one `Operator` object. So an operator keeps the
    state of a task in the task's receiver or context.

    Source: `ProcessorNode`. Differs from Kafka: in Kafka, an operation of the DSL is an ordinary processor.
    """

    @abstractmethod
    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        """Returns the receiver of the node. The graph calls `connect` each time the task begins to run, when its stores
        are open.

        `child`: a function that passes a record to all nodes below. If an operator has more work after a call of
        `child`, it has to use `context.guarded(child)` instead. Before an operator changes its store, it copies the
        timestamp and the headers of the record to `context.current`.
        """


NodeSupplier = Operator | Callable[[], Processor[Any, Any]]
"""The type of a supplier: an operator, or a function or class that returns a new processor for each call. A supplier
must be picklable.
"""
