"""An active task: reads its input partitions, runs its part of the topology, and knows what is to be committed.

    initialize_if_needed   lock, claim the input, open the stores, read the checkpoint       CREATED -> RESTORING
    complete_restoration   seek the input, initialise the processors                         RESTORING -> RUNNING
    add_records, process, maybe_punctuate_...                                                RUNNING
    prepare_commit, (the thread commits), post_commit                                        RUNNING, SUSPENDED
    suspend, close_clean | close_dirty | recycle_state | resume                              -> SUSPENDED -> CLOSED

Rules: stream time is the highest timestamp processed. At-least-once: outputs are written before or with the offsets,
and a record that could not be finished because the log was away is tried again. Exactly-once: such a record makes the
task TaskCorrupted, since its state may have half of it; nothing is processed between `prepare_commit` and
`post_commit`; no checkpoint is on disk while the task runs; and work of an aborted transaction is never committed.
Source: `StreamTask`, `AbstractTask`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from assignor.types import LATEST_OFFSET, TaskId, TopicPartition
from streams_runtime.clock import Clock
from streams_runtime.configs import StreamsConfig
from streams_runtime.errors import TaskCorrupted, TaskMigrated, TaskTimeout
from streams_runtime.logs.base import Claim, Consumer, Log, OffsetAndMetadata
from streams_runtime.processors.api import ExceptionHandler
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.state_stores.base import StoreContext
from streams_runtime.tasks.exception_handling import ExceptionHandling, fail
from streams_runtime.tasks.input_offsets import InputOffsets
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_processing import RecordProcessing
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.streams_producer import StreamsProducer
from streams_runtime.tasks.task import TaskState, TaskType
from streams_runtime.tasks.task_lifecycle import TaskLifecycle

_logger = logging.getLogger(__name__)


class StreamTask(RecordProcessing):
    """Implements `Task` for the thread; records are in `RecordProcessing`, what processors ask in `StreamTaskRuntime`.

    `state`: made for an active task, or handed over, stores open, by a standby's `recycle_state`. The consumer has to
    be assigned the input partitions before `complete_restoration`.
    """

    def __init__(
        self,
        task_id: TaskId,
        input_partitions: frozenset[TopicPartition],
        graph: ProcessorGraph,
        state: StateManager,
        *,
        log: Log,
        consumer: Consumer,
        producer: StreamsProducer,
        configs: StreamsConfig,
        clock: Clock,
        processing_handler: ExceptionHandler = fail,
        deserialization_handler: ExceptionHandler = fail,
    ) -> None:
        changelogs = {
            state.metadata(partition).store.name: partition
            for partition in state.changelog_partitions
            if not state.changelog_as_source(partition)
        }
        collector = RecordCollector(task_id, producer, changelogs)
        super().__init__(
            TaskLifecycle(task_id, TaskType.ACTIVE),
            input_partitions,
            graph,
            collector,
            ExceptionHandling(
                collector, configs.errors_dead_letter_queue_topic_name, processing_handler, deserialization_handler
            ),
            log=log,
            consumer=consumer,
            producer=producer,
            configs=configs,
            clock=clock,
        )
        self._input_partitions = input_partitions
        self._state_manager = state
        self._log = log
        self._task_timeout_ms = configs.task_timeout_ms
        self._deadline_ms: int | None = None
        self._offsets = InputOffsets(task_id, graph.sources, log, consumer, configs)
        # a recycled task's stores are open, and their directory locked, before it is initialised
        self._has_directory = state.task_type is not TaskType.ACTIVE
        self._forget()

    def _forget(self) -> None:
        """As when it was new."""
        self._claim: Claim | None = None
        self._released = False
        self._initialized = False
        self._stores = {}
        self._held: dict[TopicPartition, OffsetAndMetadata] | None = None  # what a suspended task has to commit
        self._prepared: dict[TopicPartition, OffsetAndMetadata] = {}
        self._offsets.clear()
        self._clear_commit_statuses()

    def __repr__(self) -> str:
        return f"StreamTask({self._task_id}, {self.state})"

    @property
    def id(self) -> TaskId:
        return self._task_id

    @property
    def type(self) -> TaskType:
        return TaskType.ACTIVE

    @property
    def state(self) -> TaskState:
        return self._lifecycle.state

    @property
    def input_partitions(self) -> frozenset[TopicPartition]:
        return self._input_partitions

    @property
    def changelog_partitions(self) -> frozenset[TopicPartition]:
        return self._state_manager.changelog_partitions

    @property
    def state_manager(self) -> StateManager:
        """Where the changelog reader applies records."""
        return self._state_manager

    @property
    def claim(self) -> Claim:
        """The right to move the offsets of its input. Raises StreamsRuntimeError before it is initialised."""
        if self._claim is None:
            raise self._lifecycle.illegal("have a claim before it is initialised")
        return self._claim

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        if self.state is TaskState.RUNNING:
            return dict.fromkeys(self.changelog_partitions, LATEST_OFFSET)
        return self._state_manager.changelog_offsets()

    # --- its life

    def initialize_if_needed(self) -> None:
        """As `Task` says. Its changelogs are registered with the reader by the thread, afterwards."""
        if self.state is not TaskState.CREATED:
            return
        state = self._state_manager
        state.lock()
        self._has_directory = True
        self._producer.initialize()
        self._claim = self._new_claim()
        context = StoreContext(self._task_id, state.task_directory, self._collector, self)
        if state.task_type is not TaskType.ACTIVE:
            state.transition_to(TaskType.ACTIVE, context)
        state.open_stores(context)
        state.load_checkpoint()
        self._stores = dict(state.stores)
        self._initialized = True
        self._lifecycle.to(TaskState.RESTORING)

    def complete_restoration(self) -> None:
        """RESTORING to RUNNING; nothing happens when it runs already. May be tried again after LogTimeout.

        Raises LogTimeout, ProcessorStateError, and StreamsRuntimeError for an error in a processor's `init`.
        """
        if self.state is TaskState.RUNNING:
            return
        self._lifecycle.expect("complete its restoration", TaskState.RESTORING)
        partitions = self._input_partitions
        if self._claim is None or self._released or self._claim.epochs.keys() != partitions:
            self._claim = self._new_claim()
        self._drop_records()
        self._stream_time_ms = UNKNOWN_TIME
        for partition, time_ms in self._offsets.begin(partitions).items():
            self._group[partition].partition_time_ms = time_ms
            self._stream_time_ms = max(self._stream_time_ms, time_ms)
        if self._exactly_once:
            self._state_manager.delete_checkpoint()
        else:
            self._state_manager.maybe_checkpoint(enforce=True)
        self._held = None
        self._producer.guard(self._task_id, self._claim)
        self._init_processors()
        self._lifecycle.to(TaskState.RUNNING)

    def suspend(self) -> None:
        """As `Task` says. What a processor's `close` raises is raised when the task is suspended.

        It needs a commit afterwards when `close` wrote or forwarded something.
        """
        self._lifecycle.expect(
            "be suspended", TaskState.CREATED, TaskState.RESTORING, TaskState.RUNNING, TaskState.SUSPENDED
        )
        if self.state is TaskState.SUSPENDED:
            return
        try:
            # the consumer stands behind what was buffered, so this has to be known before the buffer goes
            self._held = self._moved()
            self._close_processors()
        finally:
            self._producer.guard(self._task_id, None)
            self._drop_records()
            self._clear_punctuations()
            self._lifecycle.to(TaskState.SUSPENDED)

    def release_claim(self) -> None:
        """Suspended and committed: who claims next needs not fence this thread. When it is resumed it claims anew."""
        if self._claim is not None and not self._released and not self._commit_needed:
            self._released = True
            self._log.release(self._claim)

    def resume(self) -> None:
        """As `Task` says; one that was suspended before it was initialised is CREATED again.

        Raises TaskCorrupted when, under exactly-once, it has work in a transaction that nobody committed.
        """
        if self.state is TaskState.SUSPENDED:
            if self._exactly_once and self._commit_needed:
                raise TaskCorrupted([self._task_id], "suspended with work that was not committed")
            self._lifecycle.to(TaskState.RESTORING if self._initialized else TaskState.CREATED)
        elif self.state is TaskState.CLOSED:
            raise self._lifecycle.illegal("be resumed")

    def close_clean(self) -> None:
        """As `Task` says. Raises TaskMigrated when not all is committed, ProcessorStateError: close it dirty then."""
        if self.state is TaskState.CLOSED:
            return
        self._lifecycle.expect("be closed", TaskState.SUSPENDED)
        self._expect_committed()
        self.release_claim()
        if self._has_directory:
            self._state_manager.maybe_checkpoint(enforce=True)
            self._state_manager.close()
        self._closed()

    def close_dirty(self) -> None:
        """As `Task` says, from any state. A transaction with something of this task in it is aborted."""
        if self.state is TaskState.CLOSED:
            return
        if self.state is not TaskState.SUSPENDED:
            self._swallow("suspend", self.suspend)
        if self._exactly_once and self._commit_needed:
            self._producer.abort()
        if self._has_directory:
            self._swallow(
                "close its state", self._state_manager.wipe if self._exactly_once else self._state_manager.close
            )
        self._swallow("unlock its directory", self._closed)

    def recycle_state(self) -> StateManager:
        """SUSPENDED and committed: give up the state manager, stores open and directory locked, and be CLOSED."""
        self._lifecycle.expect("be recycled", TaskState.SUSPENDED)
        self._expect_committed()
        self.release_claim()
        self._has_directory = False
        self._closed()
        return self._state_manager

    def revive(self) -> None:
        self._lifecycle.expect("be revived", TaskState.CLOSED)
        self.clear_task_timeout()
        self._lifecycle.to(TaskState.CREATED)

    def _new_claim(self) -> Claim:
        self._released = False
        return self._log.claim(self._application_id, self._input_partitions, self._producer.transactional_id)

    def _closed(self) -> None:
        try:
            if self._has_directory:
                self._state_manager.unlock()
        finally:
            self._has_directory = False
            self._collector.clear()
            self._drop_records()
            self._forget()
            self._lifecycle.to(TaskState.CLOSED)

    def _expect_committed(self) -> None:
        if self._commit_needed:
            raise TaskMigrated("has records that are not committed and cannot be closed cleanly", self._task_id)

    def _swallow(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:
            _logger.exception("%s could not %s while it is closed dirty", self, what)

    # --- commits

    def commit_needed(self) -> bool:
        """Whether it processed or punctuated, or gaps were passed, since the last commit."""
        if not self._commit_needed and self._moved():
            self._work_begins()
        return self._commit_needed

    def commit_requested(self) -> bool:
        return self._commit_requested

    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """As `Task` says: the offsets, without what `offsets_to_commit` puts beside them.

        Raises TaskMigrated, LogTimeout, StreamsRuntimeError, and TaskCorrupted when its transaction was aborted.
        """
        if self.state is TaskState.CLOSED:
            raise self._lifecycle.illegal("prepare a commit")
        self._prepared = {}
        if not self.commit_needed():
            return {}
        if self._exactly_once:
            if self._producer.aborted != self._aborted_before:
                raise TaskCorrupted([self._task_id], "the transaction with records of these tasks was aborted")
            self._commit_pending = True
        # at-least-once: the commit writes what was sent, so that who was fenced meanwhile writes nothing
        self._prepared = self._moved()
        return {partition: one.offset for partition, one in self._prepared.items()}

    def offsets_to_commit(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What `prepare_commit` found; to be committed with `claim`."""
        return self._prepared

    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """As `Task` says. While it runs, `enforce_checkpoint` is for at-least-once only. Raises ProcessorStateError."""
        if self.state is TaskState.CLOSED:
            raise self._lifecycle.illegal("be committed")
        self._offsets.is_committed(self._prepared)
        if self._initialized:
            self._state_manager.update_changelog_offsets(self._checkpointable_offsets())
            if not (self._exactly_once and self.state is TaskState.RUNNING):
                self._state_manager.maybe_checkpoint(enforce=enforce_checkpoint)
        self._prepared = {}
        self._clear_commit_statuses()

    def purgeable_offsets(self) -> Mapping[TopicPartition, int]:
        """Of each repartition topic the offset below which records are of no more use to anybody."""
        return {
            partition: offset
            for partition, offset in self._offsets.committed.items()
            if partition.topic in self._graph.repartition_sources
        }

    def _checkpointable_offsets(self) -> dict[TopicPartition, int]:
        """Last offsets in the stores: written to changelogs, or read from those that are input at the same time."""
        read = {
            partition: one.offset - 1
            for partition, one in self._prepared.items()
            if self._state_manager.changelog_as_source(partition)
        }
        return read | self._collector.written_offsets()

    def _moved(self) -> dict[TopicPartition, OffsetAndMetadata]:
        if self._held is not None:
            return {p: one for p, one in self._held.items() if self._offsets.is_news(p, one.offset)}
        if self.state is not TaskState.RUNNING:
            return {}
        unfinished = self._unfinished
        place = None if unfinished is None else (unfinished[0].partition, unfinished[0].polled_metadata().offset)
        return self._offsets.moved(self._group.queues(), place)

    # --- what else the thread asks of it

    def maybe_punctuate_stream_time(self) -> bool:
        """Fire what stream time has reached; nothing before the first record. Raises as `process` does."""
        return self.state is TaskState.RUNNING and self._punctuate_stream_time()

    def maybe_punctuate_system_time(self, now_ms: int) -> bool:
        """Fire what wall-clock time has reached. Raises as `process` does."""
        return self.state is TaskState.RUNNING and self._punctuate_system_time(now_ms)

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Not while it runs; new ones are read from `complete_restoration` on."""
        if self.state is TaskState.RUNNING and partitions != self._input_partitions:
            raise self._lifecycle.illegal("get other input partitions")
        kept = {queue.partition: queue for queue in self._group.queues() if queue.partition in partitions}
        self._group.set_queues([kept.get(partition) or self._queue(partition) for partition in partitions])
        self._input_partitions = partitions

    def reset_offsets(self, partitions: Collection[TopicPartition]) -> None:
        """After OffsetOutOfRange: go on by auto.offset.reset. Raises LogTimeout, StreamsRuntimeError (none)."""
        self._offsets.reset([partition for partition in partitions if partition in self._input_partitions])

    def mark_changelogs_corrupted(self, partitions: Collection[TopicPartition]) -> None:
        self._state_manager.mark_changelogs_corrupted(partitions)

    def maybe_init_task_timeout_or_throw(self, now_ms: int, cause: Exception | None = None) -> None:
        """No progress: the first time starts task.timeout.ms. Raises TaskTimeout when that is over."""
        if self._deadline_ms is None:
            self._deadline_ms = now_ms + self._task_timeout_ms
        elif now_ms > self._deadline_ms:
            lasted_ms = now_ms - self._deadline_ms + self._task_timeout_ms
            raise TaskTimeout(
                f"made no progress within {lasted_ms} ms (task.timeout.ms): {cause}", self._task_id
            ) from cause

    def clear_task_timeout(self) -> None:
        self._deadline_ms = None
