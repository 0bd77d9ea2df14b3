"""What running processor nodes ask of the task they run in. `ProcessorRuntime` answers.

Source: `InternalProcessorContext`, `RecordCollector`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

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


Sender = Callable[[bytes | None, bytes | None, int, Headers, int | None], None]
"""Writes key, value, timestamp and headers to one topic. The last is the partition; None: by Kafka's murmur2 hash of
the key."""


class RunPosition(NamedTuple):
    """An input record of the run that is processed. `place`: in the batch that was polled. `stream_time_ms`: when it is
    processed. `several`: a node has it together with others, see `move_to`.
    """

    place: int
    stream_time_ms: int
    several: bool = False


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

    def sender(self, topic: str) -> Sender:
        """What writes to a topic, given by its full name."""
        ...

    @property
    def position(self) -> RunPosition | None:
        """Of the record of a run that is processed; None where none is, as in a punctuation and in a flush."""
        ...

    def move_to(self, position: RunPosition, *, several: bool) -> None:
        """The record at this position of the run is processed from now on. `several`: a node has it together with
        others, so an error of what that node hands on is not about this record.
        """
        ...

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Cancellable: ...

    def request_commit(self) -> None: ...

    def node_failed(self, node: str, error: Exception) -> bool:
        """An error of the record that is processed came from this node. True: the task goes on. The node has no part in
        the record then, and others still get it. False: the error goes up, because it is about the task or about
        several records. Raises what ends the record.
        """
        ...
