"""The running nodes of a task: sources, operators, processors of the user, and sinks. Nodes that take batches are in
`batch_node`.

Source: `ProcessorNode`, `SourceNode`, `SinkNode`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Headers, Record
from streams_runtime.processors.api import Processor
from streams_runtime.processors.context import Children, CurrentNode, NodeContext, Operator, Receiver
from streams_runtime.processors.runtime import SinkSettings, TaskRuntime
from streams_runtime.processors.topology import SourceSettings
from streams_runtime.serdes.defaults import REQUIRED
from streams_runtime.state_stores.builders import SerdesStoreBuilder, builder_with_serdes

_new_record = tuple.__new__
"""Makes a `Record` in half the time of the call `Record(...)`."""


class NodeRunner(ABC):
    """A node of a task. `stores`: the names of the stores that the node uses. `below`: the children of the node, in the
    order in which the user added them. The graph adds the children to this list.
    """

    def __init__(self, context: NodeContext) -> None:
        self.name = context.name
        self.stores = context.connected_stores
        self.below: list[NodeRunner] = []
        self._context = context

    def init(self, runtime: TaskRuntime) -> None:
        """Prepares the node. The graph calls `init` each time the task begins to run, when its stores are open."""
        self._context.open(runtime)

    @abstractmethod
    def connect(self, children: Children) -> Receiver:
        """Returns the receiver of this node. The graph calls `connect` of all nodes after their `init`, children
        first.
        """

    def close(self) -> None:
        self._context.close()


class SourceRunner(NodeRunner):
    """A source of a task. The task reads the records itself, and calls `receiver`, which passes a record to all nodes
    below.
    """

    def __init__(self, name: str, settings: SourceSettings, current: CurrentNode) -> None:
        super().__init__(NodeContext(name, frozenset(), current))
        self.settings = settings
        self.receiver: Receiver = self._not_running

    def init(self, runtime: TaskRuntime) -> None:
        """Raises TopologyError if a serde is missing."""
        super().init(runtime)
        for serde in (self.settings.key_serde, self.settings.value_serde):
            REQUIRED.in_place_of(serde)

    def connect(self, children: Children) -> Receiver:
        self._context.connect(children)
        self.receiver = self._context.all_children()
        return self.receiver

    def close(self) -> None:
        self.receiver = self._not_running
        super().close()

    def _not_running(self, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        raise StreamsRuntimeError(f"source {self.name} got a record, but its task is not running")


class OperatorRunner(NodeRunner):
    """An operator of the DSL. `buffers`: the builders of the buffers that only this operator uses."""

    def __init__(
        self, operator: Operator, context: NodeContext, buffers: Sequence[SerdesStoreBuilder[Any, Any]]
    ) -> None:
        super().__init__(context)
        self._operator = operator
        self._buffers = buffers

    def init(self, runtime: TaskRuntime) -> None:
        """Raises TopologyError if a serde of a buffer is missing."""
        super().init(runtime)
        for buffer in self._buffers:
            builder_with_serdes(buffer, lambda serde, _is_key: REQUIRED.in_place_of(serde))

    def connect(self, children: Children) -> Receiver:
        self._context.connect(children)
        return self._operator.connect(self._context.all_children(), self._context)


class ProcessorRunner(NodeRunner):
    """A user's processor."""

    def __init__(self, processor: Processor[Any, Any], context: NodeContext) -> None:
        super().__init__(context)
        self.processor = processor

    def init(self, runtime: TaskRuntime) -> None:
        super().init(runtime)
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
            super().close()


class FixedKeyContext(NodeContext):
    """The context of a `FixedKeyProcessor`. `keys`: the key of the record that the processor processes; empty outside
    of `process`.
    """

    __slots__ = ("keys",)

    def __init__(self, name: str, connected_stores: frozenset[str], current: CurrentNode) -> None:
        super().__init__(name, connected_stores, current)
        self.keys: tuple[()] | tuple[Any] = ()

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """See `NodeContext.forward`. Raises StreamsRuntimeError if the record has another key than the record that the
        processor processes.
        """
        if record.__class__ is not Record:
            record = self._as_record(record)
        if self.keys and record.key is not self.keys[0] and record.key != self.keys[0]:
            raise self._error(
                f" is a FixedKeyProcessor and must not change the key {self.keys[0]!r} to {record.key!r}; use "
                "`KStream.process` with a Processor"
            )
        super().forward(record, child)


class FixedKeyRunner(ProcessorRunner):
    """A user's `FixedKeyProcessor`."""

    def __init__(self, processor: Processor[Any, Any], context: FixedKeyContext) -> None:
        super().__init__(processor, context)
        self._fixed_key_context = context

    def connect(self, children: Children) -> Receiver:
        process, context = super().connect(children), self._fixed_key_context

        def fixed_key_processor(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            context.keys = (key,)
            try:
                process(key, value, timestamp_ms, headers)
            finally:
                context.keys = ()

        return fixed_key_processor


class SinkRunner(NodeRunner):
    """A sink of a task. The task itself serializes and sends the records. A sink never has children, because
    `TopologyBuilder` refuses a sink as a parent. `topic`: the full name of the topic; empty if the sink chooses a topic
    for each record.
    """

    def __init__(self, name: str, topic: str, settings: SinkSettings, current: CurrentNode) -> None:
        super().__init__(NodeContext(name, frozenset(), current))
        self.topic = topic
        self._settings = settings

    def init(self, runtime: TaskRuntime) -> None:
        super().init(runtime)
        self._runtime = runtime

    def connect(self, children: Children) -> Receiver:
        settings, runtime = self._settings, self._runtime

        def sink_of(topic: str) -> Receiver:
            return runtime.sink(self.name, topic, settings)

        extractor, sinks = settings.topic_extractor, dict[str, Receiver]()
        if extractor is None:
            return sink_of(self.topic)

        def choosing_sink(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            topic = extractor(_new_record(Record, (key, value, timestamp_ms, headers)), runtime.record_metadata)
            sink = sinks.get(topic)
            if sink is None:
                if not isinstance(topic, str) or not topic:
                    raise StreamsRuntimeError(f"sink {self.name} chose the topic {topic!r}; a name is needed")
                sink = sinks[topic] = sink_of(topic)
            sink(key, value, timestamp_ms, headers)

        return choosing_sink
