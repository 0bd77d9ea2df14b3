"""The resources of an instance, which its threads share. The resources are opened when the instance starts, and closed
when it has ended.

The resources are the query server, the coordinator's client, the state directory, the log, the process's membership in
the group, and housekeeping. The query server is opened first, because subscriptions contain its address. The query
server is closed after the last thread has ended.
"""

import hashlib
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import InitVar, dataclass, field

from assignor.errors import InputError
from assignor.types import HostInfo, ProcessId
from coordinator_client.calls import CallerToken
from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.common.losses import TaskLosses
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.notices import NoticeBoard
from streams_runtime.configs import HOST_TAG, LONGEST_TAG_VALUE, StreamsConfig
from streams_runtime.instance.application import Application
from streams_runtime.instance.global_thread import GlobalThread
from streams_runtime.instance.housekeeping import Housekeeping
from streams_runtime.instance.instance_view import InstanceView, ShownInstance
from streams_runtime.instance.restore.restore_listener import RestoreListener, SilentRestoreListener
from streams_runtime.instance.stream_thread import StreamThread
from streams_runtime.instance.task_creation import global_task
from streams_runtime.instance.thread_listener import ThreadListener
from streams_runtime.instance.thread_work import ThreadSetting
from streams_runtime.logs.base import Log
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_membership import ProcessMembership
from streams_runtime.queries.server import QueryServer
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.tasks.state_directory import StateDirectory

_logger = logging.getLogger(__name__)
_SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """The settings of one instance. The `Application` has the settings that are the same for all instances.

    `thread_name`: a function that takes the index of a thread and returns the thread's name. Names must be unique in
    the group. `incarnation`: None for dynamic members. If `incarnation` is a number, each thread is a static member,
    with the thread's name as group.instance.id. A static member fences a member with the same name and a lower
    incarnation. `lock_wait_ms`: the longest wait for the lock of the state directory while an earlier process is
    ending. `serve_at`: the host:port at which this instance answers queries, in place of the config
    `application.server`. `owns_process`: True if only this instance runs in the process. If `owns_process` is True, all
    warnings and errors that the process logs are reported to the group. If `owns_process` is True, the garbage
    collector also ignores all objects that exist when the instance starts. `restore_listener`: None if the application
    makes the restore listener.
    """

    thread_name: Callable[[int], str] | None = None
    thread_listener: Callable[[str], ThreadListener] = lambda _name: ThreadListener()
    restore_listener: RestoreListener | None = None
    incarnation: int | None = None
    serve_at: str | None = None
    client_tags: Mapping[str, str] | None = None
    rack: str | None = None
    token: str | CallerToken | None = field(default=None, repr=False)
    lock_wait_ms: int = 0
    owns_process: bool = False
    clock: Clock = _SYSTEM_CLOCK


