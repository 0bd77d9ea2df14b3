"""The limits a group works within. Source: `GroupCoordinatorConfig`; the settings keep the broker's names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Times in milliseconds.

    `initial_rebalance_delay_ms` (`group.initial.rebalance.delay.ms`): how long an empty group waits for more members
    after the first. `min_session_timeout_ms`, `max_session_timeout_ms`: what a member may ask for. Differs from Kafka:
    the minimum is 500, not 6,000, because failover within a second is the point. `max_size` (`group.max.size`): the
    largest number of members. `new_member_join_timeout_ms`: a member that sends nothing after its first join is removed
    after this long, even if its session timeout is longer: the answer with its member id was lost, so nobody knows that
    the member exists. `disconnect_grace_ms` (`group.disconnect.grace.ms`): see `ConnectionLost`.
    """

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 500
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    disconnect_grace_ms: int = 100
