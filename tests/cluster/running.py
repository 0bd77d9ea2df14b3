"""A run: everything is started, faults happen one after the other, and all that was seen is judged."""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.fleet.fleet import Fleet
from tests.acceptance.fleet.witness import now_ms
from tests.cluster.cluster import (
    GRACE_MS,
    Cluster,
    ClusterSize,
    DidNotSettle,
    running_coordinators,
    running_groups,
    running_pair,
)
from tests.cluster.fault_kinds import KINDS, FaultKind, drawn
from tests.cluster.report import Findings, Happened
from tests.cluster.word_count import WordCountOnSpark
from tests.coordinator_api.store.postgresql_pair import PostgresqlPair

Say = Callable[[str], None]

EVICTED = "living members stay members"
TAKEN_BACK = "no answer is taken back"
OWNED_TWICE = "no task is owned twice"
COUNTS = "the history of the word count is possible, and its counts are exact"
COMES_TO_REST = "all settles after each fault"
FAULTS_END = "faults do what they are to do"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`directory`: new. `with_words`: one more group, on Spark executors. `kinds`: of the faults, all without it."""

    seed: int
    faults: int
    directory: Path
    size: ClusterSize = field(default_factory=ClusterSize)
    with_words: bool = True
    kinds: tuple[str, ...] = ()


async def run(settings: RunSettings, say: Say) -> tuple[list[Happened], Findings]:
    """Ends what it has started. Raises NoPostgresql."""
    chance = random.Random(settings.seed)
    happened: list[Happened] = []
    findings = Findings({each: [] for each in (EVICTED, TAKEN_BACK, OWNED_TWICE, COMES_TO_REST, FAULTS_END)})
    async with AsyncExitStack() as stack:
        pair = await stack.enter_async_context(running_pair(on_small_disks=True))
        logs = f"embedded:{settings.directory / 'words' / 'log'}"
        coordinators = await stack.enter_async_context(
            running_coordinators(
                pair, settings.directory, settings.size.coordinators, "--cluster-bootstrap-servers", logs
            )
        )
        fleets, manners = await stack.enter_async_context(running_groups(settings.size, coordinators, settings.seed))
        words: WordCountOnSpark | None = None
        if settings.with_words:
            urls = ",".join(f"http://{each.address.host}:{each.address.port}" for each in coordinators)
            words = WordCountOnSpark(urls, settings.directory / "words", settings.seed, GRACE_MS)
        working = nullcontext() if words is None else words.working()
        await asyncio.to_thread(working.__enter__)
        stack.push(working.__exit__)
        cluster = Cluster(settings.size, pair, coordinators, fleets, words, manners)
        kinds, findings.left_out = _possible(settings.kinds, pair, with_words=words is not None)
        try:
            await cluster.settle()
            say(f"{settings.size.members} members of {len(fleets)} groups have settled")
            names = drawn([each.name for each in kinds], settings.faults, chance)
            for number, name in enumerate(names, start=1):
                kind = next(each for each in kinds if each.name == name)
                one = await _one_fault(cluster, kind, chance.random())
                happened.append(one)
                say(f"{number} of {len(names)}: {told(one)}")
        except DidNotSettle as error:
            findings.broken[COMES_TO_REST].append(str(error))
        except AssertionError as error:
            findings.broken[FAULTS_END].append(str(error))
        await _judge(cluster, findings)
        if words is not None:
            await asyncio.to_thread(words.rest)
            is_valid, findings.words = words.judged()
            findings.broken[COUNTS] = [] if is_valid else ["see its report above"]
    return happened, findings


async def _one_fault(cluster: Cluster, kind: FaultKind, seed: float) -> Happened:
    """In one half of the cases, members come and go meanwhile."""
    cluster.begin_to_measure()
    began_ms, began_s = now_ms(), time.monotonic()
    before = cluster.generations()
    chance, of_members = random.Random(f"{seed} fault"), random.Random(f"{seed} members")
    disturbed = of_members.random() < 0.5
    if disturbed:
        what, _ = await asyncio.gather(kind.happens(cluster, chance), cluster.disturb(of_members))
    else:
        what = await kind.happens(cluster, chance)
    await cluster.settle()
    return Happened(
        kind.name,
        what + (", while members came and went" if disturbed else ""),
        cluster.longest_away_ms(began_ms),
        None if cluster.words is None else cluster.words.longest_still_ms(began_s),
        cluster.generations() - before,
        time.monotonic() - began_s,
        needs_rebalances=disturbed or kind.moves_tasks,
    )


def told(one: Happened) -> str:
    """In one line."""
    worst = max(one.away_ms, key=lambda group: one.away_ms[group], default="no group")
    still = "" if one.still_ms is None else f", no words for {one.still_ms / 1000:.1f} s"
    return (
        f"{one.kind} ({one.what}): no service of {worst} for {one.worst_ms / 1000:.2f} s{still}, "
        f"{one.generations} rebalances, settled after {one.took_s:.1f} s"
    )


def _possible(
    wanted: tuple[str, ...], pair: PostgresqlPair, *, with_words: bool
) -> tuple[list[FaultKind], tuple[str, ...]]:
    """The kinds of faults that can happen here, and the names of those that cannot."""
    kinds = [each for each in KINDS if not wanted or each.name in wanted]
    left_out = [
        each
        for each in kinds
        if (each.needs_small_disk and not pair.has_small_disks) or (each.needs_words and not with_words)
    ]
    return [each for each in kinds if each not in left_out], tuple(each.name for each in left_out)


async def _judge(cluster: Cluster, findings: Findings) -> None:
    removed: dict[str, str] = {}
    for coordinator in cluster.coordinators:
        removed.update(coordinator.removed())
    for fleet in cluster.fleets:
        witness = fleet.witness
        broken = findings.broken
        broken[EVICTED] += [repr(each) for each in witness.evictions]
        live = {member.member_id: member.name for member in fleet.members() if member.member_id is not None}
        broken[EVICTED] += [f"{live[each]} of {fleet.group_id}: {why}" for each, why in removed.items() if each in live]
        broken[EVICTED] += await _not_described(fleet, set(live))
        broken[TAKEN_BACK] += witness.taken_back
        broken[OWNED_TWICE] += [f"{fleet.group_id}: {each}" for each in witness.owned_twice()]
        broken[COMES_TO_REST] += [f"{fleet.group_id}: nobody has {each}" for each in witness.ownerless()]
        broken[COMES_TO_REST] += witness.surprises


async def _not_described(fleet: Fleet, live: set[str]) -> list[str]:
    described = await fleet.describe()
    known = {each["member_id"] for each in described["members"]}
    return [f"{fleet.group_id} does not know {each}, which lives" for each in sorted(live - known)]
