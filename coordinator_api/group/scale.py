"""The number of instances that a group needs, from the flow of its input.

Rules:
- A stream thread is busy while records for more than one second wait. The capacity of a thread is the most that a busy
  thread has processed per second in the last hour. Until a thread has been busy, the capacity is not known, and the
  group keeps its number of instances.
- The group needs threads for the records that arrive, and for the waiting records, which it should process within the
  time to catch up.
- More threads than active tasks would be idle, so they are never wanted.
- An instance is taken away only if the other instances keep a fifth of their capacity free. Otherwise the number of
  instances would rise and fall with each small change of the load.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from coordinator_api.group.reported_flow import FlowPoint, GroupFlow

DEFAULT_CATCH_UP_MS = 300_000
ARRIVAL_MS = 60_000
"""The arrival rate is measured over this time."""

FREE_SHARE = 0.2
HOT_SHARE = 0.5
"""A task is hot if it has more than this share of the waiting records."""


class Scale(NamedTuple):
    """`instances`, `wanted`: the present and the wanted number of instances. `most`: more instances would be idle.
    `arrival_per_s`: the records that arrive per second; None if the flow is not known. `capacity_per_s`: the records
    that one instance can process per second; None if this is not known. `reason`: why so many are wanted.
    """

    instances: int
    wanted: int
    most: int
    arrival_per_s: float | None
    capacity_per_s: float | None
    reason: str


def scale(flow: GroupFlow, instances: int, threads: int, catch_up_ms: int = DEFAULT_CATCH_UP_MS) -> Scale:
    """Returns the wanted number of instances. `instances`, `threads`: the present number of instances and of all their
    threads. `catch_up_ms`: the time in milliseconds within which the waiting records should be processed.
    """
    threads_each = max(threads, 1) / max(instances, 1)
    points, least = flow.history.points, max(instances, 1)
    if not points:
        return Scale(instances, least, least, None, None, "No instance has reported the flow of its input.")
    most = max(ceil(len(flow.tasks) / threads_each), 1)
    arrival_per_s, thread_per_s, lag = _arrival_per_s(points), _thread_capacity_per_s(points), points[-1].lag
    if thread_per_s is None:
        reason = "No stream thread has been busy in the last hour, so the capacity of an instance is not known."
        return Scale(instances, min(least, most), most, arrival_per_s, None, reason)
    capacity_per_s = thread_per_s * threads_each
    needed_per_s = arrival_per_s + lag * 1_000 / catch_up_ms
    wanted = ceil(needed_per_s / capacity_per_s)
    if wanted < instances:
        wanted = min(ceil(needed_per_s / (capacity_per_s * (1 - FREE_SHARE))), instances)
    reason = (
        f"{arrival_per_s:,.0f} records arrive per second, and {lag:,} records wait. An instance processes "
        f"{capacity_per_s:,.0f} records per second."
    )
    if wanted > most:
        reason += f" More than {most} instances would be idle, because the group has {len(flow.tasks)} active tasks."
    reason += _hot_task(flow)
    return Scale(instances, max(min(wanted, most), 1), most, arrival_per_s, capacity_per_s, reason)


def _arrival_per_s(points: tuple[FlowPoint, ...]) -> float:
    """Returns the processed records per second, plus the growth of the lag per second."""
    newest = points[-1]
    recent = [point for point in points if newest.at_ms - point.at_ms <= ARRIVAL_MS]
    speeds = [point.per_s for point in recent if point.per_s is not None]
    span_ms = newest.at_ms - recent[0].at_ms
    growth_per_s = (newest.lag - recent[0].lag) * 1_000 / span_ms if span_ms else 0.0
    return max(sum(speeds) / max(len(speeds), 1) + growth_per_s, 0.0)


def _thread_capacity_per_s(points: tuple[FlowPoint, ...]) -> float | None:
    speeds = [(point.per_s / max(point.threads, 1), point) for point in points if point.per_s]
    return max((speed for speed, point in speeds if speed * point.threads < point.lag), default=None)


def _hot_task(flow: GroupFlow) -> str:
    lags = {task: each.lag for task, each in flow.tasks.items() if each.lag is not None}
    hottest, total = max(lags, key=lags.__getitem__, default=None), sum(lags.values())
    if hottest is None or len(lags) < 2 or lags[hottest] <= HOT_SHARE * total:
        return ""
    share = lags[hottest] / total
    return f" Task {hottest} has {share:.0%} of the waiting records, and one task runs on one thread only."
