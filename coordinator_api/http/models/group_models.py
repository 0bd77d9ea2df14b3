"""The answers about groups, rebalances and stored logs, and the answers that contain the results of computations.

Later releases may add fields to these answers.
"""

import operator
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue

from assignor.types import Role
from coordinator_api.group.description import DescribedMember
from coordinator_api.group.health import GroupHealth
from coordinator_api.group.image import InstanceEnd
from coordinator_api.group.reported_flow import Flow, GroupFlow
from coordinator_api.http.models import Caller, Generation, GroupId, MemberId, ProcessId, State, TaskId, TimeMs
from coordinator_api.http.models.documents import A_REBALANCE, AN_OUTPUT
from coordinator_api.http.models.lever_models import Forecast, HeldAnswer, LeversAnswer


class DeclareAnswer(BaseModel):
    """The answer to a declaration. `revision`: the number of definitions that the group has had, including the present
    one.
    """

    group_id: GroupId
    revision: int = Field(examples=[1])


class HealthReasonAnswer(BaseModel):
    """One reason for the health of a group. `text`: what is wrong. `action`: what to do, with the command in
    backquotes; null if there is nothing to do. `command`: this command; null if no command does it. `since_ms`: the
    time since which it is wrong; null if this is not known. `last_ms`: the time at which it happened last, for records
    and log lines; null for a state that lasts. `where`: the names of instances, members, tasks or topics. `count`: how
    many of them, or how many records or log lines; null if nothing is counted.
    """

    model_config = ConfigDict(from_attributes=True)

    level: str = Field(examples=["broken"])
    code: str = Field(examples=["REBALANCE_FAILED"])
    text: str = Field(examples=["The last rebalance failed: TimeoutException: no answer."])
    action: str | None = Field(
        validation_alias=AliasChoices("what_to_do", "action"),
        examples=["Nothing is processed until it is resumed: `assignor groups resume w`."],
    )
    command: str | None = Field(examples=["assignor groups rebalance words"])
    since_ms: TimeMs | None
    last_ms: TimeMs | None
    where: list[str] = Field(examples=[["words-1"]])
    count: int | None = Field(examples=[1])


class HealthAnswer(BaseModel):
    """The health of a group. `level`: `ok`, `busy`, `degraded` or `broken`. `reasons`: the most important reason
    first.
    """

    level: str = Field(examples=["ok"])
    reasons: list[HealthReasonAnswer] = Field(examples=[[]])

    @classmethod
    def of(cls, health: GroupHealth) -> Self:
        return cls(level=health.level, reasons=[HealthReasonAnswer.model_validate(each) for each in health.reasons])


class FlowPointAnswer(BaseModel):
    """The flow of the whole group at one time. `records_per_s`: null if no task knows it."""

    model_config = ConfigDict(from_attributes=True)

    at_ms: TimeMs
    lag: int = Field(examples=[20])
    behind_ms: int = Field(examples=[1_500])
    records_per_s: float | None = Field(validation_alias="per_s", examples=[850.0])


class _ShownGroup(BaseModel):
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    group_id: GroupId
    state: State
    generation_id: Generation
    draining: bool = Field(examples=[False])
    probing_rebalance_at_ms: TimeMs | None
    error: str | None = Field(description="The error of the last rebalance.", examples=[None])
    led_by: str | None = Field(
        description="The group's leader, if it is outside this service; null when this service leads the group.",
        examples=[None],
    )
    condition: str | None = Field(
        None, description="A problem of the group that its state does not show; null if none is known.", examples=[None]
    )
    health: HealthAnswer | None = Field(
        None, description="What is wrong, since when, and what to do; null if the group's coordinator does not answer."
    )
    flow: FlowPointAnswer | None = Field(
        None, description="The input lag of the group in the last ten seconds; null if no member has reported it."
    )
    declared_at_ms: TimeMs | None = Field(None, description="Time of the present definition; null when not known.")


class GroupLine(_ShownGroup):
    """One line of the list of groups."""

    members: int = Field(examples=[1])
    notices: int = Field(0, description="Number of notices that the group's processes sent in the last day.")


class UnreadableGroupLine(BaseModel):
    """A group whose log cannot be read. The service does not lead a group whose log cannot be read."""

    group_id: str = Field(examples=["orders"])
    reason: str = Field(examples=["record 2 has been changed: its checksum does not fit"])


