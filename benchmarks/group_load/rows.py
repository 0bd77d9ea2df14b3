"""Every row of the goals' table by its name, each of which can run alone."""

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.group_load import large_rebalances, rebalances
from benchmarks.group_load.hostile import ATTACKS, hostile
from benchmarks.group_load.kafka_group import first_rebalance, leader_times, peer_broker, peer_line, peer_members
from benchmarks.group_load.rebalances import GroupSize
from benchmarks.group_load.results import Results
from tests.oracle.jars import JarsUnavailable

Row = Callable[[Results], None]

_FIRST = rebalances.FIRST_JOIN_TO_LAST_ASSIGNMENT
FEWEST = 200

SIZES = {
    200: GroupSize(processes=100, threads=2, tasks=1_000),
    1_000: GroupSize(processes=500, threads=2, tasks=1_000, single=True),
    5_000: GroupSize(processes=500, threads=10, tasks=1_000),
}
MANY_TASKS = GroupSize(processes=250, threads=2, tasks=50_000)
BUSY, BUSY_LOOPS = GroupSize(processes=150, threads=2, tasks=300, single=True, session_timeout_ms=3_000), 16
GOALS_S = {200: 0.5, 1_000: 2.0, 5_000: 12.0}
P99_MS = 250.0


def sized(size: GroupSize, results: Results) -> GroupSize:
    """A quick run has a group of a few members, with as many threads each."""
    if not results.quick:
        return size
    return GroupSize(4, size.threads, min(size.tasks, 40), size.single)


def members(count: int, results: Results) -> None:
    row = f"members-{count}"
    rebalances.members(row, sized(SIZES[count], results), GOALS_S[count], P99_MS, results)
    took, took_few = results.last(row, _FIRST), results.last(f"members-{FEWEST}", _FIRST)
    sent, sent_few = results.last(row, rebalances.BYTES_SENT), results.last(f"members-{FEWEST}", rebalances.BYTES_SENT)
    if count != FEWEST and took and took_few and sent and sent_few:
        growth = (took / took_few) / (sent / sent_few)
        note = f"{took / took_few:.1f} times the time for {sent / sent_few:.1f} times the bytes of {FEWEST} members"
        results.add(row, "growth of that time with the bytes sent", growth, "", 1.0, note)


def broker(count: int, results: Results) -> None:
    """The peer, and our time divided by its."""
    row, size = f"broker-{count}", sized(SIZES[count], results)
    line = peer_line(size.plan("peer"), size.tasks)
    try:
        leader = leader_times(line)
        with tempfile.TemporaryDirectory(prefix="group-load-broker-") as directory:
            peer = peer_broker(Path(directory) / "broker", results.pace.initial_delay_ms)
            peer.start()
            try:
                taking_part = peer_members(line)
                rounds = [
                    asyncio.run(first_rebalance(peer.bootstrap_servers, f"peer-{number}", taking_part))
                    for number in range(results.pace.peer_rounds)
                ]
            finally:
                peer.stop()
    except JarsUnavailable as reason:
        results.add(row, "not measured", 0, "", note=str(reason))
        return
    after = [each.last_assignment_s - each.joined_s for each in rounds]
    shown = ", ".join(f"{each:.2f}" for each in after)
    results.add(
        row, "broker: the same, without the leader", min(after), "s", note=f"rounds: {shown}; the fastest counts"
    )
    results.add(row, "broker: bytes of assignments sent", rounds[-1].bytes / 1e6, "MB")
    cold = f"cold {leader.cold_ms:,.0f} ms; median of the runs {statistics.median(leader.each_ms):,.0f} ms"
    results.add(row, "the JVM leader's assign(), warm", leader.warm_ms / 1_000, "s", note=cold)
    ours = results.last(f"members-{count}", _FIRST)
    if ours is not None:
        theirs = min(after) + leader.warm_ms / 1_000
        note = f"{ours:.2f} s to {theirs:.2f} s"
        results.add(row, "ratio: ours / (broker + JVM leader)", ours / theirs, "", 1.0, note)


def many_tasks(results: Results) -> None:
    large_rebalances.many_tasks("tasks-50000", sized(MANY_TASKS, results), results)


def busy(results: Results) -> None:
    size = GroupSize(4, 1, 40, True, 3_000) if results.quick else BUSY
    large_rebalances.busy_machine("busy-300", size, 2 if results.quick else BUSY_LOOPS, results)


def memory(results: Results) -> None:
    large_rebalances.memory("memory-5000", sized(SIZES[5_000], results), results)


def stop(results: Results) -> None:
    large_rebalances.stop("stop", sized(MANY_TASKS, results), results)


ROWS: dict[str, Row] = {
    **{
        f"{kind}-{count}": partial(row, count)
        for count in SIZES
        for kind, row in (("members", members), ("broker", broker))
    },
    "tasks-50000": many_tasks,
    "busy-300": busy,
    "memory-5000": memory,
    "stop": stop,
    **{name: partial(hostile, name) for name in ATTACKS},
}
