"""The JSON of requests and answers, for OpenAPI. Strict: a wrong type is a 422 that names it.

What members send is read by `member_bodies.py`, which is faster; the models here describe it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict

from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX

MAX_NAME_LENGTH = 249
"""Kafka's limit for names of topics, and so for application ids."""

MAX_TEXT_LENGTH = 1_000
MAX_JOIN_ID_LENGTH = 100
MAX_PROCESS_MEMBERS = 1_000
MAX_OFFSET_SUMS = 10_000
"""Of one member in one heartbeat."""

MAX_NOTICES = 16
MAX_NOTICE_LENGTH = 500
NOTICE_CODE_PATTERN = r"^[A-Z][A-Z0-9_]{0,63}$"

MAX_UNKNOWN_FIELDS = 16
"""Of what a member sends: fields of a later release, which are ignored. `MAX_UNKNOWN_BYTES` bounds them, too."""


SHORTEST_HOLD_MS = 1_000
LONGEST_HOLD_MS = 604_800_000
"""A week. Members of a group that waits go on, but nobody takes over what is slow."""

Name = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]
Int32 = Annotated[int, Strict(), Field(ge=-(2**31), le=JAVA_INT_MAX)]
Int64 = Annotated[int, Strict(), Field(ge=-(2**63), le=JAVA_LONG_MAX)]
PositiveMs = Annotated[int, Strict(), Field(ge=1, le=JAVA_INT_MAX)]
Base64 = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        json_schema_extra={"contentEncoding": "base64"},
    ),
]
TASK_PATTERN = r"^([\s\S]+__)?[0-9]{1,9}_[0-9]{1,9}$"
"""`subtopology_partition`, after the name of a named topology. No group has as many of either as nine digits say."""

Task = Annotated[str, Field(pattern=TASK_PATTERN, max_length=MAX_TEXT_LENGTH, examples=["0_3"])]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _of_later_releases_too(fields: int, **schema: JsonValue) -> ConfigDict:
    """`fields`: how many this release knows. `schema`: what else a schema has to say."""
    extra: dict[str, JsonValue] = {"additionalProperties": True, "maxProperties": fields + MAX_UNKNOWN_FIELDS}
    return ConfigDict(extra="ignore", json_schema_extra={**extra, **schema})


_FIRST_JOIN_AND_REJOIN: JsonValue = {
    "required": ["member_id", "join_id"],
    "properties": {"member_id": {"type": "string"}, "join_id": {"type": "string"}},
}


class SubscriptionBody(_Body):
    """A first join (no `member_id`) or a rejoin. Times in milliseconds. Up to 16 unknown fields of together 4 KB are
    ignored.
    """

    model_config = _of_later_releases_too(9, **{"not": _FIRST_JOIN_AND_REJOIN})

    member_id: Name | None = None
    group_instance_id: Name | None = Field(None, description="Makes the member a static one.")
    incarnation: Annotated[Int64, Field(ge=0)] | None = Field(
        None, description="Rises each time the static member is started anew; older incarnations are fenced."
    )
    client_id: Name | None = None
    join_id: Annotated[str, Field(min_length=1, max_length=MAX_JOIN_ID_LENGTH)] | None = Field(
        None,
        description="Of a first join, chosen by the caller. A first join with the same one is a repetition: it makes "
        "no second member, and its answer is that of the first.",
    )
    leave_on_disconnect: Annotated[bool, Strict()] = Field(
        False,
        description="Whether the member is removed soon after the connection breaks on which the heartbeats of its "
        "process come (group.disconnect.grace.ms).",
    )
    session_timeout_ms: PositiveMs
    rebalance_timeout_ms: PositiveMs
    subscription: Base64 = Field(description="ConsumerProtocolSubscription, its user data a SubscriptionInfo.")


class DefinitionAnswer(_Body):
    """The group's present definition. `declared_by`, `declared_at_ms`: null when an earlier release stored it."""

    revision: int
    declared_by: str | None
    declared_at_ms: int | None


class SubscriptionAnswer(_Body):
    """`generation_id`: the generation to wait for, as `min_generation` of the assignment's GET. `definition`: which one
    the member has to run. `paused`: as in `HeartbeatAnswer`.
    """

    member_id: str
    generation_id: int
    state: str
    definition: DefinitionAnswer
    paused: bool = False


class AssignmentAnswer(_Body):
    """`assignment`: base64 of ConsumerProtocolAssignment. `followup`: another rebalance starts by itself: once all
    members have their assignments, or, when source topics are missing, once these exist.
    """

    generation_id: int
    assignment: str
    followup: bool


class HeartbeatBody(_Body):
    """`generation_id`: of the assignment that the member works by, 0 before its first one. Up to 16 unknown fields of
    together 4 KB are ignored.
    """

    model_config = _of_later_releases_too(3)

    generation_id: Int32
    task_offset_sums: Annotated[dict[Task, Int64], Field(max_length=MAX_OFFSET_SUMS)] | None = Field(
        None, description="By task, the sum of the offsets that the member has reached."
    )
    group_instance_id: Name | None = None


class HeartbeatAnswer(_Body):
    """`rejoin`: send the subscription. `stop`: leave and end. `generation_id`: the group's. `paused`: process nothing,
    as an operator wishes; left out when it is not so.
    """

    state: str
    rejoin: bool
    stop: bool
    generation_id: int
    paused: bool = False


