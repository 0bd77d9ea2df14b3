"""What running processor nodes ask of the task they run in. `ProcessorRuntime` answers.

Source: `InternalProcessorContext`, `RecordCollector`.
"""

from __future__ import annotations

from typing import Protocol

from assignor.types import TaskId
from streams_runtime.common.errors import (
    ProcessingFailed,
    ProcessorStateError,
    TaskCorrupted,
    TaskMigrated,
    TaskTimeout,
)
from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.processors.api import Cancellable, PunctuationType, Punctuator
from streams_runtime.reporting.losses import TaskLosses
from streams_runtime.state_stores.base import StateStore

ABOUT_THE_TASK = (LogTimeout, TaskMigrated, TaskCorrupted, TaskTimeout, ProcessorStateError, ProcessingFailed)
"""Errors that are not about the record that was processed: no handler decides on them."""


class TaskRuntime(Protocol):
    """Everything here is about the record that is being processed now, on the task's own thread."""

    @property
    def application_id(self) -> str: ...

    @property
    def task_id(self) -> TaskId: ...

    @property
    def record_metadata(self) -> RecordMetadata | None: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def current_stream_time_ms(self) -> int: ...

    @property
    def current_system_time_ms(self) -> int: ...

    @property
    def stores(self) -> dict[str, StateStore]: ...

    @property
    def losses(self) -> TaskLosses: ...

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has. Raises StreamsRuntimeError for an unknown topic."""
        ...

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        """Write to a topic, given by its full name. `partition` None: by Kafka's murmur2 hash of the key."""
        ...

    def settle(self) -> None:
        """Give the log what was written so far. Raises as `send` does."""
        ...

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Cancellable: ...

    def request_commit(self) -> None: ...

    def node_failed(self, node: str, error: Exception) -> None:
        """An error came from this node. Returns when the task may go on: this node has no part in the record then, and
        others still get it. Raises what ends the record.
        """
        ...
