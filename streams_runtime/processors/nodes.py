"""The running nodes of a task: operators, processors of the user, sinks. Sources stand in `source_node`.

Source: `ProcessorNode`, `SinkNode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from streams_runtime.common.errors import SchemaRegistryUnavailable, SerdeMismatch, StreamsRuntimeError
from streams_runtime.common.records import Headers, Record, record_partition
from streams_runtime.processors.api import Processor
from streams_runtime.processors.batch_order import STORE, TOPIC
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.operator import Operator
from streams_runtime.processors.receivers import Children, Receiver
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.processors.topology import SinkSettings
from streams_runtime.serdes import NestedSerde, serde_for_topic, serializer_of

_new_record = tuple.__new__
"""Half of the time that `Record(...)` takes."""


class NodeRunner(Protocol):
    """What the graph does with every node."""

    @property
    def name(self) -> str: ...

    @property
    def below(self) -> Sequence[NodeRunner]:
        """Its children, in the order in which they were added."""
        ...

    @property
    def shares(self) -> frozenset[str]:
        """See `OrderedNode`."""
        ...

    @property
    def takes_batches(self) -> bool:
        """See `OrderedNode`."""
        ...

    @property
    def is_of_the_user(self) -> bool:
        """See `OrderedNode`."""
        ...

    def add_child(self, child: NodeRunner) -> None: ...
    def init(self, runtime: TaskRuntime) -> None: ...
    def connect(self, children: Children) -> Receiver:
        """The receiver of this node. After `init` of all nodes."""
        ...

    def close(self) -> None: ...


class OperatorRunner:
    """An operator with its context."""

    takes_batches = False
    is_of_the_user = False

    __slots__ = ("_context", "_operator", "below", "name", "shares")

    def __init__(self, operator: Operator, context: NodeContext) -> None:
        self.name = context.name
        self.below: list[NodeRunner] = []
        self.shares = frozenset(STORE + store for store in context.connected_stores)
        self._operator = operator
        self._context = context

    def add_child(self, child: NodeRunner) -> None:
        self.below.append(child)

    def init(self, runtime: TaskRuntime) -> None:
        self._context.open(runtime)

    def connect(self, children: Children) -> Receiver:
        self._context.connect(children)
        return self._operator.connect(self._context.all_children(), self._context)

    def close(self) -> None:
        self._context.close()


class ProcessorRunner:
    """A user's processor with its context."""

    takes_batches = False
    is_of_the_user = True

    __slots__ = ("_context", "below", "name", "processor", "shares")

    def __init__(self, processor: Processor[Any, Any], context: NodeContext) -> None:
        self.name = context.name
        self.processor = processor
        self.below: list[NodeRunner] = []
        self.shares = frozenset(STORE + store for store in context.connected_stores)
        self._context = context

    def add_child(self, child: NodeRunner) -> None:
        self.below.append(child)

    def init(self, runtime: TaskRuntime) -> None:
        self._context.open(runtime)
        try:
            self.processor.init(self._context)
        except BaseException:
            self._context.close()
            raise

    def connect(self, children: Children) -> Receiver:
        self._context.connect(children)
        name, current, process = self.name, self._context.current, self.processor.process

        def processor(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            current.name, current.timestamp_ms, current.headers = name, timestamp_ms, headers
            try:
                process(_new_record(Record, (key, value, timestamp_ms, headers)))
            finally:
                current.name = None

        return processor

    def close(self) -> None:
        self._context.current.name = self.name
        try:
            self.processor.close()
        finally:
            self._context.current.clear()
            self._context.close()


class SinkRunner:
    """Serialises records and sends them. A sink has no children."""

    below: Sequence[NodeRunner] = ()
    takes_batches = False
    is_of_the_user = False

    __slots__ = ("_key_serde", "_partitioner", "_runtime", "_settings", "_value_serde", "name", "shares", "topic")

    def __init__(self, name: str, topic: str, settings: SinkSettings) -> None:
        self.name = name
        self.topic = topic
        self.shares = frozenset({TOPIC + topic})
        self._settings = settings
        self._key_serde = serde_for_topic(settings.key_serde, topic, is_key=True)
        self._value_serde = serde_for_topic(settings.value_serde, topic, is_key=False)
        self._partitioner = settings.partitioner
        if isinstance(self._partitioner, NestedSerde):
            self._partitioner = self._partitioner.with_inner(lambda keys: serde_for_topic(keys, topic, is_key=True))

    def add_child(self, child: NodeRunner) -> None:
        raise StreamsRuntimeError(f"sink {self.name} cannot have the child {child.name}")

    def init(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime

    def connect(self, children: Children) -> Receiver:
        serialize_key, serialize_value = serializer_of(self._key_serde), serializer_of(self._value_serde)
        choose = None if self._partitioner is None else self._partition
        send, mismatch = self._runtime.sender(self.topic), self._mismatch

        def sink(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            partition = None if choose is None else choose(key, value)
            try:
                key_bytes = None if key is None else serialize_key(key)
                value_bytes = None if value is None else serialize_value(value)
            except SchemaRegistryUnavailable:
                raise
            except Exception as error:
                raise mismatch(key, value, error) from error
            send(key_bytes, value_bytes, timestamp_ms, headers, partition)

        return sink

    def _mismatch(self, key: object, value: object, error: Exception) -> SerdeMismatch:
        settings = self._settings
        where = f"sink {self.name} cannot write to topic {self.topic}"
        return SerdeMismatch(where, settings.key_serde, settings.value_serde, key, value, error)

    def _partition(self, key: object, value: object) -> int:
        assert self._partitioner is not None
        count = self._runtime.partitions_of(self.topic)
        if count < 1:
            raise StreamsRuntimeError(f"sink {self.name} cannot write: topic {self.topic} has no partitions")
        partition = self._partitioner(key, value, count)
        try:
            return record_partition(partition, count)
        except ValueError:
            raise StreamsRuntimeError(
                f"the partitioner of sink {self.name} chose partition {partition!r} of topic {self.topic}, "
                f"which has 0 to {count - 1}"
            ) from None

    def close(self) -> None:
        return
