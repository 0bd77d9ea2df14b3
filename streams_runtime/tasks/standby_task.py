"""A standby: keeps the stores of a task close to the active one by reading its changelogs. It has no processors.

Rules:
- It is RUNNING as soon as its stores are open; the changelog reader does the work and moves its offsets.
- A commit is a checkpoint, under both guarantees; it needs one when `StateManager` says that a checkpoint is due, but
  none within five seconds of the one before: each has the thread wait until the stores are on disk.
- Recycled, it gives its stores away open. Closed dirty under exactly-once, it leaves nothing on disk.

Source: `StandbyTask`, `AbstractTask`. Differs from Kafka: `commit_needed` is not always true, and Kafka has no five
seconds. A dirty close leaves alone what is on disk when this task never had the directory's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.configs import StreamsConfig
from streams_runtime.state_stores.base import StateStore
from streams_runtime.tasks.owned_state import OwnedState
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.task_deadlines import TaskDeadline
from streams_runtime.tasks.task_lifecycle import TaskLifecycle

CHECKPOINT_INTERVAL_MS = 5_000

_MAY_COMMIT = (TaskState.CREATED, TaskState.RUNNING, TaskState.SUSPENDED)


class _NoRecords:
    """The clock of a standby's stores, which has no times, since a standby processes no records."""

    record_timestamp_ms = -1
    stream_time_ms = -1


class StandbyTask:
    """Implements `Task`. `state`: made for a standby, or handed over by an active task's `recycle_state`."""

    def __init__(
        self,
        task_id: TaskId,
        input_partitions: frozenset[TopicPartition],
        state: StateManager,
        *,
        configs: StreamsConfig,
        clock: Clock,
    ) -> None:
        self._id = task_id
        self._clock = clock
        self._next_checkpoint_ms = clock.monotonic_ms()
        self._input_partitions = input_partitions
        self._lifecycle = TaskLifecycle(task_id, TaskType.STANDBY)
        self._deadline = TaskDeadline(task_id, configs.task_timeout_ms)
        self._own_state = OwnedState(state, TaskType.STANDBY)

    def __repr__(self) -> str:
        return f"StandbyTask({self._id}, {self.state})"

    @property
    def id(self) -> TaskId:
        return self._id

    @property
    def type(self) -> TaskType:
        return TaskType.STANDBY

    @property
    def state(self) -> TaskState:
        return self._lifecycle.state

    @property
    def state_manager(self) -> StateManager:
        """Where the changelog reader applies records."""
        return self._own_state.manager

    @property
    def input_partitions(self) -> frozenset[TopicPartition]:
        return self._input_partitions

    @property
    def changelog_partitions(self) -> frozenset[TopicPartition]:
        return self.state_manager.changelog_partitions

    @property
    def stores(self) -> Mapping[str, StateStore]:
        return self.state_manager.stores

    # --- its life

    def initialize_if_needed(self) -> None:
        """As `Task` says. The thread registers its changelogs with the reader afterwards."""
        if self.state is not TaskState.CREATED:
            return
        self._own_state.lock()
        self._own_state.open(None, _NoRecords())
        self._lifecycle.to(TaskState.RESTORING)
        self._lifecycle.to(TaskState.RUNNING)

    def suspend(self) -> None:
        if self.state in (TaskState.CREATED, TaskState.RUNNING):
            self._lifecycle.to(TaskState.SUSPENDED)
        elif self.state is not TaskState.SUSPENDED:
            raise self._lifecycle.illegal("be suspended")

    def resume(self) -> None:
        if self.state is TaskState.SUSPENDED:
            if self._own_state.is_open:
                self._lifecycle.to(TaskState.RESTORING)
                self._lifecycle.to(TaskState.RUNNING)
            else:
                self._lifecycle.to(TaskState.CREATED)
        elif self.state is TaskState.CLOSED:
            raise self._lifecycle.illegal("be resumed")

    def close_clean(self) -> None:
        """As `Task` says. Raises ProcessorStateError; the task is still SUSPENDED then, and has to be closed dirty."""
        if self.state is TaskState.CLOSED:
            return
        self._lifecycle.expect("be closed", TaskState.SUSPENDED)
        self._own_state.close_clean()
        self._closed()

    def close_dirty(self) -> None:
        if self.state is TaskState.CLOSED:
            return
        if self.state is not TaskState.SUSPENDED:
            self._lifecycle.to(TaskState.SUSPENDED)
        self._own_state.close_dirty()
        self._closed()

    def recycle_state(self) -> StateManager:
        """Of a SUSPENDED task: give its state away, stores open and directory locked, and be CLOSED."""
        self._lifecycle.expect("be recycled", TaskState.SUSPENDED)
        state = self._own_state.hand_over()
        self._closed()
        return state

    def revive(self) -> None:
        self._lifecycle.expect("be revived", TaskState.CLOSED)
        self.clear_task_timeout()
        self._lifecycle.to(TaskState.CREATED)

    def _closed(self) -> None:
        try:
            self._own_state.release()
        finally:
            self._lifecycle.to(TaskState.CLOSED)

    # --- commits

    def commit_needed(self) -> bool:
        """Whether it has to write a checkpoint."""
        return (
            self._own_state.is_open
            and self._clock.monotonic_ms() >= self._next_checkpoint_ms
            and self.state_manager.checkpoint_needed(enforce=False)
        )

    def commit_requested(self) -> bool:
        """Never: only processors ask for a commit."""
        return False

    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """Empty: a standby commits no offsets."""
        self._lifecycle.expect("prepare a commit", *_MAY_COMMIT)
        return {}

    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """Checkpoint. A task that is not initialised does not touch the file on disk. Raises ProcessorStateError."""
        self._lifecycle.expect("be committed", *_MAY_COMMIT)
        if self._own_state.is_open and (enforce_checkpoint or self.commit_needed()):
            self.state_manager.maybe_checkpoint(enforce=enforce_checkpoint)
            self._next_checkpoint_ms = self._clock.monotonic_ms() + CHECKPOINT_INTERVAL_MS

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        return self.state_manager.changelog_offsets()

    # --- what the thread asks of every task

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self._input_partitions = partitions

    def mark_changelogs_corrupted(self, partitions: Collection[TopicPartition]) -> None:
        self.state_manager.mark_changelogs_corrupted(partitions)

    def maybe_init_task_timeout_or_throw(self, now_ms: int, cause: Exception | None = None) -> None:
        """It made no progress; the first time starts task.timeout.ms. Raises TaskTimeout when that is over."""
        self._deadline.failed(now_ms, cause)

    def clear_task_timeout(self) -> None:
        self._deadline.succeeded()
