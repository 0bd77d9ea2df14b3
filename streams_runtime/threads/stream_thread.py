"""A stream thread: one member of the group, with its own consumer and producer, that works on its tasks in a loop.

Rules:
- One pass of the loop is: poll, initialise and restore, process a number of records, punctuate, maybe commit, maybe
  write what was sent. The thread waits only when there is nothing to do, not past the next punctuation or commit, and
  not when the group has given an order.
- The member is one of its process (`process_membership`), which hands over the group's orders (`rebalance_mailbox`).
  The stream thread carries them out between two passes.
- TaskMigrated means that the group took the thread for dead: the thread drops its active tasks, and the member joins
  again as one that owns nothing. A corrupt task starts over. Any other error ends the thread, uncleanly.
- The thread commits, suspends and hands in its tasks before its member leaves; from then on others may have them. It
  closes their stores while the member leaves.

Source: `StreamThread.runLoop`, `runOnceWithoutProcessingThreads`, `completeShutdown`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from assignor.types import TaskId
from streams_runtime.application import ThreadErrorResponse
from streams_runtime.common.errors import StoreOfAnotherKind, StreamsRuntimeError, TaskCorrupted, TaskMigrated
from streams_runtime.membership.member_events import (
    AssignTasks,
    CloseTasks,
    HeldTasks,
    LoseTasks,
    MemberEnd,
    Order,
    RevokeTasks,
    StartRebalance,
)
from streams_runtime.membership.rebalance_mailbox import RebalanceMailbox
from streams_runtime.threads.thread_status import TaskCopy, ThreadState, ThreadStatus
from streams_runtime.threads.thread_work import ThreadSetting, ThreadWork

_logger = logging.getLogger(__name__)
_NOTHING = HeldTasks("", 0)


class StreamThread:
    """`start` it once; `close` it from any thread. When it is DEAD, `error` or `end` says why.

    `error`: the error that ended it; `response`: what the user's handler answered to that error. `end`: why its member
    ended, without an error.
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
        self._state = ThreadState.CREATED
        self._held = _NOTHING
        self._closed = False

    # --- from any thread

    @property
    def state(self) -> ThreadState:
        return self._state

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def ask_to_close(self) -> None:
        """Commit, checkpoint, leave the group, and end. Returns at once; from any thread."""
        if self._state is ThreadState.CREATED:
            self._mailbox.end()  # no stream thread would carry out an order
        self._member.ask_to_close()

    def close(self) -> None:
        """As `ask_to_close`, and wait until it has left. Not from the stream thread itself."""
        self.ask_to_close()
        self._member.wait()

    def join(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    def wake(self) -> None:
        """Have it look again at what there is to do. From any thread."""
        self._work.wakeup()

    def request_shutdown(self) -> None:
        """Have the leader end the whole application."""
        self._member.request_shutdown()

    def held(self) -> HeldTasks:
        """The last assignment of this thread."""
        return self._held

    def status(self) -> ThreadStatus:
        counted = self._setting.metrics
        return ThreadStatus(
            self.name,
            self._state,
            self._held.member_id,
            self._held.generation_id,
            self._work.published_tasks,
            counted.processed_records,
            counted.dropped_records,
            counted.passed_over_records,
        )

    def copies(self) -> tuple[TaskCopy, ...]:
        """Tasks with open stores."""
        return self._work.published_copies

    # --- the stream thread

    def _run(self) -> None:
        self._change_state(ThreadState.STARTING)
        self._member.start()
        try:
            while not self._closed and not self._member.has_ended:
                self._run_pass()
            if self._member.failure is not None:
                raise self._member.failure
        except BaseException as error:  # not even a SystemExit of user code may look like a good end
            if isinstance(error, StoreOfAnotherKind):
                _logger.error("stream thread %s failed: %s", self.name, error)
            else:
                _logger.exception("stream thread %s failed", self.name)
            self.error = error if isinstance(error, Exception) else StreamsRuntimeError(f"ended by {error!r}")
            self.response = self._ask_user(self.error)
        finally:
            self._shut_down()

    def _run_pass(self) -> None:
        """Carry out the group's orders, then make one pass over the records."""
        with self._recovering():
            self._obey()
            if not self._closed:
                self._run_once()

    def _run_once(self) -> None:
        """Poll, initialise and restore, process a number of records, punctuate, maybe commit, maybe write."""
        work = self._work
        work.poll(may_wait=not self._mailbox.has_orders)
        work.initialise_and_restore()
        work.process()
        work.punctuate()
        work.maybe_commit()
        work.send()
        if self._state is ThreadState.PARTITIONS_ASSIGNED and work.restoration.is_done:
            work.publish(self._mailbox)
            self._change_state(ThreadState.RUNNING)
            work.get_ready()
        work.maybe_publish(self._mailbox)

    def _obey(self) -> None:
        while (waiting := self._mailbox.next_order()) is not None:
            try:
                with self._recovering():
                    self._do(waiting.order)
                self._work.hurry()
                self._work.publish(self._mailbox)
            except BaseException as error:
                waiting.done(error)
                raise
            waiting.done(None)

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        """Have corrupt tasks start over, and drop all tasks of a thread that the group took for dead."""
        try:
            yield
        except TaskCorrupted as corrupted:
            self._start_over(corrupted)
            self._work.publish(self._mailbox)  # queries must not take a store that was opened again for a complete one
        except TaskMigrated as migrated:
            self._drop_all(migrated)
            self._work.publish(self._mailbox)

    def _do(self, order: Order) -> None:
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
        """Have nothing more to do with any task, in good order; what went wrong is raised when they are closed."""
        self._closed = True
        self._change_state(ThreadState.PENDING_SHUTDOWN)
        if self._work.manager.hand_in():
            self._held = _NOTHING
            self._listener.dropped(reason, clean=True)

    def _close_tasks(self, reason: str) -> None:
        """Close every task, in good order unless an error ends the thread; an error on the way ends it, too."""
        try:
            if not self._closed and self.error is None:
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
            self._work.hurry()
            active = self._work.manager.handle_corruption(corrupted.tasks)
        except TaskMigrated as migrated:
            self._drop_all(migrated)
        else:
            if active and self._setting.application.configs.exactly_once:
                self._member.request_rejoin()  # a standby elsewhere may be nearer than the changelog's beginning

    def _drop_all(self, migrated: TaskMigrated) -> None:
        _logger.warning("the group took stream thread %s for dead: %s", self.name, migrated)
        self._lose(str(migrated))
        self._member.tasks_were_lost(str(migrated))

    def _shut_down(self) -> None:
        """In any case close the tasks, answer every order, and take the member out of the group.

        Tasks are closed while the member leaves, if the group or its owner has ended it.
        """
        try:
            self._close_tasks("the member ended" if self.error is None else f"failed: {self.error}")
            if self.response is ThreadErrorResponse.SHUTDOWN_APPLICATION:
                self._pass_on_shutdown()
        finally:
            self._mailbox.end()
            self._member.ask_to_close()
            self._work.close()
            self._member.wait()
            self.end = self._member.end
            self._change_state(ThreadState.DEAD)

    def _ask_user(self, error: Exception) -> ThreadErrorResponse:
        try:
            return ThreadErrorResponse(self._setting.application.uncaught_exception_handler(error))
        except Exception:
            _logger.exception("the uncaught exception handler failed; shutting down")
            return ThreadErrorResponse.SHUTDOWN_CLIENT

    def _pass_on_shutdown(self) -> None:
        """Keep the member alive, without tasks, until the leader knows that all instances are to end."""
        self._mailbox.end(refuses=False)
        self._member.request_shutdown()
        self._member.wait(self._setting.member.session_timeout_ms / 1000)

    def _change_state(self, state: ThreadState) -> None:
        pending = self._state in (ThreadState.PENDING_SHUTDOWN, ThreadState.DEAD)
        if state is self._state or (pending and state is not ThreadState.DEAD):
            return
        self._state = state
        self._setting.state_changed()
