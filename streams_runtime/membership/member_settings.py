"""Who a member is, and its time-outs. Source: `ConsumerConfig`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Times are in milliseconds.

    `incarnation`: rises each time the static member `group_instance_id` is started again; the older one is fenced.
    `heartbeat_interval_ms`: None for a third of the session timeout.
    """

    group_id: str
    client_id: str
    group_instance_id: str | None = None
    incarnation: int | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int | None = None

    @property
    def session_timeout_s(self) -> float:
        return self.session_timeout_ms / 1000

    @property
    def heartbeat_interval_s(self) -> float:
        return (self.heartbeat_interval_ms or self.session_timeout_ms / 3) / 1000
