"""A service and a fleet on it, up to the moment at which a test begins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.acceptance.fleet.fleet import Fleet, MortalService
from tests.acceptance.fleet.fleet_process import Manners
from tests.checkout import ROOT
from tests.coordinator_api import held_assignor

GROUP = "pressed"
PARTITIONS = 12
LONG_MS = 60_000
HELD = Manners(GROUP, LONG_MS, 500)
"""As this project's runtime does it. The session is so long that it explains nothing."""
PLAIN = replace(HELD, held=False, repeats_joins=False)
"""With the calls for single members."""


@asynccontextmanager
async def running_service(directory: Path, *flags: str, **environment: str) -> AsyncIterator[MortalService]:
    service = MortalService(directory, *("--group-initial-rebalance-delay-ms", "200"), *flags, environment=environment)
    try:
        await service.start()
        yield service
    finally:
        service.close()


@asynccontextmanager
async def running_fleet(
    of: MortalService, manners: Manners, processes: int, partitions: int = PARTITIONS, members: int = 2, **group: object
) -> AsyncIterator[Fleet]:
    """Processes that begin to join. `group`: what its definition has instead of the usual."""
    fleet = Fleet(of.address, manners.group_id, partitions, 1)
    try:
        await fleet.declare(**group)
        fleet.add(processes, manners, members=members)
        yield fleet
    finally:
        fleet.close()


@asynccontextmanager
async def settled_fleet(
    directory: Path, *flags: str, manners: Manners = PLAIN
) -> AsyncIterator[tuple[MortalService, Fleet]]:
    """Three processes on a service of their own. Every task has its owner."""
    async with running_service(directory, *flags) as service, running_fleet(service, manners, 3) as fleet:
        await fleet.until_settled()
        yield service, fleet


@asynccontextmanager
async def held_rebalance(
    directory: Path, processes: int, manners: Manners = PLAIN
) -> AsyncIterator[tuple[MortalService, Fleet, Path]]:
    """Processes whose first rebalance is computed, which goes on for as long as the file is there."""
    hold = directory / "hold"
    hold.touch()
    environment = {"PYTHONPATH": str(ROOT), held_assignor.HOLD_FILE_VARIABLE: str(hold)}
    async with (
        running_service(directory, "--task-assignor-classes", held_assignor.CLASS_PATH, **environment) as service,
        running_fleet(service, manners, processes, assignor=held_assignor.CLASS_PATH) as fleet,
    ):
        await fleet.until(lambda: held_assignor.holds(hold), "the rebalance to be computed")
        yield service, fleet, hold
