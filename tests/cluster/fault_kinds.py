"""What happens to whom, and in which order. Each fault returns when it has ended, and says in words what it was."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.cluster.cluster import LEASE_MS, Cluster
from tests.known import known

LEASE_S = LEASE_MS / 1000
_MOST_SEGMENTS = 100
_LONG_S = 30.0
"""Many leases, and longer than any session."""

Fault = Callable[[Cluster, random.Random], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class FaultKind:
    """`moves_tasks`: members come or go, so that a rebalance is right. `needs_small_disk`: it fills one.
    `needs_words`: it happens to the word count.
    """

    name: str
    happens: Fault
    moves_tasks: bool = False
    needs_small_disk: bool = False
    needs_words: bool = False


async def _coordinator_killed(cluster: Cluster, chance: random.Random) -> str:
    number = chance.randrange(len(cluster.coordinators))
    await cluster.coordinators[number].kill()
    away_s = chance.uniform(0, 2 * LEASE_S)
    await asyncio.sleep(away_s)  # this is the fault, as all sleeps here are
    await cluster.coordinators[number].start()
    return f"coordinator {number}, away for {away_s:.1f} s"


async def _coordinator_frozen(cluster: Cluster, chance: random.Random) -> str:
    number = chance.randrange(len(cluster.coordinators))
    frozen_s = chance.uniform(1.2, 2.5) * LEASE_S
    cluster.coordinators[number].signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(frozen_s)
    finally:
        cluster.coordinators[number].signal(signal.SIGCONT)
    return f"coordinator {number} for {frozen_s:.1f} s"


async def _coordinator_restarted(cluster: Cluster, chance: random.Random) -> str:
    number = chance.randrange(len(cluster.coordinators))
    code = await cluster.coordinators[number].stop()
    assert code == 0, f"coordinator {number} ended with {code}"
    await cluster.coordinators[number].start()
    return f"coordinator {number}"


async def _connections_cut(cluster: Cluster, chance: random.Random) -> str:
    count = await asyncio.to_thread(cluster.pair.primary.cut_connections)
    return f"{count} connections"


async def _database_restarted(cluster: Cluster, chance: random.Random) -> str:
    mode = chance.choice(("fast", "immediate"))
    await asyncio.to_thread(cluster.pair.primary.restart, mode)
    return mode


async def _failover(cluster: Cluster, chance: random.Random) -> str:
    frozen = chance.random() < 0.5
    await asyncio.to_thread(cluster.pair.failover, frozen=frozen)
    await asyncio.sleep(chance.uniform(0, LEASE_S))
    await asyncio.to_thread(cluster.pair.make_new_standby)
    return "the primary stood still" if frozen else "the primary was killed"


async def _database_frozen(cluster: Cluster, chance: random.Random) -> str:
    which, server = chance.choice((("primary", cluster.pair.primary), ("standby", cluster.pair.standby)))
    frozen_s = _LONG_S if chance.random() < 0.25 else chance.uniform(1.2, 2.5) * LEASE_S
    await asyncio.to_thread(server.freeze)
    try:
        await asyncio.sleep(frozen_s)
    finally:
        await asyncio.to_thread(server.thaw)
    return f"{which} for {frozen_s:.1f} s"


async def _disk_full(cluster: Cluster, chance: random.Random) -> str:
    primary = cluster.pair.primary
    full_s = chance.uniform(0.5, 1.5) * LEASE_S

    def fill() -> int:
        """Until the log of the database has no room either; otherwise it would go on in what it has already."""
        return primary.write_log(_MOST_SEGMENTS)

    def mend() -> str:
        if primary.is_running():
            return "it went on"
        primary.start()
        return "it had to be started"

    with primary.full_disk():
        written = await asyncio.to_thread(fill)
        await asyncio.sleep(full_s)
    with suppress(ConnectionError):
        await asyncio.to_thread(primary.until_it_answers_or_ends)
    said = await asyncio.to_thread(mend)
    return f"primary for {full_s:.1f} s, after {written} more pieces of its log; {said}"


async def _member_killed(cluster: Cluster, chance: random.Random) -> str:
    fleet = chance.choice(cluster.fleets)
    victim = chance.choice(fleet.processes)
    generation_id = max(member.generation_id for member in fleet.members())
    plain = not victim.manners.held
    fleet.kill([victim])
    cluster.add_process(fleet, plain=plain)
    await fleet.until_settled(beyond=generation_id)
    return f"a process of {fleet.group_id}, and another one joined"


async def _spark_worker_killed(cluster: Cluster, chance: random.Random) -> str:
    return await asyncio.to_thread(known(cluster.words).kill_one, chance)


KINDS = (
    FaultKind("coordinator killed", _coordinator_killed),
    FaultKind("coordinator frozen past its lease", _coordinator_frozen),
    FaultKind("coordinator restarted cleanly", _coordinator_restarted),
    FaultKind("database connections cut", _connections_cut),
    FaultKind("database restarted", _database_restarted),
    FaultKind("database failover", _failover),
    FaultKind("database frozen past the lease", _database_frozen),
    FaultKind("database disk full", _disk_full, needs_small_disk=True),
    FaultKind("member killed", _member_killed, moves_tasks=True),
    FaultKind("Spark worker killed", _spark_worker_killed, moves_tasks=True, needs_words=True),
)


def drawn(kinds: Sequence[str], count: int, chance: random.Random) -> list[str]:
    """So many by chance, in rounds. A round has each kind once; what is left over at the end is a part of a round."""
    found: list[str] = []
    while len(found) < count:
        found += chance.sample(kinds, len(kinds))
    return found[:count]
