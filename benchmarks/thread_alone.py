"""The work of one stream thread, with its own consumer, producer, tasks and loop, but without a group."""

from collections.abc import Mapping, Sequence

from assignor.types import TaskId
from benchmarks.applications import EVENTS_0
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.notices import NoticeBoard
from streams_runtime.instance.application import Application
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.instance.thread_listener import ThreadListener
from streams_runtime.instance.thread_work import ThreadSetting, ThreadWork
from streams_runtime.logs.base import Log
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_events import Partitions
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_membership import ProcessMembership
from streams_runtime.membership.rebalance_mailbox import RebalanceMailbox
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.tasks.state_directory import StateDirectory

TASKS: Mapping[TaskId, Partitions] = {TaskId(0, 0): frozenset({EVENTS_0})}
_NAME = "bench-StreamThread-1"


class ThreadAlone:
    """A stream thread that was assigned `tasks`; `run_pass` is one pass of `StreamThread`'s loop.

    `client`: part of a thread's setting, which its work never asks.
    """

    def __init__(
        self,
        application: Application,
        log: Log,
        client: CoordinatorClient,
        tasks: Mapping[TaskId, Partitions] = TASKS,
    ) -> None:
        configs = application.configs
        clock = SystemClock()
        self._directory = StateDirectory(configs.state_dir, application.id, clock)
        self._mailbox = RebalanceMailbox(_NAME, lambda: None)
        self._instance_metrics = InstanceMetrics()
        self._metrics = self._instance_metrics.thread(_NAME)
        self._work = ThreadWork(
            ThreadSetting(
                name=_NAME,
                application=application,
                log=log,
                directory=self._directory,
                membership=ProcessMembership(client, application.id, session_timeout_ms=configs.session_timeout_ms),
                member=MemberSettings(application.id, _NAME),
                subscriptions=SubscriptionWriter(self._directory.process_id, (EVENTS_0.topic,)),
                transactional_id=_NAME if configs.exactly_once else None,
                clock=clock,
                listener=ThreadListener(),
                restore_listener=SilentRestoreListener(),
                metrics=self._metrics,
                notices=NoticeBoard(clock),
                state_changed=lambda: None,
            )
        )
        self._work.manager.handle_assignment(tasks, {})

    @property
    def processed_records(self) -> int:
        return self._metrics.processed_records

    @property
    def commits(self) -> int:
        return int(self._instance_metrics.registry.get_sample_value("streams_commits_total", {"thread": _NAME}) or 0)

    @property
    def open_stores(self) -> Sequence[StateStore]:
        if not self._work.published_open_tasks:
            self._work.publish(self._mailbox)
        return [store for task in self._work.published_open_tasks for store in task.stores.values()]

    def run_pass(self) -> None:
        """Poll, initialise and restore, process a number of records, punctuate, maybe commit, maybe write."""
        work = self._work
        work.poll(may_wait=True)
        work.initialise_and_restore()
        self._process()
        work.punctuate()
        work.maybe_commit()
        work.send()
        work.maybe_publish(self._mailbox)

    def _process(self) -> None:
        """Subclasses measure it."""
        self._work.process()

    def close(self) -> None:
        self._work.manager.shutdown()
        self._work.close()
        self._directory.close()
