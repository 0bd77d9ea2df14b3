"""How long the tasks of an ended instance stand still: from the signal until a new owner has processed a first record.

An instance ends in two ways. SIGHUP is what an instance on Spark gets when its executor is killed: it commits, closes
and leaves. SIGKILL ends the instance itself, and only the expiry of its session tells. The peer is that session
time-out, before which no group notices a silent death; the ratio is the median time over it. Times come from the
threads' ownership logs; for each end, those of the lost task that took longest.
"""

from __future__ import annotations

import math
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from assignor.errors import AssignorFault
from benchmarks.failing_group import HEARTBEAT_INTERVAL_MS, INSTANCES, SESSION_TIMEOUT_MS, TASKS, FailingGroup
from benchmarks.turns import progress
from spark_jobs.demo.takeovers import Takeover, takeovers
from spark_jobs.workers.ownership_log import OwnershipEvent, OwnershipLine

ENDS = 20
QUICK_ENDS = 1
WAYS = {"SIGHUP": signal.SIGHUP, "SIGKILL": signal.SIGKILL}
_TAKEOVER_TIMEOUT_S = 30.0
_LOOK_INTERVAL_S = 0.25


@dataclass(frozen=True, slots=True)
class Handover:
    """One lost task, in milliseconds. Each step begins where the one before it ends.

    `detection`: until its new owner was told to join a rebalance. `rebalance`: until it was assigned the task.
    `restore`: until the state was complete. `first_record`: until it had processed a record. `records`: read from the
    changelog.
    """

    detection: float
    rebalance: float
    restore: float
    first_record: float
    records: int

    @property
    def total(self) -> float:
        return self.detection + self.rebalance + self.restore + self.first_record


STEPS: Mapping[str, Callable[[Handover], float]] = {
    "detection": lambda one: one.detection,
    "rebalance": lambda one: one.rebalance,
    "restore": lambda one: one.restore,
    "first record": lambda one: one.first_record,
    "in all": lambda one: one.total,
}


def run(console: Console, *, quick: bool = False) -> None:
    """Print the steps after each way to end, and the ratio to the session time-out."""
    ends = QUICK_ENDS if quick else ENDS
    with tempfile.TemporaryDirectory(prefix="bench-failover-") as directory:
        handovers = measure(Path(directory), ends)
    table = Table(
        title=f"Time without owner, medians in ms: {INSTANCES} instances, {TASKS} tasks with a standby each, one ended"
    )
    for heading in ("one ended by", "times", *STEPS, "95th in all", "longest", "records read", "of the session"):
        table.add_column(heading, justify="left" if heading == "one ended by" else "right")
    for name, of_it in handovers.items():
        totals = [one.total for one in of_it]
        table.add_row(
            name,
            str(len(of_it)),
            *(f"{statistics.median(map(step, of_it)):,.0f}" for step in STEPS.values()),
            f"{percentile(totals, 95):,.0f}",
            f"{max(totals):,.0f}",
            f"{statistics.median(one.records for one in of_it):,.0f}",
            f"{statistics.median(totals) / SESSION_TIMEOUT_MS:.2f}",
        )
    table.caption = (
        f"session time-out {SESSION_TIMEOUT_MS} ms, heartbeats every {HEARTBEAT_INTERVAL_MS} ms:"
        f" a SIGKILL is noticed after {SESSION_TIMEOUT_MS - HEARTBEAT_INTERVAL_MS} ms at the earliest"
    )
    console.print(table)


def measure(directory: Path, ends: int) -> dict[str, list[Handover]]:
    """End one instance after another, in both ways by turns. For each end, the lost task that took longest."""
    slowest: dict[str, list[Handover]] = {name: [] for name in WAYS}
    with progress() as bar, FailingGroup(directory) as group:
        work = bar.add_task("ending instances", total=ends * len(WAYS))
        for turn in range(ends * len(WAYS)):
            if turn > 0:
                group.replace((turn - 1) % INSTANCES)
            name = list(WAYS)[turn % len(WAYS)]
            died_ms = group.end(turn % INSTANCES, WAYS[name])
            found = _finished(group, died_ms)
            lines = group.lines()
            slowest[name].append(max((handover(one, died_ms, lines) for one in found), key=lambda one: one.total))
            bar.advance(work)
    return slowest


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least so many percent of all values do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def handover(takeover: Takeover, died_ms: float, lines: Sequence[OwnershipLine]) -> Handover:
    """The steps of a finished takeover, from its new owner's log. `lines`: sorted by time."""
    assert takeover.assigned_ms is not None, "it was assigned"
    assert takeover.processed_ms is not None, "it was processed"
    of_owner = [line for line in lines if line.thread == takeover.thread and line.at_ms >= died_ms]
    joining_ms = next((line.at_ms - died_ms for line in of_owner if line.event is OwnershipEvent.JOINING), 0.0)
    restored_ms = next(
        line.at_ms - died_ms
        for line in of_owner
        if line.event is OwnershipEvent.RESTORED and line.task == takeover.task
    )
    return Handover(
        joining_ms,
        takeover.assigned_ms - joining_ms,
        restored_ms - takeover.assigned_ms,
        takeover.processed_ms - restored_ms,
        takeover.records or 0,
    )


def _finished(group: FailingGroup, died_ms: float) -> list[Takeover]:
    """Wait until all lost tasks are processed again. It looks seldom, because looking takes CPU from the instances."""
    deadline_s = time.monotonic() + _TAKEOVER_TIMEOUT_S
    while True:
        time.sleep(_LOOK_INTERVAL_S)
        found = takeovers(group.lines(), died_ms, group.deaths)
        if found and all(one.processed_ms is not None for one in found):
            return found
        if time.monotonic() > deadline_s:
            raise AssignorFault(f"tasks still stand still after {_TAKEOVER_TIMEOUT_S:g} s: {found}")
