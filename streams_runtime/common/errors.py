"""The errors of running tasks, which have Kafka's names. Source: `org.apache.kafka.streams.errors`."""

from collections.abc import Iterable, Sequence

from assignor.errors import AssignorFault, Unavailable
from assignor.types import TaskId, TopicPartition

_LONGEST_KEY = 40


def error_text(error: BaseException) -> str:
    """Returns the error's message as valid UTF-8 text. Lone surrogates in the message are escaped. Never raises: if the
    error's `__str__` fails, the text names the class of that failure.
    """
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception as broken:
        return f"<its text fails with {type(broken).__name__}>"


def class_name(error: BaseException) -> str:
    """Returns the name of the error's class, with its module if the class is not one of Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class StreamsRuntimeError(AssignorFault):
    """The base class of the runtime's errors. `task_id`: the task in which the error happened; None if it happened in
    no task.
    """

    def __init__(self, message: str, task_id: TaskId | None = None) -> None:
        super().__init__(message if task_id is None else f"task [{task_id}] {message}")
        self.task_id = task_id


class TaskMigrated(StreamsRuntimeError):
    """The tasks of this thread now belong to another thread. A thread that gets TaskMigrated drops its active tasks,
    and its member rejoins the group.
    """


class TaskCorrupted(StreamsRuntimeError):
    """Some tasks have to be restarted from their changelogs.

    `damaged`: the tasks whose stores cannot be used. These stores are deleted, and restored from the beginning of the
    changelogs. The other tasks have work that can never be committed, for example because a transaction was aborted.
    Their transactional stores still have the result of the last commit.
    """

    def __init__(
        self, tasks: Iterable[TaskId], message: str = "state is corrupt", *, damaged: Iterable[TaskId] | None = None
    ) -> None:
        """`damaged`: None for all tasks."""
        self.tasks = frozenset(tasks)
        self.damaged = self.tasks if damaged is None else frozenset(damaged)
        self.reason = message
        super().__init__(f"{message}: {', '.join(str(task) for task in sorted(self.tasks))}")


class TaskTimeout(StreamsRuntimeError):
    """A task has made no progress for task.timeout.ms."""


class LockError(StreamsRuntimeError):
    """Another thread or process holds the lock of a task's directory. If a thread of the same process holds the lock,
    the caller repeats the attempt.
    """


class ProcessorStateError(StreamsRuntimeError):
    """A state store failed, or its directory or checkpoint file could not be used."""


class StoreCorrupted(ProcessorStateError):
    """The files of a store are broken or missing. If the store has a changelog, the task restores the store from the
    beginning of the changelog.
    """


class StoreOfAnotherKind(ProcessorStateError):
    """The store's files belong to another kind of store, which an earlier version of the application had under the same
    name. The error is logged without a stack trace, because it is not a bug of this program.
    """


class ChangelogOfAnotherKind(StoreOfAnotherKind):
    """The changelog has records of another kind of store, which an earlier version of the application had."""

    def __init__(self, store: str, changelog: TopicPartition, offsets: Sequence[int], key: bytes, kind: str) -> None:
        """`offsets`: the offsets of the records in the batch that was read. `key`: the key of one of these records.
        `kind`: the kind of the store that is being restored.
        """
        super().__init__(
            f"store {store} is a {kind} store, and its changelog {changelog.topic}-{changelog.partition} has records "
            f"of another kind of store (offsets {offsets[0]} to {offsets[-1]}, key {key[:_LONGEST_KEY]!r}), which an "
            "earlier version of the application had under the same name. Give the store another name, or reset the "
            "application (`assignor reset`), which deletes the changelog, so that the store begins empty"
        )


class InvalidStateStore(StreamsRuntimeError):
    """The store is closed, is not on this instance, or is not open for queries yet."""


class ProcessingFailed(StreamsRuntimeError):
    """A user's processor, serde or timestamp extractor failed on a record, and the exception handler returned FAIL. The
    message names the task, topic, partition and offset. `__cause__` is the user's error. `record`: the position of the
    record, such as `orders-0 at offset 17`; None for a punctuation, which has no record.
    """

    def __init__(self, message: str, task_id: TaskId | None = None, record: str | None = None) -> None:
        super().__init__(message, task_id)
        self.record = record


class SerializationError(StreamsRuntimeError):
    """A serde with a schema cannot convert a value or bytes. Source: `SerializationException`."""


class WrongBatchResult(StreamsRuntimeError):
    """A function or a processor for batches returned an invalid result. The result is None or is not a column, or its
    number of rows is not the number of records in the batch.

    A `WrongBatchResult` is a mistake in the program, not in a record. After a `WrongBatchResult`, the task calls no
    exception handler and skips no record.
    """


class SchemaRegistryUnavailable(StreamsRuntimeError, Unavailable):
    """The schema registry did not answer. The message names the registry's URL.

    The record may be valid, so no exception handler is called, and the record is not skipped. Differs from Kafka: in
    Kafka, a handler that skips records also skips every record that is read while the registry is down.
    """


class SerdeMismatch(StreamsRuntimeError):
    """A serde could not serialize a key or value. The message names the sink or store, the serdes, the types of the key
    and value, and the serde's own error.

    Source: the ClassCastException that `RecordCollectorImpl` turns into a StreamsException.
    """

    def __init__(
        self, where: str, key_serde: object, value_serde: object, key: object, value: object, error: Exception
    ) -> None:
        super().__init__(
            f"{where}: the serdes do not fit the record: key serde {type(key_serde).__name__} was given "
            f"a {type(key).__name__}, value serde {type(value_serde).__name__} a {type(value).__name__} "
            f"({type(error).__name__}: {error_text(error)})"
        )
