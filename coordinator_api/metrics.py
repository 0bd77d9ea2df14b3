"""The metrics of the service for Prometheus, under Kafka's names. Each service has its own registry.

Source of the names: the broker's `GroupCoordinatorMetrics` and the client's `ConsumerRebalanceMetricsManager`. A test
compares the documentation with `METRICS`.
"""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coordinator_api.group.health import HealthLevel

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServiceMetric(NamedTuple):
    """A metric of the service. `name`: the metric's name in Prometheus. Names of counters end in `_total`, and times
    are in seconds.
    """

    name: str
    description: str
    labels: tuple[str, ...] = ()


METRICS = (
    ServiceMetric("assignor_rebalance_total", "Completed rebalances."),
    ServiceMetric(
        "assignor_rebalance_outcome_total", "Completed rebalances, by cause and outcome.", ("cause", "outcome")
    ),
    ServiceMetric("assignor_failed_rebalance_total", "Rebalances whose assignor raised an error."),
    ServiceMetric("assignor_rebalance_latency_seconds", "Time from the start of a rebalance to its assignments."),
    ServiceMetric("assignor_assignment_latency_seconds", "Run time of the assignor in one rebalance."),
    ServiceMetric(
        "assignor_reported_rebalance_total",
        "Rebalances that another leader led and that were reported to this coordinator.",
    ),
    ServiceMetric("assignor_cluster_look_failed_total", "Polls of a group's cluster that failed."),
    ServiceMetric("assignor_heartbeat_total", "Heartbeats that got a response."),
    ServiceMetric("assignor_join_total", "Accepted join requests, including rejoins."),
    ServiceMetric("assignor_leave_total", "Members that left their group."),
    ServiceMetric(
        "assignor_session_expired_total", "Members removed because a timeout expired or their connection broke."
    ),
    ServiceMetric(
        "assignor_commit_latency_seconds", "Time to write the records of the events that waited for one commit."
    ),
    ServiceMetric("assignor_groups", "Groups, by state.", ("state",)),
    ServiceMetric("assignor_members", "Members of all groups."),
    ServiceMetric(
        "assignor_unreadable_groups", "Groups that are not led because their log in the store cannot be read."
    ),
    ServiceMetric(
        "assignor_owned_groups",
        "Groups that this coordinator owns; a coordinator that is the only one owns all groups.",
    ),
    ServiceMetric(
        "assignor_lease_valid",
        "1 while this coordinator may respond for its groups; 0 while its lease has ended because it could not "
        "renew the lease. Always 1 on SQLite.",
    ),
    ServiceMetric(
        "assignor_takeover_total",
        "Groups that this coordinator acquired, from another coordinator or without an owner. Always 0 on SQLite.",
    ),
    ServiceMetric("assignor_hand_over_total", "Groups that this coordinator gave to another coordinator."),
    ServiceMetric(
        "assignor_late_answers_refused_total", "Requests that this coordinator refused because its lease had ended."
    ),
    ServiceMetric(
        "assignor_tasks_without_owner",
        "Tasks that no member runs, because their owner has left or is away, because their old owner has not "
        "revoked them yet, or because the rebalance failed.",
    ),
    ServiceMetric(
        "assignor_longest_without_owner_seconds",
        "Longest time for which a task has had no owner; 0 when all tasks have owners.",
    ),
    ServiceMetric("assignor_time_without_owner_seconds_total", "Time in which tasks had no owner, summed over tasks."),
    ServiceMetric(
        "assignor_longest_held_seconds",
        "Longest time for which a rebalance has waited for its approval; 0 when no rebalance waits.",
    ),
    ServiceMetric(
        "assignor_rebalance_rate_per_hour",
        "Rebalances in the last hour, up to 1,000, of the group that had the most rebalances.",
    ),
    ServiceMetric("assignor_warm_ups", "Warm-up tasks of all groups."),
    ServiceMetric(
        "assignor_next_probing_rebalance_seconds",
        "Time until the next probing rebalance of any group; left out when no probing rebalance is due.",
    ),
    ServiceMetric("assignor_groups_by_health", "Groups, by health: ok, busy, degraded, broken.", ("health",)),
    ServiceMetric(
        "assignor_group_health",
        "Health of the group: 0 ok, 1 busy, 2 degraded, 3 broken. The lags of tasks are not considered.",
        ("group",),
    ),
    ServiceMetric(
        "assignor_groups_by_reason",
        "Groups, by each reason for their health, such as INSTANCE_FAILED; a group may have several reasons.",
        ("reason",),
    ),
    ServiceMetric(
        "assignor_group_health_reason",
        "A reason for the health of the group: 1 busy, 2 degraded, 3 broken. Reasons that do not hold are left out.",
        ("group", "reason"),
    ),
    ServiceMetric(
        "assignor_group_input_lag_records",
        "Input records of the group that are not processed yet, as its members reported; left out if none did.",
        ("group",),
    ),
    ServiceMetric(
        "assignor_group_input_behind_seconds",
        "Time by which the newest processed timestamp of the task that is most behind is behind the clock.",
        ("group",),
    ),
    ServiceMetric("assignor_group_members", "Members of the group.", ("group",)),
    ServiceMetric("assignor_group_tasks_without_owner", "Tasks of the group that no member runs.", ("group",)),
    ServiceMetric(
        "assignor_group_longest_without_owner_seconds",
        "Longest time for which a task of the group has had no owner.",
        ("group",),
    ),
    ServiceMetric(
        "assignor_group_held_seconds",
        "Time for which a rebalance of the group has waited for its approval.",
        ("group",),
    ),
    ServiceMetric("assignor_group_rebalance_rate_per_hour", "Rebalances of the group in the last hour.", ("group",)),
    ServiceMetric("assignor_group_warm_ups", "Warm-up tasks of the group.", ("group",)),
    ServiceMetric(
        "assignor_group_next_probing_rebalance_seconds",
        "Time until the next probing rebalance of the group; left out when no probing rebalance is due.",
        ("group",),
    ),
    ServiceMetric(
        "assignor_store_ready", "1 when the store accepted a write and returned it within half a second; else 0."
    ),
    ServiceMetric("assignor_long_polls", "GET requests that wait for an assignment, and held heartbeats of processes."),
    ServiceMetric("assignor_event_backlog", "Events of all groups that wait for their commit to the store."),
    ServiceMetric("assignor_loop_lag_seconds", "Time by which the event loop runs its timers too late."),
    ServiceMetric(
        "assignor_clock_behind_seconds",
        "Time by which the service's clock is behind the machine's clock. The clock stops while the service "
        "cannot read requests, so that no session expires in this time.",
    ),
    ServiceMetric("assignor_shed_requests_total", "Requests refused because the service was overloaded.", ("kind",)),
    ServiceMetric("assignor_connections", "Open connections to the service."),
    ServiceMetric("assignor_audit_lost_total", "Lines of the audit log that could not be written to its file."),
    ServiceMetric("assignor_http_requests_total", "HTTP requests that got a response.", ("method", "route", "status")),
    ServiceMetric(
        "assignor_http_request_duration_seconds",
        "Duration of HTTP requests, including the time that long polls wait.",
        ("method", "route"),
    ),
)
_BY_NAME = {metric.name: metric for metric in METRICS}
_Seconds = partial(Histogram, buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60))
_Kept = TypeVar("_Kept", Counter, Gauge, Histogram)


