"""What one coordinator of a comparison does in its turn, on a database that is new: a group forms, its members send
heartbeats, other groups are declared, and more members join.

The group is that of `members-200`: processes of two threads with one held heartbeat each, every time-out its default.
CPU is that of the coordinator with its worker processes, and of the server of its database where it has one.
"""

import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.group_load.checkouts import Contender
from benchmarks.group_load.fleet_process import LONGEST_CALL_MS, FleetPlan, FleetProcess
from benchmarks.group_load.latencies import Percentiles
from benchmarks.group_load.rebalances import LONGEST_REBALANCE_S, after_initial_delay_s
from benchmarks.group_load.service import definition
from benchmarks.processor_time import processor_s
from benchmarks.steady_calls import Driven, Driver, drive
from tests.acceptance.fleet.http_connection import Address, HttpConnection, request_bytes

GROUP = "load"
DEFAULT_INITIAL_DELAY_MS = 3_000
"""Of `group.initial.rebalance.delay.ms`."""

TASKS_OF_A_DECLARED_GROUP = 4


@dataclass(frozen=True, slots=True)
class TurnSize:
    """`at_once`: connections that send heartbeats, or declare groups. `rounds`: joins of one more process each."""

    processes: int = 100
    threads: int = 2
    tasks: int = 1_000
    heartbeats: int = 8_000
    declared: int = 400
    rounds: int = 5
    at_once: int = 4
    initial_delay_ms: int = DEFAULT_INITIAL_DELAY_MS


QUICK = TurnSize(4, 2, 40, heartbeats=200, declared=20, rounds=2, initial_delay_ms=300)


@dataclass(frozen=True, slots=True)
class Figure:
    """`of`: which calls. `what`: of them. `more_is_better`: a rate. `is_compared`: it says how fast a coordinator is;
    False for what says how busy the machine was.
    """

    of: str
    what: str
    unit: str
    more_is_better: bool = False
    is_compared: bool = True


HEARTBEATS, JOINS = "heartbeats of members", "joins, all at once"
COMMITS, ROUNDS = "groups declared, a commit each", "rebalances by one more process"
FIRST = "first rebalance"
P50, P99, LONGEST, RATE, CPU = "p50", "p99", "longest", "calls a second", "CPU each"
AGAIN = "answered with 503, and made again"
UNTIL_ASSIGNED = "after the initial delay"

Turn = dict[Figure, float]


def measure(contender: Contender, size: TurnSize, driver: Driver) -> Turn:
    """All figures, of a coordinator that is started for it and stopped."""
    delay = size.initial_delay_ms
    settings = {} if delay == DEFAULT_INITIAL_DELAY_MS else {"group.initial.rebalance.delay.ms": delay}
    with (
        tempfile.TemporaryDirectory(prefix="group-load-") as directory,
        contender.service(Path(directory), settings) as service,
        FleetProcess(FleetPlan(GROUP, size.processes, size.threads), service.url) as fleet,
    ):
        service.declare(GROUP, definition(size.tasks))
        clock = _Processors((service.pid, *contender.other_processes))
        generation, found = _form(fleet, size, clock)
        beats = [_heartbeat(member, generation) for member in fleet.member_ids()]
        driver.run(calls, service.url, beats, size.at_once)  # each member once: nothing is done for the first time
        for of, requests in (
            (HEARTBEATS, [beats[number % len(beats)] for number in range(size.heartbeats)]),
            (COMMITS, [_declaration(number) for number in range(size.declared)]),
        ):
            clock.begin()
            driven = driver.run(calls, service.url, requests, size.at_once)
            found |= _latencies(of, driven.milliseconds, driven.seconds)
            found[Figure(of, CPU, "µs")] = clock.used_s() / len(requests) * 1e6
            found[Figure(of, AGAIN, "", is_compared=False)] = driven.again
        return found | _rounds(fleet, size, generation, clock)


async def calls(url: str, requests: Sequence[bytes], at_once: int) -> Driven:
    """Each of them once, over connections that are kept."""
    address = urlsplit(url)
    to = Address(address.hostname or "127.0.0.1", address.port or 80)
    idle = [HttpConnection(to) for _ in range(at_once)]

    async def call(number: int) -> int:
        connection = idle.pop()
        try:
            return (await connection.send(requests[number], LONGEST_CALL_MS / 1_000)).status
        finally:
            idle.append(connection)

    try:
        return await drive(call, len(requests), at_once)
    finally:
        for connection in idle:
            connection.hang_up()


class _Processors:
    """What a coordinator, and whoever works for it, has used since the last look."""

    def __init__(self, roots: tuple[int, ...]) -> None:
        self._roots = roots
        self.begin()

    def begin(self) -> None:
        self._before_s = processor_s(*self._roots)

    def used_s(self) -> float:
        before_s = self._before_s
        self.begin()
        return self._before_s - before_s


def _form(fleet: FleetProcess, size: TurnSize, clock: _Processors) -> tuple[int, Turn]:
    """Everybody joins; gives the generation in which all rest, as well."""
    clock.begin()
    fleet.start()
    generation = fleet.at_rest_in(1, LONGEST_REBALANCE_S)
    used_s = clock.used_s()
    seen = fleet.report()
    began = min(times.first_heard or times.first_fetched for number, times in seen.rounds.items() if number > 0)
    assigned_s = after_initial_delay_s(
        size.initial_delay_ms, seen.first_join, seen.last_join, began, seen.rounds[generation].last_fetched
    )
    joins = seen.joins.lasted
    return generation, {
        **_latencies(JOINS, joins, seen.last_join - seen.first_join),
        Figure(JOINS, CPU, "µs"): used_s / seen.members * 1e6,
        Figure(FIRST, UNTIL_ASSIGNED, "ms"): assigned_s * 1_000,
    }


def _rounds(fleet: FleetProcess, size: TurnSize, generation: int, clock: _Processors) -> Turn:
    """One more process joins, so many times: until the last member has its assignment of the rebalance."""
    milliseconds = []
    clock.begin()
    for _ in range(size.rounds):
        begun = time.monotonic()
        fleet.start(1)
        before, generation = generation, fleet.at_rest_in(generation + 1, LONGEST_REBALANCE_S)
        rounds = fleet.report().rounds
        last = max(rounds[each].last_fetched for each in range(before + 1, generation + 1) if each in rounds)
        milliseconds.append((last - begun) * 1_000)
    taken = Percentiles.of(milliseconds)
    return {
        Figure(ROUNDS, P50, "ms"): taken.p50,
        Figure(ROUNDS, LONGEST, "ms"): taken.most,
        Figure(ROUNDS, CPU, "ms"): clock.used_s() / size.rounds * 1_000,
    }


def _latencies(of: str, milliseconds: Iterable[float], seconds: float) -> Turn:
    taken = Percentiles.of(milliseconds)
    return {
        Figure(of, P50, "ms"): taken.p50,
        Figure(of, P99, "ms"): taken.p99,
        Figure(of, RATE, "/s", more_is_better=True): taken.seen / seconds,
    }


def _heartbeat(member_id: str, generation: int) -> bytes:
    body = b'{"generation_id":%d}' % generation
    return request_bytes("POST", f"/v1/groups/{GROUP}/members/{member_id}/heartbeat", body)


def _declaration(number: int) -> bytes:
    body = json.dumps(definition(TASKS_OF_A_DECLARED_GROUP)).encode()
    return request_bytes("PUT", f"/v1/groups/declared-{number}", body)
