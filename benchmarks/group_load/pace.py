"""How long a run waits and watches. A quick run shows that everything works; its figures are no results."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds, unless the name has another unit.

    `initial_delay_ms`: `group.initial.rebalance.delay.ms` of both coordinators. `idle_s`: how long heartbeats are
    watched while nothing happens. `rest_s`: until memory counts as that at rest. `attack_s`: how long hostile
    connections stay open, and how long others are watched at least. `memory_back_s`: until memory has to be back.
    """

    initial_delay_ms: int
    idle_s: float
    rest_s: float
    attack_s: float
    memory_back_s: float
    rebalances_in_a_row: int
    peer_rounds: int


FULL = Pace(
    initial_delay_ms=3_000,
    idle_s=5.0,
    rest_s=10.0,
    attack_s=15.0,
    memory_back_s=10.0,
    rebalances_in_a_row=20,
    peer_rounds=2,
)
QUICK = Pace(
    initial_delay_ms=300, idle_s=0.5, rest_s=0.5, attack_s=1.0, memory_back_s=0.5, rebalances_in_a_row=2, peer_rounds=1
)
