"""A stream thread in a process of its own, as its instance has it: what a `StreamThread` is to it, this is as well.

    member of the group (here) --orders--> stream thread (there) --answers, snapshots, log lines--> instance (here)

Rules:
- The thread here that has the stream thread's name stands for it: it starts the process, does what the process asks
  for, one after the other, and ends with it. So whoever waits for the stream thread waits for this thread.
- A process that ends without a word has failed, as a stream thread that ended by an error: the user is asked what
  follows, its tasks' directories are unlocked when it is gone, and its member leaves the group at once.
- Listeners and the uncaught exception handler are called here, in the user's own process.

Source: `StreamThread`. Differs from Kafka, whose threads share a JVM.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from streams_runtime.application import ThreadErrorResponse
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.membership.member_events import MemberEnd
from streams_runtime.membership.task_holder import HeldTasks
from streams_runtime.reporting.metrics import InstanceMetrics
from streams_runtime.restore.restore_listener import SilentRestoreListener
from streams_runtime.task_manager.thread_listener import SilentListener
from streams_runtime.thread_processes.answered_calls import AnsweredCalls
from streams_runtime.thread_processes.carried_errors import carried
from streams_runtime.thread_processes.carried_log_lines import levels, log_again
from streams_runtime.thread_processes.child_process import ChildProcess, how_it_ended
from streams_runtime.thread_processes.messages import (
    Ask,
    CallOfThread,
    LogLine,
    MemberAsked,
    MemberOver,
    NotStarted,
    OrderAnswered,
    Published,
    StateChanged,
    ThreadEnded,
    ThreadStart,
    Wishes,
)
from streams_runtime.thread_processes.orders_of_thread import OrdersOfThread
from streams_runtime.thread_processes.remote_stores import StoreReader
from streams_runtime.thread_processes.shown_snapshot import ShownSnapshot
from streams_runtime.threads.thread_setting import ThreadSetting
from streams_runtime.threads.thread_status import TaskCopy, ThreadState, ThreadStatus

_logger = logging.getLogger(__name__)


class ThreadProcessFailed(StreamsRuntimeError):
    """The process of a stream thread ended without a word: somebody or the system killed it, or it crashed."""


class ThreadProcess:
    """An `InstanceThread`. `application`: packed. `metrics`: of the instance. `inherited`: see `ChildProcess`."""

    def __init__(
        self, setting: ThreadSetting, application: bytes, metrics: InstanceMetrics, inherited: Sequence[int]
    ) -> None:
        self.name = setting.name
        self.end: MemberEnd | None = None
        self.error: Exception | None = None
        self.response: ThreadErrorResponse | None = None
        self._setting = setting
        self._application = application
        self._metrics = metrics
        self._inherited = inherited
        self._orders = OrdersOfThread(setting.name)
        self._member = setting.membership.member(
            setting.member, setting.subscriptions, self._orders, when_ended=self._tell_member_is_over
        )
        self._calls = AnsweredCalls(setting)
        self._shown = ShownSnapshot(setting.name)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._state = ThreadState.CREATED
        self._process: ChildProcess | None = None

    # --- from any thread

    @property
    def state(self) -> ThreadState:
        return self._state

    def start(self) -> None:
        self._thread.start()

    def ask_to_close(self) -> None:
        if self._state is ThreadState.CREATED:
            self._orders.end()  # no process would carry out an order
        self._member.ask_to_close()

    def join(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    def wake(self) -> None:
        self._say(self._wishes())

    def request_shutdown(self) -> None:
        self._member.request_shutdown()

    def held(self) -> HeldTasks:
        return self._shown.held

    def status(self) -> ThreadStatus:
        process = self._process
        return replace(self._shown.status, state=self._state, pid=None if process is None else process.pid)

    def copies(self) -> tuple[TaskCopy, ...]:
        return self._shown.copies

    # --- the thread that stands for it

    def _run(self) -> None:
        self._change_state(ThreadState.STARTING)
        last: ThreadEnded | NotStarted | None = None
        try:
            if not self._member.has_ended:
                last = self._live()
        except Exception as error:
            self._failed(error)
        else:
            self._take_last(last)
        finally:
            self._shut_down(was_orderly=isinstance(last, ThreadEnded))

    def _live(self) -> ThreadEnded | NotStarted:
        """Until the process has ended. Raises ThreadProcessFailed, OSError when it cannot be started."""
        process = ChildProcess(self._inherited)
        last: ThreadEnded | NotStarted | None = None
        try:
            self._begin(process)
            last = self._relay(process)
        finally:
            exit_code = process.end()
            self._process = None
        if last is None:
            raise ThreadProcessFailed(
                f"the process of stream thread {self.name} (pid {process.pid}) {how_it_ended(exit_code)}"
            )
        return last

    def _begin(self, process: ChildProcess) -> None:
        setting = self._setting
        self._shown.reads_by(StoreReader(process.stores, self._shown.wait_for_newer))
        start = ThreadStart(
            name=self.name,
            application=self._application,
            state_dir=setting.directory.application_directory.parent,
            member=setting.member,
            subscriptions=setting.subscriptions,
            transactional_id=setting.transactional_id,
            wishes=self._wishes(),
            log_levels=levels(),
            tells_listener=type(setting.listener) is not SilentListener,
            tells_restores=type(setting.restore_listener) is not SilentRestoreListener,
        )
        with suppress(OSError):  # it may be gone already, as its first message will be missing
            process.control.send(start)
        self._process = process
        self._say(self._wishes())  # it may have changed meanwhile
        self._orders.begin(self._say)
        if self._member.has_ended:
            self._tell_member_is_over()
        _logger.info("stream thread %s runs in process %d", self.name, process.pid)

    def _relay(self, process: ChildProcess) -> ThreadEnded | NotStarted | None:
        """Do what the process asks for, until its last message; None when there is none."""
        while True:
            try:
                message = process.control.receive()
            except (EOFError, OSError):
                return None
            if isinstance(message, ThreadEnded | NotStarted):
                return message
            self._take(message)

    def _take(self, message: Published | StateChanged | OrderAnswered | MemberAsked | CallOfThread | LogLine) -> None:
        match message:
            case Published():
                self._orders.reported(message.report)
                self._metrics.apply(message.metrics)
                for told in message.notices:
                    self._setting.notices.tell(told.code, told.about, told.count, told.detail)
                self._shown.take(message)
            case StateChanged(state):
                self._change_state(state)
            case OrderAnswered(number, error, report):
                self._orders.reported(report)
                self._orders.answered(number, None if error is None else error.error())
            case MemberAsked():
                self._orders.reported(message.report)
                self._pass_on(message)
            case CallOfThread():
                self._say(self._calls.answer(message))
            case LogLine():
                log_again(message)

    def _pass_on(self, asked: MemberAsked) -> None:
        match asked.ask:
            case Ask.START:
                self._member.start()
            case Ask.CLOSE:
                self._member.ask_to_close()
            case Ask.TASKS_LOST:
                self._member.tasks_were_lost(asked.reason)
            case Ask.REJOIN:
                self._member.request_rejoin()
            case Ask.SHUTDOWN:
                self._member.request_shutdown()

    def _take_last(self, last: ThreadEnded | NotStarted | None) -> None:
        if isinstance(last, NotStarted):
            self._failed(last.error.exception())
        elif last is not None and last.error is not None:
            # the handler has seen this error already, and may have kept it
            self.error = self._calls.uncaught or last.error.exception()
            self.response = last.response

    def _failed(self, error: Exception) -> None:
        _logger.error("stream thread %s failed: %s", self.name, error)
        self.error = error
        self.response = self._calls.ask_user(error)

    def _shut_down(self, *, was_orderly: bool) -> None:
        """In any case give back what the process had, answer every order, and take the member out of the group."""
        try:
            self._calls.unlock_all()
            if not was_orderly:
                self._clear_away()
        finally:
            self._shown.forget()
            self._orders.end()
            self._member.ask_to_close()
            self._member.wait()
            self.end = self._member.end
            self._change_state(ThreadState.DEAD)

    def _clear_away(self) -> None:
        """Say what the process has not said any more."""
        self._metrics.thread_was_lost(self.name)
        if self._shown.has_held_anything:
            try:
                self._setting.listener.dropped(f"failed: {self.error}", clean=False)
            except Exception:
                _logger.exception("stream thread %s: the listener failed", self.name)
        if self.response is ThreadErrorResponse.SHUTDOWN_APPLICATION:
            self._pass_on_shutdown()

    def _pass_on_shutdown(self) -> None:
        """As `StreamThread` does: the member lives on, without tasks, until the leader knows."""
        self._orders.end_quietly()
        self._member.request_shutdown()
        self._member.wait(self._setting.member.session_timeout_ms / 1000)

    # --- to the process

    def _tell_member_is_over(self) -> None:
        member = self._member
        self._say(MemberOver(member.end, None if member.failure is None else carried(member.failure)))

    def _wishes(self) -> Wishes:
        setting = self._setting
        return Wishes(
            setting.is_paused(),
            setting.is_group_paused(),
            None if setting.cache_bytes is None else setting.cache_bytes(),
        )

    def _say(self, message: object) -> None:
        """To a process that may be gone, which the thread above finds out."""
        process = self._process
        if process is None:
            return
        try:
            process.control.send(message)
        except OSError:
            _logger.debug("stream thread %s: its process heard no %s", self.name, type(message).__name__)

    def _change_state(self, state: ThreadState) -> None:
        """The process says DEAD when its thread is; the one here is later, when all is cleared away."""
        pending = self._state in (ThreadState.PENDING_SHUTDOWN, ThreadState.DEAD)
        if state is self._state or (pending and state is not ThreadState.DEAD):
            return
        self._state = state
        self._setting.state_changed()
