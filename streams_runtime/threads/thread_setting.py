"""What a stream thread gets from its instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streams_runtime.application import Application
from streams_runtime.common.clock import Clock
from streams_runtime.logs.base import Log
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.group_member import Membership
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.reporting.metrics import ThreadMetrics
from streams_runtime.reporting.notices import Notices
from streams_runtime.restore.restore_listener import RestoreListener
from streams_runtime.task_manager.thread_listener import ThreadListener
from streams_runtime.tasks.task_directories import TaskDirectories

PUBLISH_INTERVAL_MS = 200
"""How often a thread publishes a snapshot of itself."""


@dataclass(frozen=True, slots=True)
class ThreadSetting:
    """`transactional_id` None: at-least-once.

    `state_changed`: called on the stream thread after each change of its state; it must not block. `is_paused`: whether
    tasks are to stand still, `is_group_paused`: whether they are only to restore; both are asked in each pass.
    `cache_bytes`: the thread's share of the record cache, which changes when threads come and go, and is asked for in
    each pass; None: it has all of it. `published`: called on the stream thread whenever others may see newer snapshots
    of it, `publish_interval_ms` after the last time at the latest; it must not block.
    """

    name: str
    application: Application
    log: Log
    directory: TaskDirectories
    membership: Membership
    member: MemberSettings
    subscriptions: SubscriptionWriter
    transactional_id: str | None
    clock: Clock
    listener: ThreadListener
    restore_listener: RestoreListener
    metrics: ThreadMetrics
    notices: Notices
    state_changed: Callable[[], None]
    is_paused: Callable[[], bool] = lambda: False
    is_group_paused: Callable[[], bool] = lambda: False
    cache_bytes: Callable[[], int] | None = None
    published: Callable[[], None] = lambda: None
    publish_interval_ms: int = PUBLISH_INTERVAL_MS