class NoticeBody(_Body):
    """Something that people have to hear of. `count`: of records, or of lines logged, since the process started.
    `at_ms`: of the last of them, since the epoch.
    """

    model_config = _of_later_releases_too(4)

    code: Annotated[str, Field(pattern=NOTICE_CODE_PATTERN, examples=["RECORDS_DROPPED"])]
    text: Annotated[str, Field(min_length=1, max_length=MAX_NOTICE_LENGTH)]
    count: Annotated[Int64, Field(ge=0)]
    at_ms: Annotated[Int64, Field(ge=0)]


class ProcessHeartbeatBody(_Body):
    """One heartbeat for all members of a process. `known`: the `news` of the last answer; while there is nothing newer,
    the answer is held for up to `wait_ms`. Up to 16 unknown fields of together 4 KB are ignored, those of `members`
    included, and as many of each of the `notices`.
    """

    model_config = _of_later_releases_too(3)

    members: Annotated[dict[Name, HeartbeatBody], Field(min_length=1, max_length=MAX_PROCESS_MEMBERS)] = Field(
        description="By member id."
    )
    known: Name | None = None
    notices: Annotated[list[NoticeBody], Field(max_length=MAX_NOTICES)] | None = Field(
        None,
        description="What the process has to tell people, sent when it has changed. The newest of each process and "
        "code is kept in memory for a day, and shown in the description of the group.",
    )


class LeaveBody(_Body):
    """A leave needs no body. Up to 16 fields of a later release, of together 4 KB, are ignored."""

    model_config = _of_later_releases_too(0)


class RejoinGraceBody(_Body):
    """How long the tasks of a member that leaves wait for its process to come back."""

    grace_ms: Annotated[int, Strict(), Field(ge=1_000, le=3_600_000, examples=[60_000])]


class MemberNewsAnswer(_Body):
    """`rejoin`, `stop`: as in `HeartbeatAnswer`. `assignment_generation`: of the assignment that the member can fetch
    now, 0 for none.
    """

    rejoin: bool
    stop: bool
    assignment_generation: int


class MemberRefusal(_Body):
    """`code`: Kafka's name of the error, as in a problem document."""

    code: str
    detail: str


class ProcessHeartbeatAnswer(_Body):
    """`news`: a digest of the other fields but `state`, to be sent as `known` with the next heartbeat. `paused`: as in
    `HeartbeatAnswer`, for all members.
    """

    state: str
    generation_id: int
    news: str
    members: dict[str, MemberNewsAnswer | MemberRefusal]
    paused: bool = False


class DeclareAnswer(_Body):
    """`revision`: how many definitions this group has had."""

    group_id: str
    revision: int


class ReportAnswer(_Body):
    """`generation_id`: of the rebalance that is now known."""

    generation_id: int


class AssignAnswer(_Body):
    """`output`: as in the format of the request."""

    id: str
    output: dict[str, object]


class SimulateAnswer(_Body):
    """`forecast`: how it ends (`end`), totals over all rebalances, the measures of each one (`rounds`), where every
    task is at the end, and the `model` behind it. Times in milliseconds.
    """

    id: str
    forecast: dict[str, object]


class Health(_Body):
    status: Literal["ok"]


class Readiness(_Body):
    """`parts`: `store` and `groups`, each with "ok" or what is wrong."""

    status: Literal["ok"]
    parts: dict[str, str]


TOKEN_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"  # noqa: S105 (of names)
GROUPS_PATTERN = r"^[A-Za-z0-9._-]{0,248}\*$"


class TokenBody(_Body):
    """A token to create."""

    name: str = Field(pattern=TOKEN_NAME_PATTERN, description="Whose it is. Shown, logged and listed.")
    right: Literal["reader", "member", "operator", "admin"] = Field(
        description="What it allows; each right includes those before it."
    )
    groups: str = Field("*", pattern=GROUPS_PATTERN, description="A prefix of group ids and `*`; `*` for all groups.")
    expires: str | None = Field(
        None,
        max_length=64,
        description="A time such as 2027-01-31T00:00:00Z, or a duration such as P90D; null for never.",
    )


class HoldBody(_Body):
    """How long a computed rebalance waits for approval at most."""

    time_limit_ms: int = Field(
        ge=SHORTEST_HOLD_MS, le=LONGEST_HOLD_MS, description="Then it is carried out. In milliseconds."
    )


class HeldGenerationAnswer(_Body):
    """`generation_id`: of the rebalance that waited."""

    generation_id: int


class CreatedTokenAnswer(_Body):
    """`token`: told this once. `note`: what else has changed; null for nothing."""

    name: str
    right: str
    groups: str
    expires_ms: int | None
    token: str
    note: str | None


class TokenLine(_Body):
    """`source`: `database`, or the setting that has it; then nobody knows who created it, and when."""

    name: str
    right: str
    groups: str
    source: str
    expires_ms: int | None
    created_ms: int | None
    created_by: str | None


class TokenList(_Body):
    tokens: list[TokenLine]


class ServiceAnswer(_Body):
    """`links`: where to go, by what is there."""

    service: str
    what: str
    release: str
    links: dict[str, str]


class VersionAnswer(_Body):
    """`api_versions`: how addresses begin. `kafka_version`: of the Kafka Streams whose assignments these are."""

    version: str
    api_versions: list[str]
    kafka_version: str


class ProblemDocument(BaseModel):
    """RFC 9457. `code`: Kafka's name of the error; `offset`: the byte at which reading failed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:assignor:error:GROUP_ID_NOT_FOUND",
                    "title": "No such group",
                    "status": 404,
                    "code": "GROUP_ID_NOT_FOUND",
                    "detail": "there is no group words: declare it by PUT",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    code: str
    detail: str
    offset: int | None = None
    where: str | None = None
    errors: list[dict[str, object]] | None = None
    instance: str | None = None
