"""Groups of 200, 1,000 and 5,000 members, and one with 50,000 tasks: how long a rebalance takes, who waits meanwhile,
and what it costs in memory.

The members are one fleet in a process of their own. Four more members of the same group live in another one and send a
heartbeat, a call of its own, every 20 ms each: their latencies are those of the coordinator, not of a busy driver. A
heartbeat that they could not send because they waited for the last one counts as well.

"After the initial delay": the group waits `group.initial.rebalance.delay.ms` for its first members, and again as long
as others join meanwhile, as Kafka does. The time is counted from the moment at which the first member hears that the
wait is over, and what the joins took beyond the first delay is added.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.group_load.fleet_process import FleetPlan, FleetProcess, FleetReport
from benchmarks.group_load.latencies import Percentiles
from benchmarks.group_load.pace import Pace
from benchmarks.group_load.results import Results
from benchmarks.group_load.service import PeakOfMemory, ServiceUnderLoad, definition, memory_of
from spark_jobs.ownership.ownership_history import overlaps, ownership_intervals

PROBES = 4
PROBE_INTERVAL_MS = 20
PROBES_BEGIN_AT = 100_000
"""The number of the first probing process: above those of any fleet."""

LONGEST_REBALANCE_S = 240.0
KIB = 1_024
FIRST_JOIN_TO_LAST_ASSIGNMENT = "first join to last assignment, after the initial delay"
BYTES_SENT = "bytes of assignments sent"


@dataclass(frozen=True, slots=True)
class GroupSize:
    """`single`: each heartbeat is a call of its own, six in `session_timeout_ms`; else the runtime's defaults count."""

    processes: int
    threads: int
    tasks: int
    single: bool = False
    session_timeout_ms: int = 6_000

    @property
    def members(self) -> int:
        return self.processes * self.threads

    def plan(self, group: str) -> FleetPlan:
        if self.single:
            return FleetPlan(
                group,
                self.processes,
                self.threads,
                held=False,
                session_timeout_ms=self.session_timeout_ms,
                heartbeat_interval_ms=self.session_timeout_ms // 6,
            )
        return FleetPlan(group, self.processes, self.threads)


def probe_plan(group: str, held: bool = False) -> FleetPlan:
    return FleetPlan(group, PROBES, 1, held=held, heartbeat_interval_ms=PROBE_INTERVAL_MS, first=PROBES_BEGIN_AT)


@dataclass(slots=True)
class GroupUnderLoad:
    """A running service, its fleet and its probes."""

    service: ServiceUnderLoad
    fleet: FleetProcess
    probes: FleetProcess
    memory_before: int

    def form(self, longest_s: float = LONGEST_REBALANCE_S) -> int:
        """Everybody joins; gives the generation in which all have come to rest."""
        self.fleet.start()
        self.probes.start()
        return self.at_rest_in(1, longest_s)

    def at_rest_in(self, generation_id: int, longest_s: float = LONGEST_REBALANCE_S) -> int:
        while True:
            generation_id = self.fleet.at_rest_in(generation_id, longest_s)
            if self.probes.at_rest_in(generation_id, longest_s) == generation_id:
                return generation_id

    def reports(self) -> tuple[FleetReport, FleetReport]:
        return self.fleet.report(), self.probes.report()

    def owned_twice(self) -> list[str]:
        lines = [*self.fleet.ownership(), *self.probes.ownership()]
        return [str(overlap) for overlap in overlaps(ownership_intervals(lines))]

    def evictions(self) -> float:
        """What members were told, and what the service counts."""
        told = sum(report.evictions for report in self.reports())
        return max(told, self.service.metric("assignor_session_expired_total"))


