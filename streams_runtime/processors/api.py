"""What a user writes: processors, and what their context offers them.

Source: `Processor`, `ProcessorContext`, `PunctuationType`, `Cancellable`, `Punctuator` of the processor API (KIP-478).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from assignor.types import TaskId
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Headers, Record, RecordMetadata

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")


class PunctuationType(StrEnum):
    """STREAM_TIME advances with records only, WALL_CLOCK_TIME with the machine's clock."""

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


Punctuator = Callable[[int], None]
"""Called with the time at which it fires, in milliseconds of stream time or wall-clock time, by its type."""


class Cancellable(Protocol):
    def cancel(self) -> None:
        """Stop the punctuation. May be called from inside its callback, and more than once."""
        ...


class ProcessorContext(Protocol):
    """One for each processor of a task.

    Valid inside `init`, `process`, `process_batch`, punctuators and `close`, on the task's thread.
    """

    @property
    def application_id(self) -> str: ...

    @property
    def task_id(self) -> TaskId: ...

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The input record; None in `init` and in punctuators.

        Differs from Kafka: there, punctuators may get metadata without a topic, with partition and offset -1.
        """
        ...

    @property
    def headers(self) -> Headers: ...

    @property
    def current_stream_time_ms(self) -> int:
        """The highest timestamp that the task has seen; -1 before the first record."""
        ...

    @property
    def current_system_time_ms(self) -> int: ...

    def state_store(self, name: str) -> Any:
        """The store, as its builder makes it. Raises StreamsRuntimeError when the processor is not connected to it."""
        ...

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand a record to all children, or to the one of this name.

        An error of a node below goes to the handler of processing errors, and is not seen here when that goes on.
        """
        ...

    def forward_batch(self, columns: RecordColumns[Any, Any], child: str | None = None) -> None:
        """Hand each row to all children as a record, or to the one of this name. Rows keep their order."""
        ...

    def schedule(
        self, interval_ms: int, type: PunctuationType, callback: Punctuator, *, start_time_ms: int | None = None
    ) -> Cancellable:
        """Call `callback` every `interval_ms`. `start_time_ms` anchors the schedule (KIP-1146).

        Raises StreamsRuntimeError for an interval under 1 ms, and in a standby.
        """
        ...

    def commit(self) -> None:
        """Ask for a commit at the end of this pass of the thread's loop."""
        ...


class Processor(Generic[KIn, VIn]):
    """Base class of a user's processor. Only `process` has to be written, or `process_batch`.

    A processor that has a method `process_batch(batch)` is called with `RecordColumns`: consecutive records of its
    task, with nothing between them, neither a punctuation of stream time nor a commit nor a record of another partition
    that comes first. If it has `process` too, a record that comes alone goes there; else it is a batch of one. Records
    come alone where they have headers, below a node that has a store, below a processor without `process_batch`, beside
    a node with which it shares a store or a topic, and where `process_batch` above forwards them one by one.

    During `process_batch` the context's record is the last one of the batch: its metadata, its timestamp for what the
    stores log. When it raises, the handler of processing errors decides about each record of the batch.
    """

    retries_one_by_one = False
    """Whether a batch that fails is given again, record by record, so that only those that fail alone are lost. For a
    `process_batch` that has neither forwarded nor put anything when it raises."""

    def init(self, context: ProcessorContext) -> None:
        """Called once for each task, after its state is restored."""

    def process(self, record: Record[KIn, VIn]) -> None:
        raise TypeError(
            f"{type(self).__name__} has no `process`: write one, it is called with every record, or `process_batch`"
        )

    def close(self) -> None:
        """Called once, while the stores are still open."""


ProcessorSupplier = Callable[[], Processor[Any, Any]]
"""Makes a new processor each time it is called. It can be pickled."""

TimestampExtractor = Callable[[Record[Any, Any], int], int]
"""Record (with its own timestamp) and partition time to the timestamp to use. Negative: the record is dropped."""

StreamPartitioner = Callable[[Any, Any, int], int]
"""Key, value and number of partitions to a partition. It is a `NestedSerde` as well if it goes by a serde's bytes."""


class HandlerResponse(StrEnum):
    """What a handler decides about a failing record: end the thread, drop the record, or send it to the dead-letter
    topic and go on."""

    FAIL = "fail"
    CONTINUE = "continue"
    DEAD_LETTER = "dead-letter"


class FailedRecord(Protocol):
    """A record as it was read, what failed on it, and where."""

    @property
    def task_id(self) -> TaskId: ...
    @property
    def metadata(self) -> RecordMetadata: ...
    @property
    def node(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def error(self) -> Exception: ...


ExceptionHandler = Callable[[FailedRecord], HandlerResponse]
