"""The running node of a source: hands the records of its topics to everything below.

Source: `SourceNode`.
"""

from __future__ import annotations

from typing import Any

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Headers
from streams_runtime.processors.nodes import NodeRunner
from streams_runtime.processors.receivers import Children, Receiver, ReceiverNames, fan_out
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.processors.topology import SourceSettings


class SourceRunner:
    """`receiver`: hands a record to all nodes below. The task reads records with the serdes and the rest.

    `timestamp_extractor` None: the record's own timestamp. `auto_offset_reset` None: by the config. `names`: of the
    receivers of the task.
    """

    __slots__ = (
        "_names",
        "_runtime",
        "auto_offset_reset",
        "below",
        "key_serde",
        "name",
        "receiver",
        "timestamp_extractor",
        "value_serde",
    )

    shares: frozenset[str] = frozenset()
    takes_batches = False
    is_of_the_user = False

    def __init__(self, name: str, settings: SourceSettings, names: ReceiverNames) -> None:
        self.name = name
        self._names = names
        self.key_serde = settings.key_serde
        self.value_serde = settings.value_serde
        self.timestamp_extractor = settings.timestamp_extractor
        self.auto_offset_reset = settings.auto_offset_reset
        self.below: list[NodeRunner] = []
        self.receiver: Receiver = self._not_running

    def add_child(self, child: NodeRunner) -> None:
        self.below.append(child)

    def init(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime

    def connect(self, children: Children) -> Receiver:
        self.receiver = fan_out([receiver for _, receiver in children], self._child_failed)
        return self.receiver

    def close(self) -> None:
        self.receiver = self._not_running

    def _child_failed(self, error: Exception) -> bool:
        """One of several nodes below has failed."""
        return self._runtime.node_failed(self._names.failed_node(error), error)

    def _not_running(self, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        raise StreamsRuntimeError(f"source {self.name} got a record, but its task is not running")
