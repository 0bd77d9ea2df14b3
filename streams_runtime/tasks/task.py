"""The base class of active tasks and standbys, with their states, the lock of their directory, and task.timeout.ms.

    CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED        (a standby is RUNNING as soon as it is initialised)

From each state except CLOSED a task may go to SUSPENDED. From SUSPENDED a task may go to CLOSED. A task that was
suspended before it was initialised goes back to CREATED, because its stores are not open. A corrupt task is revived
after its close: the task is CREATED again. The error for an illegal transition names the last twenty states.

A task that never had the lock of its directory does not touch the directory's files. A task that replaces a recycled
task has the lock of the directory and open stores from the beginning. Source: `Task`, `AbstractTask`,
`StateManagerUtil`.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated, TaskTimeout, error_text
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.state_stores.state_store import ChangeLogger, RecordClock, StateStore, StoreContext, ignore_expired
from streams_runtime.state_stores.thread_cache import TaskCache
from streams_runtime.tasks.state_manager import StateManager

_STEPS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.CREATED: frozenset({TaskState.RESTORING, TaskState.SUSPENDED}),
    TaskState.RESTORING: frozenset({TaskState.RUNNING, TaskState.SUSPENDED}),
    TaskState.RUNNING: frozenset({TaskState.SUSPENDED}),
    TaskState.SUSPENDED: frozenset({TaskState.CREATED, TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.CLOSED: frozenset({TaskState.CREATED}),
}
_HISTORY_LENGTH = 20

_logger = logging.getLogger(__name__)


class Task(ABC):
    """An active task or a standby. Only the task's own stream thread may call the task. Times are in milliseconds.

    The public methods move the task from one state to the next, or carry out a step of a commit.

    `state_manager`: a new state manager for a task of this type, or the result of `recycle_state` of a task of the
    other type, with open stores. The changelog reader passes the records of a restore to the state manager.
    """

    type: TaskType

    def __init__(
        self, state_manager: StateManager, input_partitions: frozenset[TopicPartition], task_timeout_ms: int
    ) -> None:
        self.id = state_manager.task_id
        self.state = TaskState.CREATED
        self.state_manager = state_manager
        self.input_partitions = input_partitions
        self.changelog_partitions = state_manager.changelog_partitions
        self._history = deque([self.state], maxlen=_HISTORY_LENGTH)
        self._deadline = TaskDeadline(self.id, task_timeout_ms)
        # A recycled state manager still has the type of the recycled task, and holds the directory's lock.
        self._holds_state = state_manager.task_type is not self.type
        self._is_open = False  # True after `_open_state`: the stores are open for this task, the checkpoint was read

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id}, {self.state})"

    @property
    def stores(self) -> Mapping[str, StateStore]:
        """The open stores, by name. Queries read these stores."""
        return self.state_manager.stores

    # --- states

    @abstractmethod
    def initialize_if_needed(self) -> None:
        """Lock the directory of a CREATED task, open its stores and read its checkpoint. After `initialize_if_needed`,
        the thread registers the changelogs of the task with the changelog reader.

        Raises LockError, LogTimeout, TaskCorrupted, ProcessorStateError. After LockError, the thread tries again in a
        later pass.
        """

    @abstractmethod
    def suspend(self) -> None:
        """Take no more records, and close the user's processors. Idempotent."""

    @abstractmethod
    def resume(self) -> None:
        """Resume a SUSPENDED task, because it is assigned again. The task becomes RESTORING (active) or RUNNING
        (standby).
        """

    def close_clean(self) -> None:
        """Close a task that is SUSPENDED and committed: write a checkpoint, close the stores, unlock the directory.

        Raises ProcessorStateError. After an error the task is still SUSPENDED, and has to be closed dirty.
        """
        if self.state is TaskState.CLOSED:
            return
        self._expect("be closed", TaskState.SUSPENDED)
        self._before_clean_end()
        if self._holds_state:
            self.state_manager.maybe_checkpoint(enforce=True)
            self.state_manager.close()
        self._close()

    def close_dirty(self) -> None:
        """Close the task after an error, without committing. Never raises. Under exactly-once, also deletes the state
        on disk.
        """
        if self.state is TaskState.CLOSED:
            return
        if self.state is not TaskState.SUSPENDED:
            self._try("suspend", self.suspend)
        self._drop_work()
        if self._holds_state:
            manager = self.state_manager
            self._try("close its state", manager.wipe if manager.exactly_once else manager.close)
        self._try("unlock its directory", self._close)

    def recycle_state(self) -> StateManager:
        """Close a SUSPENDED and committed task, but leave its stores open and its directory locked. Returns the state
        manager of the task, for a task of the other type.
        """
        self._expect("be recycled", TaskState.SUSPENDED)
        self._before_clean_end()
        self._holds_state = False
        self._close()
        return self.state_manager

    def revive(self) -> None:
        """Make a CLOSED task CREATED again, so that the thread restarts the task."""
        self._expect("be revived", TaskState.CLOSED)
        self.clear_task_timeout()
        self._become(TaskState.CREATED)

    # --- commits

    @abstractmethod
    def commit_needed(self) -> bool: ...

    @abstractmethod
    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """Returns the input offsets to commit, which may be empty. On return, the producer has every record of the
        task.
        """

    @abstractmethod
    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """Write a checkpoint after a commit, by the rules of the processing guarantee (see `StateManager`)."""

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        """Returns the changelog offsets to report to the leader. For a running active task, each offset is
        LATEST_OFFSET. For a standby, and for an active task that is not running, each offset is the next offset to
        apply.
        """
        return self.state_manager.changelog_offsets()

    # --- input partitions and task.timeout.ms

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self.input_partitions = partitions

    def maybe_init_task_timeout_or_throw(self, now_ms: int, cause: Exception | None = None) -> None:
        """Record that the task made no progress. The first call starts the period of task.timeout.ms. A call after the
        end of this period raises TaskTimeout.
        """
        self._deadline.failed(now_ms, cause)

    def clear_task_timeout(self) -> None:
        self._deadline.succeeded()

    # --- for the subclasses

    def _before_clean_end(self) -> None:
        """Prepare for a clean close or for recycling. Raises an error if the task has to be closed dirty instead."""
        return

    def _drop_work(self) -> None:
        """Forget uncommitted work before a dirty close, so that no later commit contains this work."""
        return

    def _become(self, state: TaskState) -> None:
        """Go to the given state. Raises StreamsRuntimeError for an illegal transition."""
        if state not in _STEPS[self.state]:
            raise self._illegal(f"become {state.value}")
        self.state = state
        self._history.append(state)

    def _expect(self, doing: str, *states: TaskState) -> None:
        """Raises StreamsRuntimeError unless the state is one of `states`. `doing`: the refused step, such as "be
        closed", for the message.
        """
        if self.state not in states:
            raise self._illegal(doing)

    def _illegal(self, doing: str) -> StreamsRuntimeError:
        history = " -> ".join(state.value for state in self._history)
        return StreamsRuntimeError(
            f"({self.type.value}) is {self.state.value} and cannot {doing}; its states were {history}", self.id
        )

    def _lock_state(self) -> None:
        """Lock the task's directory. Raises LockError while another thread or process has the lock."""
        self.state_manager.lock()
        self._holds_state = True

    def _open_state(
        self,
        changes: ChangeLogger | None,
        clock: RecordClock,
        expired: Callable[[str], None] = ignore_expired,
        cache: TaskCache | None = None,
    ) -> None:
        """Open the stores and read the checkpoint. `changes`: the object that sends the changes of logged stores; None
        in a standby. `clock`: the object that has the time of the current record. `expired`: a function that is called
        for each change that a store drops because the change is too old. `cache`: the record cache, or None.

        Raises TaskCorrupted, ProcessorStateError.
        """
        manager = self.state_manager
        context = StoreContext(
            manager.task_id, manager.task_directory, changes, clock, manager.rocksdb_config_setter, expired, cache
        )
        if manager.task_type is not self.type:
            manager.transition_to(self.type, context)
        manager.open_stores(context)
        manager.load_checkpoint()
        self._is_open = True

    def _close(self) -> None:
        """Become CLOSED, and unlock the directory for other tasks. Raises ProcessorStateError. The task is CLOSED even
        after an error.
        """
        holds_state, self._holds_state, self._is_open = self._holds_state, False, False
        try:
            if holds_state:
                self.state_manager.unlock()
        finally:
            self._become(TaskState.CLOSED)

    def _try(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            _logger.exception("task %s could not %s while it is closed dirty", self.id, what)


class TaskDeadline:
    """Raises TaskTimeout when one operation of a task has failed for longer than task.timeout.ms.

    The first failure starts the period, and a success ends it. `operation`: the action that follows "could not" in the
    message.
    Source: `AbstractTask.maybeInitTaskTimeoutOrThrow`.
    """

    def __init__(self, task_id: TaskId, timeout_ms: int, operation: str = "make progress") -> None:
        self._task_id = task_id
        self._timeout_ms = timeout_ms
        self._operation = operation
        self._deadline_ms: int | None = None

    def failed(self, now_ms: int, cause: Exception | None) -> None:
        """Record that the operation failed at `now_ms` (monotonic). Raises TaskTimeout once task.timeout.ms is over."""
        if self._deadline_ms is None:
            self._deadline_ms = now_ms + self._timeout_ms
        elif now_ms > self._deadline_ms:
            # the first failure was `_timeout_ms` before the deadline
            took_ms = now_ms - self._deadline_ms + self._timeout_ms
            limit = f"task.timeout.ms is {self._timeout_ms}"
            raise TaskTimeout(
                f"could not {self._operation} within {took_ms} ms ({limit}): {cause}", self._task_id
            ) from cause

    def succeeded(self) -> None:
        self._deadline_ms = None


class TaskDeadlines:
    """Deadlines of several tasks.

    Each operation of a task has its own deadline. For example, a successful read of one changelog does not end the
    period for a second changelog whose topic is missing.
    """

    def __init__(self, timeout_ms: int, clock: Clock) -> None:
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._deadlines: dict[tuple[TaskId, str], TaskDeadline] = {}

    def failed(self, task_id: TaskId, operation: str, cause: Exception) -> None:
        """Record that the operation of the task failed. Raises the errors of `TaskDeadline.failed`."""
        deadline = self._deadlines.get((task_id, operation))
        if deadline is None:
            deadline = self._deadlines[task_id, operation] = TaskDeadline(task_id, self._timeout_ms, operation)
        deadline.failed(self._clock.monotonic_ms(), cause)

    def succeeded(self, task_id: TaskId, operation: str) -> None:
        if self._deadlines:
            self._deadlines.pop((task_id, operation), None)

    def forget(self, task_id: TaskId) -> None:
        for waiting in [each for each in self._deadlines if each[0] == task_id]:
            del self._deadlines[waiting]


def raise_most_severe(errors: Mapping[TaskId, Exception]) -> None:
    """Raise the most severe error of tasks that failed in the same step. Does nothing if there are no errors.

    An error other than TaskMigrated and TaskCorrupted is most severe, because it ends the thread. TaskMigrated is more
    severe than TaskCorrupted, because after TaskMigrated the thread loses all active tasks. Several TaskCorrupted are
    raised as one error.
    Source: `TaskManager.maybeThrowTaskExceptions`.
    """
    corrupted: set[TaskId] = set()
    reasons: dict[str, None] = {}  # a dict without values is an ordered set
    migrated: TaskMigrated | None = None
    fatal: Exception | None = None
    for task, error in errors.items():
        if isinstance(error, TaskMigrated):
            migrated = error
        elif isinstance(error, TaskCorrupted):
            corrupted |= error.tasks
            reasons[error.reason] = None
        else:
            fatal = with_task(error, task)
    if fatal is not None:
        raise fatal
    if migrated is not None:
        raise migrated
    if corrupted:
        raise TaskCorrupted(corrupted, "; ".join(reasons))


def with_task(error: Exception, task: TaskId) -> Exception:
    """Returns an error with the id of the task. Adds the task's id to an error of the runtime, and returns this error.
    An error that is not one of the runtime's errors becomes the cause of a new StreamsRuntimeError.
    """
    if isinstance(error, StreamsRuntimeError):
        if error.task_id is None:
            error.task_id = task
        return error
    wrapped = StreamsRuntimeError(f"failed: {type(error).__name__}: {error_text(error)}", task)
    wrapped.__cause__ = error
    return wrapped
