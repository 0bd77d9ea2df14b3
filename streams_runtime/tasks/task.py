"""Has `Task`, the base class of active tasks and standbys. `Task` handles the states of a task, the lock of its
directory, and task.timeout.ms.

The states of an active task follow each other in this order. A standby is RUNNING as soon as it is initialised.

    CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED

A task can become SUSPENDED from each state except CLOSED. A task can become CLOSED only from SUSPENDED. If a task was
suspended before it was initialised and is resumed, it becomes CREATED again, because its stores are not open. After a
corrupt task was closed, it is revived: it becomes CREATED again. The error for an illegal transition names the last
twenty states.

A task that never had the lock of its directory does not touch the directory's files. A task that replaces a recycled
task takes over its open stores and the lock of its directory. Source: `Task`, `AbstractTask`, `StateManagerUtil`.
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

    Each public method changes the state of the task or does a step of a commit.

    `state_manager`: a new state manager, or the state manager of a recycled task of the other type, which has open
    stores. During a restore, the changelog reader passes records to the state manager.
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
        self._is_open = False  # True after `_open_state`, which opens the stores and reads the checkpoint

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id}, {self.state})"

    @property
    def stores(self) -> Mapping[str, StateStore]:
        """The open stores, by name. Queries read these stores."""
        return self.state_manager.stores

    # --- Methods that change the state.

    @abstractmethod
    def initialize_if_needed(self) -> None:
        """If the task is CREATED, lock its directory, open its stores and read its checkpoint. The thread then
        registers the task's changelogs with the changelog reader.

        Raises LockError, LogTimeout, TaskCorrupted, ProcessorStateError. After LockError, the thread calls this method
        again later.
        """

    @abstractmethod
    def suspend(self) -> None:
        """Stop accepting records, and close the user's processors. Idempotent."""

    @abstractmethod
    def resume(self) -> None:
        """Resume a SUSPENDED task that is assigned again. An active task becomes RESTORING, and a standby becomes
        RUNNING.
        """

    def close_clean(self) -> None:
        """Close a SUSPENDED task after its commit: write a checkpoint, close the stores and unlock the directory.

        Raises ProcessorStateError. If `close_clean` raises an error, the task is still SUSPENDED, and the caller has to
        call `close_dirty`.
        """
        if self.state is TaskState.CLOSED:
            return
        self._expect("be closed", TaskState.SUSPENDED)
        self._before_clean_end()
        if self._holds_state:
            self.state_manager.close_clean()
        self._close()

    def close_dirty(self) -> None:
        """Close the task after an error, without a commit, and drop the uncommitted changes of its stores. Never raises
        an error. If a store is not transactional, also deletes the state on disk under exactly-once.
        """
        if self.state is TaskState.CLOSED:
            return
        if self.state is not TaskState.SUSPENDED:
            self._try("suspend", self.suspend)
        self._drop_work()
        if self._holds_state:
            manager = self.state_manager
            self._try("close its state", manager.close if manager.survives_dirty_close else manager.wipe)
        self._try("unlock its directory", self._close)

    def recycle_state(self) -> StateManager:
        """Close a SUSPENDED task after its commit. The stores of the task stay open, and its directory stays locked.
        Returns the state manager, which the caller passes to a new task of the other type.
        """
        self._expect("be recycled", TaskState.SUSPENDED)
        self._before_clean_end()
        self._holds_state = False
        self._close()
        return self.state_manager

    def revive(self) -> None:
        """Change the state from CLOSED to CREATED, so that the thread starts the task again."""
        self._expect("be revived", TaskState.CLOSED)
        self.clear_task_timeout()
        self._become(TaskState.CREATED)

    # --- commits

    @abstractmethod
    def commit_needed(self) -> bool: ...

    @abstractmethod
    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """Returns the input offsets to commit, which may be empty. After this method has returned, all output records
        of the task were passed to the producer.
        """

    @abstractmethod
    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """Write a checkpoint after a commit, if the rules in `StateManager` require it."""

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        """Returns the changelog offsets to report to the leader. For a running active task, each offset is
        LATEST_OFFSET. For any other task, each offset is the next offset to apply.
        """
        return self.state_manager.changelog_offsets()

    # --- Methods for input partitions and task.timeout.ms.

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self.input_partitions = partitions

    def maybe_init_task_timeout_or_throw(self, now_ms: int, cause: Exception | None = None) -> None:
        """Call this method if the task makes no progress. The first call starts the time-out task.timeout.ms. If the
        time-out is over, a later call raises TaskTimeout.
        """
        self._deadline.failed(now_ms, cause)

    def clear_task_timeout(self) -> None:
        self._deadline.succeeded()

    # --- Methods for the subclasses.

    def _before_clean_end(self) -> None:
        """Prepare for a clean close or for recycling. Raises an error if a clean close is impossible. The caller then
        has to call `close_dirty`.
        """
        return

    def _drop_work(self) -> None:
        """Forget the work that is not committed, before a dirty close. After `_drop_work`, no later commit contains
        this work.
        """
        return

    def _become(self, state: TaskState) -> None:
        """Change the state. Raises StreamsRuntimeError if the task may not go from the present state to this state."""
        if state not in _STEPS[self.state]:
            raise self._illegal(f"become {state.value}")
        self.state = state
        self._history.append(state)

    def _expect(self, doing: str, *states: TaskState) -> None:
        """Raises StreamsRuntimeError if the present state is not one of the given states. `doing`: a verb for the
        message, such as "be closed".
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
        for a standby. `clock`: the object that knows the time of the current record. `expired`: a function that a store
        calls when it drops a change that is too old. `cache`: the record cache, or None.

        Raises TaskCorrupted, ProcessorStateError.
        """
        manager = self.state_manager
        context = StoreContext(
            manager.task_id,
            manager.task_directory,
            changes,
            clock,
            manager.options.rocksdb_config_setter,
            expired,
            cache,
        )
        if manager.task_type is not self.type:
            manager.transition_to(self.type, context)
        manager.open_stores(context)
        manager.load_checkpoint()
        self._is_open = True

    def _close(self) -> None:
        """Become CLOSED, and unlock the directory for other tasks. Raises ProcessorStateError. Even if this method
        raises an error, the task is CLOSED.
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

    The first failure starts the time-out, and a success ends it. `operation`: a verb for the message, such as "make
    progress".
    Source: `AbstractTask.maybeInitTaskTimeoutOrThrow`.
    """

    def __init__(self, task_id: TaskId, timeout_ms: int, operation: str = "make progress") -> None:
        self._task_id = task_id
        self._timeout_ms = timeout_ms
        self._operation = operation
        self._deadline_ms: int | None = None

    def failed(self, now_ms: int, cause: Exception | None) -> None:
        """Call this method after a failure of the operation. Raises TaskTimeout if task.timeout.ms is over. `now_ms`:
        the monotonic time.
        """
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

    Each operation of a task has its own deadline. For example, a task may read one changelog while the topic of another
    changelog is missing. A successful read of one changelog does not end the time-out of another changelog.
    """

    def __init__(self, timeout_ms: int, clock: Clock) -> None:
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._deadlines: dict[tuple[TaskId, str], TaskDeadline] = {}

    def failed(self, task_id: TaskId, operation: str, cause: Exception) -> None:
        """Call this method after a failure of the operation. Raises the errors of `TaskDeadline.failed`."""
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
    """Raise the most severe of these errors, which come from several tasks in the same step. Does nothing if there are
    no errors. The least severe error is TaskCorrupted. Several TaskCorrupted are raised as one error. TaskMigrated is
    more severe than TaskCorrupted, because TaskMigrated makes the thread drop all active tasks. Any other error is the
    most severe, because it ends the thread.
    Source: `TaskManager.maybeThrowTaskExceptions`.
    """
    corrupted: set[TaskId] = set()
    damaged: set[TaskId] = set()
    reasons: dict[str, None] = {}  # A dict without values is used as an ordered set.
    migrated: TaskMigrated | None = None
    fatal: Exception | None = None
    for task, error in errors.items():
        if isinstance(error, TaskMigrated):
            migrated = error
        elif isinstance(error, TaskCorrupted):
            corrupted |= error.tasks
            damaged |= error.damaged
            reasons[error.reason] = None
        else:
            fatal = with_task(error, task)
    if fatal is not None:
        raise fatal
    if migrated is not None:
        raise migrated
    if corrupted:
        raise TaskCorrupted(corrupted, "; ".join(reasons), damaged=damaged)


def with_task(error: Exception, task: TaskId) -> Exception:
    """Returns an error that has the id of the task. If the given error is a StreamsRuntimeError, sets its task id and
    returns it. Any other error becomes the cause of a new StreamsRuntimeError.
    """
    if isinstance(error, StreamsRuntimeError):
        if error.task_id is None:
            error.task_id = task
        return error
    wrapped = StreamsRuntimeError(f"failed: {type(error).__name__}: {error_text(error)}", task)
    wrapped.__cause__ = error
    return wrapped
