"""Reads changelogs into stores: restores the active tasks of a thread, and keeps its standbys up to date.

Rules:
- The changelog of an active task passes through three states: registered, restoring, completed. The changelog of a
  standby is never completed.
- The restore of an active task ends at the high watermark that each changelog has when the restore starts. Under
  exactly-once, the restore also ends at the high watermark, although only committed records are applied. If the
  changelog is a source topic, the restore ends at the lower of two offsets: the group's committed offset and the high
  watermark.
- The reader starts at the offset after the last applied record. If no applied record is known, the reader starts at the
  begin offset. The reader passes whole batches to the store. The reader does not apply records at or after the end of
  the restore.
- The progress of a store is the consumer's position in the changelog. The offset of the last record would be the wrong
  measure, because a changelog may be empty or may end with a gap. Retention, compaction and transaction markers cause
  gaps in the offsets of the records. A changelog is completed when the position has reached the end of the restore. The
  reader passes the positions to the task's state manager. The thread reports the sum of the positions as the offset sum
  of the task (KAFKA-14302).
- Among the active tasks, the tasks that lack least are restored first. `RestoreOrder` has the rule.
- The reader reads the changelogs of standbys only while no active task of the thread has to be restored. If the
  changelog of a standby is a source topic, the limit of the changelog is the group's committed offset. A standby
  applies only records below the limit. If the reader has read records beyond the limit, it keeps these records and
  pauses the partition until the limit is raised.
- A key-value store is not restored from a topic that was the changelog of a window store. The reader recognises the
  changelog of a window store by two conditions. Its `cleanup.policy` contains `delete`, and its keys end with the start
  of a window. Both conditions are needed, because the keys of a key-value store may also end with the bytes of a time.
- If the position in a changelog is out of range, only the task of this changelog is corrupt. If the log does not answer
  in time or a topic is missing, the reader tries again. The reader gives up when task.timeout.ms is over for the task.
- While other tasks of the thread process records, a pass of the reader does not wait. The number of records and the
  duration of such a pass are limited. If no other task processes records, a pass may wait poll.ms for records.

Source: `StoreChangelogReader`. Differs from Kafka: the reader runs on the stream thread and not on a separate thread.
So the passes of the reader have to be short. If a store's offset is beyond the end of its changelog, the task is
corrupt. In Kafka, a store with an offset beyond the end would count as restored. If the committed offset is below the
present limit of a standby, the reader ignores the committed offset. In Kafka, the thread ends if the committed offset
is below the limit.
"""

from collections.abc import Callable, Iterable, Mapping

from assignor.errors import IllegalStateError
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import ChangelogOfAnotherKind, TaskCorrupted
from streams_runtime.common.metrics import ThreadMetrics
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.restore.changelog_metadata import (
    ChangelogMetadata,
    ChangelogOffsetLookup,
    ChangelogOffsets,
    records_with_keys,
)
from streams_runtime.instance.restore.restore_consumer import PollSize, RestoreConsumer
from streams_runtime.instance.restore.restore_listener import RestoreListener, RestoreListenerFailed
from streams_runtime.instance.restore.restore_meter import RestoreMeter
from streams_runtime.instance.restore.restore_order import RestoreOrder
from streams_runtime.logs.base import Consumer, Log, RecordBatch
from streams_runtime.logs.log_errors import LogError, LogTimeout, OffsetOutOfRange, UnknownTopicOrPartition
from streams_runtime.state_stores.window_keys import may_be_window_record
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.task import Task, TaskDeadlines

_RETRY_BACKOFF_MS = 100
_LOG_END_INTERVAL_MS = 1_000
_LONGEST_LIMIT_INTERVAL_MS = 300_000
_LOOK_UP = "look up the offsets of its changelogs"
_READ = "read its changelogs"
_LIMIT = "look up the committed offsets that limit its standby"


