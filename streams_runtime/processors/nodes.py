"""What all running nodes have, and those of processors and sinks; sources stand in `source_node`.

This is the hottest code of the runtime. So a node's children are plain tuples of a name and a bound method, and telling
which node runs costs one attribute (`current_node`). Source: `ProcessorNode`, `SourceNode`, `SinkNode`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from streams_runtime.common.errors import SchemaRegistryUnavailable, SerdeMismatch, StreamsRuntimeError
from streams_runtime.common.records import Record, record_partition
from streams_runtime.processors.api import HashPartitioner, Processor
from streams_runtime.processors.batch_order import STORE, TOPIC
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.current_node import CurrentNode
from streams_runtime.processors.fused_loop import CannotFuse, Given, LoopWriter, Outputs, WriteColumns
from streams_runtime.processors.loop_text import CHANGES, ONE
from streams_runtime.processors.node_runs import RunsHow
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.processors.topology import SinkSettings
from streams_runtime.serdes import BytesSerde, NestedSerde, Serde, column_serializer, serde_for_topic, serializer_of


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
    def takes_batches(self) -> bool: ...
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


class ProcessorRunner:
    """A user's processor with its context."""

    __slots__ = (
        "_below_one", "_context", "_current", "_process", "_runtime", "_tried_below", "below", "name", "processor",
        "shares",
    )  # fmt: skip

    takes_batches = False

    def __init__(self, name: str, processor: Processor[Any, Any], context: NodeContext, current: CurrentNode) -> None:
        self.name = name
        self.processor = processor
        self._context = context
        self._current = current
        self.below: list[NodeRunner] = []
        self.shares = frozenset(STORE + store for store in context.connected_stores)
        self._process = self._for_one()
        self._runtime: TaskRuntime | None = None
        self._below_one: LoopWriter | None = None
        self._tried_below = False

    def _for_one(self) -> Callable[[Record[Any, Any]], None]:
        """The processor's function for a record."""
        return self.processor.process

    def add_child(self, child: NodeRunner) -> None:
        self.below.append(child)

    def init(self, runtime: TaskRuntime) -> None:
        self._context.open(runtime)
        try:
            self.processor.init(self._context)
        except BaseException:
            self._context.close()
            raise
        self._runtime = runtime
        self._below_one = None
        self._tried_below = False

    def link(self) -> None:
        self._context.link(tuple((child.name, child.entry()) for child in self.below))

    def entry(self) -> Callable[[Record[Any, Any]], None]:
        process = self._for_one()
        if self._context.connected_stores:
            self._process = process
            return self._process_with_stores
        return process

    def fuse(self, loop: LoopWriter, given: Given) -> None:
        """Only a class that has both of `process` and `fuse` does the same in both."""
        processor = self.processor
        own = type(processor).__dict__
        if "fuse" in own and "process" in own:
            fuse: Callable[[LoopWriter, Given], bool] = processor.fuse  # type: ignore[attr-defined]
            loop.runs.note(self.name, RunsHow.IN_THE_LOOP)
            if loop.written(self.below, partial(fuse, loop, given)):
                return
            why = "it needs old values beside the new ones, or a store of another kind"
        else:
            why = f"the loop knows no {type(processor).__name__}"
        self.call_in(loop, given, why)

    def call_in(self, loop: LoopWriter, given: Given, why: str) -> None:
        """Have the loop call this node once a record."""
        if not self._tried_below and getattr(self.processor, "forwards_plain_records", True):
            self._tried_below = True  # once, also where it cannot be: every path to this node asks again
            self._fuse_below(loop.outputs)
        if self._below_one is not None:
            for name, run in self._below_one.runs.by_name().items():
                loop.runs.note(name, *run)
            loop.fused += self._below_one.fused
        for store in sorted(self._context.connected_stores):
            loop.outputs.take_changes(store)
        with_stores = self.entry() if self._context.connected_stores else None
        loop.call(self.name, self._for_one(), given, why, with_stores=with_stores)

    def _fuse_below(self, outputs: Outputs) -> None:
        """Let a function do what is below, for one record after the other that `forward` gets without headers."""
        below = LoopWriter(outputs, ONE)
        try:
            with below.inside(self.name):
                below.written(self.below, partial(below.forward, below.row))
        except CannotFuse:
            return
        if below.fused:
            self._below_one = below
            self._context.take_one = below.compiled(self._current, self._runtime).run

    def fuse_flush(self, runtime: TaskRuntime, outputs: Outputs) -> None:
        """If a store of this node holds changes back, let a loop write and forward them, as far as that is possible."""
        flush = self._context.flush
        if flush is None:
            return
        loop = LoopWriter(outputs, CHANGES)
        try:
            with loop.inside(self.name):
                if not loop.written(self.below, partial(flush.fuse, loop)):
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
        self._context.take_one = None  # a record that comes now is the begin of new work, which nodes say by themselves
        try:
            self.processor.close()
        finally:
            self._current.name = None
            self._context.close()


