"""Finds loops in a forecast. A loop begins at a rebalance if a later rebalance has the same input and output.

The comparison uses the open and closed state of each thread, the lags of copies and the leader's decision. These values
determine the later rebalances. In the comparison, absolute times and offsets are ignored. The age of closed state also
matters, because a process removes old state. But if there are only follow-up rebalances between the two rebalances, the
age is ignored. Follow-up rebalances end long before a process removes closed state.
"""

import hashlib
from dataclasses import dataclass, field
from typing import NamedTuple

from assignor.types import TaskId
from rebalance_analysis.simulate.group_members import Decided, Members
from rebalance_analysis.simulate.model import ForecastTrigger

Digest = bytes


class _LoopCandidate(NamedTuple):
    number: int
    ages: Digest


@dataclass(slots=True)
class LoopFinder:
    """Finds the first rebalance that repeats an earlier rebalance. The field `_last_other` has the number of the last
    rebalance that is not a follow-up.
    """

    _seen: dict[Digest, _LoopCandidate] = field(default_factory=dict)
    _last_other: int = 0

    def find(
        self, number: int, trigger: ForecastTrigger, decided: Decided, members: Members, now_ms: int
    ) -> int | None:
        """Returns the number of the earlier rebalance that this rebalance repeats; None if it repeats no rebalance.
        Call `find` for every rebalance, before the members apply their assignments.
        """
        if trigger is not ForecastTrigger.FOLLOW_UP:
            self._last_other = number
        acceptable_lag = decided.problem.configs.acceptable_recovery_lag
        key = _digest((_assigned(members, now_ms), _unreported(members, acceptable_lag, now_ms), _output(decided)))
        ages = sorted((*copy, now_ms - state.since_ms) for copy, state in members.closed.items())
        now = _LoopCandidate(number, _digest(ages))
        before = self._seen.get(key)
        self._seen[key] = now
        if before is None or (before.ages != now.ages and before.number < self._last_other):
            return None
        return before.number


def _digest(value: object) -> Digest:
    return hashlib.blake2b(repr(value).encode(), digest_size=16).digest()


def _assigned(members: Members, now_ms: int) -> list[object]:
    """Returns three lists for every thread: its active tasks, its standbys, and the lags of the tasks that the thread
    reports.
    """
    assigned: list[object] = []
    for name, sums in members.offset_sums(now_ms).items():
        thread = members.threads[name]
        lags = [(*task, _lag(members, task, offset_sum, now_ms)) for task, offset_sum in sorted(sums.items())]
        assigned.append((sorted(map(tuple, thread.active)), sorted(map(tuple, thread.standby)), lags))
    return assigned


def _lag(members: Members, task: TaskId, offset_sum: int, now_ms: int) -> int:
    """Returns the lag of a copy. A negative offset sum is not a position but a marker, and is returned unchanged."""
    return offset_sum if offset_sum < 0 else members.ends.end(task, now_ms) - offset_sum


def _unreported(members: Members, acceptable_lag: int, now_ms: int) -> list[object]:
    """Returns the tasks whose whole changelog has at most acceptable.recovery.lag records. A client without state of
    such a task counts as caught up, because its lag is only the size of this changelog.
    """
    return [task for task, end in members.ends.ends(now_ms).items() if end <= acceptable_lag]


def _output(decided: Decided) -> list[object]:
    placed = [
        (process, sorted(client.active), sorted(client.standby))
        for process, client in decided.placement.clients.items()
    ]
    return [placed, decided.rejoin, decided.probing_at_ms is not None]
