"""The interface `TaskRuntime`, through which the nodes of a task call the task. `ProcessorRuntime` implements
`TaskRuntime`.

Source: `InternalProcessorContext`, `RecordCollector`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from streams_runtime.processors.api import (
    Cancellable,
    PunctuationType,
    Punctuator,
    StreamPartitioner,
    TopicNameExtractor,
)
from streams_runtime.serdes import BYTES, Serde
from streams_runtime.serdes.defaults import DefaultSerdes
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.state_stores.thread_cache import RecordContexts

TASK_ERRORS = (LogTimeout, TaskMigrated, TaskCorrupted, TaskTimeout, ProcessorStateError, ProcessingFailed)
"""Errors of these classes concern the whole task, not only the current record, so no exception handler is called.
"""


class RunPosition(NamedTuple):
    """The position of an input record in the current run. `place`: the record's index in the polled batch.
    `stream_time_ms`: the task's stream time when the record is processed. `in_batch`: True if a node processes the
    record in one batch with other records of the run. If `in_batch` is True, an error concerns all records of the
    batch.
    """

    place: int
    stream_time_ms: int
    in_batch: bool = False


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The settings of a sink. `partitioner`: chooses the partition; None to use Kafka's hash of the key's bytes.
    `topic_extractor`: chooses the topic of each record; None if the sink has a topic.
    """

    key_serde: Serde[Any] = BYTES
    value_serde: Serde[Any] = BYTES
    partitioner: StreamPartitioner | None = None
    topic_extractor: TopicNameExtractor | None = None


class TaskRuntime(RecordContexts, Protocol):
    """A Streams task and its current record. The current record is the record that the task is processing. Only the
    task's own thread may use this object.
    """

    @property
    def application_id(self) -> str: ...

    @property
    def default_serdes(self) -> DefaultSerdes: ...

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
    def processor_metadata(self) -> dict[str, int]:
        """The numbers that operators keep with the committed offsets, by name. A change becomes part of the next
        commit. Source: `ProcessorMetadata`.
        """

    @property
    def global_stores(self) -> Mapping[str, StateStore]:
        """The global stores of the instance, which the task may only read."""

    @property
    def losses(self) -> TaskLosses: ...

    def sink(self, node: str, topic: str, settings: SinkSettings) -> Callable[[Any, Any, int, Headers], None]:
        """Returns the receiver of a sink, which writes records to a topic. `node`: the name of the sink. `topic`: the
        full name of the topic.
        """

    @property
    def position(self) -> RunPosition | None:
        """The position of the current record in its run. None during a punctuation or a flush, because these do not
        belong to a run.
        """

    def move_to(self, position: RunPosition, *, in_batch: bool) -> None:
        """Makes the record at this position of the run the current record. `in_batch`: the new value of the field
        `in_batch` in the position.
        """

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Cancellable: ...

    def request_commit(self) -> None: ...

    def node_failed(self, node: str, error: Exception) -> bool:
        """After an error of a node, calls the handler of processing errors for the current record. Returns True if the
        task continues without the effect of the record on this node. Returns False if the error concerns the task or
        several records. If the result is False, the caller has to raise the error again. Raises ProcessingFailed if the
        handler ends the thread.
        """
