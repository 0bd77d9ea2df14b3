"""A standby is a Streams task without processors. A standby has copies of the stores of an active task, and reads the
changelogs to keep the copies up to date.

Rules:
- A standby is RUNNING as soon as its stores are open. The changelog reader applies the records of the changelogs to the
  stores, and advances the stores' offsets.
- The stores write their offsets together with the restored records. So a commit of a standby only writes the checkpoint
  file, if the task has one. A standby needs a commit if its `StateManager` reports that the file is due. A standby
  commits at most once in five seconds, because the thread waits while the stores are flushed to disk.
- When a standby is recycled, its stores stay open, and the new active task uses these open stores.

Source: `StandbyTask`, `AbstractTask`. Differs from Kafka: in Kafka, `commit_needed` is always true, and checkpoints may
follow each other in less than five seconds. If a standby never had the lock of its directory, a dirty close deletes
nothing in the directory.
"""

from collections.abc import Mapping

from assignor.types import TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.configs import StreamsConfig
from streams_runtime.state_stores.state_store import NoRecords
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.task import Task

CHECKPOINT_INTERVAL_MS = 5_000

_MAY_COMMIT = (TaskState.CREATED, TaskState.RUNNING, TaskState.SUSPENDED)


class StandbyTask(Task):
    """See `Task`."""

    type = TaskType.STANDBY

    def __init__(
        self, state: StateManager, input_partitions: frozenset[TopicPartition], *, configs: StreamsConfig, clock: Clock
    ) -> None:
        super().__init__(state, input_partitions, configs.task_timeout_ms)
        self._clock = clock
        self._next_checkpoint_ms = clock.monotonic_ms()

    def initialize_if_needed(self) -> None:
        if self.state is TaskState.CREATED:
            self._lock_state()
            self._open_state(None, NoRecords())
            self._become(TaskState.RESTORING)
            self._become(TaskState.RUNNING)

    def suspend(self) -> None:
        if self.state is not TaskState.SUSPENDED:
            self._expect("be suspended", TaskState.CREATED, TaskState.RUNNING)
            self._become(TaskState.SUSPENDED)

    def resume(self) -> None:
        if self.state is TaskState.SUSPENDED:
            if self._is_open:
                self._become(TaskState.RESTORING)
                self._become(TaskState.RUNNING)
            else:
                self._become(TaskState.CREATED)
        elif self.state is TaskState.CLOSED:
            raise self._illegal("be resumed")

    # --- commits

    def commit_needed(self) -> bool:
        """True if the task has to write a checkpoint."""
        return (
            self._is_open
            and self._clock.monotonic_ms() >= self._next_checkpoint_ms
            and self.state_manager.checkpoint_due()
        )

    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """Returns an empty mapping: a standby commits no offsets."""
        self._expect("prepare a commit", *_MAY_COMMIT)
        return {}

    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """Write a checkpoint if a checkpoint is due or `enforce_checkpoint` is True. Does nothing if the task is not
        initialised. Raises ProcessorStateError.
        """
        self._expect("be committed", *_MAY_COMMIT)
        if self._is_open and (enforce_checkpoint or self.commit_needed()):
            self.state_manager.maybe_checkpoint(enforce=enforce_checkpoint)
            self._next_checkpoint_ms = self._clock.monotonic_ms() + CHECKPOINT_INTERVAL_MS