class ChangelogReader:
    """Reads the changelogs of one stream thread. No other thread uses the reader.

    `consumer`: a consumer with the isolation level of `configs`. Only this reader uses the consumer.
    `updates_standbys`: True while the reader reads the changelogs of standbys, and False while it reads the changelogs
    of active tasks.
    """

    def __init__(
        self,
        log: Log,
        consumer: Consumer,
        *,
        configs: StreamsConfig,
        clock: Clock,
        listener: RestoreListener,
        metrics: ThreadMetrics,
    ) -> None:
        self._consumer = RestoreConsumer(consumer)
        self._clock = clock
        self._listener = listener
        self._lookup = ChangelogOffsetLookup(log, configs.application_id)
        self._deadlines = TaskDeadlines(configs.task_timeout_ms, clock)
        self._meter = RestoreMeter(metrics, clock)
        self._order = RestoreOrder()
        self._poll_ms = configs.poll_ms
        self._pass_records = configs.restore_batch_records
        self._pass_ms = configs.restore_pass_ms
        self._poll_size_alone = PollSize(configs.restore_batch_records, configs.poll_ms)
        self._poll_size_while_tasks_run = PollSize(configs.restore_batch_records, configs.restore_pass_ms)
        self._limit_interval_ms = min(configs.effective_commit_interval_ms, _LONGEST_LIMIT_INTERVAL_MS)
        self.updates_standbys = False
        self._changelogs: dict[TopicPartition, ChangelogMetadata] = {}
        self._registered: dict[TopicPartition, ChangelogMetadata] = {}
        self._restoring: dict[TopicPartition, ChangelogMetadata] = {}
        self._limits_moved_at_ms = self._log_ends_looked_up_at_ms = clock.monotonic_ms()

    # --- Methods that register and unregister changelogs.

    def register(self, partition: TopicPartition, state: StateManager) -> None:
        """Begin to read this changelog. The task of the changelog must be initialised. Raises IllegalStateError,
        KeyError.
        """
        if partition in self._changelogs:
            raise IllegalStateError(f"changelog {partition} is registered already, by {self._changelogs[partition]}")
        changelog = ChangelogMetadata(partition, state)
        self._changelogs[partition] = self._registered[partition] = changelog
        if changelog.is_active:
            self.enforce_restore_active()

    def unregister(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these changelogs. Ignores unknown partitions. If a callback of the restore listener fails, the
        other callbacks are still called, and then this method raises RestoreListenerFailed.
        """
        removed = [self._changelogs.pop(each) for each in frozenset(partitions) if each in self._changelogs]
        suspended: list[ChangelogMetadata] = []
        if not removed:
            return
        self._consumer.remove(each.partition for each in removed)
        for changelog in removed:
            self._registered.pop(changelog.partition, None)
            if self._restoring.pop(changelog.partition, None) is not None and changelog.is_active:
                suspended.append(changelog)
            self._deadlines.forget(changelog.task_id)
        if not self._changelogs:
            self.updates_standbys = False
        self._meter.report(self._lags(self._restoring.values()))
        failure: RestoreListenerFailed | None = None
        for changelog in suspended:
            try:
                self._notify(self._listener.on_restore_suspended, changelog, changelog.restored)
            except RestoreListenerFailed as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def clear(self) -> None:
        """Unregister every changelog."""
        self.unregister(tuple(self._changelogs))

    def is_empty(self) -> bool:
        return not self._changelogs

    # --- Methods that switch between active tasks and standbys.

    def enforce_restore_active(self) -> None:
        """Read the changelogs of active tasks, and pause the changelogs of standbys. Idempotent. `register`
        calls this method for an active task.
        """
        if self.updates_standbys:
            self.updates_standbys = False
            self._consumer.read_only(frozenset())

    def transit_to_update_standby(self) -> None:
        """Start to read the changelogs of standbys. No active task has to be restored any more. Idempotent.

        Raises IllegalStateError while an active task is not restored.
        """
        unfinished = (*self._registered.values(), *self._restoring.values())
        waiting = [str(each.partition) for each in unfinished if each.is_active]
        if waiting:
            raise IllegalStateError(f"standbys have to wait: {', '.join(waiting)} of active tasks are not restored yet")
        self.updates_standbys = True

    # --- progress

    def completed_changelogs(self) -> set[TopicPartition]:
        return self._changelogs.keys() - self._registered.keys() - self._restoring.keys()

    def restored_records(self, partition: TopicPartition) -> int:
        """Returns the number of records that were applied since the changelog was registered. Returns 0 if the
        changelog is not known.
        """
        changelog = self._changelogs.get(partition)
        return 0 if changelog is None else changelog.restored

    def positions(self) -> Mapping[TopicPartition, int]:
        """Returns the next offset to apply, for each changelog that is restoring."""
        return {partition: self._position(each) for partition, each in self._restoring.items()}

    def lags(self) -> Mapping[TopicPartition, int]:
        """Returns the lag of each changelog that is restoring. For an active task, the lag is the number of offsets up
        to the end of the restore. For a standby, the lag is the number of offsets up to the end offset of the
        changelog. The end offsets of standbys' changelogs are looked up once a second.
        """
        return {each.partition: lag for each, lag in self._lags(self._restoring.values())}

    # --- Methods for a pass.

    def restore(self, tasks: Mapping[TaskId, Task], *, others_run: bool) -> int:
        """Run one pass: read the changelogs of `tasks`, and apply the records. Returns the number of applied records.
        `others_run`: True if other tasks of this thread process records. If `others_run` is True, the pass has to be
        short and must not wait. Raises TaskCorrupted, TaskTimeout, RestoreListenerFailed, ProcessorStateError,
        LogError.
        """
        unfinished = len(self._registered) + len(self._restoring)
        if not unfinished:
            return 0
        self._initialise(tasks)
        applied = self._move_limits(tasks)
        self._report_positions()
        self._refresh_log_ends()
        progressed = applied > 0 or len(self._registered) + len(self._restoring) < unfinished
        applied += self._read(tasks, others_run=others_run, wait_ms=0 if others_run or progressed else self._poll_ms)
        if self._meter.is_due() or len(self._registered) + len(self._restoring) < unfinished:
            self._meter.report(self._lags(self._restoring.values()))
        return applied

    def _read(self, tasks: Mapping[TaskId, Task], *, others_run: bool, wait_ms: int) -> int:
        size = self._poll_size_while_tasks_run if others_run else self._poll_size_alone
        now_ms = self._clock.monotonic_ms()
        ends_ms = now_ms + (self._pass_ms if others_run else self._poll_ms)
        left = self._pass_records
        applied = 0
        while True:
            self._consumer.read_only(self._readable(tasks, now_ms))
            if not self._consumer.reading and not wait_ms:
                return applied
            asked = min(size.records, left)
            read, applied_now = self._poll(wait_ms, asked)
            applied += applied_now
            completed = self._complete_restored()
            polled_ms, now_ms = now_ms, self._clock.monotonic_ms()
            if not wait_ms:
                size.adapt(asked, read, now_ms - polled_ms)
            if others_run:
                left -= read
            if now_ms >= ends_ms or left <= 0 or not (read or completed):
                return applied
            wait_ms = 0

    def _poll(self, wait_ms: int, records: int) -> tuple[int, int]:
        reading = {self._restoring[each].task_id for each in self._consumer.reading}
        try:
            counts = self._consumer.poll(wait_ms, records, self._take)
        except OffsetOutOfRange as error:
            tasks = {self._changelogs[each].task_id for each in error.positions if each in self._changelogs}
            raise TaskCorrupted(tasks, f"changelog position out of range ({error})") from error
        except (LogTimeout, UnknownTopicOrPartition) as error:
            for task_id in reading:
                self._deadlines.failed(task_id, _READ, error)
            return 0, 0
        for task_id in reading:
            self._deadlines.succeeded(task_id, _READ)
        return counts

    # --- Methods for one changelog.

    def _take(self, batch: RecordBatch) -> int:
        """Apply the records of the batch up to the end of the restore. If the changelog has a limit, keep the records
        beyond the limit for later.
        """
        changelog = self._restoring[batch.partition]
        inside, rest = changelog.split(batch)
        applied = 0 if inside is None else self._apply(changelog, inside)
        if rest is not None and changelog.has_limit:
            changelog.buffered.append(rest)
        return applied

    def _apply(self, changelog: ChangelogMetadata, batch: RecordBatch) -> int:
        records = records_with_keys(batch)
        if records is None:
            return 0
        if changelog.may_be_window_changelog:
            self._refuse_window_changelog(changelog, records)
        changelog.state_manager.restore(changelog.partition, records)
        count = len(records)
        changelog.restored += count
        self._meter.applied(count, active=changelog.is_active)
        if changelog.is_active:
            self._notify(self._listener.on_batch_restored, changelog, records.offsets[-1], count)
        return count

    def _refuse_window_changelog(self, changelog: ChangelogMetadata, batch: RecordBatch) -> None:
        """Raises ChangelogOfAnotherKind if the changelog belongs to a window store. Raises LogTimeout."""
        for key, timestamp_ms in zip(batch.keys, batch.timestamps_ms, strict=True):
            if key is not None and may_be_window_record(key, timestamp_ms):
                if self._lookup.deletes_by_time(changelog.partition.topic):
                    raise ChangelogOfAnotherKind(changelog.store, changelog.partition, batch.offsets, key, "key-value")
                break
        changelog.may_be_window_changelog = False

    def _complete_restored(self) -> bool:
        """Find each changelog that has reached the end of the restore, and mark it as completed. Returns True if any
        changelog was completed.
        """
        self._report_positions()
        done = [
            each
            for each in self._restoring.values()
            if each.is_active and each.end is not None and self._consumer.position(each.partition) >= each.end
        ]
        for changelog in done:
            del self._restoring[changelog.partition]
            self._consumer.pause(changelog.partition)
            self._notify(self._listener.on_restore_end, changelog, changelog.restored)
        return bool(done)

    # --- starting

    def _initialise(self, tasks: Mapping[TaskId, Task]) -> None:
        if not self._registered:
            return
        now_ms = self._clock.monotonic_ms()
        due = [each for each in self._registered.values() if each.task_id in tasks and each.retry_at_ms <= now_ms]
        if not due:
            return
        found, failed = self._lookup.look_up(due)
        for changelog in due:
            if changelog.task_id in failed:
                changelog.retry_at_ms = now_ms + _RETRY_BACKOFF_MS
        self._start([(each, found[each.partition]) for each in due if each.partition in found])
        for task_id, error in failed.items():
            self._deadlines.failed(task_id, _LOOK_UP, error)

    def _start(self, changelogs: list[tuple[ChangelogMetadata, ChangelogOffsets]]) -> None:
        """Begin to read the changelogs of all tasks that are not corrupt, and then raise TaskCorrupted for the
        others.
        """
        corrupt = {
            each.task_id
            for each, offsets in changelogs
            if each.is_active and each.next_offset is not None and each.next_offset > offsets.end
        }
        starts: list[tuple[ChangelogMetadata, int]] = []
        for changelog, (begin, end, committed) in changelogs:
            if changelog.task_id not in corrupt:
                starts.append((changelog, changelog.start(begin, end, committed)))
                del self._registered[changelog.partition]
                self._restoring[changelog.partition] = changelog
                self._deadlines.succeeded(changelog.task_id, _LOOK_UP)
        self._consumer.add((changelog.partition, start) for changelog, start in starts)
        for changelog, start in starts:
            if changelog.is_active and changelog.end is not None:
                self._notify(self._listener.on_restore_start, changelog, start, changelog.end)
        self._complete_restored()
        if corrupt:
            raise TaskCorrupted(
                corrupt, "the state is ahead of its changelog, which was made again or has lost records"
            )

    # --- Methods for the limits and lags of standbys.

    def _move_limits(self, tasks: Mapping[TaskId, Task]) -> int:
        """For standbys with buffered records, look up the new limits, and apply the records below the new limits. Does
        nothing if the last lookup was less than a commit interval ago. Returns the number of applied records.
        """
        now_ms = self._clock.monotonic_ms()
        if not self.updates_standbys or now_ms - self._limits_moved_at_ms < self._limit_interval_ms:
            return 0
        waiting = [each for each in self._restoring.values() if each.buffered and each.task_id in tasks]
        if not waiting:
            return 0
        self._limits_moved_at_ms = now_ms
        try:
            committed = self._lookup.committed_offsets([each.partition for each in waiting])
        except LogTimeout as error:
            for task_id in {each.task_id for each in waiting}:
                self._deadlines.failed(task_id, _LIMIT, error)
            return 0
        applied = 0
        for changelog in waiting:
            self._deadlines.succeeded(changelog.task_id, _LIMIT)
            changelog.move_limit(committed[changelog.partition])
            applied += self._apply_buffered(changelog)
        return applied

    def _apply_buffered(self, changelog: ChangelogMetadata) -> int:
        buffered = changelog.buffered
        applied = 0
        while buffered:
            inside, rest = changelog.split(buffered[0])
            if inside is None:
                break
            applied += self._apply(changelog, inside)
            buffered.popleft()
            if rest is not None:
                buffered.appendleft(rest)
        return applied

    def _refresh_log_ends(self) -> None:
        now_ms = self._clock.monotonic_ms()
        standbys = [each for each in self._restoring.values() if not each.is_active]
        if not standbys or now_ms - self._log_ends_looked_up_at_ms < _LOG_END_INTERVAL_MS:
            return
        self._log_ends_looked_up_at_ms = now_ms
        try:
            ends = self._lookup.end_offsets([each.partition for each in standbys])
        except LogError:
            return  # the lags are computed with the old end offsets until the next lookup succeeds
        for changelog in standbys:
            if changelog.partition in ends:
                changelog.log_end = ends[changelog.partition]

    # --- Methods for positions and callbacks.

    def _readable(self, tasks: Mapping[TaskId, Task], now_ms: int) -> frozenset[TopicPartition]:
        readable = [
            each
            for each in self._restoring.values()
            if each.is_active is not self.updates_standbys and not each.buffered and each.task_id in tasks
        ]
        if not self.updates_standbys:
            lacks: dict[TaskId, int] = {}
            for each, lag in self._lags(readable):
                lacks[each.task_id] = lacks.get(each.task_id, 0) + lag
            chosen = self._order.choose(lacks, now_ms)
            readable = [each for each in readable if each.task_id in chosen]
        return frozenset(each.partition for each in readable)

    def _position(self, changelog: ChangelogMetadata) -> int:
        return changelog.buffered[0].offsets[0] if changelog.buffered else self._consumer.position(changelog.partition)

    def _report_positions(self) -> None:
        """Pass the positions to the state managers. For an active task, a position beyond `end` is reported as `end`,
        because later records are not applied.
        """
        for partition, changelog in self._restoring.items():
            position = self._position(changelog)
            if changelog.is_active and changelog.end is not None:
                position = min(position, changelog.end)
            changelog.state_manager.advance_to(partition, position)

    def _lags(self, changelogs: Iterable[ChangelogMetadata]) -> Iterable[tuple[ChangelogMetadata, int]]:
        for changelog in changelogs:
            end = changelog.end if changelog.is_active else changelog.log_end
            if end is not None:
                yield changelog, max(0, end - self._position(changelog))

    def _notify(self, callback: Callable[..., None], changelog: ChangelogMetadata, *numbers: int) -> None:
        """Call a callback of the restore listener. Raises RestoreListenerFailed."""
        partition, store = changelog.partition, changelog.store
        try:
            callback(partition, store, *numbers)
        except Exception as error:
            raise RestoreListenerFailed(callback, changelog.task_id, partition, store, error) from error