@contextmanager
def group_under_load(
    size: GroupSize, pace: Pace, group: str = "load", files: int | None = None
) -> Iterator[GroupUnderLoad]:
    """`files`: how many descriptors the service may have open."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="group-load-")))
        settings = {"group.initial.rebalance.delay.ms": pace.initial_delay_ms}
        service = stack.enter_context(ServiceUnderLoad(directory, settings, files))
        service.declare(group, definition(size.tasks))
        fleet = stack.enter_context(FleetProcess(size.plan(group), service.url))
        probes = stack.enter_context(FleetProcess(probe_plan(group), service.url))
        yield GroupUnderLoad(service, fleet, probes, memory_of(service.pid))


def after_initial_delay_s(delay_ms: int, first_join: float, last_join: float, begun: float, ended: float) -> float:
    """`begun`: when the first member heard that the group had stopped waiting for joins."""
    return ended - begun + max(0.0, last_join - first_join - delay_ms / 1_000)


def first_rebalance(
    row: str, goal_s: float | None, p99_ms: float | None, results: Results, load: GroupUnderLoad
) -> int:
    """Form the group, and say how long it took. `p99_ms`: the goal of heartbeats meanwhile. Gives its generation."""
    with PeakOfMemory(load.service.pid) as peak:
        generation = load.form()
    fleet, probes = load.reports()
    began = min(
        times.first_heard or times.first_fetched
        for report in (fleet, probes)
        for number, times in report.rounds.items()
        if number > 0
    )
    last_join = max(report.last_join for report in (fleet, probes))
    last = max(report.rounds[generation].last_fetched for report in (fleet, probes))
    took = after_initial_delay_s(results.pace.initial_delay_ms, fleet.first_join, last_join, began, last)
    joined = last_join - fleet.first_join
    sent = sum(times.bytes for times in fleet.rounds.values())
    whole = last - fleet.first_join
    note = f"joins took {joined:.2f} s; {whole:.2f} s in all, generation {generation}"
    results.add(row, FIRST_JOIN_TO_LAST_ASSIGNMENT, took, "s", goal_s, note)
    results.add(row, BYTES_SENT, sent / 1e6, "MB")
    results.add(row, "the recording as it is stored", load.service.recorded_bytes(generation) / 1e6, "MB")
    handed_out = probes.heartbeats.between(began, last)
    results.add(row, "heartbeat p99, computed and handed out", handed_out.p99, "ms", p99_ms, str(handed_out))
    results.add(row, "memory at the peak, a member", kib_a_member(load, peak.bytes, fleet.members), "KB")
    return generation


def kib_a_member(load: GroupUnderLoad, memory: int, members: int) -> float:
    return (memory - load.memory_before) / KIB / (members + PROBES)


def idle(row: str, results: Results, load: GroupUnderLoad) -> None:
    begun = time.monotonic()
    time.sleep(results.pace.idle_s)  # what is measured is what happens when nothing does
    seen = load.probes.report().heartbeats.between(begun, time.monotonic())
    results.add(row, "heartbeat p99, idle", seen.p99, "ms", note=str(seen))


def one_join(load: GroupUnderLoad, generation: int) -> tuple[int, float, Percentiles]:
    """One more member joins. Gives the generation in which all rest again, the seconds until the last of them had the
    assignment of the first rebalance, and the latencies of heartbeats until they all rested.
    """
    begun = time.monotonic()
    load.probes.start(1)
    at_rest = load.at_rest_in(generation + 1)
    ended = time.monotonic()
    fetched = [
        report.rounds[after].last_fetched
        for report in load.reports()
        for after in range(generation + 1, at_rest + 1)
        if after in report.rounds and report.rounds[after].fetched
    ]
    return at_rest, max(fetched) - begun, load.probes.report().heartbeats.between(begun, ended)


def members(row: str, size: GroupSize, goal_s: float | None, p99_ms: float | None, results: Results) -> None:
    with group_under_load(size, results.pace) as load:
        generation = first_rebalance(row, goal_s, p99_ms, results, load)
        idle(row, results, load)
        if not size.single:
            results.add(
                row, "memory at rest, a member", kib_a_member(load, memory_of(load.service.pid), size.members), "KB"
            )
        generation_after, took, seen = one_join(load, generation)
        rounds = generation_after - generation
        results.add(row, "a round by one join", took, "s", note=f"{rounds} rebalances until all rest")
        results.add(row, "heartbeat p99 in it", seen.p99, "ms", p99_ms, str(seen))
        finish(row, results, load)


def finish(row: str, results: Results, load: GroupUnderLoad) -> None:
    """What must hold in every run."""
    twice = load.owned_twice()
    refusals = {code: count for report in load.reports() for code, count in report.refusals.items()}
    results.add(row, "evictions of live members", load.evictions(), "", 0, note=str(refusals or ""))
    results.add(row, "tasks that two members held at one time", len(twice), "", 0, note="; ".join(twice[:2]))
