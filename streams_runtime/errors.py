"""What can go wrong while tasks run, by Kafka's names. Source: `org.apache.kafka.streams.errors`."""

from __future__ import annotations

from collections.abc import Iterable

from assignor.errors import AssignorFault
from assignor.types import TaskId


class StreamsRuntimeError(AssignorFault):
    """Base of everything the runtime raises on purpose. `task_id`: the task it happened in, where it is one."""

    def __init__(self, message: str, task_id: TaskId | None = None) -> None:
        super().__init__(message if task_id is None else f"task [{task_id}] {message}")
        self.task_id = task_id


class TaskMigrated(StreamsRuntimeError):
    """Another thread has this thread's tasks already: all of them are closed uncleanly, and the member rejoins."""


class TaskCorrupted(StreamsRuntimeError):
    """State of these tasks is of no more use: it is wiped and restored from the changelogs' beginning."""

    def __init__(self, tasks: Iterable[TaskId], message: str = "state is corrupt") -> None:
        self.tasks = frozenset(tasks)
        super().__init__(f"{message}: {', '.join(str(task) for task in sorted(self.tasks))}")


class TaskTimeout(StreamsRuntimeError):
    """A task made no progress for task.timeout.ms."""


class LockError(StreamsRuntimeError):
    """Somebody else holds the lock of a task's directory. Inside one process: try again later."""


class ProcessorStateError(StreamsRuntimeError):
    """A state store, its directory or its checkpoint file could not be used."""


class StoreCorrupted(ProcessorStateError):
    """The files of a store are broken or missing; a task whose stores are logged starts over with it."""


class InvalidStateStore(StreamsRuntimeError):
    """A store that is closed, or not here, or not open for queries yet."""


class ProcessingFailed(StreamsRuntimeError):
    """A user's processor, serde or timestamp failed on a record and the handler said FAIL.

    The message names task, topic, partition and offset; `__cause__` is the user's error.
    """


class SerdeMismatch(StreamsRuntimeError):
    """A serde could not write what a processor gave; names the place, the serdes and the types.

    Source: the ClassCastException that `RecordCollectorImpl` turns into a StreamsException.
    """

    def __init__(self, where: str, key_serde: object, value_serde: object, key: object, value: object) -> None:
        super().__init__(
            f"{where}: the serdes do not fit the record: key serde {type(key_serde).__name__} was given "
            f"a {type(key).__name__}, value serde {type(value_serde).__name__} a {type(value).__name__}"
        )
