"""All coordinators are restarted cleanly, one after the other, under members that only beat."""

import asyncio
import statistics
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cluster import Cluster, ClusterSize, running_coordinators, running_groups, running_pair
from tests.cluster.running import Say
from tests.history.judge import table

MOST_P99_MS = 500.0


@dataclass(frozen=True, slots=True)
class Rolled:
    """`heartbeats_ms`: of each from its first try to its answer, wherever it came from, sorted; while the coordinators
    were restarted, and `quiet_ms` before. `broken`: what happened that must not.
    """

    members: int
    quiet_ms: list[float]
    heartbeats_ms: list[float]
    generations: int
    evictions: int
    broken: list[str]
    starved_ms: float

    @property
    def is_valid(self) -> bool:
        return not self.broken and not self.evictions and not self.generations

    @property
    def p99_ms(self) -> float:
        return _quantile(self.heartbeats_ms, 0.99)

    def report(self) -> Iterator[str]:
        rows = [
            (name, f"{len(of):,}", *(f"{_quantile(of, each):.1f}" for each in (0.5, 0.99, 0.999)), f"{max(of):.1f}")
            for name, of in (("nothing happens", self.quiet_ms), ("coordinators restart", self.heartbeats_ms))
        ]
        yield from table(("while", "heartbeats", "p50, ms", "p99, ms", "p99.9, ms", "longest, ms"), rows)
        yield (
            f"{self.members:,} members: {self.evictions} evictions, {self.generations} rebalances; "
            f"the members themselves had no processor for {self.starved_ms / 1000:.1f} s in all"
        )
        yield from self.broken
        yield "valid" if self.is_valid else "NOT valid"


async def rolling_restart(size: ClusterSize, directory: Path, seed: int, say: Say, quiet_s: float = 10.0) -> Rolled:
    """Raises NoPostgresql, DidNotSettle."""
    async with AsyncExitStack() as stack:
        pair = await stack.enter_async_context(running_pair())
        coordinators = await stack.enter_async_context(running_coordinators(pair, directory, size.coordinators))
        # all make calls for single members: a heartbeat that is held says little about how long it takes
        fleets, manners = await stack.enter_async_context(running_groups(size, coordinators, seed, plain_share=1))
        cluster = Cluster(size, pair, coordinators, fleets, None, manners)
        await cluster.settle()
        say(f"{size.members:,} members have settled")
        before = cluster.generations()
        _forget(cluster)
        await asyncio.sleep(quiet_s)  # what is measured
        quiet_ms = _forget(cluster)
        starved_ms = sum(each.witness.starvation.total_ms for each in fleets) / len(fleets)
        for number, coordinator in enumerate(coordinators):
            assert await coordinator.stop() == 0, f"coordinator {number} ended badly"
            await coordinator.start()
            await cluster.settle()
            say(f"coordinator {number} was restarted")
        heartbeats_ms = _forget(cluster)
        starved_ms = sum(each.witness.starvation.total_ms for each in fleets) / len(fleets) - starved_ms
        broken = [said for each in fleets for said in (*each.witness.surprises, *each.witness.taken_back)]
        broken += [f"{each.group_id} has tasks with two owners" for each in fleets if each.witness.owned_twice()]
        evictions = sum(len(each.witness.evictions) + len(each.witness.starved) for each in fleets)
        generations = cluster.generations() - before
    return Rolled(size.members, quiet_ms, heartbeats_ms, generations, evictions, broken, starved_ms)


def _forget(cluster: Cluster) -> list[float]:
    """What all heartbeats took since the last call, sorted."""
    found: list[float] = []
    for fleet in cluster.fleets:
        found += fleet.witness.heartbeats_ms
        fleet.witness.heartbeats_ms.clear()
    return sorted(found)


def _quantile(values: list[float], share: float) -> float:
    """Of sorted values."""
    return statistics.quantiles(values, n=1_000, method="inclusive")[round(1_000 * share) - 1]
