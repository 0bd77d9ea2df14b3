"""`TaskRuntime`, the interface through which running nodes call their task. `ProcessorRuntime` implements this
interface.

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
"""The classes of errors that concern the task, not the current record. No exception handler is called for these
errors.
"""


class RunPosition(NamedTuple):
    """The position of an input record in the current run. `place`: the record's index in the polled batch.
    `stream_time_ms`: the stream time of the task when the record is processed. `in_batch`: True if a node processes the
    record in a batch with other records of the run, so that an error concerns all of these records.
    """

    place: int
    stream_time_ms: int
    in_batch: bool = False


class TaskRuntime(Protocol):
    """A task, with the record that it is processing (the current record). Only the task's own thread may use its
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
        """Returns the receiver of the sink `node`. The receiver writes records to the topic with this full name.

        `partitioner`: None for Kafka's hash of the key's bytes.
        """

    @property
    def position(self) -> RunPosition | None:
        """The position of the current record in its run; None outside of a run, that is, in a punctuation or a
        flush.
        """

    def move_to(self, position: RunPosition, *, in_batch: bool) -> None:
        """Set the current record to the record at this position of the run. `in_batch`: see `RunPosition`. The argument
        `in_batch` replaces the field `in_batch` of `position`.
        """

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Cancellable: ...

    def request_commit(self) -> None: ...

    def node_failed(self, node: str, error: Exception) -> bool:
        """Let the handler of processing errors decide about an error that this node has raised for the current record.

        Returns True if the task continues as if the node had never received the record. Returns False if the error
        concerns the task or several records. If the result is False, the caller has to raise the error again. Raises
        ProcessingFailed if the handler ends the thread.
        """
