"""How long a leader's sessions last: as a member of the group that it leads, and as a candidate in the election.

Rules: a leader that dies in the middle of a rebalance holds the group up until its session expires, so the session is
the shortest that brokers allow by default. While a standby waits, the session in the group is half as long again: the
standby learns of a dead leader when the candidate's session expires, and has to be in the group before the group
notices. A time-out that the user gives is taken as it is; then the candidate's is shorter. Kafka tells the bounds of
the brokers only to those who may read their configs, so a refused time-out is replaced by trying others.
Source: `group.min.session.timeout.ms`, `group.max.session.timeout.ms`, `GroupMetadataManager.classicGroupJoin`.
"""

from __future__ import annotations

LEAST_SESSION_TIMEOUT_MS = 6_000
"""Kafka's default of `group.min.session.timeout.ms`."""

_TRIED_NEXT_MS = (10_000, 20_000, 30_000, 60_000, 300_000, 1_800_000, 3_000, 1_000)
_LONGEST_CANDIDACY_MS = 6_000


class OwnSession:
    """`given_ms`: what the user asked for, None for the least that the brokers allow."""

    def __init__(self, given_ms: int | None) -> None:
        self._given_ms = given_ms
        self._least_ms = LEAST_SESSION_TIMEOUT_MS
        self._untried_ms = list(_TRIED_NEXT_MS)

    @property
    def in_election_ms(self) -> int:
        """At most 6 s, and two thirds of a given session below 9 s."""
        if self._given_ms is None:
            return self._least_ms
        return min(_LONGEST_CANDIDACY_MS, max(1, self._given_ms * 2 // 3))

    def in_group_ms(self, *, has_standby: bool) -> int:
        """The session in the group that is led."""
        if self._given_ms is not None:
            return self._given_ms
        return self._least_ms * 3 // 2 if has_standby else self._least_ms

    def try_another(self) -> bool:
        """Take the next time-out after the brokers refused one. False when it was the user's, or none is left."""
        if self._given_ms is not None or not self._untried_ms:
            return False
        self._least_ms = self._untried_ms.pop(0)
        return True