class GroupMeasures(NamedTuple):
    """The measurements of one group. `probing_in_s`: the time until the group's next probing rebalance; None if no
    probing rebalance is due. `held_s`: the time for which a rebalance has been held; 0 if no rebalance is held.
    `without_owner_s`: the longest time for which a task has had no owner; 0 if all tasks have owners. `health`: does
    not consider the lags of tasks. `reasons`: the level of each reason for the health, by its code. `input_lag`,
    `input_behind_s`: the input lag of the group in records and in time; None if no member has reported it.
    """

    group_id: str
    members: int
    tasks_without_owner: int
    without_owner_s: float
    held_s: float
    warm_ups: int
    probing_in_s: float | None
    rebalances_per_hour: int
    health: HealthLevel
    input_lag: int | None = None
    input_behind_s: float | None = None
    reasons: Mapping[str, HealthLevel] = {}


class ServiceMeasures(NamedTuple):
    """The measurements of the service. `groups`: the groups in the order of their ids."""

    groups: Sequence[GroupMeasures]
    groups_by_state: Mapping[str, int]
    long_polls: int
    event_backlog: int
    clock_behind_s: float
    unreadable_groups: int
    owned_groups: int


class Metrics:
    """The metrics that the service updates while it runs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.rebalances = self._new(Counter, "assignor_rebalance_total")
        self.rebalance_outcomes = self._new(Counter, "assignor_rebalance_outcome_total")
        self.time_without_owner = self._new(Counter, "assignor_time_without_owner_seconds_total")
        self.failed_rebalances = self._new(Counter, "assignor_failed_rebalance_total")
        self.reported_rebalances = self._new(Counter, "assignor_reported_rebalance_total")
        self.failed_cluster_polls = self._new(Counter, "assignor_cluster_look_failed_total")
        self.rebalance_latency = self._new(_Seconds, "assignor_rebalance_latency_seconds")
        self.assignment_latency = self._new(_Seconds, "assignor_assignment_latency_seconds")
        self.heartbeats = self._new(Counter, "assignor_heartbeat_total")
        self.joins = self._new(Counter, "assignor_join_total")
        self.leaves = self._new(Counter, "assignor_leave_total")
        self.expired_sessions = self._new(Counter, "assignor_session_expired_total")
        self.commit_latency = self._new(_Seconds, "assignor_commit_latency_seconds")
        self.loop_lag = self._new(_Seconds, "assignor_loop_lag_seconds")
        self.shed_requests = self._new(Counter, "assignor_shed_requests_total")
        self.takeovers = self._new(Counter, "assignor_takeover_total")
        self.hand_overs = self._new(Counter, "assignor_hand_over_total")
        self.refused_late_answers = self._new(Counter, "assignor_late_answers_refused_total")
        self.lease_valid = self._new(Gauge, "assignor_lease_valid")
        self.lease_valid.set(1)
        self.connections = self._new(Gauge, "assignor_connections")
        self.lost_audit_lines = self._new(Counter, "assignor_audit_lost_total")
        self.requests = self._new(Counter, "assignor_http_requests_total")
        self.request_duration = self._new(_Seconds, "assignor_http_request_duration_seconds")
        self.store_ready = self._new(Gauge, "assignor_store_ready")

    def exposition(self) -> bytes:
        """Returns the metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _new(self, kind: Callable[..., _Kept], name: str) -> _Kept:
        metric = _BY_NAME[name]
        return kind(name, metric.description, metric.labels, registry=self.registry)


