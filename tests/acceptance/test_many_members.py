"""A thousand real members over HTTP, while everything around them breaks: no live one is evicted, no task owned twice.

The coordinator is killed in every state of the group, answers are lost, all connections break at once, processes die,
and bad callers call all the time. What is asserted is what the members saw, by their own clocks, and what the service
says of itself.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.fleet import bad_callers
from tests.acceptance.fleet.faulty_proxy import FaultyProxy
from tests.acceptance.fleet.fleet import Fleet, MortalService
from tests.acceptance.fleet.fleet_process import Manners
from tests.checkout import ROOT
from tests.coordinator_api import held_assignor
from tests.told import Tell

GROUP = "fleet"


@dataclass(frozen=True, slots=True)
class Size:
    """Processes of two members each: in all, those of them behind the proxy, and those with calls for each member.

    Times in milliseconds. `grace_ms` is long enough for a process to come back on a machine that is busy with other
    tests; how short it can be is not what is tested here.
    """

    processes: int
    proxied: int
    plain: int
    partitions: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    grace_ms: int
    bad_callers: int

    def manners(self, *, held: bool = True, hang_up_chance: float = 0.0) -> Manners:
        return Manners(
            GROUP,
            self.session_timeout_ms,
            self.heartbeat_interval_ms,
            held=held,
            hang_up_chance=hang_up_chance,
            grace_ms=self.grace_ms,
        )


SMALL = Size(30, 10, 6, 60, 8_000, 500, 3_000, 2)
LARGE = Size(500, 100, 50, 1_000, 20_000, 3_000, 6_000, 4)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a run of faults works with. `hold`: while this file is there, no rebalance is computed."""

    size: Size
    service: MortalService
    proxy: FaultyProxy
    fleet: Fleet
    hold: Path
    chance: random.Random

    async def disturb(self) -> None:
        """One more process: a rebalance becomes necessary."""
        self.fleet.add(1, self.size.manners())

    def kill_some(self) -> None:
        """One of twenty processes, at least one."""
        held = [process for process in self.fleet.processes if process.manners.held]
        self.fleet.kill(self.chance.sample(held, max(1, len(held) // 20)))

    async def kill_when(self, moment: str, reached: Callable[[], bool]) -> None:
        await self.fleet.until(reached, moment)
        await self.service.kill_and_start()


@asynccontextmanager
async def scene(directory: Path, size: Size, seed: int) -> AsyncIterator[Scene]:
    hold = directory / "hold"
    flags = (
        *("--group-initial-rebalance-delay-ms", "500"),
        *("--records-compaction-bytes", "65536"),
        *("--task-assignor-classes", held_assignor.CLASS_PATH),
    )
    environment = {
        "PYTHONPATH": str(ROOT),
        held_assignor.HOLD_FILE_VARIABLE: str(hold),
        "ASSIGNOR_GROUP_DISCONNECT_GRACE_MS": str(size.grace_ms),
    }
    chance = random.Random(seed)
    service = MortalService(directory, *flags, environment=environment)
    try:
        await service.start()
        async with FaultyProxy(service.address, chance) as proxy:
            fleet = Fleet(service.address, GROUP, size.partitions, seed)
            await fleet.declare(assignor=held_assignor.CLASS_PATH)
            callers = [
                asyncio.create_task(bad_callers.keep_calling(service.address, f"/v1/groups/{GROUP}", chance))
                for _ in range(size.bad_callers)
            ]
            try:
                yield Scene(size, service, proxy, fleet, hold, chance)
            finally:
                fleet.close()
                for caller in callers:
                    caller.cancel()
                await asyncio.gather(*callers, return_exceptions=True)
    finally:
        service.close()


async def kill_while_first_members_join(scene: Scene) -> None:
    size, fleet = scene.size, scene.fleet
    fleet.add(size.plain, size.manners(held=False))
    fleet.add(size.processes - size.plain - size.proxied, size.manners())

    def some_joined() -> bool:
        # not by the status: on a busy machine each may have asked twice, and the second answer is another one
        return sum(member.member_id is not None for member in fleet.members()) >= size.processes // 5

    await scene.kill_when("some to have joined", some_joined)
    await fleet.until_settled()


async def kill_while_a_rebalance_is_prepared(scene: Scene) -> None:
    size, fleet = scene.size, scene.fleet
    before = fleet.witness.statuses["join", 200]
    fleet.add(size.proxied, size.manners(hang_up_chance=0.02), through=scene.proxy.address)
    rejoined = before + size.processes // 5
    await scene.kill_when("some to have rejoined", lambda: fleet.witness.statuses["join", 200] >= rejoined)
    await fleet.until_settled()


async def kill_while_a_rebalance_is_computed(scene: Scene) -> None:
    fleet = scene.fleet
    settled = await fleet.until_settled()
    scene.hold.touch()
    await scene.disturb()
    await scene.kill_when("the rebalance to be computed", lambda: held_assignor.holds(scene.hold))
    scene.hold.unlink()
    await fleet.until_settled(beyond=settled)


async def kill_while_assignments_are_handed_out(scene: Scene) -> None:
    fleet = scene.fleet
    settled = await fleet.until_settled()
    await scene.disturb()

    def handed_out() -> bool:
        return sum(member.generation_id > settled for member in fleet.members()) >= scene.size.processes // 5

    await scene.kill_when("some to have their assignments", handed_out)
    await fleet.until_settled(beyond=settled)


async def kill_while_the_log_is_compacted(scene: Scene) -> None:
    """A rebalance of this size is more than the log may grow, so compaction begins with its end."""
    fleet = scene.fleet
    settled = await fleet.until_settled()
    await scene.disturb()
    await fleet.until(lambda: any(member.generation_id > settled for member in fleet.members()), "the rebalance")
    await asyncio.sleep(scene.chance.uniform(0, 0.05))
    await scene.service.kill_and_start()
    await fleet.until_settled(beyond=settled)


async def assert_no_rebalance_since(settled: int, scene: Scene) -> None:
    processes = list(scene.fleet.processes)
    beats = [process.beats for process in processes]
    await scene.fleet.until(
        lambda: all(process.beats > before for process, before in zip(processes, beats, strict=True)),
        "all to be heard from again",
    )
    assert await scene.fleet.until_settled() == settled, "processes that came back in time are no reason"


async def kill_while_stable(scene: Scene) -> None:
    settled = await scene.fleet.until_settled()
    await scene.service.kill_and_start()
    await assert_no_rebalance_since(settled, scene)


async def break_all_connections_of_the_proxy(scene: Scene) -> None:
    settled = await scene.fleet.until_settled()
    behind = [process for process in scene.fleet.processes if process.address == scene.proxy.address]
    await scene.fleet.until(lambda: scene.proxy.connections >= len(behind) > 0, "all behind the proxy to be connected")
    scene.proxy.break_all()
    await assert_no_rebalance_since(settled, scene)


async def lose_answers(scene: Scene) -> None:
    settled = await scene.fleet.until_settled()
    wanted = scene.proxy.lost_answers + scene.size.proxied // 2
    scene.proxy.loses_answers = 0.2
    await scene.disturb()
    await scene.fleet.until(lambda: scene.proxy.lost_answers >= wanted, "answers to be lost")
    scene.proxy.loses_answers = 0.0
    await scene.fleet.until_settled(beyond=settled)


async def fall_silent_for_less_than_a_session(scene: Scene) -> None:
    await scene.fleet.until_settled()
    scene.proxy.fall_silent()
    # what is tested: this much time goes by; it is shorter than the grace, because some hang up just before
    await asyncio.sleep(scene.size.session_timeout_ms / 1000 / 5)
    scene.proxy.flow_again()
    await scene.fleet.until_settled()


async def kill_processes(scene: Scene) -> None:
    settled = await scene.fleet.until_settled()
    scene.kill_some()
    await scene.fleet.until_settled(beyond=settled)


async def kill_processes_in_a_rebalance(scene: Scene) -> None:
    fleet = scene.fleet
    settled = await fleet.until_settled()
    await scene.disturb()
    rejoined = fleet.witness.statuses["join", 200] + 1
    await fleet.until(lambda: fleet.witness.statuses["join", 200] >= rejoined, "the rebalance")
    scene.kill_some()
    await fleet.until_settled(beyond=settled)


async def kill_processes_and_break_all_connections_of_the_proxy(scene: Scene) -> None:
    settled = await scene.fleet.until_settled()
    scene.kill_some()
    scene.proxy.break_all()
    await scene.fleet.until_settled(beyond=settled)


async def stop_in_good_order_and_start(scene: Scene) -> None:
    settled = await scene.fleet.until_settled()
    assert await scene.service.stop() == 0
    await scene.service.start()
    await assert_no_rebalance_since(settled, scene)


async def leave_in_good_order(scene: Scene) -> None:
    fleet = scene.fleet
    settled = await fleet.until_settled()
    await fleet.leave(scene.chance.sample(fleet.processes, max(1, len(fleet.processes) // 20)))
    await fleet.until_settled(beyond=settled)


JOINS = (kill_while_first_members_join, kill_while_a_rebalance_is_prepared)
KILLS = (
    kill_while_a_rebalance_is_computed,
    kill_while_assignments_are_handed_out,
    kill_while_the_log_is_compacted,
    kill_while_stable,
)
OTHERS = (
    break_all_connections_of_the_proxy,
    lose_answers,
    fall_silent_for_less_than_a_session,
    kill_processes,
    kill_processes_in_a_rebalance,
    kill_processes_and_break_all_connections_of_the_proxy,
    stop_in_good_order_and_start,
    leave_in_good_order,
)


@pytest.mark.parametrize(
    "size, others",
    [
        pytest.param(SMALL, 2, id="60", marks=pytest.mark.long),
        pytest.param(
            LARGE, len(OTHERS), id="1000", marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(1_800)]
        ),
    ],
)
async def test_should_evict_no_live_member_and_give_no_task_to_two(
    tmp_path: Path, tell: Tell, size: Size, others: int
) -> None:
    """`others`: how many faults, drawn by chance, happen beside the kills of the coordinator."""
    seed = random.SystemRandom().randrange(2**32)
    tell(f"seed {seed}, {2 * size.processes} members")
    async with scene(tmp_path, size, seed) as at:
        later = [*KILLS, *at.chance.sample(OTHERS, others)]
        at.chance.shuffle(later)
        for step in (*JOINS, *later):
            began_s = time.monotonic()
            await step(at)
            tell(f"{time.monotonic() - began_s:5.1f} s to {step.__name__.replace('_', ' ')}")
        await at.fleet.until_settled()
        tell(f"{at.service.deaths} kills of the coordinator; {at.fleet.standing()}")
        await at.fleet.assert_whole(at.service)
        assert at.fleet.witness.ever_owned() == {f"0_{partition}" for partition in range(size.partitions)}
        assert await at.service.stop() == 0
