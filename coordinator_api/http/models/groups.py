"""What is answered about groups, their rebalances and their stored logs, and what the service computes for a caller.

Later releases may add fields.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from assignor.types import Role
from coordinator_api.group.description import DescribedMember
from coordinator_api.http.models.levers import HeldAnswer, LeversAnswer

_MS = "Milliseconds since the epoch."


class DeclareAnswer(BaseModel):
    """`revision`: how many definitions this group has had."""

    group_id: str
    revision: int


class _ShownGroup(BaseModel):
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    group_id: str
    state: str
    generation_id: int
    draining: bool
    probing_rebalance_at_ms: int | None = Field(description=_MS)
    error: str | None = Field(description="Of the last rebalance.")
    led_by: str | None = Field(description="Who else leads the group.")
    condition: str | None = Field(None, description="What is wrong although the state looks well, in a word or two.")
    declared_at_ms: int | None = Field(
        None, description=f"When the present definition came; null when that is not known. {_MS}"
    )


class GroupLine(_ShownGroup):
    """One line of the list of groups."""

    members: int
    notices: int = Field(0, description="How many notices its members told.")


class UnreadableGroupLine(BaseModel):
    """A group whose log cannot be read. It is not led."""

    group_id: str
    reason: str


class QuotaAnswer(BaseModel):
    used: int
    allowed: int | None = Field(description="Null when there is no limit.")


class QuotasAnswer(BaseModel):
    """What one tenant has and may have. A tenant is a prefix of group ids."""

    group_prefix: str
    groups: QuotaAnswer
    members: QuotaAnswer
    bytes: QuotaAnswer
    computations: QuotaAnswer


class GroupList(BaseModel):
    groups: Sequence[GroupLine]
    unreadable: list[UnreadableGroupLine] = []
    quotas: QuotasAnswer | None = Field(None, description="Of the caller's prefix; null for one that sees all groups.")


class GroupsCluster(BaseModel):
    """The cluster that the definition names, and whether it answers."""

    provider: str
    bootstrap_servers: str | None
    looked_at_ms: int | None = Field(description=_MS)
    failing_since_ms: int | None = Field(description=_MS)
    error: str | None


class LastRebalanceAnswer(BaseModel):
    generation_id: int
    reason: str | None
    outcome: str
    error: str | None
    error_code: int
    missing_topics: list[str]
    revision: int = Field(description="Of the definition that it was computed from.")


class NoticeAnswer(BaseModel):
    """What a process told people: as a `NoticeBody`."""

    process_id: str
    code: str
    text: str
    count: int
    at_ms: int = Field(description=_MS)


class GroupMemberAnswer(BaseModel):
    """One member. `active`, `standby`, `warm_up`: the tasks that its last assignment gives it."""

    member_id: str
    client_id: str | None
    group_instance_id: str | None
    incarnation: int | None
    process_id: str | None
    rack: str | None = Field(description="Its `client.rack`.")
    client_tags: dict[str, str] = Field(description="Its `client.tag.…`.")
    user_endpoint: str | None = Field(description="Where its instance answers queries.")
    generation_id: int
    joined: bool
    fetched: bool = Field(description="Whether it has the assignment of the group's generation.")
    away_until_ms: int | None = Field(
        description=f"Until when its place waits for it, because it left and may come back; null when it is here. {_MS}"
    )
    last_heard_ms: int | None = Field(description=_MS)
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    active: list[str]
    standby: list[str]
    warm_up: list[str]

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


class TaskCopyAnswer(BaseModel):
    """One copy of a task. `lag`: records behind; -2 for an active that runs, -3 when not known, null for a stateless
    task. `end_offset_sum`: the records of its changelogs, null when not known.
    """

    task: str
    role: str
    member_id: str
    process_id: str | None
    lag: int | None
    end_offset_sum: int | None


class GroupAnswer(_ShownGroup):
    """A group as operators see it. `advice`: what to do, in a sentence or two; null when there is nothing to do."""

    revision: int = Field(description="How many definitions the group has had.")
    declared_by: str | None = Field(description="Who sent the present definition; null when that is not known.")
    levers: LeversAnswer
    held_rebalance: HeldAnswer | None
    reason: str | None = Field(description="Why the present rebalance was started.")
    settled: bool
    last_reported_ms: int | None = Field(description=_MS)
    last_rebalance: LastRebalanceAnswer | None
    application_id: str
    assignor: str
    configs: dict[str, JsonValue]
    members: list[GroupMemberAnswer]
    tasks: list[TaskCopyAnswer]
    cluster: GroupsCluster | None
    advice: str | None
    stored_bytes: int = Field(description="What its log and its recorded rebalances take in the store.")
    notices: list[NoticeAnswer] = Field(description="What its processes have to tell people.")


class StoredRecordAnswer(BaseModel):
    """One record of a stored log. `problem`: what is wrong with it, null when it is as it was written."""

    sequence: int
    body: str | None = Field(description="A record as JSON; null when it is no text, or cannot be read.")
    body_base64: str | None = Field(description="The bytes that are stored in place of a text.")
    checksum: int | None = Field(description="CRC-32 of group, number and body; null when it cannot be read.")
    ends_commit: bool | None = Field(
        description="Whether it is the last record of its transaction; null when that cannot be read."
    )
    intact: bool
    problem: str | None


class StoredLogAnswer(BaseModel):
    """The log of a group as it is stored. `problem`: why it cannot be read, null when it can."""

    format: Literal["group-log/1"]
    group_id: str
    sequence: int = Field(description="The number that the last record has to have.")
    problem: str | None
    records: list[StoredRecordAnswer]


class KeptOfLog(BaseModel):
    """`last_record`: the number of the last record that counts. `generation_id`, `revision`: what it leads to."""

    records: int
    last_record: int
    generation_id: int
    revision: int


class DroppedOfLog(BaseModel):
    """Records by number, readable or not, the members that have to join again, and the generations that are known to
    have begun in these records.
    """

    records: int
    first_record: int | None
    last_record: int | None
    members: list[str]
    generations: list[int]


class RepairAnswer(BaseModel):
    """`executed`: whether it was done, or would be. `generation_id`: the one that the group goes on from."""

    group_id: str
    executed: bool
    problem: str
    generation_id: int
    kept: KeptOfLog
    dropped: DroppedOfLog
    advice: str


class HoldOfRebalance(BaseModel):
    """That a rebalance waited for approval, and how that ended: `approved`, `discarded`, `time-limit`, `hold-ended` or
    `replaced` by another rebalance; null while it waits.
    """

    since_ms: int = Field(description=_MS)
    ended: str | None
    by: str | None
    at_ms: int | None = Field(description=_MS)
    reason: str | None


class RebalanceLine(BaseModel):
    """`outcome`: `held` while it waits for approval, and for good when another rebalance has replaced it. `hold`: only
    of a rebalance that waited. `led_by`: only of a rebalance that another leader reported.
    """

    generation_id: int
    now_ms: int = Field(description=_MS)
    reason: str
    outcome: str
    members: int
    definition_revision: int
    probing_rebalance_at_ms: int | None = Field(description=_MS)
    followup_rebalance: bool
    error: str | None
    took_ms: int | None = Field(
        None, description="From its beginning until its assignments were computed; null when that is not known."
    )
    hold: HoldOfRebalance | None = Field(None, exclude_if=operator.not_)
    led_by: str | None = Field(None, exclude_if=operator.not_)


class RebalanceList(BaseModel):
    """`next_before`: the `before` of the next page, null on the last one."""

    rebalances: list[RebalanceLine]
    next_before: int | None


class RebalanceExplanation(BaseModel):
    """`same_result`: whether the rebalance, computed again, decides the same. `explanations`: of each task why it is
    where it is, in words (`text`) and for programs, as in `output.explanations` of rebalance/1.
    """

    group_id: str
    generation_id: int
    error: str | None
    same_result: bool
    explanations: list[dict[str, Any]]


class AssignAnswer(BaseModel):
    """`output`: as in the format of the request."""

    id: str
    output: dict[str, Any]


class SimulateAnswer(BaseModel):
    """`forecast`: how it ends (`end`), totals over all rebalances, the measures of each one (`rounds`), where every
    task is at the end, and the `model` behind it. Times in milliseconds.
    """

    id: str
    forecast: dict[str, Any]
