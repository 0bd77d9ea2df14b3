"""The three kinds of running nodes: sources, processors and sinks.

This is the hottest code of the runtime. So a node's children are plain tuples of a name and a bound method, and telling
which node runs costs one attribute (`current_node`). Source: `ProcessorNode`, `SourceNode`, `SinkNode`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from streams_runtime.errors import SchemaRegistryUnavailable, SerdeMismatch, StreamsRuntimeError
from streams_runtime.processors.api import Processor
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.current_node import Child, CurrentNode
from streams_runtime.processors.fused_loop import CannotFuse, FusedLoop, Given, LoopWriter, Outputs
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.processors.topology import SinkSettings, SourceSettings
from streams_runtime.records import Record
from streams_runtime.serdes import BytesSerde, NestedSerde, serde_for_topic


class NodeRunner(Protocol):
    """What the graph does with every node."""

    @property
    def name(self) -> str: ...
    def add_child(self, child: NodeRunner) -> None: ...
    def init(self, runtime: TaskRuntime) -> None: ...
    def link(self) -> None:
        """Bind the children, after all nodes are initialised."""
        ...

    def entry(self) -> Callable[[Record[Any, Any]], None]:
        """The function that takes this node's records."""
        ...

    def fuse(self, loop: LoopWriter, given: Given) -> None:
        """Write what this node and those below do to a record into the loop."""
        ...

    def close(self) -> None: ...


class SourceRunner:
    """`process` runs a record through everything below. The task reads records with the serdes and the rest.

    `timestamp_extractor` None: the record's own timestamp. `auto_offset_reset` None: by the config.
    """

    __slots__ = (
        "_below",
        "_children",
        "_current",
        "auto_offset_reset",
        "key_serde",
        "name",
        "timestamp_extractor",
        "value_serde",
    )

    def __init__(self, name: str, settings: SourceSettings, current: CurrentNode) -> None:
        self.name = name
        self.key_serde = settings.key_serde
        self.value_serde = settings.value_serde
        self.timestamp_extractor = settings.timestamp_extractor
        self.auto_offset_reset = settings.auto_offset_reset
        self._current = current
        self._below: list[NodeRunner] = []
        self._children: tuple[Child, ...] | None = None

    def add_child(self, child: NodeRunner) -> None:
        self._below.append(child)

    def init(self, runtime: TaskRuntime) -> None:
        return

    def link(self) -> None:
        self._children = tuple((child.name, child.entry()) for child in self._below)

    def entry(self) -> Callable[[Record[Any, Any]], None]:
        return self.process

    def fuse(self, loop: LoopWriter, given: Given) -> None:
        raise StreamsRuntimeError(f"source {self.name} cannot be below another node")

    def process(self, record: Record[Any, Any]) -> None:
        """Errors of user code pass through. `ProcessorGraph.current_node` then names the node they came from."""
        children = self._children
        if children is None:
            raise StreamsRuntimeError(f"source {self.name} got a record, but its task is not running")
        current = self._current
        if current.failed_at:
            current.forget()
        current.timestamp_ms = record[2]
        try:
            for name, process in children:
                current.name = name
                process(record)
        except BaseException as error:
            current.failed(error, None)
            raise
        finally:
            current.timestamp_ms = -1
        current.name = None
        if current.failed_at:  # an outer node has caught the error
            current.forget()

    def fused(
        self,
        runtime: TaskRuntime,
        outputs: Outputs,
        read_key: Callable[[bytes], Any] | None,
        read_value: Callable[[bytes], Any] | None,
    ) -> FusedLoop | None:
        """What `process` does to record after record, as one loop; None where that gains nothing. After `link`.

        `read_key`, `read_value`: from bytes; None for what stays bytes. Raises as `outputs` does.
        """
        if self.timestamp_extractor is not None:
            return None
        loop = LoopWriter(outputs)
        for variable, read in (("key", read_key), ("value", read_value)):
            if read is not None:
                with loop.block(f"if {variable} is not None:"):
                    loop.line(f"{variable} = {loop.bind('read', read)}({variable})")
        with loop.block("if timestamp_ms < 0:"):
            loop.line("queue.drop(at, timestamp_ms)")
            loop.line("state.left_out += 1")
            loop.line("continue")
        with loop.block("if timestamp_ms > stream_time_ms:"):
            loop.line("stream_time_ms = timestamp_ms")
        try:
            loop.written(self._below, partial(loop.forward, loop.source))
        except CannotFuse:
            return None
        return loop.compiled(self._current, runtime) if loop.fused else None

    def close(self) -> None:
        self._children = None


