"""The processor API: the base classes of processors, their context, and the types of functions that users write.

Source: `Processor`, `FixedKeyProcessor`, `ProcessingContext`, `ProcessorContext`, `PunctuationType`, `Cancellable`,
`Punctuator` of the processor API (KIP-478, KIP-820), and `ValueTransformerWithKey`.
"""

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from assignor.types import TaskId
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Headers, Record, RecordMetadata
from streams_runtime.serdes import Serde

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
VOut = TypeVar("VOut", covariant=True)


class PunctuationType(StrEnum):
    """The clock that determines when a punctuation fires. Stream time advances only when records are processed.
    Wall-clock time advances with the machine's clock.
    """

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


Punctuator = Callable[[int], None]
"""The type of a function that is called each time a punctuation fires. The argument is the time of the punctuation's
clock in milliseconds.
"""


class Cancellable(Protocol):
    def cancel(self) -> None:
        """Stops the punctuation. `cancel` may be called inside the callback, and more than once."""


class ProcessingContext(Protocol):
    """The context of one processor or transformer of a task, without the methods that forward records."""

    @property
    def application_id(self) -> str: ...

    @property
    def task_id(self) -> TaskId: ...

    @property
    def key_serde(self) -> Serde[Any]:
        """The serde of `default.key.serde`. Raises TopologyError if the config is not given."""

    @property
    def value_serde(self) -> Serde[Any]:
        """The serde of `default.value.serde`. Raises TopologyError if the config is not given."""

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The topic, partition and offset of the input record; None in `init` and in punctuators.

        Differs from Kafka: in Kafka, a punctuator can get metadata without a topic, with partition -1 and offset -1.
        """

    @property
    def timestamp_ms(self) -> int:
        """The timestamp of the record that the node processes; -1 if there is no record."""

    @property
    def headers(self) -> Headers: ...

    @property
    def current_stream_time_ms(self) -> int:
        """The highest timestamp of the records that the task has processed; -1 before the first record."""

    @property
    def current_system_time_ms(self) -> int: ...

    def state_store(self, name: str) -> Any:
        """Returns the store with this name. A processor may read every global store, but it cannot change a global
        store. Raises StreamsRuntimeError if the processor is not connected to the store.
        """

    def schedule(
        self, interval_ms: int, type: PunctuationType, callback: Punctuator, *, start_time_ms: int | None = None
    ) -> Cancellable:
        """Schedules a punctuation: calls `callback` every `interval_ms`. `start_time_ms`: the start of the first
        interval (KIP-1146).

        Raises StreamsRuntimeError if the interval is under 1 ms, or if the task is a standby.
        """

    def commit(self) -> None:
        """Makes the task commit at the end of the thread's present pass."""


class ProcessorContext(ProcessingContext, Protocol):
    """The context of one processor of a task.

    The processor may use its context in `init`, `process`, `process_batch`, punctuators and `close`, on the task's
    thread.
    """

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Passes a record to the children. `child`: the name of the only child that gets the record; None for all
        children. If a node below raises an error, the handler of processing errors is called. If the task can continue
        after this call, `forward` returns normally. If the task cannot continue, `forward` raises the error.
        """

    def forward_batch(self, columns: RecordColumns[Any, Any], child: str | None = None) -> None:
        """Forwards each row as a record. The records have the order of the rows."""


class Processor(Generic[KIn, VIn]):
    """Base class of a user's processor. A processor needs at least one of the methods `process` and `process_batch`.

    The argument of `process_batch(batch)` is a `RecordColumns`: consecutive records of one partition. While the task
    collects a batch, it fires no stream-time punctuation, does not commit, and processes no record of another
    partition. A single record is a record that is not part of a batch. `process` gets each single record. If a
    processor has no `process`, `process_batch` gets a single record as a batch of one record. A record is single if it
    has headers, or if a `process_batch` above calls `forward` for it. All records of a processor are single if a node
    above has a store, or if a user's processor above has no `process_batch`. All records are also single if a node in
    another branch uses a store or topic of this branch.

    During `process_batch`, the last record of the batch is the current record. The record metadata belong to the
    current record. During `process_batch`, changes of stores are logged with the timestamp of the current record. If
    `process_batch` raises an error, the handler of processing errors is called for each record of the batch.
    """

    retries_one_by_one = False
    """True to retry a failed batch: if `process_batch` raises an error, it is called again, once for each record of the
    batch. After such a retry, the handler of processing errors is called only for records that fail again. Set
    `retries_one_by_one` to True only if `process_batch` raises errors before it forwards records or changes a store.
    The reason is that a retry repeats everything that the failed call did before its error.
    """

    def init(self, context: ProcessorContext) -> None:
        """Prepares the processor. The task calls `init` each time it begins to run, when its state is restored."""

    def process(self, record: Record[KIn, VIn]) -> None:
        raise TypeError(
            f"{type(self).__name__} has no `process`: write one, it is called with every record, or `process_batch`"
        )

    def close(self) -> None:
        """Releases the processor's resources. The task calls `close` each time it stops running, before its stores are
        closed.
        """


class FixedKeyProcessor(Processor[KIn, VIn]):
    """Base class of a user's processor that does not change keys. A subclass has `process`, and no `process_batch`.

    In `process`, the processor may only forward records with the key of the record that it processes. Otherwise
    `forward` raises StreamsRuntimeError. A punctuator may only forward records with a key that `process` got in the
    same task.
    """


class ValueTransformer(Generic[KIn, VIn, VOut]):
    """Base class of a user's transformer, which gives each entry of a table a new value. A transformer may have state.

    Source: `ValueTransformerWithKey`.
    """

    def init(self, context: ProcessingContext) -> None:
        """Prepares the transformer. The task calls `init` each time it begins to run, when its state is restored. The
        transformer cannot forward records.
        """

    def transform(self, key: KIn, value: VIn | None) -> VOut | None:
        """Returns the new value of the key. `value`: None if the key is not in the table. The transformer must not
        change the key.
        """
        raise TypeError(f"{type(self).__name__} has no `transform`: write one, it is called for every change of a key")

    def close(self) -> None:
        """Releases the transformer's resources. The task calls `close` each time it stops running."""


