"""The bugs that the simulation has to find by itself, one at a time."""

from __future__ import annotations

from tests.simulation.bug import Bug
from tests.simulation.bugs_of_group import BUGS_OF_GROUP
from tests.simulation.bugs_of_lease import BUGS_OF_LEASE
from tests.simulation.bugs_of_members import BUGS_OF_MEMBERS
from tests.simulation.bugs_of_stored_groups import BUGS_OF_STORED_GROUPS
from tests.simulation.bugs_of_tasks import BUGS_OF_TASKS

BUGS: tuple[Bug, ...] = (*BUGS_OF_GROUP, *BUGS_OF_STORED_GROUPS, *BUGS_OF_LEASE, *BUGS_OF_MEMBERS, *BUGS_OF_TASKS)

ALWAYS_FOUND: frozenset[str] = frozenset(
    {
        "retry joins twice",
        "result of an older generation stored",
        "older assignment handed out",
        "acknowledgement of an older generation",
        "rebalance goes on without all",
        "generations begin again",
        "drain passed over",
        "drain forgotten after a crash",
        "pause forgotten after a crash",
        "hold forgotten after a crash",
        "timer forgotten after a restart",
        "sessions shortened by a restart",
        "join ids forgotten after a restart",
        "levers left out of the snapshot",
        "answered before it was committed",
        "committed and not applied",
        "retry with a new id",
        "acknowledged before it is fetched",
        "revocation forgotten",
        "pause not heard",
        "active and standby in one process",
        "handed out before it was given up",
        "offset committed by a fenced task",
        "checkpoint ahead of the flush",
        "commit skipped at a revocation",
        "restored by one too many",
        "polled counts as processed",
        "offsets outside of the transaction",
        "lease counted from the answer",
        "lease without an end",
        "lease renewed without a row",
        "ended within its lease",
        "outage counted as looking",
        "nobody is ever over",
        "write in another epoch",
        "sessions without an end after a takeover",
        "rebalance forgotten at a takeover",
    }
)
"""Names of those that have to be found from every start. Of the others it is told how often they were."""


def named(name: str) -> Bug:
    """Raises KeyError."""
    return {each.name: each for each in BUGS}[name]