class ProcessorRunner:
    """A user's processor with its context."""

    __slots__ = ("_below", "_context", "_current", "_process", "name", "processor")

    def __init__(self, name: str, processor: Processor[Any, Any], context: NodeContext, current: CurrentNode) -> None:
        self.name = name
        self.processor = processor
        self._context = context
        self._current = current
        self._below: list[NodeRunner] = []
        self._process = processor.process

    def add_child(self, child: NodeRunner) -> None:
        self._below.append(child)

    def init(self, runtime: TaskRuntime) -> None:
        self._context.open(runtime)
        try:
            self.processor.init(self._context)
        except BaseException:
            self._context.close()
            raise

    def link(self) -> None:
        self._context.link(tuple((child.name, child.entry()) for child in self._below))

    def entry(self) -> Callable[[Record[Any, Any]], None]:
        if self._context.connected_stores:
            self._process = self.processor.process
            return self._process_with_stores
        return self.processor.process

    def fuse(self, loop: LoopWriter, given: Given) -> None:
        """Only a class that has both of `process` and `fuse` does the same in both."""
        processor = self.processor
        own = type(processor).__dict__
        if "fuse" in own and "process" in own:
            fuse: Callable[[LoopWriter, Given], bool] = processor.fuse  # type: ignore[attr-defined]
            if loop.written(self._below, partial(fuse, loop, given)):
                return
        loop.call(self.name, self.entry(), given)

    def fuse_flush(self, runtime: TaskRuntime, outputs: Outputs) -> None:
        """If a store of this node holds changes back, let a loop write and forward them, as far as that is possible."""
        flush = self._context.flush
        if flush is None:
            return
        loop = LoopWriter(outputs, of_records=False)
        try:
            with loop.inside(self.name):
                if not loop.written(self._below, partial(flush.fuse, loop)):
                    return
        except CannotFuse:
            return
        flush.use(loop.compiled(self._current, runtime).run)

    def _process_with_stores(self, record: Record[Any, Any]) -> None:
        """The changes of a store carry timestamp and headers of the record that this node was given, even after nodes
        below ran."""
        current = self._current
        before_ms, before = current.timestamp_ms, current.headers
        current.timestamp_ms, current.headers = record[2], record[3]
        try:
            self._process(record)
        finally:
            current.timestamp_ms, current.headers = before_ms, before

    def close(self) -> None:
        self._current.name = self.name
        try:
            self.processor.close()
        finally:
            self._current.name = None
            self._context.close()


class SinkRunner:
    """Serialises records and sends them. A sink has no children."""

    __slots__ = (
        "_partitioner",
        "_partitions_of",
        "_send",
        "_serialize_key",
        "_serialize_value",
        "_settings",
        "name",
        "topic",
    )

    def __init__(self, name: str, topic: str, settings: SinkSettings) -> None:
        self.name = name
        self.topic = topic
        self._settings = settings
        self._serialize_key = serde_for_topic(settings.key_serde, topic, is_key=True).serialize
        self._serialize_value = serde_for_topic(settings.value_serde, topic, is_key=False).serialize
        self._partitioner = settings.partitioner
        if isinstance(self._partitioner, NestedSerde):
            self._partitioner = self._partitioner.with_inner(lambda keys: serde_for_topic(keys, topic, is_key=True))

    def add_child(self, child: NodeRunner) -> None:
        raise StreamsRuntimeError(f"sink {self.name} cannot have the child {child.name}")

    def init(self, runtime: TaskRuntime) -> None:
        self._send = runtime.send
        self._partitions_of = runtime.partitions_of

    def link(self) -> None:
        return

    def entry(self) -> Callable[[Record[Any, Any]], None]:
        return self.process if self._partitioner is None else self._process_partitioned

    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        try:
            written_key = None if key is None else self._serialize_key(key)
            written_value = None if value is None else self._serialize_value(value)
        except SchemaRegistryUnavailable:
            raise
        except Exception as error:
            raise self._mismatch(key, value, error) from error
        self._send(self.topic, None, written_key, written_value, timestamp_ms, headers)

    def fuse(self, loop: LoopWriter, given: Given) -> None:
        if self._partitioner is not None or given.old:
            loop.call(self.name, self.entry(), given)
            return
        loop.fused += 1
        loop.if_it_fails = partial(self._translated, given)
        key, value = given.key, given.value
        if not isinstance(self._settings.key_serde, BytesSerde):
            key = loop.new("written_key")
            serialize = loop.bind("serialize", self._serialize_key)
            loop.line(f"{key} = None if {given.key} is None else {serialize}({given.key})")
        if not isinstance(self._settings.value_serde, BytesSerde):
            value = loop.new("written_value")
            serialize = loop.bind("serialize", self._serialize_value)
            loop.line(f"{value} = None if {given.value} is None else {serialize}({given.value})")
        loop.if_it_fails = None
        loop.outputs.write_row(loop, self.topic, key, value, given.timestamp_ms)

    def _process_partitioned(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        partition = self._partition(key, value)
        try:
            written_key = None if key is None else self._serialize_key(key)
            written_value = None if value is None else self._serialize_value(value)
        except SchemaRegistryUnavailable:
            raise
        except Exception as error:
            raise self._mismatch(key, value, error) from error
        self._send(self.topic, partition, written_key, written_value, timestamp_ms, headers)

    def _translated(self, given: Given, variables: Mapping[str, Any], error: Exception) -> Exception:
        """What `process` raises for an error of a serde."""
        if isinstance(error, SchemaRegistryUnavailable):
            return error
        return self._mismatch(variables[given.key], variables[given.value], error)

    def _mismatch(self, key: object, value: object, error: Exception) -> SerdeMismatch:
        settings = self._settings
        where = f"sink {self.name} cannot write to topic {self.topic}"
        return SerdeMismatch(where, settings.key_serde, settings.value_serde, key, value, error)

    def _partition(self, key: object, value: object) -> int:
        assert self._partitioner is not None
        count = self._partitions_of(self.topic)
        if count < 1:
            raise StreamsRuntimeError(f"sink {self.name} cannot write: topic {self.topic} has no partitions")
        partition = self._partitioner(key, value, count)
        if not isinstance(partition, int) or not 0 <= partition < count:
            raise StreamsRuntimeError(
                f"the partitioner of sink {self.name} chose partition {partition!r} of topic {self.topic}, "
                f"which has 0 to {count - 1}"
            )
        return partition

    def close(self) -> None:
        return
