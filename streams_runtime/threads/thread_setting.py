"""What a stream thread gets from its instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streams_runtime.application import Application
from streams_runtime.common.clock import Clock
from streams_runtime.logs.base import Log
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_membership import ProcessMembership
from streams_runtime.reporting.metrics import ThreadMetrics
from streams_runtime.reporting.notices import NoticeBoard
from streams_runtime.restore.restore_listener import RestoreListener
from streams_runtime.task_manager.thread_listener import ThreadListener
from streams_runtime.tasks.state_directory import StateDirectory


@dataclass(frozen=True, slots=True)
class ThreadSetting:
    """`transactional_id` None: at-least-once.

    `state_changed`: called on the stream thread after each change of its state; it must not block. `is_paused`: whether
    tasks are to stand still, `is_group_paused`: whether they are only to restore; both are asked in each pass.
    `cache_bytes`: the thread's share of the record cache, which changes when threads come and go, and is asked for in
    each pass; None: it has all of it.
    """

    name: str
    application: Application
    log: Log
    directory: StateDirectory
    membership: ProcessMembership
    member: MemberSettings
    subscriptions: SubscriptionWriter
    transactional_id: str | None
    clock: Clock
    listener: ThreadListener
    restore_listener: RestoreListener
    metrics: ThreadMetrics
    notices: NoticeBoard
    state_changed: Callable[[], None]
    is_paused: Callable[[], bool] = lambda: False
    is_group_paused: Callable[[], bool] = lambda: False
    cache_bytes: Callable[[], int] | None = None
