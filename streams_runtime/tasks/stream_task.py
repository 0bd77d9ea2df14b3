"""An active task: reads its input partitions, runs its part of the topology, and says what is to be committed.

    lock                   lock the directory                                                CREATED
    initialize_if_needed   lock, claim the input, open the stores, read the checkpoint       CREATED -> RESTORING
    complete_restoration   seek the input, initialise the processors                         RESTORING -> RUNNING
    add_records, process, maybe_punctuate_...                                                RUNNING
    prepare_commit, (the thread commits), post_commit                                        RUNNING, SUSPENDED
    suspend, close_clean | close_dirty | recycle_state | resume                              -> SUSPENDED -> CLOSED

The task is the life cycle. It wires parts that each own one thing and know nothing of the life cycle:

    buffer       `InputBuffer`       what was polled and not processed: queues, pauses
    processing   `RecordProcessing`  runs records and punctuations through the graph; `ProcessorRuntime` is what
                                     processors see meanwhile: the current record, times, schedules
    commits      `CommitState`       whether there is something to commit, and what was prepared
    offsets      `InputOffsets`      where reading began, and up to where the input is committed
    claim        `InputClaim`        the right to commit
    own state    `OwnedState`        the directory's lock, the stores, the checkpoint
    cache        `TaskCache`         changes that its stores hold back until a commit

Rules: a commit begins with a flush of the cache, so that no offset goes before what was done with its record. Under
at-least-once, outputs are written before or with the offsets. Under exactly-once, nothing is processed
between `prepare_commit` and `post_commit`, no checkpoint is on disk while the task runs, and work of an aborted
transaction is never committed. Source: `StreamTask`, `AbstractTask`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress

from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, TaskId, TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import TaskCorrupted, TaskMigrated
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Claim, Consumer, Log, OffsetAndMetadata, RecordBatch
from streams_runtime.logs.errors import UnknownTopicOrPartition
from streams_runtime.processors.api import ExceptionHandler
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.node_runs import NodeRun
from streams_runtime.reporting.losses import TaskLosses, WindowsAtRisk, uncounted
from streams_runtime.state_stores.base import StateStore
from streams_runtime.state_stores.thread_cache import TaskCache, ThreadCache
from streams_runtime.tasks.commit_state import CommitState
from streams_runtime.tasks.exception_handling import ExceptionHandling, FailedInputRecord, fail
from streams_runtime.tasks.input_buffer import InputBuffer
from streams_runtime.tasks.input_offsets import InputClaim, InputOffsets
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME
from streams_runtime.tasks.owned_state import OwnedState
from streams_runtime.tasks.processor_runtime import ProcessorRuntime
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_processing import RecordProcessing
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.streams_producer import StreamsProducer
from streams_runtime.tasks.task_deadlines import TaskDeadline
from streams_runtime.tasks.task_lifecycle import TaskLifecycle

_logger = logging.getLogger(__name__)


class StreamTask:
    """Implements `Task`.

    `state`: made for an active task, or handed over, stores open, by a standby's `recycle_state`. The consumer has to
    be assigned the input partitions before `complete_restoration`. `cache`: the thread's; None: nothing is held back.
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
        losses: TaskLosses | None = None,
        cache: ThreadCache | None = None,
    ) -> None:
        self._id = task_id
        self._input_partitions = input_partitions
        self._graph = graph
        self._log = log
        self._producer = producer
        self._exactly_once = configs.exactly_once
        self._lifecycle = TaskLifecycle(task_id, TaskType.ACTIVE)
        self._deadline = TaskDeadline(task_id, configs.task_timeout_ms)
        self._own_state = OwnedState(state, TaskType.ACTIVE)
        self._losses = losses = losses or uncounted(task_id)
        self._collector = RecordCollector(
            task_id,
            producer,
            {s: p for s, p in state.store_changelogs.items() if not state.changelog_as_source(p)},
            state.needed_changes,
        )
        self._handling = ExceptionHandling(
            self._collector,
            configs.errors_dead_letter_queue_topic_name,
            processing_handler,
            deserialization_handler,
            losses,
            clock,
        )
        self._offsets = InputOffsets(
            task_id,
            graph.sources,
            log,
            consumer,
            configs,
            losses,
            graph.repartition_sources,
            state.needed_from,
        )
        self._claim = InputClaim(log, configs.application_id, producer.transactional_id)
        self._buffer = InputBuffer(
            task_id, input_partitions, graph.sources, log, consumer, configs, self._reading_failed, losses
        )
        self._commits = CommitState(task_id, producer, self._buffer, self._offsets)
        runtime = ProcessorRuntime(
            task_id, configs.application_id, graph, self._collector, self._commits, self._handling, clock, losses
        )
        self._has_cache = cache is not None
        self._cache = TaskCache(cache or ThreadCache(0), runtime)
        self._processing = RecordProcessing(
            task_id,
            graph,
            self._buffer,
            runtime,
            self._collector,
            self._handling,
            self._commits,
            clock,
            self._cache,
            exactly_once=configs.exactly_once,
        )

    def __repr__(self) -> str:
        return f"StreamTask({self._id}, {self.state})"

    @property
    def id(self) -> TaskId:
        return self._id

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
        return self.state_manager.changelog_partitions

    @property
    def state_manager(self) -> StateManager:
        """Where the changelog reader applies records."""
        return self._own_state.manager

    @property
    def stores(self) -> Mapping[str, StateStore]:
        """The open stores, by name; empty while they are not open."""
        return self.runtime.stores

    @property
    def runtime(self) -> ProcessorRuntime:
        """What its processors and stores see of the task."""
        return self._processing.runtime

    @property
    def claim(self) -> Claim:
        """The right to move the offsets of its input. Raises StreamsRuntimeError before it is initialised."""
        if self._claim.value is None:
            raise self._lifecycle.illegal("have a claim before it is initialised")
        return self._claim.value

    @property
    def buffered_records(self) -> int:
        return len(self._buffer)

    def node_runs(self) -> Mapping[str, NodeRun]:
        """How each node below a source runs."""
        return self._graph.node_runs()

    @property
    def dropped_records(self) -> int:
        """How many records it has left out, for whatever reason."""
        return self._losses.dropped_records

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        if self.state is TaskState.RUNNING:
            return dict.fromkeys(self.changelog_partitions, LATEST_OFFSET)
        return self.state_manager.changelog_offsets()

    # --- its life

    def lock(self) -> None:
        """Of a CREATED task: lock the directory. Idempotent. Raises LockError.

        It comes before the claim, which fences a thread that still has the task.
        """
        self._lifecycle.expect("lock its directory", TaskState.CREATED)
        self._own_state.lock()

    @property
    def needs_claim(self) -> bool:
        """Whether it has to claim its input before it goes on."""
        return self._claim.is_needed(self._input_partitions)

    def take_claim(self, claim: Claim) -> None:
        """The thread has claimed the input, for this task and others together. The directory is locked."""
        self._claim.become(claim)

    def initialize_if_needed(self) -> None:
        """As `Task` says. The thread registers its changelogs with the reader afterwards."""
        if self.state is not TaskState.CREATED:
            return
        self.lock()
        self._producer.initialize()
        self._claim.take_if_needed(self._input_partitions)
        self._keep_windows()
        self._own_state.open(
            self._collector, self.runtime, self._losses.expired, self._cache if self._has_cache else None
        )
        self.runtime.stores = dict(self.state_manager.stores)
        self._lifecycle.to(TaskState.RESTORING)

    def _keep_windows(self) -> None:
        """A window is readable until one that starts later by the retention is in the store. The newest change is later
        than the start of its window by the window's size at most, which is no more than the retention.
        """
        for partition, needed in self.state_manager.needed_changes.items():
            with suppress(UnknownTopicOrPartition):  # the changelog reader waits for it
                self._log.keep_windows(partition.topic, min(2 * needed.retention_ms, JAVA_LONG_MAX))

    def complete_restoration(self, committed: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Go from RESTORING to RUNNING; nothing happens when it runs already. May be tried again after LogTimeout.

        `committed`: the group's offsets of its input, looked up since it has its claim; None to look them up. Raises
        LogTimeout, ProcessorStateError, and StreamsRuntimeError for an error in a processor's `init`.
        """
        if self.state is TaskState.RUNNING:
            return
        self._lifecycle.expect("complete its restoration", TaskState.RESTORING)
        claim = self._claim.take_if_needed(self._input_partitions)
        self._buffer.clear()
        self._processing.continue_at(UNKNOWN_TIME)
        partition_times_ms = self._offsets.begin(self._input_partitions, committed)
        self._buffer.set_partition_times(partition_times_ms)
        stream_time_ms = max(partition_times_ms.values(), default=UNKNOWN_TIME)
        self._processing.continue_at(stream_time_ms)
        for missing in self.state_manager.continue_after(self._offsets.needed_before, stream_time_ms):
            self._losses.windows_missing(*missing)
        if self._exactly_once:
            self.state_manager.delete_checkpoint()
        else:
            self.state_manager.maybe_checkpoint(enforce=True)
        self._producer.guard(self._id, claim)
        self._processing.init_processors()
        self._lifecycle.to(TaskState.RUNNING)
        self._commit_where_it_skips_to()

    def suspend(self) -> None:
        """As `Task` says. Raises what a processor's `close` raises; the task is SUSPENDED even then.

        The task needs a commit afterwards when `close` wrote or forwarded something.
        """
        self._lifecycle.expect(
            "be suspended", TaskState.CREATED, TaskState.RESTORING, TaskState.RUNNING, TaskState.SUSPENDED
        )
        if self.state is TaskState.SUSPENDED:
            return
        try:
            self._offsets.hold(self._buffer.positions())
            self._processing.close_processors()
        finally:
            self._lifecycle.to(TaskState.SUSPENDED)
            self._buffer.clear()
            self._processing.clear_punctuations()
            self._producer.guard(self._id, None)

    def release_claim(self) -> None:
        """Let the next owner claim without fencing this thread, if all is committed. Resumed, the task claims again."""
        if not self._commits.is_needed:
            self._claim.release()

    def give_up_claim(self) -> Claim | None:
        """As `release_claim`, but the thread releases the claim, with those of other tasks; None for nothing to do."""
        return None if self._commits.is_needed else self._claim.give_up()

    def resume(self) -> None:
        """As `Task` says. A task that was suspended before it was initialised is CREATED again.

        Raises TaskCorrupted when, under exactly-once, it has work in a transaction that nobody committed.
        """
        if self.state is TaskState.SUSPENDED:
            if self._exactly_once and self._commits.is_needed:
                raise TaskCorrupted([self._id], "suspended with work that was not committed")
            self._lifecycle.to(TaskState.RESTORING if self._own_state.is_open else TaskState.CREATED)
        elif self.state is TaskState.CLOSED:
            raise self._lifecycle.illegal("be resumed")

    def close_clean(self) -> None:
        """As `Task` says. Raises TaskMigrated when not all is committed, ProcessorStateError; close it dirty then."""
        if self.state is TaskState.CLOSED:
            return
        self._lifecycle.expect("be closed", TaskState.SUSPENDED)
        self._expect_committed()
        self.release_claim()
        self._own_state.close_clean()
        self._closed()

    def close_dirty(self) -> None:
        """As `Task` says, from any state. Aborts the transaction if it has records of this task."""
        if self.state is TaskState.CLOSED:
            return
        if self.state is not TaskState.SUSPENDED:
            try:
                self.suspend()
            except Exception:
                _logger.exception("%s could not suspend while it is closed dirty", self)
        if self._exactly_once and self._commits.is_needed:
            self._producer.abort()
        self._own_state.close_dirty()
        self._closed()

    def recycle_state(self) -> StateManager:
        """Of a SUSPENDED, committed task: give its state away, stores open and directory locked, and be CLOSED."""
        self._lifecycle.expect("be recycled", TaskState.SUSPENDED)
        self._expect_committed()
        self.release_claim()
        state = self._own_state.hand_over()
        self._closed()
        return state

    def revive(self) -> None:
        self._lifecycle.expect("be revived", TaskState.CLOSED)
        self.clear_task_timeout()
        self._lifecycle.to(TaskState.CREATED)

    def _closed(self) -> None:
        """Be as a new task, except for the deadline and the count of dropped records."""
        try:
            self._own_state.release()
        finally:
            self.runtime.stores = {}
            self._collector.clear()
            self._buffer.clear()
            self._claim.forget()
            self._offsets.clear()
            self._commits.clear()
            self._lifecycle.to(TaskState.CLOSED)

    def _expect_committed(self) -> None:
        if self._commits.is_needed:
            raise TaskMigrated("has records that are not committed and cannot be closed cleanly", self._id)

    # --- records and punctuations

    def add_records(self, batch: RecordBatch) -> None:
        """Buffer a batch of an input partition.

        A task that does not run drops it, and reads the records again when it runs.
        """
        if self.state is TaskState.RUNNING:
            self._buffer.add(batch)

    def is_process_ready(self, now_ms: int) -> bool:
        """Whether `process` would process a record. Raises as it does."""
        return self._may_process() and self._processing.is_ready(now_ms)

    def process(self, now_ms: int, max_records: int) -> int:
        """Process up to so many records; how many were. Raises as `RecordProcessing.process` does."""
        return self._processing.process(now_ms, max_records) if self._may_process() else 0

    def maybe_punctuate_stream_time(self) -> bool:
        """Fire what stream time has reached; nothing before the first record. Raises as `process` does."""
        return self.state is TaskState.RUNNING and self._processing.punctuate_stream_time()

    def maybe_punctuate_system_time(self, now_ms: int) -> bool:
        """Fire what wall-clock time has reached. Raises as `process` does."""
        return self.state is TaskState.RUNNING and self._processing.punctuate_system_time(now_ms)

    @property
    def may_sleep(self) -> bool:
        """Whether there is nothing to do before it gets records, or wall-clock time reaches its next punctuation.

        Valid when everything that was due has been processed and punctuated. Gaps in the input may pass meanwhile: a
        commit asks `commit_needed` of every task.
        """
        commits = self._commits
        return (
            self._buffer.waits_for_records
            and not commits.is_requested
            and not commits.check()
            and not self._collector.has_rows
        )

    def next_wall_clock_punctuation_ms(self) -> int | None:
        """When the thread has to punctuate at the latest; None when nothing is scheduled."""
        return self._processing.next_wall_clock_punctuation_ms()

    def _may_process(self) -> bool:
        return self.state is TaskState.RUNNING and not self._commits.is_pending

    def _reading_failed(self, failed: FailedInputRecord) -> None:
        self._commits.begin_work()  # the record is consumed, and there may be a dead letter
        self._handling.deserialization_failed(failed)

    # --- commits

    def commit_needed(self) -> bool:
        """Whether it has processed, punctuated or passed gaps since the last commit."""
        return self._commits.check()

    def commit_requested(self) -> bool:
        return self._commits.is_requested

    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """As `Task` says: the offsets, without the metadata that `offsets_to_commit` has.

        Raises TaskMigrated, LogTimeout, StreamsRuntimeError, and TaskCorrupted when its transaction was aborted.
        """
        if self.state is TaskState.CLOSED:
            raise self._lifecycle.illegal("prepare a commit")
        if self._commits.check():
            self._commits.expect_transaction()
            self._processing.flush()
        # at-least-once: the commit itself writes what was sent, so that a fenced thread writes nothing
        self._commits.prepare()
        return {partition: one.offset for partition, one in self._commits.prepared.items()}

    def offsets_to_commit(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What `prepare_commit` found. The thread commits it with `claim`."""
        return self._commits.prepared

    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """As `Task` says. While it runs, `enforce_checkpoint` is for at-least-once only. Raises ProcessorStateError."""
        if self.state is TaskState.CLOSED:
            raise self._lifecycle.illegal("be committed")
        self._offsets.is_committed(self._commits.prepared)
        if self._own_state.is_open:
            self.state_manager.update_changelog_offsets(self._checkpointable_offsets())
            if not (self._exactly_once and self.state is TaskState.RUNNING):
                self.state_manager.maybe_checkpoint(enforce=enforce_checkpoint)
        self._commits.clear()

    def purgeable_offsets(self) -> Mapping[TopicPartition, int]:
        """The offsets below which records of repartition topics may be deleted, since nobody needs them any more."""
        return {
            partition: offset
            for partition, offset in self._offsets.committed.items()
            if partition.topic in self._graph.repartition_sources
        }

    def _checkpointable_offsets(self) -> dict[TopicPartition, int]:
        """The last offsets in the stores: written to changelogs, or read from those that are input, too."""
        read = {
            partition: one.offset - 1
            for partition, one in self._commits.prepared.items()
            if self.state_manager.changelog_as_source(partition)
        }
        return read | self._collector.written_offsets()

    # --- what else the thread asks of it

    def windows_at_risk(self, now_ms: int) -> list[WindowsAtRisk]:
        """Tell of the window stores whose changelogs the log may cut too early, by its clock. Raises LogError.

        A changelog has to go back to stream time minus the store's retention, and the log keeps what is no older than
        its own retention. The difference is by how much stream time may be behind the clock.
        """
        found: list[WindowsAtRisk] = []
        for partition, needed in self.state_manager.needed_changes.items():
            if needed.newest_ms < 0 or not needed.needed:
                continue
            kept_ms, behind_ms = self._log.deletes_after_ms(partition.topic), now_ms - needed.newest_ms
            if kept_ms is not None and behind_ms > kept_ms - needed.retention_ms:
                store = self.state_manager.metadata(partition).store.name
                found.append(
                    WindowsAtRisk(store, partition.topic, needed.needed, behind_ms, kept_ms, needed.retention_ms)
                )
        for risk in found:
            self._losses.windows_at_risk(risk)
        return found

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Read these partitions from `complete_restoration` on. Raises StreamsRuntimeError while it runs."""
        if self.state is TaskState.RUNNING and partitions != self._input_partitions:
            raise self._lifecycle.illegal("get other input partitions")
        self._buffer.set_partitions(partitions)
        self._input_partitions = partitions

    def reset_offsets(self, outside: Mapping[TopicPartition, int]) -> None:
        """After OffsetOutOfRange, go on by auto.offset.reset, and tell what was passed over. `outside`: positions.

        Raises LogTimeout, and StreamsRuntimeError for `none`.
        """
        own = {partition: position for partition, position in outside.items() if partition in self._input_partitions}
        if own:
            self._offsets.reset(own)
            self._commit_where_it_skips_to()

    def _commit_where_it_skips_to(self) -> None:
        if self._offsets.skips_until_committed:
            self._commits.request()

    def mark_changelogs_corrupted(self, partitions: Collection[TopicPartition]) -> None:
        self.state_manager.mark_changelogs_corrupted(partitions)

    def maybe_init_task_timeout_or_throw(self, now_ms: int, cause: Exception | None = None) -> None:
        """It made no progress; the first time starts task.timeout.ms. Raises TaskTimeout when that is over."""
        self._deadline.failed(now_ms, cause)

    def clear_task_timeout(self) -> None:
        self._deadline.succeeded()
