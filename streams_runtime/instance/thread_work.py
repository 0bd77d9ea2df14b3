"""Contains the steps of one pass of a stream thread's loop, and the objects that do the work of these steps.

Rules:
- The step `poll` waits for records only if the last pass had nothing to do. A wait in `poll` lasts at most `poll.ms`,
  and ends earlier if a wall-clock punctuation or a commit is due. If the thread reads changelogs and has no running
  task, the restore step waits for changelog records instead.
- A thread with standbys opens its producer in advance. The producer is needed at once if a standby becomes active.
- While the instance is paused, tasks are initialized, committed and closed, but not restored, processed or punctuated.
- If the thread has no more records to process, it writes the sent records at the end of the pass. The thread has no
  more records if the pass had no work. The thread also has no more records if the last poll returned all records of the
  log and the tasks have processed them. If the thread has more records to process, it collects output for at most
  `linger.ms` before it writes.
- The step `maybe_commit` commits every `commit.interval.ms`, and when a processor requests a commit. After a commit,
  the step `maybe_commit` deletes processed records of repartition topics, but at most once per
  `repartition.purge.interval.ms`.
- A pass of an idle thread calls no method of a Streams task (see `Tasks.awake`), and makes no snapshot.

Source: `StreamThread.pollPhase`, `maybeCommit`; `TaskManager.maybePurgeCommittedRecords`. Differs from Kafka: in Kafka,
an output record waits for `linger.ms` or a full batch, even if the thread has no more records to process.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assignor.types import TaskId
from streams_runtime.common.clock import Clock
from streams_runtime.common.losses import TaskLosses
from streams_runtime.common.metrics import ThreadMetrics
from streams_runtime.common.notices import NoticeBoard
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.instance.application import Application
from streams_runtime.instance.restoration import Restoration, TaskInputs
from streams_runtime.instance.restore.changelog_reader import ChangelogReader
from streams_runtime.instance.restore.restore_listener import RestoreListener
from streams_runtime.instance.task_creation import TaskCreator
from streams_runtime.instance.task_executor import TaskExecutor
from streams_runtime.instance.task_manager import TaskManager
from streams_runtime.instance.tasks import AnyTask, OffsetReport, TaskCloser, Tasks
from streams_runtime.instance.thread_listener import ThreadListener
from streams_runtime.instance.thread_status import OpenTask, TaskStatus, open_task, task_status
from streams_runtime.logs.base import Log
from streams_runtime.logs.log_errors import LogError, LogTimeout, OffsetOutOfRange, UnknownTopicOrPartition
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_membership import ProcessMembership
from streams_runtime.membership.rebalance_mailbox import RebalanceMailbox
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.state_stores.transaction_buffer import ENTRY_BYTES
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.state_directory import StateDirectory

PUBLISH_INTERVAL_MS = 200
"""The interval between two snapshots that a thread publishes."""

_RISK_INTERVAL_MS = 1_000
"""The interval between two checks for window stores at risk. A window store is at risk if the log may delete records of
its changelog too early.
"""

_RISK_RETRY_MS = 30_000
"""The pause before the next check of window stores, if the log did not return the retention of a changelog."""

LOCK_RETRY_MS = 10
"""If an idle thread could not lock a directory, it tries again after this time."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ThreadSetting:
    """The values and functions that a stream thread gets from its instance.

    `transactional_id`: None under at-least-once. `state_changed`: a function that the stream thread calls after each
    change of its state. The function `state_changed` must not block. `is_paused`: a function that returns True if tasks
    must not process or restore. `is_group_paused`: a function that returns True if tasks must not process, but may
    restore. `cache_bytes`: a function that returns the thread's share of the record cache. The share changes when
    threads are added or removed. If `cache_bytes` is None, the thread has the whole cache. `uncommitted_bytes`: a
    function that returns the thread's share of `statestore.uncommitted.max.bytes`; a negative share is no limit. These
    functions are called in each pass. `global_stores`: the global stores of the instance, which tasks may read.
    """

    name: str
    application: Application
    log: Log
    directory: StateDirectory
    membership: ProcessMembership
    member: MemberSettings
    subscriptions: SubscriptionWriter
    transactional_id: str | None
    clock: Clock
    listener: ThreadListener
    restore_listener: RestoreListener
    metrics: ThreadMetrics
    notices: NoticeBoard
    state_changed: Callable[[], None]
    is_paused: Callable[[], bool] = lambda: False
    is_group_paused: Callable[[], bool] = lambda: False
    cache_bytes: Callable[[], int] | None = None
    uncommitted_bytes: Callable[[], int] | None = None
    global_stores: Mapping[str, StateStore] = field(default_factory=dict)


