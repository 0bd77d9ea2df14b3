"""A fleet of members in a process of its own, so that what measures is not what is measured, and has a core to use.

The members are those of `tests.acceptance.fleet`; here they also say when they joined, heard and fetched.
"""

import asyncio
import gc
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self
from urllib.parse import urlsplit

from benchmarks.group_load.latencies import Latencies
from spark_jobs.ownership.ownership_log import OwnershipLine
from tests.acceptance.fleet.fleet import Fleet
from tests.acceptance.fleet.fleet_process import Manners
from tests.acceptance.fleet.http_connection import Address
from tests.acceptance.fleet.witness import Witness

LONGEST_HEARTBEAT_INTERVAL_MS = 3_000
LONGEST_CALL_MS = 90_000
_CONTEXT = multiprocessing.get_context("spawn")
_LONGEST_END_S = 10
_OBJECTS_BETWEEN_COLLECTIONS = 200_000


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Processes that join one group. Times in milliseconds.

    `heartbeat_interval_ms`: None for the lower of 3,000 and a third of the session. `first`: the number of the first
    process; two fleets of one group need different ones.
    """

    group: str
    processes: int
    threads: int
    held: bool = True
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int | None = None
    first: int = 0

    @property
    def manners(self) -> Manners:
        default_ms = min(LONGEST_HEARTBEAT_INTERVAL_MS, self.session_timeout_ms // 3)
        return Manners(
            self.group,
            self.session_timeout_ms,
            self.heartbeat_interval_ms or default_ms,
            rebalance_timeout_ms=300_000,
            held=self.held,
            endpoint=True,
            answer_timeout_ms=LONGEST_CALL_MS,
        )


@dataclass(slots=True)
class RoundTimes:
    """Of one generation, in seconds of the monotonic clock. `bytes`: of the assignments that members fetched."""

    first_heard: float = 0.0
    first_fetched: float = 0.0
    last_fetched: float = 0.0
    fetched: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What a fleet has seen so far. `evictions`: how often the group did not know a member that lived. `refusals`: by
    Kafka's name of the error. Times in seconds of the monotonic clock.
    """

    members: int
    first_join: float
    last_join: float
    rounds: dict[int, RoundTimes]
    heartbeats: Latencies
    joins: Latencies
    evictions: int
    refusals: Counter[str]


class LoadWitness(Witness):
    """Measures as well."""

    def __init__(self) -> None:
        super().__init__()
        self.heartbeats = Latencies()
        self.joins = Latencies()
        self.rounds: dict[int, RoundTimes] = {}
        self.first_join = 0.0
        self.last_join = 0.0

    def answered(self, call: str, status: int, seconds: float) -> None:
        super().answered(call, status, seconds)
        if call == "join" and status < 300:
            self.last_join = time.monotonic()
            self.first_join = self.first_join or self.last_join - seconds
            self.joins.add(self.last_join - seconds, self.last_join)

    def heard(self, generation_id: int) -> None:
        times = self.rounds.setdefault(generation_id, RoundTimes())
        times.first_heard = times.first_heard or time.monotonic()

    def fetched(self, generation_id: int, size: int) -> None:
        times = self.rounds.setdefault(generation_id, RoundTimes())
        times.last_fetched = time.monotonic()
        times.first_fetched = times.first_fetched or times.last_fetched
        times.fetched += 1
        times.bytes += size

    def heartbeat(self, began_s: float, *, held_s: float | None = None, every_s: float = 0.0) -> None:
        ended_s = time.monotonic()
        if held_s is None:
            self.heartbeats.add(began_s, ended_s, every_s)
        elif held_s == 0:
            self.heartbeats.add(began_s, ended_s)
        elif ended_s - began_s >= held_s:  # held to its end: what it took beyond that
            self.heartbeats.add(began_s + held_s, ended_s)


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
        """Wait until all members hold assignments of one generation, this or a later one, and none of them is about to
        rejoin. Returns that generation.
        """
        return int(self._call("at_rest_in", generation_id, longest_s))

    def report(self) -> FleetReport:
        report = self._call("report")
        assert isinstance(report, FleetReport)
        return report

    def member_ids(self) -> list[str]:
        return list(self._call("member_ids"))

    def ownership(self) -> list[OwnershipLine]:
        """Which member owned which tasks, and when."""
        return list(self._call("ownership"))

    def _call(self, name: str, *arguments: object) -> Any:
        self._pipe.send((name, arguments))
        done, value = self._pipe.recv()
        if not done:
            raise value
        return value


class _Commands:
    """What the parent may ask for."""

    def __init__(self, plan: FleetPlan, url: str) -> None:
        self._plan = plan
        self._witness = LoadWitness()
        address = urlsplit(url)
        assert address.hostname is not None, url
        assert address.port is not None, url
        self.fleet = Fleet(
            Address(address.hostname, address.port), plan.group, 0, 1, witness=self._witness, first=plan.first
        )

    async def start(self, processes: int | None) -> None:
        self.fleet.add(processes or self._plan.processes, self._plan.manners, members=self._plan.threads)

    async def at_rest_in(self, generation_id: int, longest_s: float) -> int:
        return await self.fleet.until_at_rest(generation_id - 1, longest_s)

    async def report(self) -> FleetReport:
        witness = self._witness
        return FleetReport(
            len(self.fleet.members()),
            witness.first_join,
            witness.last_join,
            witness.rounds,
            witness.heartbeats,
            witness.joins,
            len(witness.evictions) + len(witness.starved),
            witness.refusals,
        )

    async def member_ids(self) -> list[str]:
        return [member.member_id for member in self.fleet.members() if member.member_id is not None]

    async def ownership(self) -> list[OwnershipLine]:
        return self._witness.lines


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
    commands = _Commands(plan, url)
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
    commands.fleet.close()
