"""The values of a group's health: levels, reasons, and what the service knows about the group.

A reason has a level. The level of the group is the worst level of its reasons. `health_rules` has the rules that make
the reasons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from assignor.types import Role, TaskId
from coordinator_api.group.image import GroupImage
from coordinator_api.group.notices import ReceivedNotice
from coordinator_api.group.reported_flow import Flow, FlowHistory


class HealthLevel(StrEnum):
    """The levels of health, the best first.

    - `ok`: every task runs, and nothing needs attention.
    - `busy`: the group restores, warms up or rebalances. It goes on by itself.
    - `degraded`: records are processed, but something is lost, behind, at risk or held up by an operator.
    - `broken`: at least a part of the input is not processed, and the group does not go on by itself.
    """

    OK = "ok"
    BUSY = "busy"
    DEGRADED = "degraded"
    BROKEN = "broken"

    @property
    def rank(self) -> int:
        """0 for the best level, 3 for the worst level."""
        return list(HealthLevel).index(self)


class ReasonCode(StrEnum):
    """The kinds of reasons. Within one level, a kind with more weight comes first."""

    STORE_FAILS = "STORE_FAILS"
    TOKEN_EXPIRED = "TOKEN_EXPIRED"  # noqa: S105 (the name of a reason)
    MISSING_SOURCE_TOPICS = "MISSING_SOURCE_TOPICS"
    REBALANCE_FAILED = "REBALANCE_FAILED"
    INSTANCE_FAILED = "INSTANCE_FAILED"  # after REBALANCE_FAILED, because a failed rebalance ends the instances
    INSTANCE_LOST = "INSTANCE_LOST"
    CONNECTIONS_BROKEN = "CONNECTIONS_BROKEN"
    OTHER_APPLICATION = "OTHER_APPLICATION"
    """Another application with the same application.id was refused."""

    NO_INSTANCES = "NO_INSTANCES"
    PAUSED = "PAUSED"
    TOPICS_DO_NOT_FIT = "TOPICS_DO_NOT_FIT"
    """Topics that match the source patterns cannot be used together."""

    NO_TOPIC_MATCHES = "NO_TOPIC_MATCHES"
    NO_TASKS = "NO_TASKS"
    TASKS_WITHOUT_OWNER = "TASKS_WITHOUT_OWNER"
    HELD_REBALANCE = "HELD_REBALANCE"
    WARM_UP_STALLED = "WARM_UP_STALLED"
    HOT_PARTITION = "HOT_PARTITION"
    LAG_GROWS = "LAG_GROWS"
    CLUSTER_UNREACHABLE = "CLUSTER_UNREACHABLE"
    RECORDS_PASSED_OVER = "RECORDS_PASSED_OVER"
    POSITION_BEYOND_END = "POSITION_BEYOND_END"
    RECORDS_DEAD_LETTERED = "RECORDS_DEAD_LETTERED"
    RECORDS_DROPPED = "RECORDS_DROPPED"
    STORE_REBUILT = "STORE_REBUILT"
    WINDOWS_MISSING = "WINDOWS_MISSING"
    WINDOWS_AT_RISK = "WINDOWS_AT_RISK"
    TIMESTAMP_UNIT = "TIMESTAMP_UNIT"
    CLOCK_WRONG = "CLOCK_WRONG"
    MIXED_RELEASES = "MIXED_RELEASES"
    """The instances run different releases of this program."""

    ERRORS_LOGGED = "ERRORS_LOGGED"
    WARNINGS_LOGGED = "WARNINGS_LOGGED"
    OTHER_NOTICE = "OTHER_NOTICE"
    """A notice with a code that this release does not know."""

    SLOW_REBALANCE = "SLOW_REBALANCE"
    STANDBYS_BEHIND = "STANDBYS_BEHIND"
    DRAINING = "DRAINING"
    COORDINATOR_RESTARTED = "COORDINATOR_RESTARTED"
    REBALANCING = "REBALANCING"
    RESTORING = "RESTORING"
    WARMING_UP = "WARMING_UP"


CONDITIONS = (
    ReasonCode.MISSING_SOURCE_TOPICS,
    ReasonCode.REBALANCE_FAILED,
    ReasonCode.PAUSED,
    ReasonCode.NO_TASKS,
)
"""The reasons why a group in the state Stable processes no records."""


@dataclass(frozen=True, slots=True)
class HealthReason:
    """One reason for the health of a group. `text`: what is wrong, in one or two sentences. `action`: what an operator
    can do, in one or two sentences; None if there is nothing to do. `command`: the command for the action; None if
    no command does it. `since_ms`: the time since which it is wrong; None if this is not known. `last_ms`: the time at
    which it happened last, for records and log lines; None for a state that lasts. `where`: names of instances,
    members, tasks or topics. `count`: how many of them, or how many records or log lines; None if nothing can be
    counted.
    """

    level: HealthLevel
    code: ReasonCode
    text: str
    action: str | None = None
    command: str | None = None
    since_ms: int | None = None
    last_ms: int | None = None
    where: tuple[str, ...] = ()
    count: int | None = None

    @property
    def what_to_do(self) -> str | None:
        """The action with its command in backquotes; None if there is nothing to do."""
        if self.action is None or self.command is None:
            return self.action
        return f"{self.action.rstrip('.')}: `{self.command}`."


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """The health of a group. `reasons`: the most important reason first; empty if the level is `ok`."""

    reasons: tuple[HealthReason, ...] = ()

    @property
    def level(self) -> HealthLevel:
        return self.reasons[0].level if self.reasons else HealthLevel.OK

    @property
    def advice(self) -> str | None:
        """The most important reason for which there is something to do, and what to do; None if there is none."""
        return next((f"{each.text} {each.what_to_do}" for each in self.reasons if each.action is not None), None)

    @property
    def condition(self) -> ReasonCode | None:
        """The reason why a Stable group processes no records; None if no such reason is known."""
        return next((reason.code for reason in self.reasons if reason.code in CONDITIONS), None)


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """The cluster of a group, at its last poll. `address`: as text; None if the definition describes its cluster
    itself, or if the caller does not know the definition. `error`: the reason why the cluster does not answer; None
    while it answers. `topology_error`: the reason why its topics do not fit the source patterns.
    """

    address: str | None = None
    error: str | None = None
    failing_since_ms: int | None = None
    topology_error: str | None = None


class ObservedStore(NamedTuple):
    """A store that takes no changes. `problem`: the reason, without secrets."""

    problem: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class ObservedCopy:
    """One copy of a task. `lag`: in records; negative if the task runs or if the lag is not known, None if the task has
    no state. `left_ms`: the expected time until the lag is 0; None if it is not known.
    """

    task: str
    role: Role
    lag: int | None
    left_ms: int | None


class ObservedWarmUp(NamedTuple):
    """A warm-up of the last rebalance. `since_ms`: the time since which the member warms up the task without a break.
    `progress_ms`: the time at which the member last reported a higher offset; None if it reported none.
    """

    task: TaskId
    member_id: str
    since_ms: int
    progress_ms: int | None


@dataclass(frozen=True, slots=True)
class RefusedCalls:
    """Calls for a group that were refused for one reason. `caller`: the newest caller, as it names itself. `why`: the
    reason of the newest refusal. `count`: the number of refused calls. `since_ms`, `last_ms`: the times of the first
    and of the newest refused call.
    """

    caller: str
    why: str
    count: int
    since_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class GroupObservation:
    """What the service knows about a group. `now_ms`: the present time.

    `store`: None while the store of the service takes changes, as far as it is known. `notices`: of the last day, the
    newest first. `ownerless`: the number of tasks that no member owns.
    `ownerless_since_ms`: the time since which the first of them has had no owner. `rebalancing_since_ms`: the start of
    the present rebalance. `rebalanced_at_ms`: the end of the last rebalance. Both are None if this process has not seen
    them. `flow`: the flow of the group in the last hour. `task_flows`: the flow of each active task while the lag of
    the group grows; else empty. `refused_definitions`: definitions of another application with this id.
    `refused_tokens`: calls of members with expired tokens. `releases`: the release of this program that each present
    member runs; empty if all run one release. `mixed_since_ms`: the time since which the releases differ.
    `opened_at_ms`: the time at which this process read the group from the store. `silent_members`: the members that
    have sent no request since then. `disconnected`: the members with broken connections that have not been removed.
    `disconnected_since_ms`: the time of the first break. `warm_ups`: the warm-ups of the last rebalance.
    `missing_topics`: the source topics that the definition's own cluster lacks; empty if the definition names a
    cluster. `instances`: the names of instances by their process ids, as far as the caller knows them. `copies`: None
    if the caller has not computed the lags. `acceptable_lag`: the config acceptable.recovery.lag, in records.
    """

    group_id: str
    image: GroupImage
    now_ms: int
    cluster: ObservedCluster = field(default_factory=ObservedCluster)
    store: ObservedStore | None = None
    notices: Sequence[ReceivedNotice] = ()
    ownerless: int = 0
    ownerless_since_ms: int | None = None
    rebalancing_since_ms: int | None = None
    rebalanced_at_ms: int | None = None
    flow: FlowHistory = field(default_factory=FlowHistory)
    task_flows: Mapping[TaskId, Flow] = field(default_factory=dict)
    refused_definitions: RefusedCalls | None = None
    refused_tokens: RefusedCalls | None = None
    releases: Mapping[str, str] = field(default_factory=dict)
    mixed_since_ms: int | None = None
    opened_at_ms: int | None = None
    silent_members: Sequence[str] = ()
    disconnected: Sequence[str] = ()
    disconnected_since_ms: int | None = None
    warm_ups: Sequence[ObservedWarmUp] = ()
    missing_topics: tuple[str, ...] = ()
    instances: Mapping[str, str] = field(default_factory=dict)
    copies: Sequence[ObservedCopy] | None = None
    acceptable_lag: int = 10_000

    @property
    def has_active_task(self) -> bool:
        """True if any member has an active task, or if this is not known."""
        return self.copies is None or any(copy.role is Role.ACTIVE for copy in self.copies)
