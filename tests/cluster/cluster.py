"""The parts of a run: coordinators, their database and their groups, and what it means that they have settled."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from coordinator_api.settings import Settings
from tests.acceptance.fleet.fleet import Fleet, MortalService
from tests.acceptance.fleet.fleet_process import Manners
from tests.acceptance.fleet.http_connection import HttpConnection, NoAnswer
from tests.acceptance.fleet.witness import now_ms
from tests.cluster.word_count import WordCountOnSpark
from tests.coordinator_api.store.postgresql import programs
from tests.coordinator_api.store.postgresql_pair import PostgresqlPair

LEASE_MS: int = Settings.model_fields["lease_timeout_ms"].default
GRACE_MS = 5_000
MEMBERS_OF_A_PROCESS = 2
PLAIN_SHARE = 10
"""One of so many processes makes the calls for single members."""
SETTLED_WITHIN_S = 180.0
_READY_POLL_S = 0.05
_BEATS = 2


class DidNotSettle(Exception):
    """Something is not as it should be long after a fault."""


class NoPostgresql(Exception):
    """There is none on this machine."""


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """`members`: in all, of `groups` groups."""

    coordinators: int = 3
    members: int = 300
    groups: int = 6
    session_timeout_ms: int = 20_000
    heartbeat_interval_ms: int = 1_000


@dataclass(slots=True)
class Cluster:
    """At work. `words` is None when nobody counts words."""

    size: ClusterSize
    pair: PostgresqlPair
    coordinators: list[MortalService]
    fleets: list[Fleet]
    words: WordCountOnSpark | None = None
    manners: dict[str, Manners] = field(default_factory=dict)

    async def settle(self) -> None:
        """Both servers of the database, all coordinators, all members and the word count go on. Raises DidNotSettle."""
        try:
            await asyncio.to_thread(self.pair.until_in_sync)
            await asyncio.gather(*(self._until_ready(each) for each in self.coordinators))
            await asyncio.gather(*(_heard_again(each) for each in self.fleets))
            await asyncio.gather(*(each.until_settled(timeout_s=SETTLED_WITHIN_S) for each in self.fleets))
            await self._until_words_are_counted()
        except AssertionError as error:
            raise DidNotSettle(str(error)) from error

    def add_process(self, fleet: Fleet, *, plain: bool = False) -> None:
        manners = self.manners[fleet.group_id]
        fleet.add(1, replace(manners, held=not plain), members=MEMBERS_OF_A_PROCESS)

    async def disturb(self, chance: random.Random) -> None:
        """In some groups a process comes and another one leaves, so that there is something to decide and to write."""
        chosen = chance.sample(self.fleets, chance.randint(1, len(self.fleets)))
        await asyncio.sleep(chance.uniform(0, LEASE_MS / 2_000))
        leaving = [(fleet, chance.choice(fleet.processes)) for fleet in chosen]
        for fleet, process in leaving:
            self.add_process(fleet, plain=not process.manners.held)
        await asyncio.gather(*(fleet.leave([process]) for fleet, process in leaving))

    def begin_to_measure(self) -> None:
        for fleet in self.fleets:
            fleet.witness.service.forget()

    def longest_away_ms(self, since_ms: float) -> dict[str, float]:
        """By group, since then, until now."""
        return {each.group_id: each.witness.service.longest_away_ms(since_ms, now_ms()) for each in self.fleets}

    def generations(self) -> int:
        """Of all groups together."""
        return sum(max((member.generation_id for member in fleet.members()), default=0) for fleet in self.fleets)

    async def _until_ready(self, coordinator: MortalService) -> None:
        deadline_s = time.monotonic() + SETTLED_WITHIN_S
        while True:
            try:
                answer = await HttpConnection(coordinator.address).ask("GET", "/readyz")
                if answer.status == 200:
                    return
                said = repr(answer.body[:300])
            except NoAnswer as error:
                said = str(error)
            if time.monotonic() > deadline_s:
                raise DidNotSettle(f"the coordinator at {coordinator.address} is not ready: {said}")
            await asyncio.sleep(_READY_POLL_S)

    async def _until_words_are_counted(self) -> None:
        if self.words is None:
            return
        before = self.words.committed()
        deadline_s = time.monotonic() + SETTLED_WITHIN_S
        while self.words.committed() <= before:
            if time.monotonic() > deadline_s:
                raise DidNotSettle("no more words are counted")
            await asyncio.sleep(_READY_POLL_S)


async def _heard_again(fleet: Fleet) -> None:
    beats = [(process, process.beats + _BEATS) for process in fleet.processes]
    await fleet.until(
        lambda: all(process.beats >= wanted for process, wanted in beats),
        "all to be heard from again",
        SETTLED_WITHIN_S,
    )


@asynccontextmanager
async def running_pair(*, on_small_disks: bool = False) -> AsyncIterator[PostgresqlPair]:
    """Raises NoPostgresql."""
    bin = programs()
    if bin is None:
        raise NoPostgresql("no PostgreSQL on this machine: on Debian, apt-get install postgresql")
    pair = PostgresqlPair(bin, on_small_disks=on_small_disks)
    await asyncio.to_thread(pair.__enter__)
    try:
        yield pair
    finally:
        pair.__exit__(None, None, None)


@asynccontextmanager
async def running_coordinators(
    pair: PostgresqlPair, directory: Path, count: int, *flags: str
) -> AsyncIterator[list[MortalService]]:
    """Each in a directory of its own."""
    async with AsyncExitStack() as stack:
        started: list[MortalService] = []
        for number in range(count):
            place = directory / f"coordinator-{number}"
            place.mkdir(parents=True)
            database = ("--database-url", pair.url)
            delay = ("--group-initial-rebalance-delay-ms", "500")
            grace = {"ASSIGNOR_GROUP_DISCONNECT_GRACE_MS": str(GRACE_MS)}
            coordinator = MortalService(place, *database, *delay, *flags, environment=grace)
            stack.callback(_write_log, coordinator, place / "log.jsonl")
            stack.callback(coordinator.close)
            await coordinator.start()
            started.append(coordinator)
        yield started


def _write_log(coordinator: MortalService, file: Path) -> None:
    file.write_text("".join(f"{line}\n" for line in coordinator.log), encoding="utf-8")


@asynccontextmanager
async def running_groups(
    size: ClusterSize, coordinators: Sequence[MortalService], seed: int, *, plain_share: int = PLAIN_SHARE
) -> AsyncIterator[tuple[list[Fleet], dict[str, Manners]]]:
    """All members have begun to join."""
    addresses = [each.address for each in coordinators]
    fleets: list[Fleet] = []
    manners: dict[str, Manners] = {}
    per_group = size.members // size.groups // MEMBERS_OF_A_PROCESS
    try:
        for number in range(size.groups):
            fleet = Fleet(addresses, f"group-{number}", per_group * MEMBERS_OF_A_PROCESS, seed + number)
            fleets.append(fleet)
            manners[fleet.group_id] = Manners(
                fleet.group_id,
                size.session_timeout_ms,
                size.heartbeat_interval_ms,
                grace_ms=GRACE_MS,
                # as this project's client does it, where there are several coordinators
                answer_timeout_ms=size.session_timeout_ms / 4,
            )
            await fleet.declare()
            plain = per_group // plain_share
            of_plain = replace(manners[fleet.group_id], held=False)
            fleet.add(per_group - plain, manners[fleet.group_id], members=MEMBERS_OF_A_PROCESS)
            fleet.add(plain, of_plain, members=MEMBERS_OF_A_PROCESS)
        yield fleets, manners
    finally:
        for fleet in fleets:
            fleet.close()
