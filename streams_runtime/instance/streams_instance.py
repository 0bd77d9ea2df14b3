"""Runs one instance of an application in this process. The instance has a state directory, a process id, and stream
threads.

Rules:
- A second process that opens the same state directory gets LockError. The process id is stored in the directory, so it
  stays the same after a restart.
- An instance is RUNNING if all its live threads are RUNNING. An instance is REBALANCING if the state of any live thread
  is not RUNNING. An instance ends when its last thread has ended, unless the user has removed this thread
  (`thread_pool`).
- If the topology has global stores, `start` restores them before it starts the stream threads. An error of the global
  thread ends the instance (`global_thread`).
- A paused instance stays in the group, but does not process, punctuate or restore its tasks (KIP-834).
- `close` commits all tasks before the members leave the group, and closes all tasks before it returns.
- If the config `application.server` is set, the instance answers queries of its stores and metrics at this address. The
  query server stops after the tasks are closed (`queries`).

Source: `KafkaStreams`. The program that runs the instance has to handle signals, and has to declare the group to the
coordinator.
"""

import logging
import threading
from collections import deque
from contextlib import closing

from assignor.types import HostInfo, ProcessId
from operating_system.processes import freeze_loaded_objects, raise_open_file_limit
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.metrics import InstanceMetrics, PausedBy
from streams_runtime.common.notices import (
    ALREADY_A_NOTICE,
    LOSSES,
    ROOT_LOGGER,
    RUNTIME_LOGGER,
    LoggedNotices,
    NoticeBoard,
)
from streams_runtime.common.states import InstanceState, StateListener
from streams_runtime.instance.application import Application, ThreadErrorResponse
from streams_runtime.instance.global_thread import GlobalThread
from streams_runtime.instance.instance_resources import InstanceOptions, InstanceResources
from streams_runtime.instance.stream_thread import StreamThread
from streams_runtime.instance.thread_pool import ThreadPool
from streams_runtime.instance.thread_status import InstanceStatus, OpenTask
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_events import GroupMembershipOperation, PartitionHosts
from streams_runtime.tasks.state_directory import StateDirectory

_logger = logging.getLogger(__name__)

_ALIVE = (InstanceState.REBALANCING, InstanceState.RUNNING)
_ENDED = (InstanceState.NOT_RUNNING, InstanceState.ERROR)


class ListenedState:
    """The state of one instance. The state listener is called once for each change of the state, in the order of the
    changes. Only one thread at a time calls the listener. A caller of `change` must hold the instance's lock. A caller
    of `notify` must not hold the instance's lock.
    """

    def __init__(self, listener: StateListener | None) -> None:
        self.state = InstanceState.CREATED
        self.listener = listener
        self._pending: deque[tuple[InstanceState, InstanceState]] = deque()
        self._notifying = threading.Lock()

    def change(self, state: InstanceState) -> None:
        if state is not self.state:
            self._pending.append((state, self.state))
            self.state = state

    def notify(self) -> None:
        """Call the listener for each new change of the state. If another thread is already in `notify`, the calling
        thread returns, and the other thread calls the listener for all changes.
        """
        while self._pending and self._notifying.acquire(blocking=False):
            try:
                while self._pending:
                    self._notify_of(*self._pending.popleft())
            finally:
                self._notifying.release()

    def _notify_of(self, new: InstanceState, old: InstanceState) -> None:
        if self.listener is None:
            return
        try:
            self.listener(new, old)
        except Exception:
            _logger.exception("the state listener failed on the change from %s to %s", old, new)


