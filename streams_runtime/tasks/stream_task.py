"""An active task reads its input partitions, runs its part of the topology, and prepares its commits.

The task has these methods for its life cycle:
- `lock` locks the directory of a CREATED task.
- `initialize_if_needed` locks the directory, claims the input, opens the stores and reads the checkpoint. A CREATED
  task becomes RESTORING.
- `complete_restoration` seeks the consumer to the committed offsets, and initialises the processors. A RESTORING task
  becomes RUNNING.
- `add_records`, `process` and the methods `maybe_punctuate_...` do the work of a RUNNING task.
- The thread calls `prepare_commit` before it commits a RUNNING or SUSPENDED task, and `post_commit` after the commit.
- `suspend` makes a task SUSPENDED, unless the task is CLOSED. `resume` makes a SUSPENDED task RESTORING or CREATED.
- `close_clean`, `close_dirty` and `recycle_state` make the task CLOSED.

Only `StreamTask` changes the state of the task. The parts of the task do not know the state:
- `buffer`: the `PartitionGroup`, which has the polled records and chooses the next record to process.
- `runtime`: the `ProcessorRuntime`, which runs records and punctuations through the graph. Processors and stores use
  the task through `runtime`, which has the record cache and the outputs.
- `offsets`: the `InputOffsets`, which has the offsets to commit and the offsets at which reading began.
- `claim`: the `InputClaim` with the claim of the input partitions, which is the right to commit offsets.
- `state_manager`: the `StateManager` with the stores, the checkpoint and the directory's lock.

Rules: a commit begins with a flush of the record cache. So the outputs and changes of a record are sent before the
offset of the record is committed. Under at-least-once, outputs are written before the offsets or together with them.
Under exactly-once, the task processes nothing between `prepare_commit` and `post_commit`. After the commit,
the changes of the stores are written together with their changelog offsets. If a transaction was aborted, the work in
the transaction is never committed, and the changes of the stores are dropped. Source: `StreamTask`, `AbstractTask`.
"""