class SinkRunner:
    """Serialises records and sends them. A sink has no children."""

    below: Sequence[NodeRunner] = ()
    takes_batches = False

    __slots__ = (
        "_key_serde",
        "_partitioner",
        "_partitions_of",
        "_send",
        "_serialize_key",
        "_serialize_value",
        "_settings",
        "_value_serde",
        "_write_keys",
        "_write_values",
        "name",
        "shares",
        "topic",
    )

    def __init__(self, name: str, topic: str, settings: SinkSettings) -> None:
        self.name = name
        self.topic = topic
        self.shares = frozenset({TOPIC + topic})
        self._settings = settings
        self._key_serde = key_serde = serde_for_topic(settings.key_serde, topic, is_key=True)
        self._value_serde = value_serde = serde_for_topic(settings.value_serde, topic, is_key=False)
        self._serialize_key, self._serialize_value = serializer_of(key_serde), serializer_of(value_serde)
        self._write_keys, self._write_values = column_serializer(key_serde), column_serializer(value_serde)
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
        partitioner, hashed = self._partitioner, None
        by_hash = partitioner if isinstance(partitioner, HashPartitioner) else None
        if given.old or (partitioner is not None and by_hash is None):
            why = "it writes the changes of a table" if given.old else "it has a partitioner of its own"
            loop.call(self.name, self.entry(), given, why)
            return
        loop.runs.note(self.name, RunsHow.IN_THE_LOOP)
        loop.fused += 1
        if by_hash is not None:
            hashed = loop.known(given.key, by_hash)
            if hashed is None:
                hashed = loop.new("hashed")
                loop.line(f"{hashed} = {loop.bind('hashed_bytes', by_hash.hashed_bytes)}({given.key})")
        loop.if_it_fails = partial(self._translated, given)
        key = loop.known(given.key, self._key_serde) or given.key
        value = loop.known(given.value, self._value_serde) or given.value
        if key == given.key:
            key = self._fuse_serializing(loop, "written_key", given.key, self._key_serde, self._serialize_key)
        if value == given.value:
            value = self._fuse_serializing(loop, "written_value", given.value, self._value_serde, self._serialize_value)
        loop.if_it_fails = None
        loop.outputs.write_row(loop, self.topic, key, value, given.timestamp_ms, hashed)

    @staticmethod
    def _fuse_serializing(
        loop: LoopWriter, hint: str, given: str, serde: Serde[Any], serialize: Callable[[Any], bytes]
    ) -> str:
        """The variable with the bytes."""
        written = loop.new(hint)
        # bytes that stay bytes need no call
        stays = f"{given}.__class__ is bytes or {given} is None"
        if isinstance(serde, BytesSerde):
            loop.line(f"{written} = {given} if {stays} else {loop.bind('serialize', serialize)}({given})")
        else:
            loop.line(f"{written} = None if {given} is None else {loop.bind('serialize', serialize)}({given})")
        return written

    def columns_writer(self, outputs: Outputs) -> WriteColumns | None:
        """What does the same to columns; None where each record has a say."""
        if self._partitioner is not None:
            return None
        write, write_keys, write_values = outputs.columns_writer(self.topic), self._write_keys, self._write_values

        def written(keys: Sequence[Any], values: Sequence[Any], timestamps_ms: Sequence[int]) -> bool:
            try:
                key_bytes, value_bytes = write_keys(keys), write_values(values)
            except Exception:  # one by one, it is found out which record it is
                return False
            return write(key_bytes, value_bytes, timestamps_ms)

        return written

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
        try:
            return record_partition(partition, count)
        except ValueError:
            raise StreamsRuntimeError(
                f"the partitioner of sink {self.name} chose partition {partition!r} of topic {self.topic}, "
                f"which has 0 to {count - 1}"
            ) from None

    def close(self) -> None:
        return
