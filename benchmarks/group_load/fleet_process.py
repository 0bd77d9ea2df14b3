"""A fleet of members in a process of its own, so that what measures is not what is measured, and has a core to use."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

from benchmarks.group_load.fleet import Fleet
from benchmarks.group_load.fleet_plan import FleetPlan
from benchmarks.group_load.fleet_record import RoundTimes
from benchmarks.group_load.holdings import Holding
from benchmarks.group_load.latencies import Latencies

_CONTEXT = multiprocessing.get_context("spawn")
_LONGEST_END_S = 10
_OBJECTS_BETWEEN_COLLECTIONS = 200_000


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What a fleet has seen so far; see `Fleet`. `tasks_held`: that have a holder now."""

    members: int
    first_join: float
    last_join: float
    rounds: dict[int, RoundTimes]
    heartbeats: Latencies
    joins: Latencies
    evictions: int
    refusals: Counter[str]
    statuses: Counter[int]
    failed_calls: int
    owned_twice: list[str]
    tasks_held: int


class FleetProcess:
    """As a context manager, whose end is that of the process. Every call waits for its answer."""

    def __init__(self, plan: FleetPlan, url: str) -> None:
        self.plan = plan
        self._url = url

    def __enter__(self) -> Self:
        self._pipe, other = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(other, self.plan, self._url), daemon=True)
        self._process.start()
        other.close()
        assert self._pipe.recv() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(_LONGEST_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def start(self, processes: int | None = None) -> None:
        """That many more processes begin to join; None for all of the plan."""
        self._call("start", processes)

    def at_rest_in(self, generation_id: int, longest_s: float) -> int:
        """As `Fleet.at_rest_in`."""
        return int(self._call("at_rest_in", generation_id, longest_s))

    def report(self) -> FleetReport:
        report = self._call("report")
        assert isinstance(report, FleetReport)
        return report

    def member_ids(self) -> list[str]:
        return list(self._call("member_ids"))

    def holdings(self) -> list[Holding]:
        return list(self._call("holdings"))

    def kill_processes(self, count: int) -> None:
        """That many of them break their connections and fall silent."""
        self._call("kill_processes", count)

    def _call(self, name: str, *arguments: object) -> Any:
        self._pipe.send((name, arguments))
        done, value = self._pipe.recv()
        if not done:
            raise value
        return value


class _Commands:
    """What the parent may ask for."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def start(self, processes: int | None) -> None:
        self._fleet.start(processes)

    async def at_rest_in(self, generation_id: int, longest_s: float) -> int:
        return await self._fleet.at_rest_in(generation_id, longest_s)

    async def report(self) -> FleetReport:
        fleet = self._fleet
        return FleetReport(
            len(fleet.members),
            fleet.first_join,
            fleet.last_join,
            fleet.rounds,
            fleet.heartbeats,
            fleet.joins,
            fleet.evictions,
            fleet.refusals,
            fleet.statuses,
            fleet.failed_calls,
            fleet.holdings.owned_twice,
            fleet.holdings.tasks_held(),
        )

    async def member_ids(self) -> list[str]:
        return [member.member_id for member in self._fleet.members if member.member_id is not None]

    async def holdings(self) -> list[Holding]:
        return self._fleet.holdings.all()

    async def kill_processes(self, count: int) -> None:
        for process in self._fleet.processes[-count:]:
            self._fleet.kill(process)


def _run(pipe: Connection, plan: FleetPlan, url: str) -> None:
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(pipe, plan, url))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(pipe: Connection, plan: FleetPlan, url: str) -> None:
    fleet = Fleet(plan, url)
    commands = _Commands(fleet)
    pipe.send("ready")
    while True:
        try:
            name, arguments = await asyncio.to_thread(pipe.recv)
        except EOFError:
            break
        try:
            pipe.send((True, await getattr(commands, name)(*arguments)))
        except Exception as fault:
            pipe.send((False, fault))
    fleet.close()