from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from assignor.types import LATEST_OFFSET, TopicPartition
from streams_runtime.common.errors import StoreCorrupted, TaskCorrupted, TaskMigrated
from streams_runtime.common.losses import WindowsAtRisk
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.common.task_flow import TaskFlow, task_flow
from streams_runtime.logs.base import Claim, CommittedOffsets, RecordBatch
from streams_runtime.processors.batch_node import NodeRun
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.tasks.input_offsets import InputClaim, InputOffsets
from streams_runtime.tasks.partition_group import PartitionGroup
from streams_runtime.tasks.processor_runtime import ProcessorRuntime
from streams_runtime.tasks.record_queue import UNKNOWN_TIME
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.task import Task

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class StreamTask(Task):
    """See `Task`. `TaskCreator` makes the parts of the task. The input partitions have to be assigned to the consumer
    before `complete_restoration` is called. `runtime`: the interface through which the processors and stores use the
    task.
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
        """The claim on the task's input partitions, which is the right to commit their offsets. Raises
        StreamsRuntimeError before the task is initialised.
        """
        claim = self._claim.newest
        if claim is None:
            raise self._illegal("have a claim before it is initialised")
        return claim

    @property
    def buffered_records(self) -> int:
        return len(self._buffer)

    def flow(self, now_ms: int, processed: int) -> TaskFlow:
        """`processed`: the number of records that the task has processed."""
        return task_flow(self._buffer.lag(), self.runtime.stream_time_ms, now_ms, processed)

    def node_runs(self) -> Mapping[str, NodeRun]:
        """Returns, for each node that is not a source, whether it processes single records or batches, and the
        reason.
        """
        return self.runtime.graph.node_runs()

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        if self.state is TaskState.RUNNING:
            return dict.fromkeys(self.changelog_partitions, LATEST_OFFSET)
        return super().changelog_offsets()

    # --- Methods that change the state of the task.

    def lock(self) -> None:
        """Lock the directory of a CREATED task. Idempotent. Raises LockError.

        Lock the directory before the task's input is claimed. If the input were claimed first, the claim could fence
        another thread that still runs the task.
        """
        self._expect("lock its directory", TaskState.CREATED)
        self._lock_state()

    @property
    def needs_claim(self) -> bool:
        """True if the task has no claim on exactly its input partitions."""
        return self._claim.is_needed(self.input_partitions)

    def take_claim(self, claim: Claim) -> None:
        """Use this claim on the input partitions. The thread has made the claim together with the claims of other
        tasks. Call this method after `lock`.
        """
        self._claim.accept(claim)

    def initialize_if_needed(self) -> None:
        """See `Task`. An active task also claims its input, before it opens the stores."""
        if self.state is not TaskState.CREATED:
            return
        self.lock()
        self._claim.take_if_needed(self.input_partitions)
        self.runtime.collector.keep_window_changelogs()
        runtime = self.runtime
        self._open_state(runtime.collector, runtime, runtime.losses.expired, runtime.cache)
        runtime.stores = dict(self.state_manager.stores)
        self._become(TaskState.RESTORING)

    def complete_restoration(self, committed: CommittedOffsets | None = None) -> None:
        """Change the state from RESTORING to RUNNING. Does nothing if the task is already RUNNING. After LogTimeout,
        the call may be repeated. `committed`: the group's committed offsets of the input, if the caller has looked them
        up after the input was claimed. If `committed` is None, this method looks up the offsets. Raises LogTimeout and
        ProcessorStateError. Raises StreamsRuntimeError if `init` of a processor fails.
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
        windows = self.state_manager.window_changelogs
        for missing in windows.continue_after(self._offsets.changelogs_needed_from, stream_time_ms):
            self.runtime.losses.windows_missing(*missing)
        if self._exactly_once:
            self.state_manager.delete_checkpoint()
        elif self.state_manager.uncommitted_bytes == 0:
            # If `init` of a processor has failed before, its changes are uncommitted, and must not be written here.
            self.state_manager.maybe_checkpoint(enforce=True)
        # writing is allowed before `init` of the processors, because `init` may write to stores
        self._claim.allow_writes()
        self.runtime.init_processors()
        self._become(TaskState.RUNNING)

    def suspend(self) -> None:
        """See `Task`. Raises errors of a processor's `close`. The task is SUSPENDED even after an error.

        If `close` of a processor has written or forwarded something, the task needs a commit.
        """
        self._expect("be suspended", TaskState.CREATED, TaskState.RESTORING, TaskState.RUNNING, TaskState.SUSPENDED)
        if self.state is TaskState.SUSPENDED:
            return
        try:
            self._offsets.remember(self._buffer.positions())
            self.runtime.close_processors()
        finally:
            self._become(TaskState.SUSPENDED)
            self._buffer.clear()
            self.runtime.clear_punctuations()
            self._claim.forbid_writes()

    def mark_claim_released(self) -> Claim | None:
        """Returns the claim if the thread has to release it. The thread releases the claims of several tasks together.
        Returns None if there is no claim to release, or if the task has work that is not committed. After the release,
        the next owner can claim the input without fencing this thread. A resumed task claims its input again.
        """
        return None if self._offsets.commit_needed else self._claim.mark_released()

    def resume(self) -> None:
        """See `Task`. If a task was suspended before its initialisation, it becomes CREATED.

        Under exactly-once, raises TaskCorrupted if the task has work that was not committed.
        """
        if self.state is TaskState.SUSPENDED:
            if self._exactly_once and self._offsets.commit_needed:
                raise TaskCorrupted([self.id], "suspended with work that was not committed", damaged=())
            self._become(TaskState.RESTORING if self._is_open else TaskState.CREATED)
        elif self.state is TaskState.CLOSED:
            raise self._illegal("be resumed")

    def _before_clean_end(self) -> None:
        """Release the claim. Raises TaskMigrated if the task has work that is not committed. After TaskMigrated, the
        caller has to call `close_dirty`.
        """
        if self._offsets.commit_needed:
            raise TaskMigrated("has records that are not committed and cannot be closed cleanly", self.id)
        self._claim.release()

    def _drop_work(self) -> None:
        self._offsets.abort()

    def _close(self) -> None:
        """Reset all parts of the task. The deadline and the number of dropped records do not change."""
        try:
            super()._close()
        finally:
            self.runtime.stores = {}
            self.runtime.collector.clear()
            self._buffer.clear()
            self._claim.forget()
            self._offsets.clear()

    # --- Methods that process records and fire punctuations.

    def add_records(self, batch: RecordBatch) -> None:
        """Buffer a batch of an input partition. If the task is not RUNNING, it drops the batch. `complete_restoration`
        later seeks to the committed offsets, so the records are read again.
        """
        if self.state is TaskState.RUNNING:
            self._buffer.add(batch)

    def is_process_ready(self, now_ms: int) -> bool:
        """Returns True if `process` has something to do. Raises the errors of `process`."""
        return self.state is TaskState.RUNNING and not self._offsets.commit_pending and self.runtime.is_ready(now_ms)

    def process(self, now_ms: int, max_records: int) -> int:
        """Process up to `max_records` records. Returns the number of records processed. Raises the errors of
        `ProcessorRuntime.process`.
        """
        if self.state is not TaskState.RUNNING or self._offsets.commit_pending:
            return 0
        return self._run(self.runtime.process, now_ms, max_records)

    def maybe_punctuate_stream_time(self) -> bool:
        """See `ProcessorRuntime.punctuate_stream_time`."""
        return self.state is TaskState.RUNNING and self._run(self.runtime.punctuate_stream_time)

    def maybe_punctuate_system_time(self, now_ms: int) -> bool:
        """See `ProcessorRuntime.punctuate_system_time`."""
        return self.state is TaskState.RUNNING and self._run(self.runtime.punctuate_system_time, now_ms)

    def _run(self, work: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        """Calls a method of `runtime`. If a store finds damage, raises TaskCorrupted."""
        try:
            return work(*args, **kwargs)
        except StoreCorrupted as damage:
            raise self.state_manager.corrupted_by(damage) from damage

    @property
    def may_sleep(self) -> bool:
        """True if the task has nothing to do until it gets records or until its next wall-clock punctuation is due.
        Read this property after the task has processed and punctuated. While a task sleeps, the consumer may move past
        gaps in the input, which aborted or compacted records leave. The position after a gap has to be committed, but
        the thread does not wake the task for this commit. Each commit calls `commit_needed` of every task, and
        `commit_needed` finds gaps in the input.
        """
        return (
            self._buffer.waits_for_records
            and not self._offsets.commit_requested
            and not self.commit_needed()
            and not self.runtime.collector.pending
        )

    def next_wall_clock_punctuation_ms(self) -> int | None:
        """Returns the time of the next wall-clock punctuation, or None if no punctuation is scheduled."""
        return self.runtime.next_wall_clock_punctuation_ms()

    # --- commits

    def commit_needed(self) -> bool:
        """Returns True if the task has processed records, fired punctuations or passed gaps in its input since the last
        commit.
        """
        return self._offsets.commit_needed or self._offsets.check_for_gaps(self._buffer.positions())

    def commit_requested(self) -> bool:
        """Returns True if a commit should not wait for the commit interval. A commit is requested by a processor, or
        because the task has begun to read a partition at `latest`. If `latest` has set a position, this position must
        be committed soon. Without a committed position, a new owner of the task would begin at a later position and
        skip records.
        """
        return self._offsets.commit_requested

    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """See `Task`. The returned offsets have no metadata; call `offsets_to_commit` for offsets with metadata. Raises
        TaskMigrated, LogTimeout, StreamsRuntimeError. Raises TaskCorrupted if the transaction with the task's work was
        aborted.
        """
        if self.state is TaskState.CLOSED:
            raise self._illegal("prepare a commit")
        offsets = self._offsets
        if self.commit_needed():
            offsets.expect_transaction()
            # Under at-least-once, the producer is not flushed here. Instead, the commit checks the claim and writes the
            # producer's pending records together with the offsets. So a fenced thread does not write its pending
            # records.
            self._run(self.runtime.flush)
            offsets.prepare(self._buffer.positions())
        return {partition: one.offset for partition, one in offsets.prepared.items()}

    def offsets_to_commit(self) -> CommittedOffsets:
        """Returns the offsets of the last `prepare_commit`, with metadata. The thread commits these offsets together
        with the task's `claim`.
        """
        return self._offsets.prepared

    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """See `Task`. Write the changes of the stores, with the offsets of their changelogs. Under exactly-once, a
        RUNNING task writes no checkpoint file, even if `enforce_checkpoint` is True. Raises ProcessorStateError.
        """
        if self.state is TaskState.CLOSED:
            raise self._illegal("be committed")
        if self._is_open and self.state_manager.stores:
            prepared = self._offsets.prepared
            read = {p: prepared[p].offset for p in self._source_changelogs if p in prepared}
            self.state_manager.commit(read | self.runtime.collector.acknowledged_offsets())
            if self.state is not TaskState.RUNNING or not self._exactly_once:
                self.state_manager.maybe_checkpoint(enforce=enforce_checkpoint)
        self._offsets.committed()

    def purgeable_offsets(self) -> Mapping[TopicPartition, int]:
        """Returns the committed offsets of the repartition topics. The records below these offsets are not needed any
        more.
        """
        return self._offsets.purgeable()

    # --- Methods for windows, input partitions and resets.

    def windows_at_risk(self, now_ms: int) -> list[WindowsAtRisk]:
        """Returns the window stores that may lose data: the log may delete changelog records that these stores still
        need. Reports the window stores that are at risk. Raises LogError.
        """
        found = self.runtime.collector.windows_at_risk(now_ms)
        for risk in found:
            self.runtime.losses.windows_at_risk(risk)
        return found

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Change the input partitions. The task reads the new partitions after the next `complete_restoration`. Raises
        StreamsRuntimeError if the task is RUNNING and the partitions differ from its present partitions.
        """
        if self.state is TaskState.RUNNING and partitions != self.input_partitions:
            raise self._illegal("get other input partitions")
        self._buffer.set_partitions(partitions)
        super().update_input_partitions(partitions)

    def reset_offsets(self, out_of_range: Mapping[TopicPartition, int]) -> None:
        """Handle OffsetOutOfRange: continue at the offsets that auto.offset.reset selects, and report the skipped
        offsets. `out_of_range`: for each partition, the position that is out of range. Ignores partitions of other
        tasks. Raises LogTimeout. Raises StreamsRuntimeError if auto.offset.reset is `none`.
        """
        own = {p: position for p, position in out_of_range.items() if p in self.input_partitions}
        if own:
            self._offsets.reset(own)
