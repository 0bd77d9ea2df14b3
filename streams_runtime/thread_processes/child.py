"""The program of the process of a stream thread: the same `StreamThread` as elsewhere, whose surroundings are another
process.

    main thread      takes what the instance says
    stream thread    works, and says what it publishes, which states it has, and at last that it has ended
    stores thread    answers reads of the stores
    topics thread    looks up what tasks write to

Rules: it has its own connections to the log, and its own metrics and notices, which go to the instance with each
snapshot. When nobody listens any more, the process ends at once, as it is: the instance is dead, and whoever takes over
its tasks must not wait.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from types import FrameType

from streams_runtime.logs.base import Log
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.task_holder import HeldTasks
from streams_runtime.reporting.metrics import InstanceMetrics, MetricChanges, MetricLine
from streams_runtime.restore.restore_listener import SilentRestoreListener
from streams_runtime.task_manager.thread_listener import SilentListener
from streams_runtime.thread_processes.calls_of_thread import (
    DirectoriesOfInstance,
    InstanceCalls,
    ListenerOfInstance,
    RestoreListenerOfInstance,
    uncaught_exception_handler,
)
from streams_runtime.thread_processes.carried_errors import carried
from streams_runtime.thread_processes.carried_log_lines import carry_lines
from streams_runtime.thread_processes.channel import Channel
from streams_runtime.thread_processes.child_process import SIGNALS_OF_THE_INSTANCE
from streams_runtime.thread_processes.gathered_notices import GatheredNotices
from streams_runtime.thread_processes.member_of_thread import MembershipOfThread
from streams_runtime.thread_processes.messages import (
    CopyView,
    MemberOver,
    NotStarted,
    OrderGiven,
    PackedParts,
    Published,
    Reply,
    StateChanged,
    ThreadEnded,
    ThreadStart,
    Wishes,
)
from streams_runtime.thread_processes.packed_application import unpacked
from streams_runtime.thread_processes.remote_stores import ReadAnswered, StoreAnswers
from streams_runtime.threads.housekeeping import LOG_INTERVAL_MS
from streams_runtime.threads.stream_thread import StreamThread
from streams_runtime.threads.thread_setting import ThreadSetting
from streams_runtime.threads.thread_status import TaskCopy, ThreadState
from streams_runtime.threads.written_topics import look_up, written_topics

PUBLISH_INTERVAL_MS = 100
"""More often than inside of one process, where counters are seen as they grow."""

METRICS_SHARE = 1 / 30
"""Of the thread's time at most for reading its metrics: a thousand tasks have thousands of lines."""

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""

_NOBODY_LISTENS = 70


class ThreadHere:
    """The stream thread of this process, and all that it says."""

    def __init__(self, channel: Channel, start: ThreadStart, parts: PackedParts, log: Log) -> None:
        self._channel = channel
        self._wishes = start.wishes
        self._calls = InstanceCalls(self.say)
        self._membership = MembershipOfThread(self.say)
        self._metrics = InstanceMetrics()
        self._notices = GatheredNotices()
        self.stores = StoreAnswers()
        self._said_all = False
        self._said_held: HeldTasks | None = None
        self._said_copies: tuple[int, tuple[TaskCopy, ...]] = (0, ())
        self._said_metrics: dict[MetricLine, float] = {}
        self._metrics_rest_until_s = 0.0
        self._said: Published | None = None
        calls, application = self._calls, parts.application
        self._thread = StreamThread(
            ThreadSetting(
                name=start.name,
                application=replace(application, uncaught_exception_handler=uncaught_exception_handler(calls)),
                log=log,
                directory=DirectoriesOfInstance(start.state_dir, application.id, calls),
                membership=self._membership,
                member=start.member,
                subscriptions=start.subscriptions,
                transactional_id=start.transactional_id,
                clock=parts.clock,
                listener=ListenerOfInstance(calls) if start.tells_listener else SilentListener(),
                restore_listener=RestoreListenerOfInstance(calls) if start.tells_restores else SilentRestoreListener(),
                metrics=self._metrics.thread(start.name),
                notices=self._notices,
                state_changed=self._say_state,
                is_paused=lambda: self._wishes.is_paused,
                is_group_paused=lambda: self._wishes.is_group_paused,
                cache_bytes=None if start.wishes.cache_bytes is None else lambda: self._wishes.cache_bytes or 0,
                published=self._publish,
                publish_interval_ms=PUBLISH_INTERVAL_MS,
            )
        )

    def run(self) -> None:
        """Until the thread has ended, and the instance knows it."""
        self._thread.start()
        while True:
            try:
                message = self._channel.receive()
            except (EOFError, OSError):
                break
            self._take(message)
        if not self._said_all:
            end_at_once()
        self._thread.join()

    def say(self, message: object) -> None:
        """From any thread."""
        try:
            self._channel.send(message)
        except OSError:
            if not self._said_all:
                end_at_once()

    def _take(self, message: OrderGiven | Wishes | MemberOver | Reply) -> None:
        match message:
            case OrderGiven():
                self._membership.only.given(message)
            case Wishes():
                self._wishes = message
                self._thread.wake()
            case MemberOver():
                self._membership.only.has_come_to_its_end(message)
            case Reply():
                self._calls.answered(message)

    # --- on the stream thread

    def _say_state(self) -> None:
        thread = self._thread
        if thread.state is not ThreadState.DEAD:
            self.say(StateChanged(thread.state))
            return
        self._metrics_rest_until_s = 0.0
        self._publish()
        self._said_all = True
        self.say(ThreadEnded(None if thread.error is None else carried(thread.error), thread.response))

    def _publish(self) -> None:
        """First said, then read by: who is told that a snapshot is replaced will find the newer one."""
        thread = self._thread
        held, copies = thread.held(), thread.copies()
        number, said = self._said_copies
        if copies != said:
            number += 1
            self._said_copies = number, copies
        published = Published(
            thread.status(),
            None if held is self._said_held else held,
            number,
            tuple(_view(copy) for copy in copies),
            self._membership.only.report(),
            self._metric_changes(),
            self._notices.take(),
        )
        self._said_held = held
        if published != self._said:
            self._said = replace(published, held=None, metrics=MetricChanges(), notices=())
            self.say(published)
        self.stores.show(number, copies)

    def _metric_changes(self) -> MetricChanges:
        begun_s = time.monotonic()
        if begun_s < self._metrics_rest_until_s:
            return MetricChanges()
        used_s = time.thread_time()
        lines = self._metrics.lines()
        changes = MetricChanges.between(self._said_metrics, lines)
        self._said_metrics = lines
        self._metrics_rest_until_s = begun_s + (time.thread_time() - used_s) / METRICS_SHARE
        return changes