class QuotaAnswer(BaseModel):
    used: int = Field(examples=[1])
    allowed: int | None = Field(description="The limit; null when the service sets no limit.", examples=[100])


class QuotasAnswer(BaseModel):
    """The limits of one tenant, and how much of each the tenant uses. A tenant is a prefix of group ids."""

    group_prefix: str = Field(examples=["words"])
    groups: QuotaAnswer
    members: QuotaAnswer
    bytes: QuotaAnswer
    computations: QuotaAnswer


class GroupList(BaseModel):
    groups: Sequence[GroupLine]
    unreadable: list[UnreadableGroupLine] = []
    quotas: QuotasAnswer | None = Field(
        None, description="The quotas of the caller's prefix; null for a caller that sees all groups."
    )


class GroupsCluster(BaseModel):
    """The cluster that the definition names. `error`: the reason why the cluster does not answer; null while it
    answers.
    """

    provider: str = Field(examples=["kafka"])
    bootstrap_servers: str | None = Field(examples=["broker-1:9092"])
    looked_at_ms: TimeMs | None
    failing_since_ms: TimeMs | None = Field(examples=[None])
    error: str | None = Field(examples=[None])


class LastRebalanceAnswer(BaseModel):
    generation_id: Generation
    reason: str | None = Field(examples=["member-joined"])
    outcome: str = Field(examples=["stable"])
    error: str | None = Field(examples=[None])
    error_code: int
    missing_topics: list[str] = Field(examples=[[]])
    revision: int = Field(examples=[1], description="Revision of the definition that this rebalance used.")


class NoticeAnswer(BaseModel):
    """A notice of a process, as in a `NoticeBody`."""

    process_id: ProcessId
    code: str = Field(examples=["RECORDS_DROPPED"])
    text: str = Field(examples=["3 records could not be decoded"])
    count: int = Field(examples=[3])
    at_ms: TimeMs


class InstanceEndAnswer(BaseModel):
    """The end of an instance. `reason`: the reason for which its last member was removed: `left` if the instance
    stopped or failed, any other reason if the coordinator missed its requests. `error`, `message`, `place`, `task`: the
    failure that the instance reported, as in a `FailureBody`; null if it reported none. An instance that was killed
    reports no failure.
    """

    process_id: ProcessId
    client_id: str | None = Field(
        description="Client id without the number of the thread; null if the member sent none.", examples=["words-1"]
    )
    at_ms: TimeMs
    reason: str = Field(examples=["left"])
    error: str | None = Field(examples=["ValueError"])
    message: str | None = Field(examples=["no amount in 'x'"])
    place: str | None = Field(examples=["orders.py:12, in to_amount"])
    task: TaskId | None
    present: bool = Field(description="True if the process has a member in the group now.", examples=[False])

    @classmethod
    def of(cls, end: InstanceEnd, present: bool) -> Self:
        failure = end.failure
        return cls(
            process_id=end.process_id,
            client_id=end.client_id,
            at_ms=end.at_ms,
            reason=str(end.reason),
            error=None if failure is None else failure.error,
            message=None if failure is None else failure.message,
            place=None if failure is None else failure.place,
            task=None if failure is None else failure.task,
            present=present,
        )


