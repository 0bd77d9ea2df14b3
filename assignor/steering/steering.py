"""What a rebalance is steered by, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from assignor.types import ProcessId


@dataclass(frozen=True, slots=True)
class Steering:
    """`drained_processes`: instances that are to have no tasks as soon as others can run theirs. `drained_members`: the
    same for single threads, by member id; names that the group does not have mean nothing. `keeps_owned`: every task
    and standby stays on the client that says it runs it; only tasks that nobody runs are placed. `away_processes`:
    instances that keep what they have, and get nothing new.
    """

    drained_processes: frozenset[ProcessId] = frozenset()
    drained_members: frozenset[str] = frozenset()
    keeps_owned: bool = False
    away_processes: frozenset[ProcessId] = frozenset()


NO_STEERING = Steering()