def main(connection: Connection, stores: int, parent: int, *inherited: int) -> None:
    """`stores`: the pipe for reads of stores; `parent`: the process of the instance; `inherited`: files to keep.

    Exit handlers are not called, as in the processes of `multiprocessing`.
    """
    _live_for(parent)
    for descriptor in (connection.fileno(), stores, *inherited):
        os.set_inheritable(descriptor, False)
    os.register_at_fork(after_in_child=partial(_close, inherited))  # whoever is forked from here may live longer
    channel = Channel(connection)
    start: ThreadStart = channel.receive()
    try:
        parts = unpacked(start.application)
        configs = parts.application.configs
        log = open_log(configs.bootstrap_servers, configs.log_properties)
    except Exception as error:
        channel.send(NotStarted(carried(error)))
        return
    with closing(log):
        here = ThreadHere(channel, start, parts, log)
        carry_lines(start.log_levels, here.say)
        reads = Channel(Connection(stores))
        threading.Thread(target=_answer_reads, args=(reads, here.stores), name="store-reads", daemon=True).start()
        looking = (log, written_topics(parts.application))
        threading.Thread(target=_look_up_topics, args=looking, name="topics", daemon=True).start()
        here.run()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)  # the instance waits: it may have to end other threads before they fail on the same record


def _look_up_topics(log: Log, topics: frozenset[str]) -> None:
    """The housekeeping of the instance does it for the log of its own process."""
    while True:
        look_up(log, topics, is_over=lambda: False)
        time.sleep(LOG_INTERVAL_MS / 1000)


def end_at_once() -> None:
    os._exit(_NOBODY_LISTENS)


def _answer_reads(channel: Channel, stores: StoreAnswers) -> None:
    while True:
        try:
            answered = _answer(channel, stores)
        except (EOFError, OSError):
            return
        try:
            channel.send(answered)
        except OSError:
            return
        except Exception as error:  # a value that cannot be pickled
            channel.send(ReadAnswered(error=carried(error)))


def _answer(channel: Channel, stores: StoreAnswers) -> ReadAnswered:
    try:
        question = channel.receive()
    except (EOFError, OSError):
        raise
    except Exception as error:  # a key that cannot be made again here
        return ReadAnswered(error=carried(error))
    return stores.answer(question)


def _live_for(parent: int) -> None:
    """End when that process ends; leave signals that a whole process group gets to it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        end_at_once()
    for number in SIGNALS_OF_THE_INSTANCE:
        signal.signal(number, _left_to_the_instance)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS_OF_THE_INSTANCE)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _left_to_the_instance(_number: int, _frame: FrameType | None) -> None:
    pass


def _view(copy: TaskCopy) -> CopyView:
    return CopyView(
        copy.task_id,
        copy.role,
        copy.state,
        {name: store.persistent for name, store in copy.stores.items()},
        copy.lags,
    )
