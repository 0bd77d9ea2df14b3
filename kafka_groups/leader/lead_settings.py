"""How a leader behaves in the group. Times are milliseconds; most defaults are those of Kafka's consumer."""

from __future__ import annotations

from dataclasses import dataclass

from assignor.errors import InputError

DEFAULT_REBALANCE_TIMEOUT_MS = 300_000
DEFAULT_RETRY_TIMEOUT_MS = 120_000
DEFAULT_METADATA_MAX_AGE_MS = 10_000


@dataclass(frozen=True, slots=True)
class LeadSettings:
    """`session_timeout_ms`: None for the least that the brokers allow (`OwnSession`). `rebalance_timeout_ms`: how long
    the brokers wait for members to join a rebalance (max.poll.interval.ms). `retry_timeout_ms`: how long the leader
    retries a rebalance that fails before it hands the lead back; shorter than the rebalance time-out, after which the
    brokers remove the leader. `metadata_max_age_ms`: how often the leader looks at the source topics. `stand_by`: wait
    while another process of this program leads. `join_anyway`: stay in the group as a follower when another member
    leads it. `wait`: wait until the group is empty.
    """

    group: str
    group_instance_id: str
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int = DEFAULT_REBALANCE_TIMEOUT_MS
    retry_timeout_ms: int = DEFAULT_RETRY_TIMEOUT_MS
    metadata_max_age_ms: int = DEFAULT_METADATA_MAX_AGE_MS
    stand_by: bool = False
    join_anyway: bool = False
    wait: bool = False

    def __post_init__(self) -> None:
        if not self.group:
            raise InputError("must be the application.id, not empty", "--group")
        if self.session_timeout_ms is not None and self.session_timeout_ms < 1:
            raise InputError(f"must be at least 1, not {self.session_timeout_ms}", "--session-timeout-ms")
        if not 1 <= self.retry_timeout_ms < self.rebalance_timeout_ms:
            raise InputError(f"must be from 1 to {self.rebalance_timeout_ms - 1}", "--round-timeout-ms")
