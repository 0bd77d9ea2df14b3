"""Carries out the group's decisions about the Streams tasks of a thread, and restarts corrupt tasks.

The group makes these decisions:
- Assign: if a task is still assigned, it keeps running. If the type of a task changes, the task is recycled with open
  stores. If a task is not assigned any more, it is closed. New tasks are made.
- Revoke: the revoked tasks are committed, checkpointed and suspended before other threads may claim their input. Under
  exactly-once, all other tasks of the thread are committed, too.
- Lost: the thread has lost all its active tasks. Tasks in the state RUNNING are closed dirty, because other threads may
  already own these tasks. Tasks in the state RESTORING are closed clean. Standbys keep running.
- Hand in: all active tasks are committed and suspended, so that other threads may claim their input. `shutdown` then
  closes the tasks.

Corrupt tasks are restarted from the beginning of their changelogs. Under exactly-once, a transaction with records of a
corrupt task is aborted. All other tasks with records in this transaction are restarted, too.

If one task fails, the other tasks are closed and recycled nevertheless. The most severe of all errors is raised at the
end.
Source: `TaskManager.handleAssignment`, `handleRevocation`, `handleLostAll`, `closeAndRecycleTasks`, `handleCorruption`.

Differs from Kafka: a task in the state CREATED, which is not initialised yet, is kept if its type stays the same. New
tasks are made even if other tasks could not be closed. If a task is corrupt, its transaction is aborted, and every task
with records in the transaction is restarted. Kafka would commit the transaction, together with the records of the
corrupt task.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from assignor.types import TaskId
from streams_runtime.common.errors import TaskCorrupted, TaskMigrated
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.instance.restoration import Restoration, TaskInputs
from streams_runtime.instance.task_creation import TaskCreator
from streams_runtime.instance.task_executor import TaskExecutor
from streams_runtime.instance.tasks import AnyTask, OffsetReport, TaskCloser, Tasks
from streams_runtime.logs.log_errors import LogError, LogTimeout
from streams_runtime.membership.member_events import Partitions
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.stream_task import StreamTask
from streams_runtime.tasks.task import raise_most_severe, with_task

_logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class TaskManager:
    """Manages the tasks of one stream thread. No other thread uses the manager. Each method of the manager calls
    `refresh` after it has changed the tasks.
    """

    _tasks: Tasks
    _creator: TaskCreator
    _executor: TaskExecutor
    _restoration: Restoration
    _inputs: TaskInputs
    _closer: TaskCloser
    _offset_report: OffsetReport
    _producer: StreamsProducer
    _end_errors: dict[TaskId, Exception] = field(default_factory=dict, init=False)

    def handle_rebalance_start(self) -> None:
        """Lock each task directory that has state and that no other thread has locked. The next subscription reports
        these tasks. Raises ProcessorStateError.
        """
        self._offset_report.lock_directories(self._tasks.initialised())

    def offset_sums(self) -> dict[TaskId, int]:
        return self._offset_report.sums(self._tasks)

    def handle_assignment(self, active: Mapping[TaskId, Partitions], standby: Mapping[TaskId, Partitions]) -> None:
        """Close, recycle and make tasks, so that the thread has exactly the given tasks.

        Raises TaskCorrupted, TaskMigrated, StreamsRuntimeError.
        """
        errors: dict[TaskId, Exception] = {}
        to_close: list[AnyTask] = []
        to_recycle: list[AnyTask] = []
        for task in list(self._tasks):
            role = active if task.type is TaskType.ACTIVE else standby
            if task.id in role:
                self._keep(task, role[task.id], errors)
            elif (task.id in active or task.id in standby) and task.state is not TaskState.CREATED:
                to_recycle.append(task)
            else:
                to_close.append(task)
        try:
            to_close += self._not_committed(to_recycle, errors)
            self._close(to_close, errors)
            for task in to_recycle:
                self._recycle(task, (standby if task.type is TaskType.ACTIVE else active)[task.id], errors)
            self._create(active, standby)
            raise_most_severe(errors)
        finally:
            self._offset_report.release_directories(self._tasks)
            self._restoration.refresh()

    def handle_revocation(self, revoked: frozenset[TaskId]) -> None:
        """Commit these active tasks, write their checkpoints and suspend them. All revoked tasks are suspended, even if
        this method raises an error.
        """
        errors: dict[TaskId, Exception] = {}
        restoring = [task for task in self._tasks.restoring if task.id in revoked]
        running = [task for task in self._tasks.running if task.id in revoked]
        try:
            self._give_up(restoring, running, errors)
            raise_most_severe(errors)
        finally:
            self._restoration.refresh()

    def handle_lost_all(self) -> None:
        """Close all active tasks without a commit. Standbys keep running."""
        errors: dict[TaskId, Exception] = {}
        active = list(self._tasks.active.values())
        for task in active:
            if task.state in (TaskState.RUNNING, TaskState.SUSPENDED):
                self._closer.close_dirty(task)
        self._closer.close_clean([task for task in active if task.state is not TaskState.CLOSED], errors)
        self._producer.reset()
        self._restoration.refresh()

    def handle_corruption(self, corrupted: frozenset[TaskId], damaged: frozenset[TaskId] | None = None) -> bool:
        """Restart the corrupted tasks from their changelogs, and commit the other tasks. `damaged`: the tasks whose
        stores have to be deleted; None for all corrupted tasks (see `TaskCorrupted`).

        Returns True if an active task was restarted.

        Raises TaskMigrated, TaskTimeout.
        """
        found: list[AnyTask] = [task for task in self._tasks if task.id in corrupted]
        standby = [task for task in found if task.type is TaskType.STANDBY]
        active = [task for task in found if task.type is TaskType.ACTIVE]
        damaged = corrupted if damaged is None else damaged
        self._mark_damaged(standby, damaged)
        self._closer.close_dirty_and_revive(standby)
        self._restoration.refresh()
        try:
            if (
                self._producer.exactly_once
                and self._producer.transaction_in_flight
                and any(t.commit_needed() for t in active)
            ):
                active += [t for t in self._tasks.running if t.id not in corrupted and t.commit_needed()]
                self._abort()
            else:
                running: list[AnyTask] = [*self._tasks.running, *self._tasks.updating]
                rest = [task for task in running if task.id not in corrupted]
                self._executor.commit(rest)
                if active and not self._producer.exactly_once and not any(task.commit_needed() for task in rest):
                    # All records that are still unsent belong to the corrupt tasks. If the log got these records after
                    # the restore of the tasks has begun, their stores would lack them.
                    self._producer.reset()
        except TaskCorrupted as more:
            active += [t for t in self._tasks.running if t.id in more.tasks - corrupted]
            damaged |= more.damaged
        finally:
            self._mark_damaged(active, damaged)
            self._revive(active)
            self._restoration.refresh()
        return bool(active)

    def hand_in(self) -> bool:
        """Commit and suspend every active task, so that other threads may claim its input. Call `hand_in` before
        `shutdown`. `hand_in` stores errors instead of raising them, and `shutdown` raises the stored errors. Returns
        False if there was any error other than TaskMigrated.
        """
        self._give_up(self._tasks.restoring, list(self._tasks.running), self._end_errors)
        self._restoration.refresh()
        return not _but_migrations(self._end_errors)

    def shutdown(self) -> None:
        """Commit all tasks, write their checkpoints and close them. After all tasks were closed, raises the most severe
        error. TaskMigrated is not raised.
        """
        self.hand_in()
        self._close(list(self._tasks), self._end_errors)
        self._drop_all()
        raise_most_severe(_but_migrations(self._end_errors))

    def shutdown_dirty(self) -> None:
        """Close every task without a commit. Called after an error that ends the thread."""
        self._drop_all()
        self._abort()

    # --- Methods for single tasks.

    def _keep(self, task: AnyTask, partitions: Partitions, errors: dict[TaskId, Exception]) -> None:
        with _collecting(errors, task):
            if partitions != task.input_partitions:
                if task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING:
                    self._give_up([], [self._tasks.active[task.id]], errors)
                task.update_input_partitions(partitions)
            if task.state is TaskState.SUSPENDED:
                task.resume()
                self._restoration.register(task)

    def _not_committed(self, to_recycle: list[AnyTask], errors: dict[TaskId, Exception]) -> list[AnyTask]:
        """Suspend the tasks in `to_recycle`. A task that is not committed cannot be recycled, so this method removes it
        from `to_recycle` and returns it.
        """
        unfit = []
        for task in list(to_recycle):
            is_committed = False
            with _collecting(errors, task):
                if task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING:
                    self._give_up([], [self._tasks.active[task.id]], errors)
                self._closer.suspend(task)
                has_work = task.type is TaskType.ACTIVE and task.commit_needed()
                is_committed = task.id not in errors and task.state is TaskState.SUSPENDED and not has_work
                # `post_commit` writes all changes to the stores, so it must not be called for uncommitted work.
                if is_committed:
                    # Under exactly-once, no checkpoint is needed here. A new active task would delete the checkpoint at
                    # once. A new standby writes its own checkpoint at its first commit.
                    task.post_commit(enforce_checkpoint=not self._producer.exactly_once)
            if not is_committed or task.id in errors:
                to_recycle.remove(task)
                unfit.append(task)
        return unfit

    def _recycle(self, task: AnyTask, partitions: Partitions, errors: dict[TaskId, Exception]) -> None:
        try:
            if task.type is TaskType.ACTIVE:
                standby = self._creator.standby_from(self._tasks.active[task.id], partitions)
                self._tasks.remove(task)
                self._tasks.add_standby(standby)
            else:
                active = self._creator.active_from(self._tasks.standby[task.id], partitions)
                self._tasks.remove(task)
                self._add_active(active, recycled=True)
        except Exception as error:
            _logger.exception("task %s could not be recycled", task.id)
            errors.setdefault(task.id, with_task(error, task.id))
            self._closer.close_dirty(task)

    def _create(self, active: Mapping[TaskId, Partitions], standby: Mapping[TaskId, Partitions]) -> None:
        for task in sorted(active.keys() - self._tasks.active.keys()):
            self._add_active(self._creator.active(task, active[task]), recycled=False)
        for task in sorted(standby.keys() - self._tasks.standby.keys()):
            created = self._creator.standby(task, standby[task])
            if created is not None:
                self._tasks.add_standby(created)

    def _add_active(self, task: StreamTask, *, recycled: bool) -> None:
        self._tasks.add_active(task)
        self._executor.forget(task.id)
        self._restoration.assigned(task.id, recycled=recycled)

    def _close(self, tasks: Iterable[AnyTask], errors: dict[TaskId, Exception]) -> None:
        """Close the tasks. A task is closed dirty if `errors` contains an error of the task. An active task is also
        closed dirty if it has work that is not committed. All other tasks are closed clean.
        """
        clean = []
        for task in tasks:
            ran = task.type is TaskType.ACTIVE and task.state in (TaskState.RUNNING, TaskState.SUSPENDED)
            if task.id in errors or (ran and task.commit_needed()):
                self._closer.close_dirty(task)
            else:
                clean.append(task)
        self._closer.close_clean(clean, errors)

    def _give_up(
        self, restoring: Sequence[StreamTask], running: list[StreamTask], errors: dict[TaskId, Exception]
    ) -> None:
        """Commit and suspend these tasks, and then release their claims in one call. After the release, other threads
        can claim the input without fencing this thread. So this thread can continue to run its other tasks.
        """
        for task in restoring:
            with _collecting(errors, task):
                self._closer.suspend(task)
        self._commit_and_suspend(running, errors)
        given_up = (task for task in [*restoring, *running] if task.id not in errors)
        self._inputs.release(task for task in given_up if task.state is TaskState.SUSPENDED)

    # --- Commits of tasks that are given up.

    def _commit_and_suspend(self, tasks: list[StreamTask], errors: dict[TaskId, Exception]) -> None:
        """Commit these tasks, write their checkpoints and suspend them. The caller has to release the claims of these
        tasks. Without the release, the next owner of a task would fence this thread.
        """
        failed = self._commit_with_transaction([task for task in tasks if task.commit_needed()], tasks, errors)
        for task in tasks:
            if task not in failed:
                with _collecting(errors, task):
                    task.post_commit(enforce_checkpoint=True)
            if task.state is not TaskState.CREATED:
                with _collecting(errors, task):
                    self._closer.suspend(task)
        self._commit_writes_of_closing([task for task in tasks if task.id not in errors], errors)

    def _commit_writes_of_closing(self, tasks: list[StreamTask], errors: dict[TaskId, Exception]) -> None:
        """Commit the records that processors have sent in their method `close`. These records must not be written
        later, because they could then come after records of the tasks' next owners.
        """
        late = [task for task in tasks if task.state is TaskState.SUSPENDED and task.commit_needed()]
        failed = self._commit_with_transaction(late, tasks, errors)
        for task in late:
            if task not in failed:
                with _collecting(errors, task):
                    task.post_commit(enforce_checkpoint=True)

    def _commit_with_transaction(
        self, needing: list[StreamTask], given_up: Sequence[StreamTask], errors: dict[TaskId, Exception]
    ) -> list[StreamTask]:
        """Commit these tasks. The thread has only one transaction. So under exactly-once, commits all other tasks of
        the thread that have work in the transaction, too. Returns the tasks that were not committed. `given_up`: the
        tasks for which the caller calls `post_commit`.
        """
        others = []
        if needing and self._producer.exactly_once:
            others = [task for task in self._tasks.running if task not in given_up and task.commit_needed()]
        failed = self._commit_or_drop([*needing, *others], errors)
        for task in others:
            if task not in failed:
                with _collecting(errors, task):
                    task.post_commit(enforce_checkpoint=False)
        return failed

    def _commit_or_drop(self, tasks: list[StreamTask], errors: dict[TaskId, Exception]) -> list[StreamTask]:
        """Commit all tasks or none. Returns the tasks that were not committed.

        This method does not repeat a commit. So after LogTimeout or TaskCorrupted, the tasks are restarted without a
        commit.
        """
        if not tasks:
            return []
        try:
            self._executor.commit_together(tasks)
        except (LogTimeout, TaskCorrupted) as error:
            _logger.warning(
                "not committed (%s), so these start over: %s", error, ", ".join(str(each.id) for each in tasks)
            )
            if self._producer.exactly_once:
                self._abort()
            else:
                # When other threads own these tasks, the pending records of the tasks must not be written any more. The
                # producer does not know which task has sent a record, so all pending records are dropped.
                tasks = [*tasks, *(t for t in self._tasks.running if t not in tasks and t.commit_needed())]
                self._producer.reset()
            self._revive(tasks)
            return tasks
        except Exception as error:
            for task in tasks:
                errors.setdefault(task.id, with_task(error, task.id))
            return tasks
        return []

    def _drop_all(self) -> None:
        for task in list(self._tasks):
            self._closer.close_dirty(task)
        self._offset_report.release_directories(())
        self._restoration.refresh()

    def _mark_damaged(self, tasks: Iterable[AnyTask], damaged: frozenset[TaskId]) -> None:
        """Mark the tasks whose state on disk must not be used: damaged tasks, and tasks that may have written changes
        to their stores which are never committed.
        """
        self._closer.mark_corrupt(
            task for task in tasks if task.id in damaged or not task.state_manager.is_transactional
        )

    def _revive(self, active: Sequence[AnyTask]) -> None:
        self._closer.close_dirty_and_revive(active)
        for task in active:
            self._restoration.assigned(task.id, recycled=False)

    def _abort(self) -> None:
        try:
            if self._producer.transaction_in_flight:
                self._producer.abort()
        except (LogError, TaskMigrated):
            _logger.warning("the open transaction could not be aborted; the log will do it", exc_info=True)


@contextmanager
def _collecting(errors: dict[TaskId, Exception], task: AnyTask) -> Iterator[None]:
    """Catches an error of the `with` block, so that the caller can continue with other tasks. `errors`: the mapping to
    which the first error of the task is added.
    """
    try:
        yield
    except Exception as error:
        errors.setdefault(task.id, with_task(error, task.id))


def _but_migrations(errors: Mapping[TaskId, Exception]) -> dict[TaskId, Exception]:
    return {task: error for task, error in errors.items() if not isinstance(error, TaskMigrated)}
