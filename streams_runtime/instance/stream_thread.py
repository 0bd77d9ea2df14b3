"""A stream thread is one member of the group. Each stream thread has its own consumer and producer. Each stream thread
runs its Streams tasks in a loop.

Rules:
- One pass of the thread's loop has these steps: poll, initialise and restore, process records, punctuate, commit, and
  write the records that tasks have sent. A pass commits only if a commit is due, and writes only if a write is due. The
  thread waits only if it has no work and its mailbox has no order of the group. The wait ends at the latest when the
  next punctuation or commit is due.
- The membership of the process (`process_membership`) puts the group's orders into the mailbox of the thread
  (`rebalance_mailbox`). The stream thread carries out the group's orders between two passes.
- TaskMigrated means that the group has removed the thread's member and assigned the thread's tasks to other members.
  After TaskMigrated, the thread drops its active tasks, and the member joins again without tasks. After TaskCorrupted,
  the thread restarts the corrupt tasks from their changelogs. Any error except TaskMigrated and TaskCorrupted ends the
  thread. If an error ends the thread, the thread closes its tasks without a commit (a dirty close).
- The thread commits and suspends its active tasks before its member leaves the group. The group then assigns these
  tasks to other members. The thread closes the stores of the tasks while the member leaves.

Source: `StreamThread.runLoop`, `runOnceWithoutProcessingThreads`, `completeShutdown`.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from assignor.types import TaskId
from streams_runtime.common.errors import StoreOfAnotherKind, StreamsRuntimeError, TaskCorrupted, TaskMigrated
from streams_runtime.instance.application import ThreadErrorResponse
from streams_runtime.instance.thread_status import OpenTask, ThreadState, ThreadStatus
from streams_runtime.instance.thread_work import ThreadSetting, ThreadWork
from streams_runtime.membership.member_events import (
    AssignTasks,
    CloseTasks,
    GroupMembershipOperation,
    HeldTasks,
    LoseTasks,
    MemberEnd,
    Order,
    RevokeTasks,
    StartRebalance,
)
from streams_runtime.membership.rebalance_mailbox import RebalanceMailbox

_logger = logging.getLogger(__name__)
_NOTHING = HeldTasks("", 0)


class StreamThread:
    """One stream thread. Call `start` once. When the thread is DEAD, the fields `error` and `end` show why it has
    ended. `error`: the error that has ended the thread, or None. `response`: the decision of the user's handler about
    `error`. `end`: the reason why the member has ended without an error.
    """

    def __init__(self, setting: ThreadSetting) -> None:
        self.name = setting.name
        self.end: MemberEnd | None = None
        self.error: Exception | None = None
        self.response: ThreadErrorResponse | None = None
        self._setting = setting
        self._listener = setting.listener
        self._work = ThreadWork(setting)
        self._mailbox = RebalanceMailbox(setting.name, self._work.wakeup)
        self._member = setting.membership.member(
            setting.member, setting.subscriptions, self._mailbox, on_end=self._mailbox.wake
        )
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self.state = ThreadState.CREATED
        self._held = _NOTHING
        self._has_handed_in = False

    # --- Methods for any thread.

    def start(self) -> None:
        self._thread.start()

    def ask_to_close(
        self,
        membership: GroupMembershipOperation = GroupMembershipOperation.LEAVE_GROUP,
        failure: Exception | None = None,
    ) -> None:
        """Make the thread commit, write checkpoints, and end. `membership`: whether the thread's member leaves the
        group. `failure`: the error that ends the instance, which the member reports when it leaves; None if the
        instance is stopped. This method does not wait for the end. Any thread may call `ask_to_close`.
        """
        if self.state is ThreadState.CREATED:
            self._mailbox.end()  # before its start, a thread carries out no orders
        self._member.ask_to_close(membership, failure)

    def join(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    def wake(self) -> None:
        """If the thread is waiting, end its wait. The thread then begins its next pass at once. Any thread may call
        `wake`.
        """
        self._work.wakeup()

    def request_shutdown(self) -> None:
        """Ask the group's leader to shut down all instances of the application."""
        self._member.request_shutdown()

    def held(self) -> HeldTasks:
        """Returns the last assignment of this thread."""
        return self._held

    def status(self) -> ThreadStatus:
        counted = self._setting.metrics
        return ThreadStatus(
            self.name,
            self.state,
            self._held.member_id,
            self._held.generation_id,
            self._work.published_tasks,
            counted.processed_records,
            counted.dropped_records,
            counted.passed_over_records,
        )

    def open_tasks(self) -> tuple[OpenTask, ...]:
        """Returns the tasks with open stores, from the last snapshot."""
        return self._work.published_open_tasks

    # --- Methods that run on the stream thread.

    def _run(self) -> None:
        self._change_state(ThreadState.STARTING)
        self._member.start()
        try:
            while not self._has_handed_in and not self._member.has_ended:
                self._run_pass()
            if self._member.failure is not None:
                raise self._member.failure
        # SystemExit is caught, too. If SystemExit of user code were not caught, the thread would seem to end without an
        # error.
        except BaseException as error:
            if isinstance(error, StoreOfAnotherKind):
                _logger.error("stream thread %s failed: %s", self.name, error)
            else:
                _logger.exception("stream thread %s failed", self.name)
            if isinstance(error, Exception):
                self.error = error
            else:
                self.error = StreamsRuntimeError(f"ended by {error!r}")
                self.error.__cause__ = error
            self.response = self._setting.application.response_to(self.error)
        finally:
            self._shut_down()

    def _run_pass(self) -> None:
        """Carry out the group's orders, and then run one pass."""
        with self._recovering():
            self._carry_out_orders()
            if not self._has_handed_in:
                self._run_once()

    def _run_once(self) -> None:
        """Run the steps of one pass, in the order of the module's docstring."""
        work = self._work
        work.poll(may_wait=not self._mailbox.has_orders)
        work.initialise_and_restore()
        work.process()
        work.punctuate()
        work.maybe_commit()
        work.send()
        if self.state is ThreadState.PARTITIONS_ASSIGNED and work.restoration.is_done:
            work.publish(self._mailbox)
            self._change_state(ThreadState.RUNNING)
            work.prepare_takeover()
        work.maybe_publish(self._mailbox)

    def _carry_out_orders(self) -> None:
        while (waiting := self._mailbox.next_order()) is not None:
            try:
                with self._recovering():
                    self._carry_out(waiting.order)
                self._work.skip_next_wait()
                self._work.publish(self._mailbox)
            except BaseException as error:
                waiting.done(error)
                raise
            waiting.done(None)

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        """Handles errors in the `with` block. After TaskCorrupted, restarts the corrupt tasks. After TaskMigrated,
        drops all active tasks.
        """
        try:
            yield
        except TaskCorrupted as corrupted:
            self._start_over(corrupted)
            # The restarted tasks have opened their stores again, and these stores are incomplete until they are
            # restored. Queries must not read incomplete stores, so a new snapshot is published now.
            self._work.publish(self._mailbox)
        except TaskMigrated as migrated:
            self._drop_all(migrated)
            self._work.publish(self._mailbox)

    def _carry_out(self, order: Order) -> None:
        match order:
            case StartRebalance():
                self._listener.joining(self._held)
                self._work.manager.handle_rebalance_start()
            case RevokeTasks(tasks):
                self._revoke(tasks)
            case AssignTasks(held):
                self._assign(held)
            case LoseTasks(reason):
                self._lose(reason)
            case CloseTasks():
                self._hand_in("closed")

    def _assign(self, held: HeldTasks) -> None:
        self._held = held
        self._listener.assigned(held)
        try:
            self._work.manager.handle_assignment(held.active, held.standby)
        finally:
            self._change_state(ThreadState.PARTITIONS_ASSIGNED)

    def _revoke(self, tasks: frozenset[TaskId]) -> None:
        self._change_state(ThreadState.PARTITIONS_REVOKED)
        self._work.manager.handle_revocation(tasks)
        held = self._held
        kept = {task: of_task for task, of_task in held.active.items() if task not in tasks}
        self._held = HeldTasks(held.member_id, held.generation_id, kept, held.standby, held.hosts)
        self._listener.revoked(self._held)

    def _lose(self, reason: str) -> None:
        self._change_state(ThreadState.PARTITIONS_REVOKED)
        self._work.manager.handle_lost_all()
        if self._held is not _NOTHING:
            self._held = _NOTHING
            self._listener.dropped(reason, clean=False)

    def _hand_in(self, reason: str) -> None:
        """Commit and suspend the active tasks, so that the group can assign them to other members. If a task fails,
        this method raises no error: `_close_tasks` handles the errors later.
        """
        self._has_handed_in = True
        self._change_state(ThreadState.PENDING_SHUTDOWN)
        if self._work.manager.hand_in():
            self._held = _NOTHING
            self._listener.dropped(reason, clean=True)

    def _close_tasks(self, reason: str) -> None:
        """Close all tasks. If an error has ended the thread, the tasks are closed without a commit. If closing the
        tasks raises an error and the thread had no earlier error, the new error becomes `self.error`.
        """
        try:
            if not self._has_handed_in and self.error is None:
                self._hand_in(reason)
            if self.error is None:
                self._work.manager.shutdown()
            else:
                self._change_state(ThreadState.PENDING_SHUTDOWN)
                self._work.manager.shutdown_dirty()
                self._held = _NOTHING
                self._listener.dropped(reason, clean=False)
        except Exception as error:
            _logger.exception("stream thread %s could not close its tasks in good order", self.name)
            self.error = self.error or error
        self._work.publish(self._mailbox)

    def _start_over(self, corrupted: TaskCorrupted) -> None:
        _logger.warning("stream thread %s: tasks start over with what their changelogs hold: %s", self.name, corrupted)
        try:
            self._work.skip_next_wait()
            active = self._work.manager.handle_corruption(corrupted.tasks, corrupted.damaged)
        except TaskMigrated as migrated:
            self._drop_all(migrated)
        else:
            configs = self._setting.application.configs
            lost_state = corrupted.damaged or not configs.enable_transactional_statestores
            if active and configs.exactly_once and lost_state:
                # a rebalance may move the task to an instance with a standby, and this instance has less to restore
                self._member.request_rejoin()

    def _drop_all(self, migrated: TaskMigrated) -> None:
        _logger.warning("the group took stream thread %s for dead: %s", self.name, migrated)
        self._lose(str(migrated))
        self._member.tasks_were_lost(str(migrated))

    def _shut_down(self) -> None:
        """Close the tasks, answer every order and make the member leave the group. If one of these steps fails, the
        thread does the later steps nevertheless. If the thread has already carried out the order `CloseTasks`, its
        tasks are already committed and suspended. In this case, only the stores have to be closed.
        """
        try:
            self._close_tasks("the member ended" if self.error is None else f"failed: {self.error}")
            if self.response is ThreadErrorResponse.SHUTDOWN_APPLICATION:
                self._pass_on_shutdown()
        finally:
            # Asked before the mailbox ends: after that, the next heartbeat would make the member leave with the error
            # that its thread has ended.
            self._member.ask_to_close(failure=self.error)
            self._mailbox.end()
            self._work.close()
            self._member.wait()
            self.end = self._member.end
            self._change_state(ThreadState.DEAD)

    def _pass_on_shutdown(self) -> None:
        """Ask the leader to shut down the application, and wait until the group has ended the member. During the wait,
        the member stays in the group without tasks. Its next subscription contains the request. The wait lasts at most
        the session timeout.
        """
        self._mailbox.end(refuses=False)
        self._member.request_shutdown(self.error)
        self._member.wait(self._setting.member.session_timeout_ms / 1000)

    def _change_state(self, state: ThreadState) -> None:
        pending = self.state in (ThreadState.PENDING_SHUTDOWN, ThreadState.DEAD)
        if state is self.state or (pending and state is not ThreadState.DEAD):
            return
        self.state = state
        self._setting.state_changed()
