"""One instance of an application in one process: a state directory, a process id, and stream threads.

Rules:
- A second process in the same state directory is refused. The process id stays with the directory.
- The instance is RUNNING when every thread is, and REBALANCING otherwise (`instance_states`). It ends with its last
  thread, unless that was removed.
- Threads can be added and removed while it runs (KIP-663). A thread that is removed drains and leaves the group.
- A paused instance stays in the group, but its tasks are neither processed, punctuated nor restored (KIP-834).
- The user decides what happens after a thread failed: another thread takes its place, this instance ends (the default),
  or the whole application ends.
- `close` drains: it commits everything before the members leave the group, and closes it before it returns.

Source: `KafkaStreams`. It neither handles signals nor declares the group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from assignor.types import HostInfo, ProcessId
from streams_runtime.application import Application, ThreadErrorResponse
from streams_runtime.clock import Clock, SystemClock
from streams_runtime.errors import StreamsRuntimeError
from streams_runtime.instance_states import InstanceState, StateListener, ToldStates
from streams_runtime.logged_notices import OWN, ROOT, LoggedNotices
from streams_runtime.logs.base import Log
from streams_runtime.logs.opening import open_log
from streams_runtime.losses import TOLD_AS_NOTICE
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_events import MemberEnd
from streams_runtime.membership.member_settings import MemberSettings
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_membership import ProcessMembership
from streams_runtime.membership.task_holder import PartitionHosts
from streams_runtime.metrics import InstanceMetrics
from streams_runtime.notices import LOSSES, NoticeBoard
from streams_runtime.restore.restore_listener import RestoreListener, SilentRestoreListener
from streams_runtime.task_manager.thread_listener import SilentListener, ThreadListener
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.threads.housekeeping import Housekeeping
from streams_runtime.threads.stream_thread import StreamThread
from streams_runtime.threads.thread_setting import ThreadSetting
from streams_runtime.threads.thread_status import TaskCopy, ThreadState, ThreadStatus

_logger = logging.getLogger(__name__)
_SYSTEM_CLOCK = SystemClock()


_ERRORS_KEPT = 20
"""An error keeps its stack frames in memory, and with REPLACE_THREAD there may be any number of errors."""

_ALIVE = (InstanceState.REBALANCING, InstanceState.RUNNING)
_ENDED = (InstanceState.NOT_RUNNING, InstanceState.ERROR)


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """A snapshot, for tables that people watch."""

    application_id: str
    process_id: ProcessId | None
    state: InstanceState
    endpoint: HostInfo | None
    threads: tuple[ThreadStatus, ...]


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """What one instance has of its own. Everything else is the application's, the same for all instances.

    `thread_name`: from an index to a name that is unique in the group. `incarnation`: when given, threads are static
    members under their names, and a higher incarnation fences a lower one. `lock_wait_ms`: how long to wait for an
    earlier process that is just ending. `owns_process`: nothing else runs in this process, so that all warnings and
    errors that anybody logs are the instance's, and are told to the group. `restore_listener` None: the one that the
    application's factory makes.
    """

    thread_name: Callable[[int], str] | None = None
    thread_listener: Callable[[str], ThreadListener] = lambda _name: SilentListener()
    restore_listener: RestoreListener | None = None
    incarnation: int | None = None
    endpoint: HostInfo | None = None
    client_tags: Mapping[str, str] | None = None
    rack: str | None = None
    token: str | None = None
    lock_wait_ms: int = 0
    owns_process: bool = False
    clock: Clock = _SYSTEM_CLOCK


class StreamsInstance:
    """`start`, then `wait` or `close`. Any thread may call.

    `coordinator`: its URL, or a client, which the caller closes. `metrics`: what its threads measure. `notices`: what
    people have to hear of, which its heartbeats take to the coordinator.
    """

    def __init__(
        self, application: Application, coordinator: CoordinatorClient | str, options: InstanceOptions | None = None
    ) -> None:
        self.application = application
        self._options = options or InstanceOptions()
        self._coordinator = coordinator
        self._changed = threading.Condition()
        self._states = ToldStates(application.state_listener)
        self._threads: Mapping[int, StreamThread] = {}  # by index; never changed in place, because others read it
        self._removed: set[StreamThread] = set()
        self._resizing = threading.Lock()
        self._paused = threading.Event()
        self._errors: list[Exception] = []
        self._closing = False
        self._failed = False
        self._ended = False
        self._process_id: ProcessId | None = None
        self.metrics = InstanceMetrics()
        self.notices = NoticeBoard(self._options.clock)
        self._logged = LoggedNotices(
            self.notices, self._is_own_thread, logger=ROOT if self._options.owns_process else OWN
        )
        self._supervisor = threading.Thread(target=self._supervise, name=f"{application.id}-instance", daemon=True)

    # --- what others may look at

    @property
    def application_id(self) -> str:
        return self.application.id

    @property
    def state(self) -> InstanceState:
        return self._states.state

    @property
    def is_paused(self) -> bool:
        return self._paused.is_set()

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The errors that ended threads of this instance, oldest first; the last twenty of them."""
        return tuple(self._errors)

    @property
    def process_id(self) -> ProcessId | None:
        """None before `start`."""
        return self._process_id

    def status(self) -> InstanceStatus:
        return InstanceStatus(
            self.application_id,
            self._process_id,
            self.state,
            self._options.endpoint,
            tuple(thread.status() for thread in self._threads.values()),
        )

    def metadata(self) -> PartitionHosts:
        """Which instance has which partitions, by the newest assignment of any thread."""
        held = max(
            (thread.held() for thread in self._threads.values()), key=lambda one: one.generation_id, default=None
        )
        return PartitionHosts() if held is None else held.hosts

    def copies(self) -> tuple[TaskCopy, ...]:
        """All tasks of this instance that have open stores."""
        return tuple(copy for thread in self._threads.values() for copy in thread.copies())

    # --- its life

    def start(self) -> None:
        """Take the state directory, join the group, return at once.

        Raises LockError when another process has the directory, InputError, LogError, StreamsRuntimeError.
        """
        with self._changed:
            if self.state is not InstanceState.CREATED:
                raise StreamsRuntimeError(f"an instance starts once; this one is {self.state}")
            self._states.change(InstanceState.REBALANCING)
        self._states.tell()
        self._logged.start()
        try:
            self._open()
        except BaseException:
            self._logged.close()
            self._change_state(InstanceState.ERROR)
            raise
        for thread in self._threads.values():
            thread.start()
        self._housekeeping.start()
        self._supervisor.start()

    def close(self, timeout_s: float | None = None) -> bool:
        """Drain and leave; whether it has ended within the time. Called on one of its own threads, it does not wait."""
        with self._changed:
            self._closing = True
            never_started = self.state is InstanceState.CREATED
            if never_started:
                self._states.change(InstanceState.NOT_RUNNING)
            self._changed.notify_all()
        if never_started:
            self._change_state(InstanceState.NOT_RUNNING)
        if self._is_own(threading.current_thread().name):
            return self.state in _ENDED
        return self.wait(timeout_s) in _ENDED

    def wait(self, timeout_s: float | None = None) -> InstanceState:
        """Return the state when it has ended, or when time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, timeout_s)
            return self.state

    def wait_until_running(self, timeout_s: float | None = None) -> bool:
        """Whether every thread runs everything it was assigned; False when time is up or the instance ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.state is InstanceState.RUNNING or self._ended, timeout_s)
            return self.state is InstanceState.RUNNING

    # --- what its user may change

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Call `listener` with new and old state at each change. Raises StreamsRuntimeError once it has started.

        It takes the place of the application's own listener. Source: `KafkaStreams.setStateListener`.
        """
        with self._changed:
            if self.state is not InstanceState.CREATED:
                raise StreamsRuntimeError(f"a state listener is set before the start; this instance is {self.state}")
            self._states.listener = listener

    def pause(self) -> None:
        """Stop processing, punctuating and restoring until `resume`; also before the start. Members stay in the group.

        What was processed is committed, and stores can still be queried. Source: `KafkaStreams.pause` (KIP-834).
        """
        self._paused.set()

    def resume(self) -> None:
        """Go on after `pause`. Nothing happens when it is not paused."""
        self._paused.clear()
        for thread in self._threads.values():
            thread.wake()

    def add_stream_thread(self) -> str | None:
        """Start one more thread and give its name; None, and nothing happens, unless it is rebalancing or running.

        Source: `KafkaStreams.addStreamThread` (KIP-663).
        """
        with self._resizing:
            if self._closing or self.state not in _ALIVE:
                _logger.warning("no thread is added: the instance is %s", self.state)
                return None
            index = next(free for free in count() if free not in self._threads)
            thread = self._new_thread(index)
            with self._changed:
                self._threads = {**self._threads, index: thread}
            thread.start()
        self._thread_changed()
        return thread.name

    def remove_stream_thread(self, timeout_s: float | None = None) -> str | None:
        """Have one thread commit, leave the group and end; its name, when it has ended or time is up.

        None when there is none to remove, or the instance is neither rebalancing nor running. Called on a stream
        thread, it removes another one if there is one, and does not wait. Source: `KafkaStreams.removeStreamThread`.
        """
        own = threading.current_thread().name
        with self._resizing, self._changed:
            if self._closing or self.state not in _ALIVE:
                _logger.warning("no thread is removed: the instance is %s", self.state)
                return None
            alive = [
                thread
                for thread in self._threads.values()
                if thread.state is not ThreadState.DEAD and thread not in self._removed
            ]
            thread = next((each for each in alive if each.name != own), alive[0] if alive else None)
            if thread is None:
                _logger.warning("no thread is removed: there is none")
                return None
            self._removed.add(thread)
        thread.ask_to_close()
        if not self._is_own(own):
            with self._changed:
                self._changed.wait_for(lambda: thread not in self._removed or self._ended, timeout_s)
        return thread.name

    # --- inside

    def _open(self) -> None:
        configs = self.application.configs
        options = self._options
        self._restore_listener = options.restore_listener or _restore_listener_of(self.application)
        self._client = (
            CoordinatorClient(self._coordinator, token=options.token)
            if isinstance(self._coordinator, str)
            else self._coordinator
        )
        self._directory = StateDirectory(
            configs.state_dir, self.application_id, options.clock, lock_wait_ms=options.lock_wait_ms
        )
        self._process_id = self._directory.process_id
        try:
            self._log: Log = open_log(configs.bootstrap_servers, configs.log_properties)
        except BaseException:
            self._directory.close()
            raise
        self._housekeeping = Housekeeping(
            self.application_id,
            self._directory,
            self._log,
            configs.state_cleanup_delay_ms,
            written=_written_topics(self.application),
        )
        self._membership = ProcessMembership(
            self._client,
            self.application_id,
            session_timeout_ms=configs.session_timeout_ms,
            heartbeat_interval_ms=configs.heartbeat_interval_ms,
            notices=self.notices,
        )
        self._threads = {index: self._new_thread(index) for index in range(configs.num_stream_threads)}

    def _new_thread(self, index: int) -> StreamThread:
        configs = self.application.configs
        options = self._options
        name = f"{configs.client_id or f'{self.application_id}-{self._process_id}'}-StreamThread-{index + 1}"
        if options.thread_name is not None:
            name = options.thread_name(index)
        sources = {each.id: frozenset(each.source_topics) for each in self.application.parsed().subtopologies}
        return StreamThread(
            ThreadSetting(
                name=name,
                application=self.application,
                log=self._log,
                directory=self._directory,
                membership=self._membership,
                member=MemberSettings(
                    group_id=self.application_id,
                    client_id=name,
                    group_instance_id=None if options.incarnation is None else name,
                    incarnation=options.incarnation,
                    session_timeout_ms=configs.session_timeout_ms,
                    rebalance_timeout_ms=configs.rebalance_timeout_ms,
                    leave_on_disconnect=configs.leave_on_disconnect,
                ),
                subscriptions=SubscriptionWriter(
                    self._directory.process_id,
                    tuple(sorted(frozenset[str]().union(*sources.values()))),
                    {**configs.client_tags, **(options.client_tags or {})},
                    options.endpoint,
                    options.rack,
                    sources,
                ),
                transactional_id=(
                    f"{self.application_id}-{self._process_id}-{index}" if configs.exactly_once else None
                ),
                clock=options.clock,
                listener=options.thread_listener(name),
                restore_listener=self._restore_listener,
                metrics=self.metrics.thread(name),
                notices=self.notices,
                state_changed=self._thread_changed,
                is_paused=self._paused.is_set,
            )
        )

    def _is_own(self, name: str) -> bool:
        """Whether a thread of this name must not wait for the instance, because the instance waits for it."""
        return name in {self._supervisor.name, *(thread.name for thread in self._threads.values())}

    def _is_own_thread(self, name: str) -> bool:
        if self._options.owns_process or name.startswith(f"{self.application_id}-"):
            return True
        return any(thread.name == name for thread in self._threads.values())

    def _thread_changed(self) -> None:
        with self._changed:
            if self.state in _ALIVE:
                alive = [thread.state for thread in self._threads.values() if thread.state is not ThreadState.DEAD]
                runs = bool(alive or not self._threads) and all(state is ThreadState.RUNNING for state in alive)
                self._states.change(InstanceState.RUNNING if runs else InstanceState.REBALANCING)
            self._changed.notify_all()
        self._states.tell()

    def _change_state(self, state: InstanceState) -> None:
        """Who waits for the end goes on when the listener was told of it: his program may end then."""
        with self._changed:
            self._states.change(state)
            self._changed.notify_all()
        self._states.tell()
        if state in _ENDED:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _supervise(self) -> None:
        """Replace threads that failed, or end the instance, until no thread is left; then close everything."""
        handled: set[StreamThread] = set()  # dead threads that were looked at
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing or any(thread not in handled for thread in self._dead_threads())
                )
            if self._closing:
                self._change_state(InstanceState.PENDING_SHUTDOWN)
                break
            for thread in self._dead_threads():
                if thread not in handled:
                    handled.add(thread)
                    self._after(thread)
            handled.intersection_update(self._threads.values())  # a replaced thread must not stay in memory
            if self._threads and all(thread.state is ThreadState.DEAD for thread in self._threads.values()):
                break
        self._end()

    def _dead_threads(self) -> list[StreamThread]:
        return [thread for thread in self._threads.values() if thread.state is ThreadState.DEAD]

    def _after(self, thread: StreamThread) -> None:
        thread.join()
        if thread.end is MemberEnd.SHUTDOWN_REQUESTED:
            self._failed = self._closing = True
        if thread.error is not None:
            self._errors.append(thread.error)
            del self._errors[:-_ERRORS_KEPT]
        if thread in self._removed:
            self._forget(thread)
            return
        if thread.error is None:
            return
        if thread.response is ThreadErrorResponse.REPLACE_THREAD:
            with self._resizing:
                index = next(index for index, each in self._threads.items() if each is thread)
                replacement = self._new_thread(index)
                self._threads = {**self._threads, index: replacement}
                replacement.start()
            return
        if thread.response is ThreadErrorResponse.SHUTDOWN_APPLICATION and thread.end is None:
            for other in self._threads.values():  # its own member could not ask the group for it
                other.request_shutdown()
        self._failed = self._closing = True

    def _forget(self, thread: StreamThread) -> None:
        """The thread that was removed has ended. If it failed on its way, that is logged, and ends nothing else."""
        with self._changed:
            self._threads = {index: each for index, each in self._threads.items() if each is not thread}
            self._removed.discard(thread)
        self._thread_changed()

    def _end(self) -> None:
        with self._resizing:  # a thread that is being added is there now, or it will not be
            threads = tuple(self._threads.values())
        for thread in threads:  # all of them at the same time
            thread.ask_to_close()
        for thread in threads:
            thread.join()
        self._membership.close()
        self._errors += [thread.error for thread in threads if thread.error and thread.error not in self._errors]
        self._housekeeping.close()
        for name, closing in (("state directory", self._directory.close), ("log", self._log.close)):
            try:
                closing()
            except Exception:
                _logger.exception("the %s could not be closed", name)
        if isinstance(self._coordinator, str):
            self._client.close()
        for notice in self.notices.newest():
            if notice.code in LOSSES:
                told = (self.application_id, notice.code, f"{notice.count:,}", notice.text)
                _logger.warning("%s has ended; %s %s in all: %s", *told, extra=TOLD_AS_NOTICE)
        self._logged.close()
        ended_by_error = self._failed or any(thread.error is not None for thread in threads)
        self._change_state(InstanceState.ERROR if ended_by_error else InstanceState.NOT_RUNNING)


def _restore_listener_of(application: Application) -> RestoreListener:
    make = application.restore_listener_factory
    return SilentRestoreListener() if make is None else make()


def _written_topics(application: Application) -> set[str]:
    topics: set[str] = set()
    for each in application.parsed().subtopologies:
        topics.update(each.sink_topics, each.repartition_sink_topics)
        topics.update(store.changelog_topic for store in each.stores if store.changelog_topic is not None)
    return topics