class GroupMemberAnswer(BaseModel):
    """One member of a group. `active`, `standby`, `warm_up`: the tasks of the member's last assignment."""

    member_id: MemberId
    client_id: str | None = Field(examples=["words-1"])
    group_instance_id: str | None = Field(examples=[None])
    incarnation: int | None = Field(examples=[None])
    process_id: ProcessId | None
    rack: str | None = Field(description="Its `client.rack`.", examples=["eu-1a"])
    client_tags: dict[str, str] = Field(description="Its `client.tag.…`.", examples=[{"zone": "eu-1a"}])
    user_endpoint: str | None = Field(
        description="Address at which the member's instance answers queries.", examples=["words-1:8080"]
    )
    generation_id: Generation
    joined: bool
    fetched: bool = Field(description="True if the member has the assignment of the group's generation.")
    away_until_ms: TimeMs | None = Field(
        description="The time at which the rejoin grace of this member ends; null for a member that has not left.",
        examples=[None],
    )
    last_heard_ms: TimeMs | None
    session_timeout_ms: int | None = Field(examples=[45_000])
    rebalance_timeout_ms: int | None = Field(examples=[300_000])
    active: list[TaskId]
    standby: list[TaskId] = Field(examples=[[]])
    warm_up: list[TaskId] = Field(examples=[[]])

    @classmethod
    def of(cls, member: DescribedMember) -> Self:
        join = member.member.last_join
        held: dict[Role, list[str]] = {role: [] for role in Role}
        for copy in member.tasks:
            held[copy.role].append(str(copy.task_id))
        return cls(
            member_id=member.member.member_id,
            client_id=join.client_id,
            group_instance_id=join.group_instance_id,
            incarnation=join.incarnation,
            process_id=None if member.process_id is None else str(member.process_id),
            user_endpoint=(member.subscribed.user_end_point or None) if member.subscribed else None,
            rack=member.rack,
            client_tags=dict(member.subscribed.client_tags) if member.subscribed else {},
            generation_id=member.member.last_assignment.generation_id,
            joined=member.has_joined,
            fetched=member.fetched,
            away_until_ms=member.member.away_until_ms,
            last_heard_ms=member.last_heard_ms,
            session_timeout_ms=join.session_timeout_ms or None,
            rebalance_timeout_ms=join.rebalance_timeout_ms or None,
            active=held[Role.ACTIVE],
            standby=held[Role.STANDBY],
            warm_up=held[Role.WARM_UP],
        )


class FlowAnswer(BaseModel):
    """The flow of the input of a task, or of several tasks together, as their members have reported it. `lag`: the
    number of input offsets that are not processed yet; null if it is not known. `behind_ms`: the milliseconds by which
    the newest processed timestamp is behind the clock; 0 if nothing waits. `records_per_s`: the records that are
    processed per second. `trend`: `rising`, `falling` or `steady`, for the lag of the last seconds.
    """

    model_config = ConfigDict(from_attributes=True)

    lag: int | None = Field(examples=[20])
    behind_ms: int | None = Field(examples=[1_500])
    records_per_s: float | None = Field(validation_alias="per_s", examples=[850.0])
    trend: str | None = Field(examples=["falling"])


class TaskFlowAnswer(FlowAnswer):
    task: TaskId


class GroupFlowAnswer(BaseModel):
    """The input lag of a group, from the heartbeats of its members. `total`: null if no member has reported a flow.
    `subtopologies`: by the first part of the names of their tasks. `history`: points of the last hour, the oldest
    first.
    """

    group_id: GroupId
    total: FlowAnswer | None
    subtopologies: dict[str, FlowAnswer]
    tasks: list[TaskFlowAnswer]
    history: list[FlowPointAnswer]

    @classmethod
    def of(cls, group_id: str, flow: GroupFlow) -> Self:
        tasks = [(task, flow.tasks[task]) for task in sorted(flow.tasks)]
        return cls(
            group_id=group_id,
            total=None if flow.total is None else FlowAnswer.model_validate(flow.total),
            subtopologies={name: FlowAnswer.model_validate(each) for name, each in flow.by_subtopology().items()},
            tasks=[TaskFlowAnswer.model_validate({"task": str(task), **_flow_fields(each)}) for task, each in tasks],
            history=[FlowPointAnswer.model_validate(point) for point in flow.history.points],
        )


def _flow_fields(flow: Flow) -> dict[str, object]:
    return {**flow._asdict(), "trend": flow.trend}


class ScaleCostAnswer(BaseModel):
    """What it would cost to get the wanted number of instances, from a forecast of the rebalances. `tasks_that_move`:
    the moves of active tasks until the group is stable. `records_to_restore`: the records that all instances would have
    to read to catch up; null if a lag is not known. `seconds`: the time until the group is stable; null if the forecast
    does not become stable.
    """

    tasks_that_move: int = Field(examples=[4])
    records_to_restore: int | None = Field(examples=[120_000])
    seconds: float | None = Field(examples=[600.0])


