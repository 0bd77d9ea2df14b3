"""Rows beyond a single rebalance: 50,000 tasks with another group beside, memory over many rebalances, describing a
large group, and how fast the service ends in each state.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.group_load.fleet_process import FleetProcess
from benchmarks.group_load.rebalances import (
    LONGEST_REBALANCE_S,
    GroupSize,
    GroupUnderLoad,
    finish,
    first_rebalance,
    group_under_load,
    idle,
    kib_a_member,
    one_join,
    probe_plan,
)
from benchmarks.group_load.results import Results
from benchmarks.group_load.service import PeakOfMemory, definition, memory_of

DESCRIPTIONS = 3
_POLL_S = 0.01


def many_tasks(row: str, size: GroupSize, results: Results) -> None:
    """One group with 50,000 tasks, and another beside it that must not notice."""
    with ExitStack() as stack:
        load = stack.enter_context(group_under_load(size, results.pace))
        load.service.declare("beside", definition(4))
        beside = stack.enter_context(FleetProcess(probe_plan("beside"), load.service.url))
        beside.start()
        beside.at_rest_in(1, LONGEST_REBALANCE_S)
        begun = time.monotonic()
        generation = first_rebalance(row, 15.0, 50.0, results, load)
        seen = beside.report().heartbeats.between(begun, time.monotonic())
        results.add(row, "heartbeat p99 of another group meanwhile", seen.p99, "ms", 50, str(seen))
        idle(row, results, load)
        begun = time.monotonic()
        _, took, seen = one_join(load, generation)
        results.add(row, "a round by one join", took, "s")
        results.add(row, "heartbeat p99 in it", seen.p99, "ms", 50, str(seen))
        seen = beside.report().heartbeats.between(begun, time.monotonic())
        results.add(row, "heartbeat p99 of another group in it", seen.p99, "ms", 50, str(seen))
        others = beside.report()
        results.add(row, "evictions in the other group", others.evictions, "", 0)
        finish(row, results, load)


def busy_machine(row: str, size: GroupSize, loops: int, results: Results) -> None:
    """Short sessions while so many loops do nothing but use the processors."""
    with group_under_load(size, results.pace) as load, busy_loops(loops):
        load.form()
        begun = time.monotonic()
        time.sleep(2 * results.pace.attack_s)  # what is measured is how the living get through this time
        seen = load.probes.report().heartbeats.between(begun, time.monotonic())
        results.add(row, f"heartbeats beside {loops} busy loops, longest", seen.most, "ms", note=str(seen))
        finish(row, results, load)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def memory(row: str, size: GroupSize, results: Results) -> None:
    """At rest, at the peak, and after each of many rebalances in a row; and how long it takes to describe the group."""
    rounds = results.pace.rebalances_in_a_row
    with group_under_load(size, results.pace) as load, PeakOfMemory(load.service.pid) as peak:
        generation = load.form()
        time.sleep(results.pace.rest_s)  # at rest: what the rebalance needed may have been given back
        at_rest = kib_a_member(load, memory_of(load.service.pid), size.members)
        results.add(row, "at rest, a member", at_rest, "KB", 60)
        series, p99s, times = [], [], []
        for _ in range(rounds):
            generation, took, seen = one_join(load, generation)
            times.append(took)
            p99s.append(seen.p99)
            series.append(kib_a_member(load, memory_of(load.service.pid), size.members))
        results.add(row, "at the peak, a member", kib_a_member(load, peak.bytes, size.members), "KB", 120)
        shown = " ".join(f"{each:.0f}" for each in series)
        growth = series[-1] - series[len(series) // 4]
        results.add(row, f"growth over {rounds} rebalances, a member", growth, "KB", 6, f"after each: {shown}")
        results.add(row, "longest of these rounds", max(times), "s")
        results.add(row, "largest heartbeat p99 of these rounds", max(p99s), "ms", 250)
        describe(row, results, load)
        finish(row, results, load)


def describe(row: str, results: Results, load: GroupUnderLoad) -> None:
    took = []
    begun = time.monotonic()
    for _ in range(DESCRIPTIONS):
        asked = time.monotonic()
        described = load.service.describe("load")
        took.append(time.monotonic() - asked)
    seen = load.probes.report().heartbeats.between(begun, time.monotonic())
    results.add(row, "describe the group", max(took), "s", 0.5, f"{len(described['members']):,} members")
    results.add(row, "heartbeat p99 while it is described", seen.p99, "ms", note=str(seen))


STATES: dict[str, Callable[[GroupUnderLoad], object]] = {
    "while it waits for joins": lambda load: _joined(load),
    "while it computes": lambda load: _until_state(load, "CompletingRebalance"),
    "while it sends assignments": lambda load: _until_first_fetch(load),
    "idle, with held heartbeats": lambda load: load.at_rest_in(1, LONGEST_REBALANCE_S),
}


def stop(row: str, size: GroupSize, results: Results) -> None:
    """SIGTERM in each state. The members go on asking, as they do when a coordinator is started again."""
    for state, reach in STATES.items():
        with group_under_load(size, results.pace) as load:
            load.fleet.start()
            load.probes.start()
            reach(load)
            results.add(row, f"SIGTERM {state}, until it has ended", load.service.ends_in_s(), "s", 5)


def _joined(load: GroupUnderLoad) -> None:
    while load.fleet.report().last_join == 0:
        time.sleep(_POLL_S)


def _until_state(load: GroupUnderLoad, state: str) -> None:
    with load.service.client() as client:
        give_up_at = time.monotonic() + LONGEST_REBALANCE_S
        while time.monotonic() < give_up_at:
            (group,) = client.get("/v1/groups").raise_for_status().json()["groups"]
            if group["state"] == state:
                return
            time.sleep(_POLL_S)
    raise AssertionError(f"the group was never seen {state}")


def _until_first_fetch(load: GroupUnderLoad) -> None:
    give_up_at = time.monotonic() + LONGEST_REBALANCE_S
    while time.monotonic() < give_up_at:
        if any(times.fetched for times in load.fleet.report().rounds.values()):
            return
        time.sleep(_POLL_S)
    raise AssertionError("no assignment was ever fetched")