class ThreadWork:
    """The steps of one pass of a stream thread. Only the stream thread may run the steps. Any thread may call `wakeup`
    and read the snapshots.
    """

    def __init__(self, setting: ThreadSetting) -> None:
        configs = setting.application.configs
        self._log = setting.log
        self._configs = configs
        self._clock = setting.clock
        self._consumer = setting.log.consumer(configs.isolation_level)
        self._restore_consumer = setting.log.consumer(configs.isolation_level, whole_transactions=configs.exactly_once)
        self._producer = StreamsProducer(setting.log, setting.transactional_id)
        self._reader = ChangelogReader(
            setting.log,
            self._restore_consumer,
            configs=configs,
            clock=setting.clock,
            listener=setting.restore_listener,
            metrics=setting.metrics,
        )
        self._metrics = setting.metrics
        self._cache_bytes = setting.cache_bytes or (lambda: configs.statestore_cache_max_bytes)
        self._cache = ThreadCache(self._cache_bytes())
        self._uncommitted_bytes = setting.uncommitted_bytes or (lambda: configs.statestore_uncommitted_max_bytes)
        self._tasks = Tasks()
        topology = setting.application.group_topology()
        self._named_sources = topology.source_topics
        changelogs = topology.changelog_topics | topology.source_topics_as_changelogs
        self._offset_report = OffsetReport(setting.directory, changelogs)
        self._executor = TaskExecutor(self._producer, configs, setting.clock, setting.listener, setting.metrics)
        inputs = TaskInputs(setting.log, configs.application_id, self._producer)
        self.restoration = Restoration(
            self._tasks, self._reader, inputs, self._consumer, setting.clock, setting.listener
        )
        self.manager = TaskManager(
            self._tasks,
            TaskCreator(
                setting.application,
                setting.directory,
                setting.log,
                self._consumer,
                self._producer,
                setting.clock,
                lambda task: TaskLosses(task, setting.metrics.task(task), setting.notices),
                self._cache,
                setting.global_stores,
            ),
            self._executor,
            self.restoration,
            inputs,
            TaskCloser(self._tasks, self._reader, self._offset_report),
            self._offset_report,
            self._producer,
        )
        self._is_paused = setting.is_paused
        self._is_group_paused = setting.is_group_paused
        self._busy = False
        self._polled_all = True
        self._last_commit_ms = self._clock.monotonic_ms()
        self._last_purge_ms = self._last_commit_ms
        self._last_publish_ms = self._next_risk_ms = self._last_commit_ms
        self._has_news = False  # True if tasks may have changed since the last snapshot
        self.published_tasks: tuple[TaskStatus, ...] = ()
        self.published_open_tasks: tuple[OpenTask, ...] = ()

    def wakeup(self) -> None:
        """End the wait of a `poll`. Any thread may call `wakeup`."""
        self._consumer.wakeup()
        self._restore_consumer.wakeup()

    def skip_next_wait(self) -> None:
        """Make the next `poll` return at once. Called after tasks were assigned, revoked or restarted."""
        self._busy = True

    def poll(self, *, may_wait: bool) -> None:
        """Read new records and add them to the buffers of their tasks. Raises LogError, StreamsRuntimeError."""
        timeout_ms = self._wait_ms() if may_wait and not self._busy else 0
        self._busy = False
        try:
            batches = self._consumer.poll(timeout_ms, self._configs.max_poll_records)
            self._metrics.polls.inc()
        except OffsetOutOfRange as outside:
            self._reset_offsets(outside)
            return
        except LogTimeout as timeout:
            _logger.info("nothing could be polled: %s", timeout)
            return
        except UnknownTopicOrPartition as unknown:
            self._pause_deleted(unknown)
            return
        self._polled_all = sum(map(len, batches)) < self._configs.max_poll_records
        tasks = self._tasks.by_input
        got_records: set[TaskId] = set()
        for batch in batches:
            task = tasks.get(batch.partition)
            # skip the records of a task that is not RUNNING yet; the task reads them again after its start
            if task is not None:
                task.add_records(batch)
                got_records.add(task.id)
        self._tasks.wake(got_records)

    def _pause_deleted(self, unknown: UnknownTopicOrPartition) -> None:
        """Stop reading deleted topics that matched a source pattern. The next rebalance revokes them. Raises `unknown`
        if no such topic was deleted.
        """
        existing = self._log.topics()
        inputs = self._tasks.by_input
        deleted = [p for p in inputs if p.topic not in existing and p.topic not in self._named_sources]
        if not deleted:
            raise unknown
        _logger.info("deleted topics are not read any more: %s", ", ".join(map(str, deleted)))
        self._consumer.pause(deleted)

    def initialise_and_restore(self) -> None:
        if self.restoration.initialise_and_restore(paused=self._is_paused()):
            self._busy = True
        if self._tasks.awake or not self._reader.is_empty() or self._offset_report.holds_directories:
            self._has_news = True

    def prepare_takeover(self) -> None:
        """If the thread has standbys, open the producer. With an open producer, a standby can become active at once.
        Call this method when all assigned tasks run. If the log does not answer in time, the producer is opened later,
        when a task needs it. Raises StreamsRuntimeError.
        """
        if self._tasks.updating:
            try:
                self._producer.initialize()
            except LogTimeout as timeout:
                _logger.info("the producer is opened later: %s", timeout)

    def process(self) -> None:
        if not self._tasks.running or self._processes_nothing():
            return
        self._cache.resize(self._cache_bytes())
        processed = self._executor.process(self._tasks.awake)
        if processed:
            self._busy = True
            self._metrics.processed(processed)

    def punctuate(self) -> None:
        if self._processes_nothing():
            return
        self._tasks.wake_due(self._clock.now_ms())
        punctuated = self._executor.punctuate(self._tasks.awake)
        if punctuated:
            self._busy = True
            self._metrics.punctuations.inc(punctuated)
        if not self._executor.transaction_is_ending:
            self._tasks.let_sleep()

    def send(self) -> None:
        """Write the records that tasks have sent. If the thread has no more records to process, writes at once. If the
        thread has more records to process, writes after `linger.ms`.

        Raises TaskMigrated, TaskTimeout, StreamsRuntimeError.
        """
        ran_out = not self._busy or (self._polled_all and self._executor.ran_out)
        self._executor.send(self._tasks.running, at_once=ran_out)

    def maybe_commit(self) -> None:
        tasks = self._tasks
        now_ms = self._clock.monotonic_ms()
        committed = 0
        due = now_ms - self._last_commit_ms >= self._configs.effective_commit_interval_ms
        if due or self._executor.commit_is_late:
            try:
                committed = self._executor.commit((*tasks.running, *tasks.updating))
            finally:  # as in Kafka, the commit interval is measured from the end of the last commit
                self._last_commit_ms = self._clock.monotonic_ms()
        elif self._holds_too_much() or any(task.commit_requested() and task.commit_needed() for task in tasks.awake):
            committed = self._executor.commit(tasks.running)
        if committed:
            self._metrics.commits.inc()
        if committed and now_ms - self._last_purge_ms >= self._configs.repartition_purge_interval_ms:
            self._last_purge_ms = now_ms
            self._purge()

    def _holds_too_much(self) -> bool:
        """Returns True if the uncommitted changes of the thread's stores and record caches exceed the thread's share of
        `statestore.uncommitted.max.bytes`.
        """
        limit = self._uncommitted_bytes()
        # a store that is not transactional writes its changes when they exceed its share of the memory
        if limit < 0 or not self._configs.enable_transactional_statestores:
            return False
        # a sleeping task has no uncommitted changes, and each pass calls only awake tasks
        in_stores = sum(task.state_manager.uncommitted_bytes for task in self._tasks.awake)
        return in_stores + self._cache.unflushed_bytes(ENTRY_BYTES) > limit

    def maybe_publish(self, mailbox: RebalanceMailbox) -> None:
        self._report_windows_at_risk()
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._last_publish_ms < PUBLISH_INTERVAL_MS:
            return
        if self._has_news:
            self.publish(mailbox)
        else:
            self._last_publish_ms = now_ms

    def publish(self, mailbox: RebalanceMailbox) -> None:
        """Publish a snapshot of the tasks, for other threads."""
        self._last_publish_ms = self._clock.monotonic_ms()
        self._has_news = False
        at_ms = self._clock.now_ms()
        flows = {task.id: task.flow(at_ms, self._processed(task)) for task in self._tasks.running}
        mailbox.publish(self.manager.offset_sums(), flows)
        self._metrics.tasks((task.id, task.type, task.state) for task in self._tasks)
        self._metrics.buffered({task.id: task.buffered_records for task in self._tasks.running})
        lags = self._reader.lags()
        self.published_tasks = tuple(
            task_status(task, lags, self.restoration.restored(task), self._processed(task)) for task in self._tasks
        )
        self.published_open_tasks = tuple(
            open_task(task, task.state_manager.store_changelogs, lags)
            for task in self._tasks
            if task.state in (TaskState.RESTORING, TaskState.RUNNING) and task.stores
        )

    def close(self) -> None:
        """Close the consumers, the producer and the changelog reader. Call `close` after the tasks were closed."""
        self._metrics.close()
        for closing in (self._producer.close, self._reader.clear, self._consumer.close, self._restore_consumer.close):
            try:
                closing()
            except Exception:
                _logger.warning("%s failed", closing, exc_info=True)

    def _reset_offsets(self, outside: OffsetOutOfRange) -> None:
        # a task that skips offsets has to commit its new position, so all running tasks are woken
        self._tasks.wake(task.id for task in self._tasks.running)
        try:
            for running in self._tasks.running:
                running.reset_offsets(outside.positions)
        except LogTimeout as timeout:
            _logger.info("positions could not be reset, the next poll finds them again: %s", timeout)

    def _report_windows_at_risk(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_risk_ms:
            return
        self._next_risk_ms = now_ms + _RISK_INTERVAL_MS
        at_ms = self._clock.now_ms()
        try:
            found = {
                (task.id, risk.store): risk.windows
                for task in self._tasks.running
                for risk in task.windows_at_risk(at_ms)
            }
        except LogError as error:
            _logger.debug("the retention of changelogs is not known for now: %s", error)
            self._next_risk_ms = now_ms + _RISK_RETRY_MS
            return
        self._metrics.windows_at_risk(found)

    def _processes_nothing(self) -> bool:
        """True if the instance or its group is paused."""
        return self._is_paused() or self._is_group_paused()

    def _processed(self, task: AnyTask) -> int:
        return self._executor.processed.get(task.id, 0) if task.type is TaskType.ACTIVE else 0

    def _wait_ms(self) -> int:
        tasks = self._tasks
        paused = self._is_paused()
        if not tasks.running and not self._reader.is_empty() and not self.restoration.waits_for_log and not paused:
            return 0
        wait_ms = self._configs.poll_ms
        if self.restoration.waits_for_lock:
            wait_ms = min(wait_ms, LOCK_RETRY_MS)
        if any(task.commit_needed() for task in tasks.awake):
            due_ms = self._last_commit_ms + self._configs.effective_commit_interval_ms
            wait_ms = min(wait_ms, due_ms - self._clock.monotonic_ms())
        punctuation_ms = None if self._processes_nothing() else tasks.next_punctuation_ms()
        if punctuation_ms is not None:
            wait_ms = min(wait_ms, punctuation_ms - self._clock.now_ms())
        return max(0, wait_ms)

    def _purge(self) -> None:
        before = {p: offset for task in self._tasks.running for p, offset in task.purgeable_offsets().items()}
        if before:
            try:
                self._log.delete_records(before)
            except LogError as error:
                _logger.debug("repartition records stay for now: %s", error)
