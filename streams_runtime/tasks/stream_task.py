"""An active task: reads its input partitions, runs its part of the topology, and says what is to be committed.

    lock                   lock the directory                                                CREATED
    initialize_if_needed   lock, claim the input, open the stores, read the checkpoint       CREATED -> RESTORING
    complete_restoration   seek the input, initialise the processors                         RESTORING -> RUNNING
    add_records, process, maybe_punctuate_...                                                RUNNING
    prepare_commit, (the thread commits), post_commit                                        RUNNING, SUSPENDED
    suspend, close_clean | close_dirty | recycle_state | resume                              -> SUSPENDED -> CLOSED

The task is the life cycle. It brings together parts that each own one thing and know nothing of the life cycle:

    buffer          `PartitionGroup`     what was polled and not processed: queues, pauses, which record is next
    runtime         `ProcessorRuntime`   runs records and punctuations through the graph, and is what processors and
                                         stores see meanwhile; the record cache, and what the task sends
    offsets         `InputOffsets`       where reading began, whether there is something to commit, which offsets
    claim           `InputClaim`         the right to commit
    state_manager   `StateManager`       the stores, the checkpoint, the directory's lock

Rules: a commit begins with a flush of the cache, so that no offset goes before what was done with its record. Under
at-least-once, outputs are written before or with the offsets. Under exactly-once, nothing is processed
between `prepare_commit` and `post_commit`, no checkpoint is on disk while the task runs, and work of an aborted
transaction is never committed. Source: `StreamTask`, `AbstractTask`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.types import LATEST_OFFSET, TopicPartition
from streams_runtime.common.errors import TaskCorrupted, TaskMigrated
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.logs.base import Claim, OffsetAndMetadata, RecordBatch
from streams_runtime.processors.batch_node import NodeRun
from streams_runtime.reporting.losses import WindowsAtRisk
from streams_runtime.state_stores.base import StateStore
from streams_runtime.tasks.input_claim import InputClaim
from streams_runtime.tasks.input_offsets import InputOffsets
from streams_runtime.tasks.partition_group import PartitionGroup
from streams_runtime.tasks.processor_runtime import ProcessorRuntime
from streams_runtime.tasks.record_queue import UNKNOWN_TIME
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.task import Task


class StreamTask(Task):
    """See `Task`. `TaskCreator` makes the parts. The consumer has to be assigned the input partitions before
    `complete_restoration`. `runtime`: what its processors and stores see of the task.
    """

    type = TaskType.ACTIVE

    def __init__(
        self,
        state: StateManager,
        buffer: PartitionGroup,
        runtime: ProcessorRuntime,
        offsets: InputOffsets,
        claim: InputClaim,
        task_timeout_ms: int,
    ) -> None:
        super().__init__(state, buffer.partitions, task_timeout_ms)
        self._exactly_once = state.exactly_once
        self._source_changelogs = [p for p in state.changelog_partitions if state.changelog_as_source(p)]
        self._buffer = buffer
        self.runtime = runtime
        self._offsets = offsets
        self._claim = claim

    @property
    def stores(self) -> Mapping[str, StateStore]:
        return self.runtime.stores

    @property
    def claim(self) -> Claim:
        """The right to move the offsets of its input. Raises StreamsRuntimeError before it is initialised."""
        claim = self._claim.value
        if claim is None:
            raise self._illegal("have a claim before it is initialised")
        return claim

    @property
    def buffered_records(self) -> int:
        return len(self._buffer)

    def node_runs(self) -> Mapping[str, NodeRun]:
        """How each node below a source runs."""
        return self.runtime.graph.node_runs()

    @property
    def dropped_records(self) -> int:
        """How many records it has left out, for whatever reason."""
        return self.runtime.losses.dropped_records

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        if self.state is TaskState.RUNNING:
            return dict.fromkeys(self.changelog_partitions, LATEST_OFFSET)
        return super().changelog_offsets()

    # --- its life

    def lock(self) -> None:
        """Of a CREATED task: lock the directory. Idempotent. Raises LockError.

        It comes before the claim, which fences a thread that still has the task.
        """
        self._expect("lock its directory", TaskState.CREATED)
        self._lock_state()

    @property
    def needs_claim(self) -> bool:
        """Whether it has to claim its input before it goes on."""
        return self._claim.is_needed(self.input_partitions)

    def take_claim(self, claim: Claim) -> None:
        """The thread has claimed the input, for this task and others together. The directory is locked."""
        self._claim.become(claim)

    def initialize_if_needed(self) -> None:
        """See `Task`. It claims its input before it opens the stores."""
        if self.state is not TaskState.CREATED:
            return
        self.lock()
        self._claim.take_if_needed(self.input_partitions)
        self.runtime.collector.keep_windows()
        runtime = self.runtime
        self._open_state(runtime.collector, runtime, runtime.losses.expired, runtime.cache)
        runtime.stores = dict(self.state_manager.stores)
        self._become(TaskState.RESTORING)

    def complete_restoration(self, committed: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Go from RESTORING to RUNNING; nothing happens when it runs already. May be tried again after LogTimeout.

        `committed`: the group's offsets of its input, looked up since it has its claim; None to look them up. Raises
        LogTimeout, ProcessorStateError, and StreamsRuntimeError for an error in a processor's `init`.
        """
        if self.state is TaskState.RUNNING:
            return
        self._expect("complete its restoration", TaskState.RESTORING)
        self._claim.take_if_needed(self.input_partitions)
        self._buffer.clear()
        self.runtime.stream_time_ms = UNKNOWN_TIME
        partition_times_ms = self._offsets.begin(self.input_partitions, committed)
        self._buffer.set_partition_times(partition_times_ms)
        stream_time_ms = max(partition_times_ms.values(), default=UNKNOWN_TIME)
        self.runtime.stream_time_ms = stream_time_ms
        for missing in self.state_manager.continue_after(self._offsets.needed_before, stream_time_ms):
            self.runtime.losses.windows_missing(*missing)
        if self._exactly_once:
            self.state_manager.delete_checkpoint()
        else:
            self.state_manager.maybe_checkpoint(enforce=True)
        self._claim.let_write(may=True)
        self.runtime.init_processors()
        self._become(TaskState.RUNNING)

    def suspend(self) -> None:
        """See `Task`. Raises what a processor's `close` raises; the task is SUSPENDED even then.

        The task needs a commit afterwards when `close` wrote or forwarded something.
        """
        self._expect("be suspended", TaskState.CREATED, TaskState.RESTORING, TaskState.RUNNING, TaskState.SUSPENDED)
        if self.state is TaskState.SUSPENDED:
            return
        try:
            self._offsets.hold(self._buffer.positions())
            self.runtime.close_processors()
        finally:
            self._become(TaskState.SUSPENDED)
            self._buffer.clear()
            self.runtime.clear_punctuations()
            self._claim.let_write(may=False)

    def give_up_claim(self) -> Claim | None:
        """Have the thread release the claim, with those of other tasks, so that the next owner can claim without
        fencing this thread. Resumed, the task claims again. None: nothing is to be released, or not all is committed.
        """
        return None if self._offsets.is_needed else self._claim.give_up()

    def resume(self) -> None:
        """See `Task`. A task that was suspended before it was initialised is CREATED again.

        Raises TaskCorrupted when, under exactly-once, it has work in a transaction that nobody committed.
        """
        if self.state is TaskState.SUSPENDED:
            if self._exactly_once and self._offsets.is_needed:
                raise TaskCorrupted([self.id], "suspended with work that was not committed")
            self._become(TaskState.RESTORING if self._is_open else TaskState.CREATED)
        elif self.state is TaskState.CLOSED:
            raise self._illegal("be resumed")

    def _give_up(self) -> None:
        """Raises TaskMigrated when not all is committed; close it dirty then."""
        if self._offsets.is_needed:
            raise TaskMigrated("has records that are not committed and cannot be closed cleanly", self.id)
        self._claim.release()

    def _drop_work(self) -> None:
        self._offsets.abort()

    def _close(self) -> None:
        """Be as a new task, except for the deadline and the count of dropped records."""
        try:
            super()._close()
        finally:
            self.runtime.stores = {}
            self.runtime.collector.clear()
            self._buffer.clear()
            self._claim.forget()
            self._offsets.clear()

    # --- records and punctuations

    def add_records(self, batch: RecordBatch) -> None:
        """Buffer a batch of an input partition.

        A task that does not run drops it, and reads the records again when it runs.
        """
        if self.state is TaskState.RUNNING:
            self._buffer.add(batch)

    def is_process_ready(self, now_ms: int) -> bool:
        """Whether `process` would process a record. Raises as it does."""
        return self.state is TaskState.RUNNING and not self._offsets.is_pending and self.runtime.is_ready(now_ms)

    def process(self, now_ms: int, max_records: int) -> int:
        """Process up to so many records; how many were. Raises as `ProcessorRuntime.process` does."""
        if self.state is not TaskState.RUNNING or self._offsets.is_pending:
            return 0
        return self.runtime.process(now_ms, max_records)

    def maybe_punctuate_stream_time(self) -> bool:
        """Fire what stream time has reached; nothing before the first record. Raises as `process` does."""
        return self.state is TaskState.RUNNING and self.runtime.punctuate_stream_time()

    def maybe_punctuate_system_time(self, now_ms: int) -> bool:
        """Fire what wall-clock time has reached. Raises as `process` does."""
        return self.state is TaskState.RUNNING and self.runtime.punctuate_system_time(now_ms)

    @property
    def may_sleep(self) -> bool:
        """Whether there is nothing to do before it gets records, or wall-clock time reaches its next punctuation.

        Valid when everything that was due has been processed and punctuated. Gaps in the input may pass meanwhile: a
        commit asks `commit_needed` of every task.
        """
        return (
            self._buffer.waits_for_records
            and not self._offsets.is_requested
            and not self.commit_needed()
            and not self.runtime.collector.pending
        )

    def next_wall_clock_punctuation_ms(self) -> int | None:
        """When the thread has to punctuate at the latest; None when nothing is scheduled."""
        return self.runtime.next_wall_clock_punctuation_ms()

    # --- commits

    def commit_needed(self) -> bool:
        """Whether it has processed, punctuated or passed gaps since the last commit."""
        return self._offsets.is_needed or self._offsets.check(self._buffer.positions())

    def commit_requested(self) -> bool:
        """Whether a processor asked for a commit, or the group has to know at once where the task began."""
        return self._offsets.is_requested

    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """See `Task`: the offsets, without the metadata that `offsets_to_commit` has.

        Raises TaskMigrated, LogTimeout, StreamsRuntimeError, and TaskCorrupted when its transaction was aborted.
        """
        if self.state is TaskState.CLOSED:
            raise self._illegal("prepare a commit")
        offsets = self._offsets
        if self.commit_needed():
            offsets.expect_transaction()
            # at-least-once: the commit itself writes what was sent, so that a fenced thread writes nothing
            self.runtime.flush()
            offsets.prepare(self._buffer.positions())
        return {partition: one.offset for partition, one in offsets.prepared.items()}

    def offsets_to_commit(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What `prepare_commit` found. The thread commits it with `claim`."""
        return self._offsets.prepared

    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """See `Task`. While it runs, `enforce_checkpoint` is for at-least-once only. Raises ProcessorStateError."""
        if self.state is TaskState.CLOSED:
            raise self._illegal("be committed")
        manager = self.state_manager
        if self._is_open and manager.stores:
            prepared = self._offsets.prepared
            read = {p: prepared[p].offset - 1 for p in self._source_changelogs if p in prepared}
            manager.update_changelog_offsets(read | self.runtime.collector.written_offsets())
            if not (self._exactly_once and self.state is TaskState.RUNNING):
                manager.maybe_checkpoint(enforce=enforce_checkpoint)
        self._offsets.committed()

    def purgeable_offsets(self) -> Mapping[TopicPartition, int]:
        """The offsets below which records of repartition topics may be deleted, since nobody needs them any more."""
        return self._offsets.purgeable()

    # --- what else the thread asks of it

    def windows_at_risk(self, now_ms: int) -> list[WindowsAtRisk]:
        """Tell of the window stores whose changelogs the log may cut too early, by its clock. Raises LogError."""
        found = self.runtime.collector.windows_at_risk(now_ms)
        for risk in found:
            self.runtime.losses.windows_at_risk(risk)
        return found

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Read these partitions from `complete_restoration` on. Raises StreamsRuntimeError while it runs."""
        if self.state is TaskState.RUNNING and partitions != self.input_partitions:
            raise self._illegal("get other input partitions")
        self._buffer.set_partitions(partitions)
        super().update_input_partitions(partitions)

    def reset_offsets(self, outside: Mapping[TopicPartition, int]) -> None:
        """After OffsetOutOfRange, go on by auto.offset.reset, and tell what was passed over. `outside`: positions.

        Raises LogTimeout, and StreamsRuntimeError for `none`.
        """
        own = {partition: position for partition, position in outside.items() if partition in self.input_partitions}
        if own:
            self._offsets.reset(own)
