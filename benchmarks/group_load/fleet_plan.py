"""Who joins a group under load, and how."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

LONGEST_HEARTBEAT_INTERVAL_MS = 3_000


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Processes that join one group. Times in milliseconds.

    `heartbeat_interval_ms`: None for the lower of 3,000 and a third of the session. `leave_on_disconnect`: what the
    joins ask for. `repeatable`: the first joins carry a `join_id`. `calls_at_once`: connections that a process has
    besides that of its heartbeat. `first`: the number of the first process; two fleets of one group need different
    ones. `seed`: of pauses and process ids.
    """

    group: str
    processes: int
    threads: int
    topic: str
    held: bool = True
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int | None = None
    leave_on_disconnect: bool = True
    repeatable: bool = True
    calls_at_once: int = 4
    first: int = 0
    seed: int = 1

    @property
    def heartbeat_s(self) -> float:
        default_ms = min(LONGEST_HEARTBEAT_INTERVAL_MS, self.session_timeout_ms // 3)
        return (self.heartbeat_interval_ms or default_ms) / 1_000

    @property
    def path(self) -> str:
        return f"/v1/groups/{quote(self.group, safe='')}"
