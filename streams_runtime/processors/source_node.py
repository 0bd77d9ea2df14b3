"""The running node of a source: records of its topics go through everything below, one by one or in one loop.

Source: `SourceNode`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Record
from streams_runtime.processors.batch_order import batch_hindrances
from streams_runtime.processors.batch_sections import BatchRuntime
from streams_runtime.processors.batched_loop import BatchedLoop
from streams_runtime.processors.current_node import Child, CurrentNode
from streams_runtime.processors.fused_loop import CannotFuse, FusedLoop, Given, LoopWriter, Outputs
from streams_runtime.processors.node_runs import NodeRun, NodeRuns, RunsHow
from streams_runtime.processors.nodes import NodeRunner
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.processors.topology import SourceSettings
from streams_runtime.serdes import ColumnDeserializer


class SourceRunner:
    """`process` runs a record through everything below. The task reads records with the serdes and the rest.

    `timestamp_extractor` None: the record's own timestamp. `auto_offset_reset` None: by the config.
    """

    __slots__ = (
        "_children",
        "_current",
        "_runs",
        "_runtime",
        "auto_offset_reset",
        "below",
        "key_serde",
        "name",
        "timestamp_extractor",
        "value_serde",
    )

    shares: frozenset[str] = frozenset()
    takes_batches = False

    def __init__(self, name: str, settings: SourceSettings, current: CurrentNode) -> None:
        self.name = name
        self.key_serde = settings.key_serde
        self.value_serde = settings.value_serde
        self.timestamp_extractor = settings.timestamp_extractor
        self.auto_offset_reset = settings.auto_offset_reset
        self._current = current
        self._runs: NodeRuns | None = None
        self._runtime: TaskRuntime
        self.below: list[NodeRunner] = []
        self._children: tuple[Child, ...] | None = None

    def add_child(self, child: NodeRunner) -> None:
        self.below.append(child)

    def init(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime

    def link(self) -> None:
        self._children = tuple((child.name, child.entry()) for child in self.below)

    def entry(self) -> Callable[[Record[Any, Any]], None]:
        return self.process

    def fuse(self, loop: LoopWriter, given: Given) -> None:
        raise StreamsRuntimeError(f"source {self.name} cannot be below another node")

    def process(self, record: Record[Any, Any]) -> None:
        """An error of a node below ends what that node does with the record, as in `ProcessorContext.forward`.

        Raises what ends the record. `ProcessorGraph.current_node` then names the node it came from.
        """
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
                try:
                    process(record)
                except Exception as error:
                    current.failed(error, None)
                    self._runtime.node_failed(current.failed_at, error)
                    current.forget()
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
        runtime: BatchRuntime,
        outputs: Outputs,
        read_key: Callable[[bytes], Any] | None,
        read_value: Callable[[bytes], Any] | None,
        column_readers: tuple[ColumnDeserializer, ColumnDeserializer],
    ) -> FusedLoop | None:
        """What `process` does to record after record, as one loop; None where that gains nothing. After `link`.

        `read_key`, `read_value`: from bytes; None for what stays bytes. `column_readers`: the same, for columns. Raises
        as `outputs` does.
        """
        self._runs = runs = NodeRuns()
        if self.timestamp_extractor is not None:
            return None
        loop = LoopWriter(outputs, hindrances=batch_hindrances(self.below), runs=runs)
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
            loop.written(self.below, partial(loop.forward, loop.source))
        except CannotFuse:
            self._runs = NodeRuns()
            return None
        if not loop.fused and not loop.sections:
            return None
        fused = loop.compiled(self._current, runtime)
        if loop.sections:
            sections: list[Any] = list(loop.sections.values())
            takes_all = [each.name for each in self.below] == list(loop.sections)[:1]
            fused.takes_batches = True
            fused.run = BatchedLoop(fused, sections, self._current, runtime, column_readers if takes_all else None).run
        return fused

    def node_runs(self) -> Mapping[str, NodeRun]:
        """How each node below runs; nothing before `fused`."""
        if self._runs is None:
            return {}
        told = dict(self._runs.by_name())
        why = "" if told else "the topology is too large for a loop"
        if self.timestamp_extractor is not None:
            why = f"{self.name} has a timestamp extractor"
        waiting: list[tuple[NodeRunner, str]] = [(each, why) for each in self.below]
        seen: set[str] = set()
        while waiting:
            node, why = waiting.pop()
            if node.name in seen:
                continue
            seen.add(node.name)
            run = told.setdefault(node.name, NodeRun(RunsHow.ONCE_A_RECORD, why))
            if run.how is RunsHow.ONCE_A_RECORD and run.why != why:
                why = f"it is below {node.name}"
            waiting += [(each, why) for each in node.below]
        return told

    def close(self) -> None:
        self._children = None