class MeasuredService(Collector):
    """The gauges whose values the service computes at each scrape. Some gauges are totals of all groups, and other
    gauges have a value for each group.

    `named_groups`: the number of groups for which values are shown separately. Values are shown for the groups with the
    first ids.
    """

    def __init__(self, measures: Callable[[], ServiceMeasures], named_groups: int) -> None:
        self._measures = measures
        self._named_groups = named_groups

    def collect(self) -> Iterable[Metric]:
        measures = self._measures()
        groups = measures.groups
        yield _family("assignor_long_polls", measures.long_polls)
        yield _family("assignor_event_backlog", measures.event_backlog)
        yield _family("assignor_clock_behind_seconds", measures.clock_behind_s)
        yield _family("assignor_unreadable_groups", measures.unreadable_groups)
        yield _family("assignor_owned_groups", measures.owned_groups)
        yield _labeled("assignor_groups", measures.groups_by_state.items())
        yield _family("assignor_members", sum(each.members for each in groups))
        yield _family("assignor_tasks_without_owner", sum(each.tasks_without_owner for each in groups))
        without_owner_s = max((each.without_owner_s for each in groups), default=0)
        yield _family("assignor_longest_without_owner_seconds", without_owner_s)
        yield _family("assignor_longest_held_seconds", max((each.held_s for each in groups), default=0))
        rebalances = max((each.rebalances_per_hour for each in groups), default=0)
        yield _family("assignor_rebalance_rate_per_hour", rebalances)
        yield _family("assignor_warm_ups", sum(each.warm_ups for each in groups))
        due = (each.probing_in_s for each in groups if each.probing_in_s is not None)
        yield _family("assignor_next_probing_rebalance_seconds", min(due, default=None))
        by_health = Counts(each.health for each in groups)
        yield _labeled("assignor_groups_by_health", [(str(level), by_health[level]) for level in HealthLevel])
        by_reason = Counts(reason for each in groups for reason in each.reasons)
        yield _labeled("assignor_groups_by_reason", sorted(by_reason.items()))
        reasons = _new_family("assignor_group_health_reason")
        for group in groups[: self._named_groups]:
            for reason, level in group.reasons.items():
                reasons.add_metric((group.group_id, reason), level.rank)
        yield reasons
        for name, value in _OF_ONE_GROUP.items():
            yield _labeled(name, [(each.group_id, value(each)) for each in groups[: self._named_groups]])


_OF_ONE_GROUP: Mapping[str, Callable[[GroupMeasures], float | None]] = {
    "assignor_group_health": lambda group: group.health.rank,
    "assignor_group_input_lag_records": lambda group: group.input_lag,
    "assignor_group_input_behind_seconds": lambda group: group.input_behind_s,
    "assignor_group_members": lambda group: group.members,
    "assignor_group_tasks_without_owner": lambda group: group.tasks_without_owner,
    "assignor_group_longest_without_owner_seconds": lambda group: group.without_owner_s,
    "assignor_group_held_seconds": lambda group: group.held_s,
    "assignor_group_rebalance_rate_per_hour": lambda group: group.rebalances_per_hour,
    "assignor_group_warm_ups": lambda group: group.warm_ups,
    "assignor_group_next_probing_rebalance_seconds": lambda group: group.probing_in_s,
}


def _family(name: str, value: float | None) -> GaugeMetricFamily:
    """Returns a gauge. If `value` is None, the gauge has no sample."""
    return GaugeMetricFamily(name, _BY_NAME[name].description, value)


def _new_family(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, _BY_NAME[name].description, labels=_BY_NAME[name].labels)


def _labeled(name: str, values: Iterable[tuple[str, float | None]]) -> GaugeMetricFamily:
    family = _new_family(name)
    for label, value in values:
        if value is not None:
            family.add_metric((label,), value)
    return family