@dataclass(eq=False, repr=False)
class InstanceResources:
    """Opens all resources in the constructor. Call `close` after all threads have ended.

    `coordinator`: one or more URLs of the coordinator, separated by commas, or a client of the coordinator.
    If the caller passes a client, `close` does not close this client. Raises LockError if another process has locked
    the state directory. Also raises InputError, LogError and StreamsRuntimeError. If the constructor raises an error,
    all resources are closed again.
    """

    _application: Application
    coordinator: InitVar[CoordinatorClient | str]
    _options: InstanceOptions
    _notices: NoticeBoard
    group_pause_changed: InitVar[Callable[[bool], None]]

    def __post_init__(self, coordinator: CoordinatorClient | str, group_pause_changed: Callable[[bool], None]) -> None:
        application, options = self._application, self._options
        configs = application.configs
        self._topology = application.group_topology()
        self._restore_listener = (
            options.restore_listener or (application.restore_listener_factory or SilentRestoreListener)()
        )
        self._global_stores: Mapping[str, StateStore] = {}
        with ExitStack() as undo:
            address = options.serve_at or configs.application_server
            self._server = None if address is None else QueryServer(address, options.token, configs.endpoint_tls)
            if self._server is not None:
                undo.callback(self._server.close)
            self._closes_client = isinstance(coordinator, str)
            self._client = (
                CoordinatorClient(coordinator, token=options.token) if isinstance(coordinator, str) else coordinator
            )
            if self._closes_client:
                undo.callback(self._client.close)
            self._directory = StateDirectory(
                configs.state_dir, application.id, options.clock, lock_wait_ms=options.lock_wait_ms
            )
            undo.callback(self._directory.close)
            self._log: Log = open_log(configs.bootstrap_servers, configs.log_properties)
            undo.callback(self._log.close)
            cluster_id = self._log.cluster_id()
            if cluster_id is not None:
                self._directory.belong_to(cluster_id)
            _check_dead_letter_topic(configs, self._log)
            undo.pop_all()
        self.housekeeping = Housekeeping(
            application.id,
            self._directory,
            self._log,
            configs.state_cleanup_delay_ms,
            written=_written_topics(application),
        )
        self._membership = ProcessMembership(
            self._client,
            application.id,
            session_timeout_ms=configs.session_timeout_ms,
            heartbeat_interval_ms=configs.heartbeat_interval_ms,
            notices=self._notices,
            pause_changed=group_pause_changed,
            clock=options.clock,
        )

    @property
    def process_id(self) -> ProcessId:
        """The process id, which is stored in the state directory."""
        return self._directory.process_id

    @property
    def endpoint(self) -> HostInfo | None:
        return None if self._server is None else self._server.endpoint

    def start_endpoint(self, instance: ShownInstance) -> None:
        """Start the query server. Does nothing if the instance has no address for queries. Raises
        StreamsRuntimeError.
        """
        if self._server is not None:
            self._server.start(InstanceView(instance, self._log))

    def new_global_thread(
        self, metrics: InstanceMetrics, *, state_changed: Callable[[], None], failed: Callable[[Exception], None]
    ) -> GlobalThread | None:
        """Make the global thread of the instance. The stream threads that are made later can read its stores. Returns
        None if the topology has no global stores.
        """
        name = f"{self._client_id}-GlobalStreamThread"
        counted = metrics.thread(name)
        task = global_task(
            self._application,
            self._directory,
            self._log,
            self._options.clock,
            lambda task_id: TaskLosses(task_id, counted.task(task_id), self._notices),
        )
        if task is None:
            return None
        self._global_stores = task.stores
        return GlobalThread(name, task, self._restore_listener, counted, state_changed, failed)

    @property
    def _client_id(self) -> str:
        return self._application.configs.client_id or f"{self._application.id}-{self.process_id}"

    def new_thread(
        self,
        index: int,
        metrics: InstanceMetrics,
        *,
        state_changed: Callable[[], None],
        is_paused: Callable[[], bool],
        is_group_paused: Callable[[], bool],
        threads: Callable[[], int],
    ) -> StreamThread:
        """Make the stream thread with this index.

        `metrics`: the metrics of the instance. `threads`: a function that returns the present number of threads.
        """
        configs = self._application.configs
        options = self._options
        name = f"{self._client_id}-StreamThread-{index + 1}"
        if options.thread_name is not None:
            name = options.thread_name(index)
        setting = ThreadSetting(
            name=name,
            application=self._application,
            log=self._log,
            directory=self._directory,
            membership=self._membership,
            member=MemberSettings(
                group_id=self._application.id,
                client_id=name,
                group_instance_id=None if options.incarnation is None else name,
                incarnation=options.incarnation,
                session_timeout_ms=configs.session_timeout_ms,
                rebalance_timeout_ms=configs.rebalance_timeout_ms,
                leave_on_disconnect=configs.leave_on_disconnect,
            ),
            subscriptions=SubscriptionWriter(
                self.process_id,
                tuple(sorted(self._topology.source_topics)),
                {
                    **({HOST_TAG: host_tag()} if configs.spreads_over_hosts else {}),
                    **configs.client_tags,
                    **(options.client_tags or {}),
                },
                self.endpoint,
                options.rack,
                {each.id: each for each in self._topology.subtopologies},
            ),
            transactional_id=f"{self._application.id}-{self.process_id}-{index}" if configs.exactly_once else None,
            clock=options.clock,
            listener=options.thread_listener(name),
            restore_listener=self._restore_listener,
            metrics=metrics.thread(name),
            notices=self._notices,
            state_changed=state_changed,
            is_paused=is_paused,
            is_group_paused=is_group_paused,
            cache_bytes=lambda: configs.statestore_cache_max_bytes // max(1, threads()),
            uncommitted_bytes=lambda: configs.statestore_uncommitted_max_bytes // max(1, threads()),
            global_stores=self._global_stores,
        )
        return StreamThread(setting)

    def close(self) -> None:
        """Close all resources. If a resource cannot be closed, the error is logged, and the other resources are closed
        nevertheless.
        """
        self._membership.close()
        self.housekeeping.close()
        server = [] if self._server is None else [("endpoint", self._server.close)]
        for name, closing in (*server, ("state directory", self._directory.close), ("log", self._log.close)):
            try:
                closing()
            except Exception:
                _logger.exception("the %s could not be closed", name)
        if self._closes_client:
            self._client.close()


def host_tag() -> str:
    """Returns the host name as the value of a client tag.

    If the name is longer than Kafka allows, the end of the name is replaced by a hash of the whole name.
    """
    name = socket.gethostname()
    if len(name) <= LONGEST_TAG_VALUE:
        return name
    hashed = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_TAG_VALUE - len(hashed) - 1]}-{hashed}"


def _check_dead_letter_topic(configs: StreamsConfig, log: Log) -> None:
    """Raises InputError if the dead letter topic is missing.

    Differs from Kafka: in Kafka, the error is raised only when the first dead letter is sent, which may be long after
    the start.
    """
    topic = configs.errors_dead_letter_queue_topic_name
    if topic is not None and not log.partitions_of(topic):
        raise InputError(f"the log has no topic {topic}; create it first", "errors.dead.letter.queue.topic.name")


def _written_topics(application: Application) -> set[str]:
    topics: set[str] = set()
    for each in application.group_topology().subtopologies:
        topics.update(each.sink_topics, each.repartition_sink_topics)
        topics.update(store.changelog_topic for store in each.stores if store.changelog_topic is not None)
    return topics
