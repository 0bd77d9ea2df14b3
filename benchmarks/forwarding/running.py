"""A heartbeat in each way to the owner, in turns, as a table and one sentence.

CPU is that of a coordinator and of what runs below it, without what it used in as much time while nobody called. That
of PostgreSQL is not in it. So few calls a second that no coordinator is busy: what is measured is the way, not a queue.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.forwarding.calls import Beaten, Callers, heartbeats
from benchmarks.forwarding.coordinators import GROUP, Coordinators, coordinators
from benchmarks.forwarding.prototype import HTTPX, SOCKETS
from benchmarks.group_load.latencies import Percentiles
from benchmarks.group_load.service import ServiceUnderLoad
from benchmarks.processor_time import processor_s
from benchmarks.steady_calls import Driver
from benchmarks.turns import in_turns, load_average, progress
from tests.coordinator_api.store.postgresql import Postgresql, programs

DIRECT = "asked at the owner"
FIRST = "sent on (307), the first call"
FOLLOWING = "sent on, the calls after it"
PASSED_ON = "passed on with httpx (prototype)"
PASSED_ON_CHEAPLY = "passed on over plain sockets (prototype)"
WITHOUT_POSTGRESQL = "forwarding: not measured, because there is no initdb and pg_ctl on this machine that may be run."


@dataclass(frozen=True, slots=True)
class Size:
    """`rate`: heartbeats a second, of all members together. `calls`: of each way in each turn. `idle_s`: how long it is
    watched what coordinators do by themselves.
    """

    members: int = 100
    calls: int = 500
    rate: float = 100.0
    turns: int = 5
    idle_s: float = 10.0


QUICK = Size(members=5, calls=50, turns=1, idle_s=0.5)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one heartbeat. CPU in microseconds. `again`: how many were answered with 503, and made again."""

    taken: Percentiles
    owner_us: float
    asked_us: float
    again: int = 0

    @property
    def both_us(self) -> float:
        return self.owner_us + self.asked_us


def run(console: Console, *, quick: bool = False) -> None:
    """Measure all ways in turns; print the table and what follows from it."""
    bin = programs()
    if bin is None:
        console.print(WITHOUT_POSTGRESQL)
        return
    size = QUICK if quick else Size()
    with (
        tempfile.TemporaryDirectory(prefix="bench-forwarding-") as directory,
        Postgresql(bin, durable=True) as database,
        coordinators(database.url, Path(directory), size.members) as three,
        Driver() as driver,
    ):
        costs = _measured(three, size, driver)
    console.print(table(costs, size))
    console.print(conclusion(costs), highlight=False, soft_wrap=True)


def _measured(three: Coordinators, size: Size, driver: Driver) -> dict[str, Cost]:
    callers = partial(Callers, group=GROUP, member_ids=tuple(three.member_ids), generation_id=three.generation_id)
    owner, other, prototype = three.owner, three.other, three.prototype
    ways = {
        DIRECT: (owner, callers(owner.url)),
        FIRST: (other, callers(other.url, remember=False)),
        FOLLOWING: (other, callers(other.url)),
        PASSED_ON: (prototype, callers(prototype.url, passed_on_with=HTTPX)),
        PASSED_ON_CHEAPLY: (prototype, callers(prototype.url, passed_on_with=SOCKETS)),
    }
    idle = _idle([owner.pid, other.pid, prototype.pid], size.idle_s)
    with progress() as bar:
        work = bar.add_task("forwarding", total=size.turns * len(ways))

        def turn(asked: ServiceUnderLoad, of_it: Callers) -> Beaten:
            pids = (owner.pid,) if asked is owner else (owner.pid, asked.pid)
            beaten = driver.run(heartbeats, of_it, size.calls, size.rate, pids)
            bar.advance(work)
            seconds = beaten.driven.seconds
            used = (used_s - idle[pid] * seconds for pid, used_s in zip(pids, beaten.processor_s, strict=True))
            return Beaten(beaten.driven, tuple(used))

        taken = in_turns({way: partial(turn, *of_it) for way, of_it in ways.items()}, size.turns)
    return {way: cost(of_it) for way, of_it in taken.items()}


def _idle(pids: Sequence[int], seconds: float) -> dict[int, float]:
    """CPU seconds of each in a second in which nobody calls."""
    before = {pid: processor_s(pid) for pid in pids}
    time.sleep(seconds)  # what is measured is what they do by themselves
    return {pid: (processor_s(pid) - before[pid]) / seconds for pid in pids}


def cost(turns: Sequence[Beaten]) -> Cost:
    """Of all turns together."""
    milliseconds = [each for turn in turns for each in turn.driven.milliseconds]
    owner_s, *asked_s = (sum(column) for column in zip(*(turn.processor_s for turn in turns), strict=True))
    each = 1e6 / len(milliseconds)
    again = sum(turn.driven.again for turn in turns)
    return Cost(Percentiles.of(milliseconds), owner_s * each, sum(asked_s) * each, again)


def table(costs: Mapping[str, Cost], size: Size) -> Table:
    again = sum(each.again for each in costs.values())
    shown = Table(
        title="heartbeats that reach a coordinator, its group's owner or another one",
        caption=f"{size.members} members, {size.rate:g} heartbeats a second, all on one machine; {load_average()}"
        + (f"; {again} were answered with 503, and made again" if again else ""),
    )
    shown.add_column("")
    for heading in ("heartbeats", "p50, ms", "p99, ms", "CPU of the owner, µs", "of the one asked, µs", "of both, µs"):
        shown.add_column(heading, justify="right")
    for way, each in costs.items():
        asked = "" if way == DIRECT else f"{each.asked_us:,.0f}"
        times = (f"{each.taken.p50:.2f}", f"{each.taken.p99:.2f}")
        shown.add_row(way, f"{each.taken.seen:,}", *times, f"{each.owner_us:,.0f}", asked, f"{each.both_us:,.0f}")
    return shown


def conclusion(costs: Mapping[str, Cost]) -> str:
    """What the figures say, in one sentence."""
    direct, first, passed_on, cheaply = (costs[way] for way in (DIRECT, FIRST, PASSED_ON, PASSED_ON_CHEAPLY))
    return (
        f"Beside a heartbeat at the owner, one that is passed on takes {_times(passed_on, direct)} each time "
        f"({_times(cheaply, direct)} over plain sockets), and one that is sent on {_times(first, direct)} the first "
        f"time, and nothing after it: {_paid_off(direct, first, cheaply)}."
    )


def _times(this: Cost, direct: Cost) -> str:
    return (
        f"{_ratio(this.taken.p50, direct.taken.p50)} times as long (p50) and {_ratio(this.both_us, direct.both_us)} "
        "times the CPU"
    )


def _paid_off(direct: Cost, first: Cost, passed_on: Cost) -> str:
    """From which call on of a member sending it on has cost less than passing its calls on would have."""
    once, each_time = first.both_us - direct.both_us, passed_on.both_us - direct.both_us
    if each_time <= 0:
        return "passing on over plain sockets cost no CPU that could be measured"
    calls = max(1, math.floor(once / each_time) + 1)
    return f"from a member's call {calls} on, sending it on has cost less CPU in all than passing on over plain sockets"


def _ratio(this: float, that: float) -> str:
    return f"{this / that:.1f}" if that > 0 else "?"
