"""Bugs of several coordinators: who owns a group and until when, and what is forgotten when another one takes it.

What the database refuses, it refuses in SQL. Here a table in memory stands for it, so these bugs are bugs of the table.
"""

from dataclasses import replace
from typing import Any

from coordinator_api.group.events import Recovered
from coordinator_api.group.group import Group
from coordinator_api.group.liveness import Liveness
from coordinator_api.lease import lease_holder
from coordinator_api.lease.lease_holder import Expiry, LeaseHolder, ObservedLeases
from tests.coordinator_api.lease.table import LeaseTable
from tests.simulation.bug import always, bug


def renews_without_a_row(_: Any) -> Any:
    def removed(self: LeaseHolder, now_ms: float) -> list[Any]:
        self._expiry.polled(now_ms, now_ms)
        self._poll_due_ms = now_ms + self._times.renewal_ms
        return []

    return removed


def no_ends_of_sessions(original: Any) -> Any:
    def rearm(self: Liveness, image: Any, now_ms: int) -> None:
        original(self, image, now_ms)
        self.next_expiry_ms = None

    return rearm


def recovers_without_effects(original: Any) -> Any:
    def handle(self: Group, event: Any, now_ms: int) -> Any:
        outcome = original(self, event, now_ms)
        return replace(outcome, rebalance=None) if isinstance(event, Recovered) else outcome

    return handle


BUGS_OF_LEASE = (
    # A poll whose answer comes late gives a lease that is longer than others wait.
    bug(
        "lease counted from the answer",
        (Expiry, "polled", lambda original: lambda self, _, now_ms: original(self, now_ms, now_ms)),
    ),
    # A former owner that was frozen answers reads from what it knew.
    bug("lease without an end", (Expiry, "may_answer", lambda _: lambda self, now_ms: self._until_ms is not None)),
    # A coordinator whose row is gone takes its poll for one that succeeded.
    bug("lease renewed without a row", (LeaseHolder, "_removed", renews_without_a_row)),
    # Others wait for half as long as a coordinator may answer.
    bug("ended within its lease", (lease_holder, "MARGIN", lambda _: 0.5)),
    # After an outage of the database a coordinator is ended before it can renew its row.
    bug("outage counted as looking", (lease_holder, "MOST_INTERVALS_COUNTED", lambda _: 1_000_000)),
    # What a coordinator had that died is never served again.
    bug("nobody is ever over", (ObservedLeases, "expired", always([]))),
    # What a former owner had sent is written after another one has taken the group.
    bug("write in another epoch", (LeaseTable, "may_write", always(True))),
    # Who died before another coordinator took the group stays a member and keeps its tasks.
    bug("sessions without an end after a takeover", (Liveness, "rearm", no_ends_of_sessions)),
    # What the former owner was computing is computed by nobody.
    bug("rebalance forgotten at a takeover", (Group, "handle", recovers_without_effects)),
)
