"""What the members report about the input of their tasks: how much waits, and how fast it is processed.

The values come from the heartbeats of the members, so no request to the cluster is needed. They exist only in memory.
Members and instances of Kafka Streams itself report no flow. Source: the consumer metric `records-lag`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from assignor.types import TaskId

Number = TypeVar("Number", int, float)

MEASURED_SPAN_MS = 10_000
"""Speeds and trends are measured over at least this time."""

STEADY_SHARE = 0.1
STEADY_RECORDS = 100
"""A lag rises or falls if it changes by more than this share of itself, and by more than this number of records."""

GROWING_MS = 60_000
"""A lag that grows for this time is a reason to look."""

POINT_INTERVAL_MS = 10_000
MOST_POINTS = 360
"""The history of a group has this number of points at the most, which is one hour."""


ReportedTaskFlow = tuple[int | None, int | None, int]
"""The input of an active task: `lag`, `behind_ms`, `processed`. A plain tuple, because every heartbeat brings one for
each task, and almost none of them is read.

`lag`: the number of offsets that the task has not processed yet; None if the end of an input partition is not known.
`behind_ms`: the time in milliseconds by which the newest processed timestamp is behind the clock of the member; 0 if
nothing waits, and None if the task has processed nothing. `processed`: the number of records that the task has
processed since the member got it.
"""


@dataclass(frozen=True, slots=True)
class ReportedFlow:
    """`flows`: the flows of the last heartbeat that had any. `per_s`: for each task, the number of records that it
    processes per second. `lag_growth`: for each task, the growth of its lag in records over the measured time; negative
    if the lag falls. `measured_flows`, `measured_ms`: the flows from which the next speeds are measured, and the time
    of their heartbeat; `measured_ms` is None before the first heartbeat.
    """

    flows: Mapping[TaskId, ReportedTaskFlow] = field(default_factory=dict)
    per_s: Mapping[TaskId, float] = field(default_factory=dict)
    lag_growth: Mapping[TaskId, int] = field(default_factory=dict)
    measured_flows: Mapping[TaskId, ReportedTaskFlow] = field(default_factory=dict)
    measured_ms: int | None = None

    def after_heartbeat(self, flows: Mapping[TaskId, ReportedTaskFlow] | None, now_ms: int) -> ReportedFlow:
        """Returns the flows after a heartbeat. `flows`: the flows in the heartbeat; None if none has changed since the
        heartbeat before.
        """
        if flows is None and not self.flows:
            return self
        flows = self.flows if flows is None else flows
        if self.measured_ms is None:
            return ReportedFlow(flows, {}, {}, flows, now_ms)
        span_ms = now_ms - self.measured_ms
        if span_ms < MEASURED_SPAN_MS:
            return ReportedFlow(flows, self.per_s, self.lag_growth, self.measured_flows, self.measured_ms)
        per_s: dict[TaskId, float] = {}
        growth: dict[TaskId, int] = {}
        for task, (lag, _, processed) in flows.items():
            if task in self.measured_flows:
                lag_before, _, processed_before = self.measured_flows[task]
                # a task that came back to its member counts its records from 0 again
                if processed >= processed_before:
                    per_s[task] = (processed - processed_before) * 1_000 / span_ms
                if lag is not None and lag_before is not None:
                    growth[task] = lag - lag_before
        return ReportedFlow(flows, per_s, growth, flows, now_ms)


class Flow(NamedTuple):
    """The flow of one task, or of several tasks together. `lag`: the records that wait; None if a task does not know
    it. `behind_ms`: of the task that is most behind; None if no task knows it. `per_s`: the records that are processed
    per second; None if this is not known. `lag_growth`: the growth of the lag since the last measurement; None if this
    is not known.
    """

    lag: int | None
    behind_ms: int | None
    per_s: float | None
    lag_growth: int | None

    @property
    def trend(self) -> str | None:
        """`rising`, `falling` or `steady`; None if this is not known."""
        if self.lag is None or self.lag_growth is None:
            return None
        if abs(self.lag_growth) <= max(STEADY_RECORDS, STEADY_SHARE * max(self.lag, self.lag - self.lag_growth)):
            return "steady"
        return "rising" if self.lag_growth > 0 else "falling"


def flow_of(reported: ReportedFlow, task: TaskId) -> Flow | None:
    """Returns None if the member has not reported a flow of this task."""
    flow = reported.flows.get(task)
    if flow is None:
        return None
    lag, behind_ms, _ = flow
    return Flow(lag, behind_ms, reported.per_s.get(task), reported.lag_growth.get(task))


def total_flow(flows: Iterable[Flow]) -> Flow | None:
    """Returns the flow of several tasks together; None if there are none. A sum is None if a task does not know it."""
    each = tuple(flows)
    if not each:
        return None
    behind = [flow.behind_ms for flow in each if flow.behind_ms is not None]
    return Flow(
        _sum(flow.lag for flow in each),
        max(behind, default=None),
        _sum(flow.per_s for flow in each),
        _sum(flow.lag_growth for flow in each),
    )


def _sum(values: Iterable[Number | None]) -> Number | None:
    known = tuple(values)
    return None if None in known else sum(value for value in known if value is not None)


@dataclass(frozen=True, slots=True)
class GroupFlow:
    """The flow of a group. `tasks`: the flow of each active task of which a member has reported it. `history`: the last
    hour.
    """

    tasks: Mapping[TaskId, Flow]
    history: FlowHistory

    @property
    def total(self) -> Flow | None:
        return total_flow(self.tasks.values())

    def by_subtopology(self) -> dict[str, Flow]:
        """Returns the flow of each subtopology, by the first part of the names of its tasks, such as `0` in `0_3`."""
        flows: dict[str, list[Flow]] = {}
        for task in sorted(self.tasks):
            flows.setdefault(str(task).rpartition("_")[0], []).append(self.tasks[task])
        return {name: total for name, each in flows.items() if (total := total_flow(each)) is not None}


def group_flow(reported: Iterable[ReportedFlow], history: FlowHistory) -> GroupFlow:
    tasks = {task: flow for each in reported for task in each.flows if (flow := flow_of(each, task)) is not None}
    return GroupFlow(tasks, history)


class FlowPoint(NamedTuple):
    """The flow of the whole group at one time. `at_ms`: the time in milliseconds since the epoch. `per_s`: None if no
    task knows it. Tasks with unknown values are left out. `threads`: the number of members that have reported the flow
    of a task.
    """

    at_ms: int
    lag: int
    behind_ms: int
    per_s: float | None
    threads: int = 0


@dataclass(frozen=True, slots=True)
class FlowHistory:
    """The flow of a group in the last hour, oldest point first."""

    points: tuple[FlowPoint, ...] = ()

    def is_due(self, now_ms: int) -> bool:
        return not self.points or now_ms - self.points[-1].at_ms >= POINT_INTERVAL_MS

    def with_point(self, reported: Iterable[ReportedFlow], now_ms: int) -> FlowHistory:
        """Adds a point, unless no task has reported a known lag."""
        working = [each for each in reported if each.flows]
        flows = [flow for each in working for task in each.flows if (flow := flow_of(each, task)) is not None]
        lags = [flow.lag for flow in flows if flow.lag is not None]
        if not lags:
            return self
        behind_ms = max((flow.behind_ms for flow in flows if flow.behind_ms is not None), default=0)
        speeds = [flow.per_s for flow in flows if flow.per_s is not None]
        point = FlowPoint(now_ms, sum(lags), behind_ms, sum(speeds) if speeds else None, len(working))
        return FlowHistory((*self.points, point)[-MOST_POINTS:])

    def grows_since_ms(self) -> int | None:
        """Returns the time since which the lag has only grown, if this time is at least `GROWING_MS` ago and the lag
        has grown by more than `STEADY_RECORDS` and by `STEADY_SHARE`; else None.
        """
        if not self.points:
            return None
        newest = first = self.points[-1]
        for point in reversed(self.points[:-1]):
            if point.lag >= first.lag:
                break
            first = point
        is_long = newest.at_ms - first.at_ms >= GROWING_MS
        is_much = newest.lag - first.lag > max(STEADY_RECORDS, STEADY_SHARE * newest.lag)
        return first.at_ms if is_long and is_much else None
