"""The processor API: processors, their context, and the functions that users may supply.

Source: `Processor`, `ProcessorContext`, `PunctuationType`, `Cancellable`, `Punctuator` of the processor API (KIP-478).
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from assignor.types import TaskId
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Headers, Record, RecordMetadata

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")


class PunctuationType(StrEnum):
    """The clock of a punctuation. Stream time advances only with records, wall-clock time with the machine's clock."""

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


Punctuator = Callable[[int], None]
"""Called with the time at which the punctuation fires, in milliseconds of the clock of its type."""


class Cancellable(Protocol):
    def cancel(self) -> None:
        """Stop the punctuation. `cancel` may be called inside the callback, and more than once."""


class ProcessorContext(Protocol):
    """The context of one processor of a task.

    A context can be used inside `init`, `process`, `process_batch`, punctuators and `close`, on the task's thread.
    """

    @property
    def application_id(self) -> str: ...

    @property
    def task_id(self) -> TaskId: ...

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the input record; None in `init` and in punctuators.

        Differs from Kafka: there, punctuators may get metadata without a topic, with partition and offset -1.
        """

    @property
    def headers(self) -> Headers: ...

    @property
    def current_stream_time_ms(self) -> int:
        """The highest timestamp of the records that the task has processed; -1 before the first record."""

    @property
    def current_system_time_ms(self) -> int: ...

    def state_store(self, name: str) -> Any:
        """The store of this name. Raises StreamsRuntimeError if the processor is not connected to the store."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand a record to all children, or to the child of this name.

        An error of a node below goes to the handler of processing errors. If the handler decides to continue, `forward`
        returns as if there was no error; otherwise it raises the error.
        """

    def forward_batch(self, columns: RecordColumns[Any, Any], child: str | None = None) -> None:
        """Forward each row as a record, in the order of the rows."""

    def schedule(
        self, interval_ms: int, type: PunctuationType, callback: Punctuator, *, start_time_ms: int | None = None
    ) -> Cancellable:
        """Call `callback` every `interval_ms`. `start_time_ms` anchors the schedule (KIP-1146).

        Raises StreamsRuntimeError for an interval under 1 ms, and in a standby.
        """

    def commit(self) -> None:
        """Ask for a commit at the end of this pass of the thread's loop."""


class Processor(Generic[KIn, VIn]):
    """Base class of a user's processor. A processor needs a method `process`, or `process_batch`.

    `process_batch(batch)` gets `RecordColumns`: consecutive records of one partition. Between the records of a batch
    there is no punctuation of stream time, no commit and no record of another partition. If a processor has both
    `process_batch` and `process`, `process` gets each record that comes alone; without `process`, a record that comes
    alone is a batch of one. A record comes alone if it has headers, if a node above has a store, if a processor above
    has no `process_batch`, if a node in another branch shares a store or a topic with this branch, or if a
    `process_batch` above forwards it with `forward`.

    During `process_batch` the context's record is the last record of the batch: this record gives the metadata, and the
    timestamp of the changes that stores log. If `process_batch` raises an error, the handler of processing errors
    decides about each record of the batch.
    """

    retries_one_by_one = False
    """True to call `process_batch` again, record by record, with a batch for which it raised an error. With
    `retries_one_by_one`, only records that fail on their own are lost. Set `retries_one_by_one` only if `process_batch`
    raises its errors before it forwards records or changes a store.
    """

    def init(self, context: ProcessorContext) -> None:
        """The task calls `init` each time it begins to run, after its state is restored."""

    def process(self, record: Record[KIn, VIn]) -> None:
        raise TypeError(
            f"{type(self).__name__} has no `process`: write one, it is called with every record, or `process_batch`"
        )

    def close(self) -> None:
        """The task calls `close` each time it stops running, while its stores are still open."""


TimestampExtractor = Callable[[Record[Any, Any], int], int]
"""Takes a record, which has its own timestamp, and the partition time. Returns the timestamp to use; a record with a
negative timestamp is dropped."""

StreamPartitioner = Callable[[Any, Any, int], int]
"""Takes key, value and the number of partitions. Returns the partition. A partitioner that uses a serde is a
`NestedSerde` as well."""


@runtime_checkable
class KeyPrefixPartitioner(Protocol):
    """A `StreamPartitioner` that uses Kafka's hash of the key's bytes without the last `unhashed_suffix_bytes`."""

    unhashed_suffix_bytes: int
    """The number of bytes at the end of a key that are not hashed."""

    def __call__(self, key: Any, value: Any, partitions: int, /) -> int: ...


class HandlerResponse(StrEnum):
    """The decision of a handler about a record that failed: end the thread, drop the record, or send the record to the
    dead-letter topic and continue."""

    FAIL = "fail"
    CONTINUE = "continue"
    DEAD_LETTER = "dead-letter"


class FailedRecord(NamedTuple):
    """A record as it was read, with the error and the node that failed.

    A failed punctuation has metadata with an empty topic, no key, no value, and the time at which it fired.
    """

    task_id: TaskId
    metadata: RecordMetadata
    node: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    error: Exception


ExceptionHandler = Callable[[FailedRecord], HandlerResponse]
