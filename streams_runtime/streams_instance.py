"""One instance of an application in one process: a state directory, a process id, and stream threads.

    CREATED -> REBALANCING <-> RUNNING -> PENDING_SHUTDOWN -> NOT_RUNNING, or ERROR when an error ended it

Rules:
- A second process in the same state directory is refused. The process id stays with the directory.
- The instance is RUNNING when every thread is, and REBALANCING otherwise. It ends with its last thread.
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
from enum import StrEnum

from assignor.types import HostInfo, ProcessId
from streams_runtime.application import Application, ThreadErrorResponse
from streams_runtime.clock import Clock, SystemClock
from streams_runtime.errors import StreamsRuntimeError
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


class InstanceState(StrEnum):
    CREATED = "created"
    REBALANCING = "rebalancing"
    RUNNING = "running"
    PENDING_SHUTDOWN = "pending-shutdown"
    NOT_RUNNING = "not-running"
    ERROR = "error"


_ERRORS_KEPT = 20
"""An error keeps its stack frames in memory, and with REPLACE_THREAD there may be any number of errors."""

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
        self._state = InstanceState.CREATED
        self._threads: list[StreamThread] = []
        self._errors: list[Exception] = []
        self._closing = False
        self._failed = False
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
        return self._state

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
            self._state,
            self._options.endpoint,
            tuple(thread.status() for thread in self._threads),
        )

    def metadata(self) -> PartitionHosts:
        """Which instance has which partitions, by the newest assignment of any thread."""
        held = max((thread.held() for thread in self._threads), key=lambda one: one.generation_id, default=None)
        return PartitionHosts() if held is None else held.hosts

    def copies(self) -> tuple[TaskCopy, ...]:
        """All tasks of this instance that have open stores."""
        return tuple(copy for thread in self._threads for copy in thread.copies())

    # --- its life

    def start(self) -> None:
        """Take the state directory, join the group, return at once.

        Raises LockError when another process has the directory, InputError, LogError, StreamsRuntimeError.
        """
        with self._changed:
            if self._state is not InstanceState.CREATED:
                raise StreamsRuntimeError(f"an instance starts once; this one is {self._state}")
            self._state = InstanceState.REBALANCING
        self._logged.start()
        try:
            self._open()
        except BaseException:
            self._logged.close()
            self._state = InstanceState.ERROR
            raise
        for thread in self._threads:
            thread.start()
        self._housekeeping.start()
        self._supervisor.start()

    def close(self, timeout_s: float | None = None) -> bool:
        """Drain and leave; whether it has ended within the time. Called on one of its own threads, it does not wait."""
        with self._changed:
            self._closing = True
            if self._state is InstanceState.CREATED:
                self._state = InstanceState.NOT_RUNNING
            self._changed.notify_all()
        own = {self._supervisor.name, *(thread.name for thread in self._threads)}
        if threading.current_thread().name in own:
            return self._state in _ENDED
        return self.wait(timeout_s) in _ENDED

    def wait(self, timeout_s: float | None = None) -> InstanceState:
        """Return the state when it has ended, or when time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._state in _ENDED, timeout_s)
            return self._state

    def wait_until_running(self, timeout_s: float | None = None) -> bool:
        """Whether every thread runs everything it was assigned; False when time is up or the instance ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._state in (InstanceState.RUNNING, *_ENDED), timeout_s)
            return self._state is InstanceState.RUNNING

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
        self._threads = [self._new_thread(index) for index in range(configs.num_stream_threads)]

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
            )
        )

    def _is_own_thread(self, name: str) -> bool:
        if self._options.owns_process or name.startswith(f"{self.application_id}-"):
            return True
        return any(thread.name == name for thread in self._threads)

    def _thread_changed(self) -> None:
        with self._changed:
            if self._state in (InstanceState.REBALANCING, InstanceState.RUNNING):
                alive = [thread.state for thread in self._threads if thread.state is not ThreadState.DEAD]
                runs = bool(alive) and all(state is ThreadState.RUNNING for state in alive)
                self._state = InstanceState.RUNNING if runs else InstanceState.REBALANCING
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
                    self._state = InstanceState.PENDING_SHUTDOWN
            if self._closing:
                break
            for thread in self._dead_threads():
                if thread not in handled:
                    handled.add(thread)
                    self._after(thread)
            handled.intersection_update(self._threads)  # a replaced thread must not stay in memory
            if all(thread.state is ThreadState.DEAD for thread in self._threads):
                break
        self._end()

    def _dead_threads(self) -> list[StreamThread]:
        return [thread for thread in self._threads if thread.state is ThreadState.DEAD]

    def _after(self, thread: StreamThread) -> None:
        thread.join()
        if thread.end is MemberEnd.SHUTDOWN_REQUESTED:
            self._failed = self._closing = True
        if thread.error is None:
            return
        self._errors.append(thread.error)
        del self._errors[:-_ERRORS_KEPT]
        if thread.response is ThreadErrorResponse.REPLACE_THREAD:
            index = self._threads.index(thread)
            self._threads[index] = self._new_thread(index)
            self._threads[index].start()
            return
        if thread.response is ThreadErrorResponse.SHUTDOWN_APPLICATION and thread.end is None:
            for other in self._threads:  # its own member could not ask the group for it
                other.request_shutdown()
        self._failed = self._closing = True

    def _end(self) -> None:
        for thread in self._threads:  # all of them at the same time
            thread.ask_to_close()
        for thread in self._threads:
            thread.join()
        self._membership.close()
        self._errors += [thread.error for thread in self._threads if thread.error and thread.error not in self._errors]
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
        with self._changed:
            ended_by_error = self._failed or any(thread.error is not None for thread in self._threads)
            self._state = InstanceState.ERROR if ended_by_error else InstanceState.NOT_RUNNING
            self._changed.notify_all()


def _restore_listener_of(application: Application) -> RestoreListener:
    make = application.restore_listener_factory
    return SilentRestoreListener() if make is None else make()


def _written_topics(application: Application) -> set[str]:
    topics: set[str] = set()
    for each in application.parsed().subtopologies:
        topics.update(each.sink_topics, each.repartition_sink_topics)
        topics.update(store.changelog_topic for store in each.stores if store.changelog_topic is not None)
    return topics