class GroupScaleAnswer(BaseModel):
    """The number of instances that a group needs. `most_instances`: more instances would be idle. `capacity_per_s`: the
    records that one instance can process per second; null until a stream thread has been busy. `may_remove`: true if
    an instance may be taken away now; `keeps_because` has the reasons against it. `removes`: the instances whose
    removal `cost` describes, those with the fewest active tasks. `cost`: null if the number of instances is right, or
    if the cost cannot be computed; `cost_error` then has the reason.
    """

    model_config = ConfigDict(populate_by_name=True)

    group_id: GroupId
    instances: int = Field(examples=[2])
    wanted_instances: int = Field(validation_alias="wanted", examples=[3])
    most_instances: int = Field(validation_alias="most", examples=[8])
    arrival_per_s: float | None = Field(examples=[900.0])
    capacity_per_s: float | None = Field(examples=[400.0])
    reason: str
    may_remove: bool
    keeps_because: list[str]
    removes: list[str] = Field(examples=[[]])
    cost: ScaleCostAnswer | None
    cost_error: str | None = Field(examples=[None])


class TaskCopyAnswer(BaseModel):
    """One copy of a task. `lag`: the copy's lag in records. The lag is -2 for a running active task, -3 if it is
    unknown, and null for a stateless task. `end_offset_sum`: the sum of the end offsets of the task's changelogs; null
    if it is unknown. `left_ms`: the expected time until the copy has read the records of `lag`, at its speed of the
    last seconds; null if there is nothing to read or if the time is not known.
    """

    task: TaskId
    role: str = Field(examples=["active"])
    member_id: MemberId
    process_id: ProcessId | None
    lag: int | None = Field(examples=[120])
    end_offset_sum: int | None = Field(examples=[1_000])
    left_ms: int | None = Field(None, examples=[1_500])
    flow: FlowAnswer | None = Field(
        None, description="The input of an active task; null if its member has not reported it."
    )


class GroupAnswer(_ShownGroup):
    """The description of a group for operators. `advice`: advice in one or two sentences; null when there is nothing to
    do.
    """

    revision: int = Field(examples=[1], description="Number of definitions that the group has had.")
    declared_by: Caller | None = Field(description="The caller that sent the present definition; null when not known.")
    levers: LeversAnswer
    held_rebalance: HeldAnswer | None = Field(examples=[None])
    reason: str | None = Field(description="Cause of the present rebalance.", examples=["member-joined"])
    settled: bool
    last_reported_ms: TimeMs | None = Field(examples=[None])
    last_rebalance: LastRebalanceAnswer | None
    application_id: GroupId
    assignor: str = Field(examples=["HighAvailabilityTaskAssignor"])
    configs: dict[str, JsonValue] = Field(examples=[{"num.standby.replicas": 1}])
    members: list[GroupMemberAnswer]
    tasks: list[TaskCopyAnswer]
    cluster: GroupsCluster | None
    advice: str | None = Field(examples=[None])
    stored_bytes: int = Field(
        description="Size of the group's log and recorded rebalances in the store.", examples=[4_096]
    )
    notices: list[NoticeAnswer] = Field(
        description="Notices of the group's processes: dropped records, warnings and errors."
    )
    ends: list[InstanceEndAnswer] = Field(
        description="The last hundred instances that ended, newest first. An instance that came back with the same "
        "process id stays in the list."
    )


class StoredRecordAnswer(BaseModel):
    """One record of a stored log. `problem`: the damage of the record; null when the record is not damaged."""

    sequence: int = Field(examples=[1])
    body: str | None = Field(description="The record as JSON; null if not readable.", examples=['{"type": "..."}'])
    body_base64: str | None = Field(description="The stored bytes, if they are not text.", examples=[None])
    checksum: int | None = Field(description="CRC-32 of group, number and body; null if the record is not readable.")
    ends_commit: bool | None = Field(description="True if the record ends its transaction; null if not readable.")
    intact: bool
    problem: str | None = Field(examples=[None])


class StoredLogAnswer(BaseModel):
    """The stored log of a group. `problem`: the reason why the log cannot be read; null when it can be read."""

    format: Literal["group-log/1"]
    group_id: GroupId
    sequence: int = Field(description="Number that the last record of the log must have.", examples=[1])
    problem: str | None = Field(examples=[None])
    records: list[StoredRecordAnswer]


class KeptOfLog(BaseModel):
    """The records that a repair keeps. `last_record`: the number of the last kept record. `generation_id`, `revision`:
    the group's generation and definition revision after this record.
    """

    # FastAPI makes this answer from the attributes of a planned repair
    model_config = ConfigDict(from_attributes=True)

    records: int = Field(validation_alias="kept_records", examples=[1])
    last_record: int = Field(validation_alias="last_kept", examples=[1])
    generation_id: int = Field(validation_alias="kept_generation")
    revision: int = Field(examples=[1])


