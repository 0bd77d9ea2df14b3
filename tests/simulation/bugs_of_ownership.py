"""Bugs of several coordinators: who owns a group and until when, and what is forgotten when another one takes it.

What the database refuses, it refuses in SQL. Here a table in memory stands for it, so these bugs are bugs of the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coordinator_api.group.events import Recovered
from coordinator_api.group.group import Group
from coordinator_api.group.liveness import Liveness
from coordinator_api.ownership import observation
from coordinator_api.ownership.incumbent import Incumbent
from coordinator_api.ownership.lease import Lease
from coordinator_api.ownership.observation import Observation
from tests.coordinator_api.ownership.table import OwnershipTable
from tests.simulation.bug import (
    BECOMES_STABLE,
    LIVING_STAY,
    OWNER_ANSWERS,
    OWNER_WRITES,
    SERVED_AGAIN,
    always,
    bug,
)


def renews_without_a_row(_: Any) -> Any:
    def removed(self: Incumbent, now_ms: float) -> list[Any]:
        self._lease.beaten(now_ms, now_ms)
        self._beat_due_ms = now_ms + self._times.beat_ms
        return []

    return removed


def takes_anyway(_: Any) -> Any:
    def take(self: OwnershipTable, group_id: str, owner: str | None, epoch: int, by: str) -> bool:
        if by not in self.coordinators:
            return False
        self.groups[group_id] = self.groups[group_id]._replace(owner=by, epoch=epoch + 1)
        return True

    return take


def no_ends_of_sessions(original: Any) -> Any:
    def rearm(self: Liveness, image: Any, now_ms: int) -> None:
        original(self, image, now_ms)
        self.next_expiry_ms = None

    return rearm


def recovers_without_effects(original: Any) -> Any:
    def handle(self: Group, event: Any, now_ms: int) -> Any:
        outcome = original(self, event, now_ms)
        return replace(outcome, effects=()) if isinstance(event, Recovered) else outcome

    return handle


BUGS_OF_OWNERSHIP = (
    bug(
        "lease counted from the answer",
        "A beat whose answer comes late gives a lease that is longer than others wait.",
        OWNER_ANSWERS,
        (Lease, "beaten", lambda original: lambda self, _, now_ms: original(self, now_ms, now_ms)),
    ),
    bug(
        "lease without an end",
        "A former owner that was frozen answers reads from what it knew.",
        OWNER_ANSWERS,
        (Lease, "may_answer", lambda _: lambda self, now_ms: self._until_ms is not None),
    ),
    bug(
        "lease renewed without a row",
        "A coordinator whose row is gone takes its beat for one that succeeded.",
        OWNER_ANSWERS,
        (Incumbent, "_removed", renews_without_a_row),
    ),
    bug(
        "ended within its lease",
        "Others wait for half as long as a coordinator may answer.",
        OWNER_ANSWERS,
        (observation, "MARGIN", lambda _: 0.5),
    ),
    bug(
        "outage counted as looking",
        "After an outage of the database a coordinator is ended before it can renew its row.",
        LIVING_STAY,
        (observation, "MOST_BEATS_COUNTED", lambda _: 1_000_000),
    ),
    bug(
        "nobody is ever over",
        "What a coordinator had that died is never served again.",
        SERVED_AGAIN,
        (Observation, "over", always([])),
    ),
    bug(
        "write in another epoch",
        "What a former owner had sent is written after another one has taken the group.",
        OWNER_WRITES,
        (OwnershipTable, "may_write", always(True)),
    ),
    bug(
        "taken whatever the row says",
        "Two that take a group at one time both have it.",
        OWNER_ANSWERS,
        (OwnershipTable, "take", takes_anyway),
    ),
    bug(
        "sessions without an end after a takeover",
        "Who died before another coordinator took the group stays a member and keeps its tasks.",
        BECOMES_STABLE,
        (Liveness, "rearm", no_ends_of_sessions),
    ),
    bug(
        "rebalance forgotten at a takeover",
        "What the former owner was computing is computed by nobody.",
        BECOMES_STABLE,
        (Group, "handle", recovers_without_effects),
    ),
)
