"""The interface of a task for its running nodes. `ProcessorRuntime` implements `TaskRuntime`.

Source: `InternalProcessorContext`, `RecordCollector`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from assignor.types import TaskId
from streams_runtime.common.errors import (
    ProcessingFailed,
    ProcessorStateError,
    TaskCorrupted,
    TaskMigrated,
    TaskTimeout,
)
from streams_runtime.common.losses import TaskLosses
from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import Cancellable, PunctuationType, Punctuator, StreamPartitioner
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.state_store import StateStore

TASK_ERRORS = (LogTimeout, TaskMigrated, TaskCorrupted, TaskTimeout, ProcessorStateError, ProcessingFailed)
"""Errors of the task, not of the current record. No exception handler is called for the errors in TASK_ERRORS."""


class RunPosition(NamedTuple):
    """The position of an input record in the current run. `place`: the record's index in the polled batch.
    `stream_time_ms`: the stream time of the task when the record is processed. `in_batch`: whether a node processes the
    record in a batch with other records of the run, so that an error is not about this record alone.
    """

    place: int
    stream_time_ms: int
    in_batch: bool = False


class TaskRuntime(Protocol):
    """The task and its current record, which is the record being processed. Only the task's own thread may use its
    `TaskRuntime`.
    """

    @property
    def application_id(self) -> str: ...

    @property
    def task_id(self) -> TaskId: ...

    @property
    def record_metadata(self) -> RecordMetadata | None: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def stream_time_ms(self) -> int: ...

    @property
    def current_system_time_ms(self) -> int: ...

    @property
    def stores(self) -> dict[str, StateStore]: ...

    @property
    def losses(self) -> TaskLosses: ...

    def sink(
        self,
        node: str,
        topic: str,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        partitioner: StreamPartitioner | None,
    ) -> Callable[[Any, Any, int, Headers], None]:
        """The receiver of the sink `node`, which writes to the topic of this full name.

        `partitioner`: None for Kafka's hash of the key's bytes.
        """

    @property
    def position(self) -> RunPosition | None:
        """The position of the current record in its run; None outside of a run: in a punctuation or in a flush."""

    def move_to(self, position: RunPosition, *, in_batch: bool) -> None:
        """Make the record at this position of the run the current record. `in_batch`: as in `RunPosition`; this
        argument is used, not the field of `position`.
        """

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Cancellable: ...

    def request_commit(self) -> None: ...

    def node_failed(self, node: str, error: Exception) -> bool:
        """Have the handler of processing errors decide about an error of this node with the current record.

        Returns True if the task continues as if the node had never received the record. Returns False if the error is
        about the task or about several records: the caller then raises the error again. Raises ProcessingFailed if the
        handler ends the thread.
        """