class DroppedOfLog(BaseModel):
    """The records that a repair drops, including unreadable records. `members`: the members that have to join again.
    `generations`: the generations that began in the dropped records, as far as these records can be read.
    """

    records: int = Field(examples=[4])
    first_record: int | None = Field(examples=[2])
    last_record: int | None = Field(examples=[5])
    members: list[MemberId]
    generations: list[Generation]


class RepairAnswer(BaseModel):
    """The plan of a repair. `executed`: true if the repair was carried out; false if the answer only shows a plan.
    `generation_id`: the generation from which the group continues.
    """

    group_id: GroupId
    executed: bool = Field(examples=[False])
    problem: str = Field(examples=["record 2 has been changed: its checksum does not fit"])
    generation_id: int = Field(examples=[1_000_005])
    kept: KeptOfLog
    dropped: DroppedOfLog
    advice: str = Field(examples=["Nothing has been changed. Save the log first: GET /v1/groups/words/log"])


class HoldOfRebalance(BaseModel):
    """The wait of a rebalance for approval: the start and the end of the wait, the caller that ended the wait, and the
    reason. `ended`: the event that ended the wait: `approved`, `discarded`, `time-limit`, `hold-ended` or `replaced`.
    The value is `replaced` if a new rebalance began, and null while the rebalance waits.
    """

    since_ms: TimeMs
    ended: str | None = Field(examples=["approved"])
    by: Caller | None
    at_ms: TimeMs | None
    reason: str | None


class RebalanceLine(BaseModel):
    """One recorded rebalance. `outcome`: the outcome of the rebalance; `held` while the rebalance waits for approval.
    If a new rebalance replaces a waiting rebalance, the outcome of the replaced rebalance stays `held`. `hold`: only
    present if the rebalance waited. `led_by`: the leader that reported the rebalance; only present if this leader is
    outside the service.
    """

    generation_id: Generation
    now_ms: TimeMs
    reason: str = Field(examples=["member-joined"])
    outcome: str = Field(examples=["stable"])
    members: int = Field(examples=[1])
    definition_revision: int = Field(examples=[1])
    probing_rebalance_at_ms: TimeMs | None
    followup_rebalance: bool = Field(examples=[False])
    error: str | None = Field(examples=[None])
    took_ms: int | None = Field(
        None, description="Time from the rebalance's start to its result; null when not known.", examples=[250]
    )
    hold: HoldOfRebalance | None = Field(None, exclude_if=operator.not_, examples=[None])
    led_by: str | None = Field(None, exclude_if=operator.not_, examples=[None])


class RebalanceList(BaseModel):
    """One page of recorded rebalances. `next_before`: the value of the parameter `before` that returns the next page;
    null on the last page.
    """

    rebalances: list[RebalanceLine]
    next_before: Generation | None = Field(examples=[None])


class RebalanceExplanation(BaseModel):
    """The explanation of a rebalance. `same_result`: true if a new computation of the rebalance gives the recorded
    result. `explanations`: for each task, the reason for the places of its copies. The field `text` has the reason in
    words. The fields besides `text` have the same meaning as in `output.explanations` of rebalance/1.
    """

    group_id: GroupId
    generation_id: Generation
    error: str | None = Field(examples=[None])
    same_result: bool
    explanations: list[dict[str, Any]] = Field(examples=[[{"task": "0_1", "text": "0_1 started: active on 3f0c2b1e"}]])


class AssignAnswer(BaseModel):
    """The result of a rebalance. `output`: the output in the format of the request."""

    id: str = Field(examples=[A_REBALANCE["id"]])
    output: dict[str, Any] = Field(examples=[AN_OUTPUT])


class SimulateAnswer(BaseModel):
    """A forecast of the next rebalances. `forecast`: the forecast. `forecast` contains the reason why the forecast ends
    (`end`), totals over all rebalances, and the measures of each rebalance (`rounds`). `forecast` also contains the
    final place of every task and the assumptions (`model`). All times are in milliseconds.
    """

    id: str = Field(examples=[A_REBALANCE["id"]])
    forecast: Forecast