class StreamsInstance:
    """Runs one instance. Call `start`, then `wait` or `close`. All methods may be called by any thread. `coordinator`:
    one or more URLs of the coordinator, separated by commas, or a client of the coordinator. If the caller passes a
    client, the instance does not close the client. `metrics`: the metrics of all threads. `notices`: messages for
    operators, which heartbeats send to the coordinator.
    """

    def __init__(
        self, application: Application, coordinator: CoordinatorClient | str, options: InstanceOptions | None = None
    ) -> None:
        application.check_serdes()
        self.application = application
        self._options = options or InstanceOptions()
        self._coordinator = coordinator
        self._changed = threading.Condition()
        self._state = ListenedState(application.state_listener)
        self._threads = ThreadPool(self._new_thread, self._thread_changed)
        self._global: GlobalThread | None = None
        self._has_started_threads = False
        self._paused_by: frozenset[PausedBy] = frozenset()
        self._closing = False
        self._ended = False
        self._resources: InstanceResources | None = None
        self.metrics = InstanceMetrics()
        for by in PausedBy:
            self.metrics.paused(by, False)
        self.notices = NoticeBoard(self._options.clock)
        self._logged = LoggedNotices(
            self.notices, self._is_own_thread, logger=ROOT_LOGGER if self._options.owns_process else RUNTIME_LOGGER
        )
        self._supervisor = threading.Thread(target=self._supervise, name=f"{application.id}-instance", daemon=True)

    # --- The state of the instance.

    @property
    def application_id(self) -> str:
        return self.application.id

    @property
    def state(self) -> InstanceState:
        return self._state.state

    @property
    def is_paused(self) -> bool:
        return PausedBy.USER in self._paused_by

    @property
    def is_group_paused(self) -> bool:
        """True if an operator has paused the whole group.

        If the operator has paused the group, or the user has paused the instance, the instance processes no records.
        """
        return PausedBy.GROUP in self._paused_by

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The last twenty errors that ended threads of this instance, oldest first."""
        return tuple(self._threads.errors)

    @property
    def process_id(self) -> ProcessId | None:
        """The process id, which is stored in the state directory; None before `start`."""
        return None if self._resources is None else self._resources.process_id

    @property
    def endpoint(self) -> HostInfo | None:
        """The address at which the instance answers queries. The endpoint is None before `start`, and also if the
        instance does not answer queries.
        """
        return None if self._resources is None else self._resources.endpoint

    def status(self) -> InstanceStatus:
        return InstanceStatus(
            self.application_id,
            self.process_id,
            self.state,
            self.endpoint,
            (*(thread.status() for thread in self._threads), *(each.status() for each in self._global_threads())),
        )

    def metadata(self) -> PartitionHosts:
        """Returns the group's instances and their partitions, from the newest assignment of any thread. Before the
        first assignment, knows only this instance, which has no partitions but may have global stores.
        """
        held = max((thread.held() for thread in self._threads), key=lambda one: one.generation_id, default=None)
        if held is not None and held.generation_id:
            return held.hosts
        return PartitionHosts({} if self.endpoint is None else {self.endpoint: frozenset()})

    def copies(self) -> tuple[OpenTask, ...]:
        """Returns all tasks of this instance that have open stores, including the global task."""
        of_global = tuple(task for each in self._global_threads() for task in each.open_tasks)
        return (*(task for thread in self._threads for task in thread.open_tasks()), *of_global)

    # --- Methods that start and end the instance.

    def start(self) -> None:
        """Lock the state directory and start the threads, which join the group. Does not wait until the threads have
        joined. If the topology has global stores, waits until these stores are restored. Raises LockError if another
        process has locked the directory. Raises InputError if the query server cannot listen on `application.server`.
        Also raises InputError, LogError and StreamsRuntimeError for other problems.
        """
        with self._changed:
            if self.state is not InstanceState.CREATED:
                raise StreamsRuntimeError(f"an instance starts once; this one is {self.state}")
            self._state.change(InstanceState.REBALANCING)
        self._state.notify()
        self._logged.start()
        if self._options.owns_process:
            freeze_loaded_objects()
        # each RocksDB store of each task keeps several files open, so the limit of open files is raised
        raise_open_file_limit()
        try:
            self._resources = InstanceResources(
                self.application, self._coordinator, self._options, self.notices, self._group_pause_changed
            )
            self._resources.start_endpoint(self)
            self._global = self._resources.new_global_thread(
                self.metrics, state_changed=self._thread_changed, failed=self._global_thread_failed
            )
            if self._global is not None:
                if self._closing:  # `close` was called before the global thread existed, and could not ask it to close
                    self._global.ask_to_close()
                self._global.start()
            self._start_threads()
        except BaseException:
            self._close_resources()
            self._change_state(InstanceState.ERROR)
            raise
        self._resources.housekeeping.start()
        self._supervisor.start()

    def close(
        self,
        timeout_s: float | None = None,
        membership: GroupMembershipOperation = GroupMembershipOperation.LEAVE_GROUP,
    ) -> bool:
        """Commit and close all tasks, and end the instance. `membership`: whether the members leave the group. Returns
        True if the instance has ended within `timeout_s`. If a thread of the instance calls `close`, the method does
        not wait.

        Raises StreamsRuntimeError for REMAIN_IN_GROUP if the config leave.on.disconnect is true. With this config, the
        coordinator removes the members when the process ends its connection. Source: `KafkaStreams.close`.
        """
        if membership is GroupMembershipOperation.REMAIN_IN_GROUP and self.application.configs.leave_on_disconnect:
            raise StreamsRuntimeError(
                "an instance remains in its group only with leave.on.disconnect=false; it is true, so the coordinator "
                "would remove the members when the connection of this process ends"
            )
        with self._changed:
            self._closing = True
            never_started = self.state is InstanceState.CREATED
            if never_started:
                self._state.change(InstanceState.NOT_RUNNING)
            self._changed.notify_all()
        self._threads.end(membership)
        if self._global is not None and not self._has_started_threads:
            self._global.ask_to_close()  # `start` waits for the global stores
        if never_started:
            self._change_state(InstanceState.NOT_RUNNING)
        if self._is_own(threading.current_thread().name):
            return self.state in _ENDED
        return self.wait(timeout_s) in _ENDED

    def clean_up(self) -> None:
        """Delete the state of the application below `state.dir` on this machine. The next start restores it from the
        changelogs. Call `clean_up` before `start`, or after `close` has returned True.

        Raises StreamsRuntimeError if the instance runs, and LockError if another process uses the directory.
        """
        if self.state not in (InstanceState.CREATED, *_ENDED):
            raise StreamsRuntimeError(f"the state of an instance that runs cannot be deleted; it is {self.state}")
        configs = self.application.configs
        with closing(StateDirectory(configs.state_dir, self.application.id, self._options.clock)) as directory:
            directory.wipe_all()

    def wait(self, timeout_s: float | None = None) -> InstanceState:
        """Wait until the instance has ended, at most `timeout_s`. Returns the state of the instance."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, timeout_s)
            return self.state

    def wait_until_running(self, timeout_s: float | None = None) -> bool:
        """Wait until every thread runs all its assigned tasks. Returns False if `timeout_s` is over or the instance has
        ended.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.state is InstanceState.RUNNING or self._ended, timeout_s)
            return self.state is InstanceState.RUNNING

    # --- Methods with which the user changes the instance.

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Set the function that the instance calls with the new state and the old state after each change. Raises
        StreamsRuntimeError if the instance was started already.

        `listener` replaces the listener of the application. Source: `KafkaStreams.setStateListener`.
        """
        with self._changed:
            if self.state is not InstanceState.CREATED:
                raise StreamsRuntimeError(f"a state listener is set before the start; this instance is {self.state}")
            self._state.listener = listener

    def pause(self) -> None:
        """Stop processing, punctuating and restoring until `resume` is called. This method may also be called before
        `start`. During a pause, members stay in the group, processed records are committed, and stores can be queried.
        Source: `KafkaStreams.pause` (KIP-834).
        """
        self._set_paused(PausedBy.USER, True)

    def resume(self) -> None:
        """End the pause that a call of `pause` has begun. Does nothing if the instance is not paused."""
        self._set_paused(PausedBy.USER, False)

    def add_stream_thread(self) -> str | None:
        """Start one more thread, and return its name. If the state is not REBALANCING or RUNNING, or if `start` still
        waits for the global stores, starts no thread and returns None. Source: `KafkaStreams.addStreamThread`
        (KIP-663). Differs from Kafka: there, a thread that is added while the global stores are restored reads stores
        that lack records.
        """
        thread = self._threads.add() if self._is_alive else None
        if thread is None:
            _logger.warning("no thread is added: the instance is %s", self.state)
            return None
        return thread.name

    def remove_stream_thread(self, timeout_s: float | None = None) -> str | None:
        """Make one thread commit, leave the group and end. Waits for the end of the thread, at most `timeout_s`, and
        returns the thread's name. Returns None if there is no thread to remove, or if the state is not REBALANCING or
        RUNNING. A stream thread of the instance may call this method. The method then does not wait, and removes the
        calling thread only if there is no other thread. Source: `KafkaStreams.removeStreamThread`.
        """
        if not self._is_alive:
            _logger.warning("no thread is removed: the instance is %s", self.state)
            return None
        own = threading.current_thread().name
        thread = self._threads.remove(timeout_s, spare=own, wait=not self._is_own(own))
        if thread is None:
            _logger.warning("no thread is removed: there is none")
            return None
        return thread.name

    # --- internals

    @property
    def _is_alive(self) -> bool:
        return not self._closing and self.state in _ALIVE

    def _global_threads(self) -> tuple[GlobalThread, ...]:
        return () if self._global is None else (self._global,)

    def _start_threads(self) -> None:
        """Start the stream threads. As in Kafka, a topology that has only global stores needs no stream thread. No
        thread is started after a call of `close`.
        """
        with self._changed:
            self._has_started_threads = True
            is_needed = not self._closing and bool(self.application.group_topology().subtopologies)
        self._threads.start(self.application.configs.num_stream_threads if is_needed else 0)
        self._thread_changed()

    def _global_thread_failed(self, error: Exception) -> None:
        response = self.application.response_to(error)
        if response is ThreadErrorResponse.REPLACE_THREAD:
            _logger.warning("the global thread cannot be replaced, so the instance shuts down")
        self._threads.fail(error, response)

    def _new_thread(self, index: int) -> StreamThread:
        assert self._resources is not None, "threads are made after the start"
        return self._resources.new_thread(
            index,
            self.metrics,
            state_changed=self._threads.thread_changed,
            is_paused=lambda: self.is_paused,
            is_group_paused=lambda: self.is_group_paused,
            threads=self._threads.__len__,
        )

    def _group_pause_changed(self, paused: bool) -> None:
        """Begin or end the pause of the group. While the group is paused, the restore of tasks continues, so that
        standbys can become active at once. While the user has paused the instance, tasks are not restored.
        """
        self._set_paused(PausedBy.GROUP, paused)

    def _set_paused(self, by: PausedBy, paused: bool) -> None:
        self._paused_by = self._paused_by | {by} if paused else self._paused_by - {by}
        self.metrics.paused(by, paused)
        for thread in self._threads:
            thread.wake()

    def _is_own(self, name: str) -> bool:
        """Returns True if the thread with this name belongs to the instance. A thread of the instance must not wait for
        the end of the instance, because the instance waits for the end of this thread.
        """
        others = {self._supervisor.name, *(each.name for each in self._global_threads())}
        return name in others or self._threads.has(name)

    def _is_own_thread(self, name: str) -> bool:
        return self._options.owns_process or name.startswith(f"{self.application_id}-") or self._is_own(name)

    def _thread_changed(self) -> None:
        with self._changed:
            if self.state in _ALIVE and self._has_started_threads:
                self._state.change(InstanceState.RUNNING if self._threads.is_running else InstanceState.REBALANCING)
            self._changed.notify_all()
        self._state.notify()

    def _change_state(self, state: InstanceState) -> None:
        """Change the state and call the listener.

        `wait` returns only after the listener was called for the last state, because the program may exit after `wait`.
        """
        with self._changed:
            self._state.change(state)
            self._changed.notify_all()
        self._state.notify()
        if state in _ENDED:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _supervise(self) -> None:
        """Wait until every thread has ended, then close the resources of the instance."""
        self._threads.supervise(ending=lambda: self._change_state(InstanceState.PENDING_SHUTDOWN))
        for notice in self.notices.newest():
            if notice.code in LOSSES:
                shown = (self.application_id, notice.code, f"{notice.count:,}", notice.text)
                _logger.warning("%s has ended; %s %s in all: %s", *shown, extra=ALREADY_A_NOTICE)
        self._close_resources()
        self._change_state(InstanceState.ERROR if self._threads.has_failed else InstanceState.NOT_RUNNING)

    def _close_resources(self) -> None:
        if self._global is not None:
            self._global.close()
        if self._resources is not None:
            self._resources.close()
        self._logged.close()