TimestampExtractor = Callable[[Record[Any, Any], int], int]
"""The type of a function that returns the timestamp of an input record. The first argument is the record, with the
timestamp that it has in the topic. The second argument is the partition time. If the returned timestamp is negative,
the record is dropped.
"""

TopicNameExtractor = Callable[[Record[Any, Any], RecordMetadata | None], str]
"""The type of a function that returns the name of the topic to which a sink writes a record. The second argument is the
metadata of the input record; None in a punctuation. The topic must exist, and must not be an internal topic.
"""

StreamPartitioner = Callable[[Any, Any, int], int | Collection[int] | None]
"""The type of a function (key, value, number of partitions) that returns the partition of a record. If the function
returns several partitions as a set, list or tuple, the record is written to each of them. If it is empty, the record is
dropped and counted. If the function returns None, Kafka's hash of the key's bytes chooses the partition. A partitioner
that contains a serde has to be a `NestedSerde` too. Source: `StreamPartitioner.partitions` (KIP-837).
"""


@runtime_checkable
class KeyPrefixPartitioner(Protocol):
    """A `StreamPartitioner` that uses Kafka's hash of the key's bytes. The hash leaves out the last
    `unhashed_suffix_bytes` bytes.
    """

    unhashed_suffix_bytes: int
    """The hash leaves out this number of bytes at the end of each key."""

    def __call__(self, key: Any, value: Any, partitions: int, /) -> int: ...


class HandlerResponse(StrEnum):
    """The result of an exception handler for a failed record. FAIL ends the thread. CONTINUE drops the record.
    DEAD_LETTER sends the record to the dead-letter topic and continues. DEAD_LETTER_AND_FAIL sends the record to the
    dead-letter topic and ends the thread; under exactly-once, the end of the thread aborts the dead letter. RETRY
    processes the input record again later, until `task.timeout.ms` has passed. Only the handler of production errors
    may return RETRY, and only if the output is `retriable`; otherwise RETRY is FAIL.
    """

    FAIL = "fail"
    CONTINUE = "continue"
    DEAD_LETTER = "dead-letter"
    DEAD_LETTER_AND_FAIL = "dead-letter-and-fail"
    RETRY = "retry"


class FailedOutput(NamedTuple):
    """A record that a sink could not write. `key`, `value`: the objects that the sink got. `retriable`: True if the
    topic does not exist, so that a later try may succeed.
    """

    topic: str
    key: Any
    value: Any
    timestamp_ms: int
    headers: Headers
    retriable: bool


class FailedRecord(NamedTuple):
    """An input record that failed, the error, and the name of the node that failed.

    If a punctuation failed, the topic in the metadata is empty, and the key and value are None. The timestamp is then
    the time of the punctuation. `output`: the record that could not be written, for the handler of production errors;
    None for other handlers.
    """

    task_id: TaskId
    metadata: RecordMetadata
    node: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    error: Exception
    output: FailedOutput | None = None


ExceptionHandler = Callable[[FailedRecord], HandlerResponse]
