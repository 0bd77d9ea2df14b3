"""The processor API: the base class of processors, their context, and the types of functions that users may supply.

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
    """The clock by which a punctuation fires. Stream time advances only when records are processed. Wall-clock time
    advances with the machine's clock.
    """

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


Punctuator = Callable[[int], None]
"""A function that is called each time a punctuation fires. The argument of the function is the time on the
punctuation's clock, in milliseconds.
"""


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
        """The topic, partition and offset of the input record; None in `init` and in punctuators.

        Differs from Kafka: in a punctuator of Kafka, the metadata can be without a topic, with -1 as partition and as
        offset.
        """

    @property
    def headers(self) -> Headers: ...

    @property
    def current_stream_time_ms(self) -> int:
        """The highest timestamp of the records that the task has processed; -1 before the first record."""

    @property
    def current_system_time_ms(self) -> int: ...

    def state_store(self, name: str) -> Any:
        """Returns the store of this name. Raises StreamsRuntimeError if the processor is not connected to the store."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Pass a record to all children, or to the child of this name.

        If a node below raises an error, the handler of processing errors decides about it. If the task continues,
        `forward` returns normally. Otherwise `forward` raises the error.
        """

    def forward_batch(self, columns: RecordColumns[Any, Any], child: str | None = None) -> None:
        """Forward each row as a record, in the order of the rows."""

    def schedule(
        self, interval_ms: int, type: PunctuationType, callback: Punctuator, *, start_time_ms: int | None = None
    ) -> Cancellable:
        """Call `callback` every `interval_ms`. `start_time_ms`: the time at which the first interval begins (KIP-1146).

        Raises StreamsRuntimeError if the interval is under 1 ms, and if the task is a standby.
        """

    def commit(self) -> None:
        """Ask the task to commit at the end of the thread's present pass."""


class Processor(Generic[KIn, VIn]):
    """Base class of a user's processor. A processor needs a method `process`, or a method `process_batch`, or both.

    `process_batch(batch)` gets `RecordColumns`: consecutive records of one partition. While the task collects a batch,
    it fires no punctuation of stream time, does not commit, and processes no record of another partition. Some records
    come alone, that is, not in a batch with others. If a processor has both methods, `process` gets each record that
    comes alone. If a processor has only `process_batch`, it gets a record that comes alone as a batch of one record. A
    record comes alone if it has headers, or if a `process_batch` above forwards it with `forward`. All records come
    alone if a node above has a store, if a processor above has no `process_batch`, or if a node in another branch uses
    a store or a topic of this branch.

    During `process_batch`, the last record of the batch is the current record. The record metadata, and the timestamp
    of the changes that stores log, are those of the current record. If `process_batch` raises an error, the handler of
    processing errors decides about each record of the batch.
    """

    retries_one_by_one = False
    """True to repeat a failed batch: if `process_batch` raises an error, it is called again with one record at a time.
    With `retries_one_by_one`, the handler of processing errors decides only about the records for which the second call
    fails. Use `retries_one_by_one` only if `process_batch` raises all of its errors before it forwards records or
    changes a store.
    """

    def init(self, context: ProcessorContext) -> None:
        """Prepare the processor. The task calls `init` each time it begins to run, after its state is restored."""

    def process(self, record: Record[KIn, VIn]) -> None:
        raise TypeError(
            f"{type(self).__name__} has no `process`: write one, it is called with every record, or `process_batch`"
        )

    def close(self) -> None:
        """Release the processor's resources. The task calls `close` each time it stops running, while its stores are
        still open.
        """


TimestampExtractor = Callable[[Record[Any, Any], int], int]
"""A function that takes an input record and the partition time, and returns the new timestamp of the record. The record
that the function gets has the timestamp from the topic. If the returned timestamp is negative, the record is dropped.
"""

StreamPartitioner = Callable[[Any, Any, int], int]
"""A function that takes the key, the value and the number of partitions of a topic. The function returns the partition.
A partitioner that uses a serde has to be a `NestedSerde` as well.
"""


@runtime_checkable
class KeyPrefixPartitioner(Protocol):
    """A `StreamPartitioner` that chooses the partition by Kafka's hash of the key's bytes, without the last
    `unhashed_suffix_bytes` bytes.
    """

    unhashed_suffix_bytes: int
    """The number of bytes at the end of each key that the hash leaves out."""

    def __call__(self, key: Any, value: Any, partitions: int, /) -> int: ...


class HandlerResponse(StrEnum):
    """The decision of an exception handler about a failed record: end the thread, drop the record and continue, or send
    the record to the dead-letter topic and continue.
    """

    FAIL = "fail"
    CONTINUE = "continue"
    DEAD_LETTER = "dead-letter"


class FailedRecord(NamedTuple):
    """An input record whose processing failed, with the error and the name of the node that failed.

    For a failed punctuation, the metadata have an empty topic, key and value are None, and the timestamp is the time at
    which the punctuation fired.
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
