"""The settings of the leader, and its session time-outs in the application's group and in the election group. No I/O.

Times are in milliseconds. Most defaults are the defaults of Kafka's consumer. Rules for the session time-outs:
- If the leader fails in the middle of a rebalance, the group waits until the leader's session expires. So the default
  session time-out is the shortest time-out that the brokers allow.
- If there is a standby, the default session time-out in the application's group is 1.5 times the shortest time-out that
  the brokers allow. The standby needs this time to replace a failed leader. The standby learns of the failure when the
  leader's session in the election group expires. Then the standby has to join the application's group before the
  leader's session in the application's group expires.
- A session time-out that the user gives is used unchanged in the application's group. The session time-out in the
  election group is then two thirds of the user's time-out, and at most 6 s.
- The leader may not be allowed to read the brokers' configs, which have the bounds for session time-outs. So if the
  brokers refuse a session time-out, the leader tries the next time-out of a fixed list.

Source: `group.min.session.timeout.ms`, `group.max.session.timeout.ms`, `GroupMetadataManager.classicGroupJoin`.
"""

from dataclasses import dataclass

from assignor.errors import InputError

LEAST_SESSION_TIMEOUT_MS = 6_000
"""Kafka's default of `group.min.session.timeout.ms`."""
_TRIED_NEXT_MS = (10_000, 20_000, 30_000, 60_000, 300_000, 1_800_000, 3_000, 1_000)
_LONGEST_CANDIDACY_MS = 6_000

DEFAULT_REBALANCE_TIMEOUT_MS = 300_000
DEFAULT_RETRY_TIMEOUT_MS = 120_000
DEFAULT_METADATA_MAX_AGE_MS = 10_000


@dataclass(frozen=True, slots=True)
class LeadSettings:
    """The settings of the leader. `session_timeout_ms`: the user's session time-out; if None, `OwnSession` finds the
    shortest time-out that the brokers allow. `rebalance_timeout_ms`: the time that the brokers wait for members to join
    a rebalance (max.poll.interval.ms). `retry_timeout_ms`: the time for which the leader retries a failing rebalance.
    After this time, the leader leaves the group, so that another member leads it. `retry_timeout_ms` must be shorter
    than the rebalance time-out, after which the brokers remove the leader. `metadata_max_age_ms`: the interval at which
    the leader polls the source topics. `stand_by`: True to wait while another `assignor lead` process leads.
    `join_anyway`: True to stay in the group as a follower when another member leads the group. `wait`: True to wait
    until the group is empty.
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
        if not 1 <= self.retry_timeout_ms < self.rebalance_timeout_ms:
            raise InputError(f"must be from 1 to {self.rebalance_timeout_ms - 1}", "--round-timeout-ms")


class OwnSession:
    """The session time-outs of the leader. `given_ms`: the session time-out that the user gives; None to use the
    shortest time-out that the brokers allow.
    """

    def __init__(self, given_ms: int | None) -> None:
        self._given_ms = given_ms
        self._least_ms = LEAST_SESSION_TIMEOUT_MS
        self._untried_ms = list(_TRIED_NEXT_MS)

    @property
    def in_election_ms(self) -> int:
        """The session time-out in the election group: two thirds of the user's session time-out, and at most 6 s. If
        the user gives no time-out, this value is the shortest time-out that the brokers allow.
        """
        if self._given_ms is None:
            return self._least_ms
        return min(_LONGEST_CANDIDACY_MS, max(1, self._given_ms * 2 // 3))

    def in_group_ms(self, *, has_standby: bool) -> int:
        """Returns the session time-out in the application's group."""
        if self._given_ms is not None:
            return self._given_ms
        return self._least_ms * 3 // 2 if has_standby else self._least_ms

    def try_another(self) -> bool:
        """Chooses the next session time-out of the list, after the brokers refused a time-out. Returns False if the
        user gave the time-out, or if the list has no further time-out.
        """
        if self._given_ms is not None or not self._untried_ms:
            return False
        self._least_ms = self._untried_ms.pop(0)
        return True
