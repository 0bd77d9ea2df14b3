"""How long the tasks of an ended instance stand still: from the signal until a new owner has processed a first record.

An instance ends in two ways. SIGHUP is what an instance on Spark gets when its executor is killed: it commits, closes
and leaves. SIGKILL ends the instance itself. Its members follow Kafka's rule (`leave.on.disconnect=false`), so only the
expiry of its session tells. The peer is that session time-out; the ratio is the median time over it. What a broken
connection saves is measured by failover-defaults. Times come from the threads' ownership logs; for each end, those of
the lost task that took longest.

Once the group has all the time it needs, and once it runs flat out: then it has to have counted right in the end.
"""

import signal
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.failing_group import HEARTBEAT_INTERVAL_MS, INSTANCES, SESSION_TIMEOUT_MS, TASKS, FailingGroup
from benchmarks.handovers import STEPS, Handover, handovers, percentile
from benchmarks.turns import progress

ENDS = 20
QUICK_ENDS = 1
LONGEST_FLAT_OUT_MS = 1_000
WAYS = {"SIGHUP": signal.SIGHUP, "SIGKILL": signal.SIGKILL}
_TAKEOVER_TIMEOUT_S = 30.0


def run(console: Console, *, quick: bool = False) -> None:
    """Print the steps after each way to end, and the ratio to the session time-out; with `quick` only flat out."""
    ends = QUICK_ENDS if quick else ENDS
    if not quick:
        with tempfile.TemporaryDirectory(prefix="bench-failover-") as directory, FailingGroup(Path(directory)) as group:
            console.print(_table(measure(group, ends), "with time to spare"))
    with (
        tempfile.TemporaryDirectory(prefix="bench-failover-") as directory,
        FailingGroup(Path(directory), flat_out=True) as group,
    ):
        found = measure(group, ends)
        console.print(_table(found, "flat out"))
        assert group.feed is not None, "it runs flat out"
        group.feed.stop()
        wrong = group.feed.miscounted()
        longest = max(one.total for of_it in found.values() for one in of_it)
        kept = "reached" if longest < LONGEST_FLAT_OUT_MS and not wrong else "MISSED"
        console.print(
            f"flat out: {group.feed.records:,} records, {wrong:,} keys miscounted, longest {longest:,.0f} ms;"
            f" goal under {LONGEST_FLAT_OUT_MS:,} ms and none: {kept}"
        )


def _table(handovers: Mapping[str, list[Handover]], load: str) -> Table:
    table = Table(
        title=f"Time without owner, medians in ms: {INSTANCES} instances {load}, {TASKS} tasks with a standby each"
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
    return table


def measure(group: FailingGroup, ends: int) -> dict[str, list[Handover]]:
    """End one instance after another, in both ways by turns. For each end, the lost task that took longest."""
    slowest: dict[str, list[Handover]] = {name: [] for name in WAYS}
    with progress() as bar:
        work = bar.add_task("ending instances", total=ends * len(WAYS))
        for turn in range(ends * len(WAYS)):
            if turn > 0:
                group.replace((turn - 1) % INSTANCES)
            name = list(WAYS)[turn % len(WAYS)]
            died_ms = group.end(turn % INSTANCES, WAYS[name])
            found = handovers(group.lines, died_ms, group.deaths, _TAKEOVER_TIMEOUT_S)
            slowest[name].append(max(found.values(), key=lambda one: one.total))
            bar.advance(work)
    return slowest
