"""Who a member is, and its time-outs. Source: `ConsumerConfig`."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_DEFAULT_HEARTBEAT_INTERVAL_MS = 3_000
"""Kafka's default of heartbeat.interval.ms."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Times are in milliseconds.

    `incarnation`: rises each time the static member `group_instance_id` is started again; the older one is fenced.
    `leave_on_disconnect`: the coordinator may take the member for dead when the connection of its process breaks and
    does not come back within a fraction of a second. Differs from Kafka, where only the session timeout counts.
    """

    group_id: str
    client_id: str
    group_instance_id: str | None = None
    incarnation: int | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    leave_on_disconnect: bool = True


def default_heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Kafka's 3 s, or a third of the session when that is shorter, so that two heartbeats of a session may be lost."""
    return max(1, min(LONGEST_DEFAULT_HEARTBEAT_INTERVAL_MS, session_timeout_ms // 3))
