"""The bodies that members send, and the answers to these bodies.

A member may be upgraded before its coordinator, so each body may have a few unknown fields, which are ignored. The
number and the size of unknown fields are limited, because they cost time and memory.
"""

import base64
import json
import operator
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX, TaskId
from coordinator_api.group.events import Heartbeat, Join, MemberFailure
from coordinator_api.group.notices import ProcessNotice, printable
from coordinator_api.http.json_objects import check_values
from coordinator_api.http.models import Caller, Generation, MemberId, State, TimeMs
from coordinator_api.http.models.documents import A_MEMBER_ID, A_SUBSCRIPTION, AN_ASSIGNMENT

MAX_TEXT_LENGTH = 1_000
MAX_JOIN_ID_LENGTH = 100
MAX_PROCESS_MEMBERS = 1_000
MAX_OFFSET_SUMS = 10_000
"""The largest number of tasks for which one member may report offset sums in one heartbeat."""

MAX_NOTICES = 16
MAX_NOTICE_LENGTH = 500

MAX_ERROR_LENGTH = 200
MAX_PLACE_LENGTH = 500

MAX_UNKNOWN_FIELDS = 16
MAX_UNKNOWN_BYTES = 4_096
"""The largest total size of all unknown fields of one body. The size is the length of the names and values as ASCII
JSON without spaces.
"""

TASK_PATTERN = r"^([\s\S]+__)?[0-9]{1,9}_[0-9]{1,9}$"
"""A task id has the form `subtopology_partition`. In a named topology, the topology's name and two underscores stand
before the subtopology. A number in a task id has at most nine digits, which is enough for any group.
"""

_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

_TASK_TEXT = TypeAdapter(
    Annotated[str, StringConstraints(strict=True, pattern=TASK_PATTERN, max_length=MAX_TEXT_LENGTH)]
)


@lru_cache(65_536)
def _task(text: str) -> TaskId:
    """Parses a task id. The result is cached, because heartbeats repeat the same ids."""
    try:
        return TaskId.parse(_TASK_TEXT.validate_python(text))
    except ValidationError:
        raise ValueError("not a task id such as 0_3") from None


def _decoded_base64(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("must be a base64 string")
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise ValueError("not base64") from None


Name = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]
Int32 = Annotated[int, Field(ge=-(2**31), le=JAVA_INT_MAX)]
Int64 = Annotated[int, Field(ge=-(2**63), le=JAVA_LONG_MAX)]
Count = Annotated[int, Field(ge=0, le=JAVA_LONG_MAX)]
PositiveMs = Annotated[int, Field(ge=1, le=JAVA_INT_MAX)]
Base64 = Annotated[
    bytes,
    PlainValidator(_decoded_base64),
    WithJsonSchema({"type": "string", "pattern": _BASE64, "contentEncoding": "base64", "examples": [A_SUBSCRIPTION]}),
]
Task = Annotated[TaskId, PlainValidator(_task), WithJsonSchema(_TASK_TEXT.json_schema())]
OffsetSums = Annotated[
    dict[Task, Int64],
    Field(max_length=MAX_OFFSET_SUMS, fail_fast=True, json_schema_extra={"additionalProperties": False}),
]


TaskFlows = Annotated[
    dict[Task, tuple[Count | None, Count | None, Count]],
    Field(max_length=MAX_OFFSET_SUMS, fail_fast=True, json_schema_extra={"additionalProperties": False}),
]


def _describe_unknown_fields(schema: dict[str, Any]) -> None:
    # if the schema stated that unknown fields are allowed, tools would invent an unknown field for the example
    del schema["additionalProperties"]
    schema["maxProperties"] = len(schema["properties"]) + MAX_UNKNOWN_FIELDS


def _describe_joins(schema: dict[str, Any]) -> None:
    _describe_unknown_fields(schema)
    schema["not"] = {
        "required": ["member_id", "join_id"],
        "properties": {"member_id": {"type": "string"}, "join_id": {"type": "string"}},
    }


class _SentByMember(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True, json_schema_extra=_describe_unknown_fields)

    nesting: ClassVar[int] = 0
    """The depth of an object of this class within the body of a call; 0 if the object is the whole body."""

    @model_validator(mode="after")
    def _bound_unknown_fields(self) -> Self:
        """Raises ValueError if the unknown fields of the body are too many or too large."""
        ignored = [(body.model_extra, nesting) for body, nesting in self._counted_together() if body.model_extra]
        if sum(len(fields) for fields, _ in ignored) > MAX_UNKNOWN_FIELDS:
            raise ValueError(f"no more than {MAX_UNKNOWN_FIELDS} unknown fields are ignored")
        for fields, nesting in ignored:
            check_values(fields, nesting)
        if sum(len(json.dumps(fields, separators=(",", ":"))) for fields, _ in ignored) > MAX_UNKNOWN_BYTES:
            raise ValueError(f"no more than {MAX_UNKNOWN_BYTES} bytes of unknown fields are ignored")
        return self

    def _counted_together(self) -> list[tuple[BaseModel, int]]:
        """Returns the parts of the body that share one limit for unknown fields, each part with its nesting depth."""
        return [(self, self.nesting)]


Paused = Annotated[bool, Field(exclude_if=operator.not_)]
"""True if the group is paused. An answer has the field `paused` only if the value is true, because most groups are
never paused.
"""


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class SubscriptionBody(_SentByMember):
    """A first join (no `member_id`) or a rejoin. Times are in milliseconds. Up to 16 unknown fields of together 4 KB
    are ignored.
    """

    model_config = ConfigDict(json_schema_extra=_describe_joins)

    member_id: Name | None = None
    group_instance_id: Name | None = Field(None, description="Makes the member a static member.")
    incarnation: Count | None = Field(
        None,
        description="Incarnation: a number that is higher at each start of the static member. "
        "Lower incarnations of this member are fenced.",
    )
    client_id: Name | None = Field(None, examples=["words-1"])
    join_id: Annotated[str, Field(min_length=1, max_length=MAX_JOIN_ID_LENGTH)] | None = Field(
        None,
        description="Id of a first join, chosen by the caller. If a first join is sent again with the same id, it "
        "makes no second member. The answer to the repeated join has the member id of the first answer. The answer "
        "also has the generation for which the member waits now.",
    )
    leave_on_disconnect: bool = Field(
        False,
        description="True to remove the member if the heartbeat connection of its process breaks. The removal takes "
        "place after group.disconnect.grace.ms.",
    )
    session_timeout_ms: PositiveMs = Field(examples=[45_000])
    rebalance_timeout_ms: PositiveMs = Field(examples=[300_000])
    subscription: Base64 = Field(description="A ConsumerProtocolSubscription. Its user data is a SubscriptionInfo.")

    @field_validator("join_id")
    @classmethod
    def _is_of_a_first_join(cls, join_id: str | None, info: ValidationInfo) -> str | None:
        if join_id is not None and info.data.get("member_id") is not None:
            raise ValueError("is of a first join; a rejoin is repeated with its member_id")
        return join_id

    def to_join(self, new_member_id: str) -> Join:
        """Converts the body to an event. `new_member_id`: the id for the new member; used only if the join makes a new
        member.
        """
        sent = {name: getattr(self, name) for name in type(self).model_fields}
        return Join(new_member_id=new_member_id, **sent)


class HeartbeatBody(_SentByMember):
    """A heartbeat of one member. `generation_id`: the generation of the member's assignment; 0 before its first
    assignment. Up to 16 unknown fields of together 4 KB are ignored.
    """

    generation_id: Int32 = Field(examples=[1])
    task_offset_sums: OffsetSums | None = Field(
        None, description="For each task, the sum of the offsets that the member has reached.", examples=[{"0_1": 880}]
    )
    task_flows: TaskFlows | None = Field(
        None,
        description="For each running active task: the number of input offsets that wait for it, the milliseconds by "
        "which its newest processed timestamp is behind the clock, and the number of records that it has processed. "
        "The first two may be null.",
        examples=[{"0_1": [20, 1_500, 88_200]}],
    )
    group_instance_id: Name | None = None

    def to_heartbeat(self, member_id: str) -> Heartbeat:
        return Heartbeat(member_id, self.generation_id, self.task_offset_sums, self.group_instance_id, self.task_flows)


class NoticeBody(_SentByMember):
    """A notice for operators. A notice reports records or log lines of one kind. `count`: the number of these records
    or log lines since the process started. `at_ms`: the time of the last record or log line, in milliseconds since the
    epoch.
    """

    nesting: ClassVar[int] = 2

    code: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$", examples=["RECORDS_DROPPED"])]
    text: Annotated[str, Field(min_length=1, max_length=MAX_NOTICE_LENGTH)]
    count: Count
    at_ms: Count


class ProcessHeartbeatBody(_SentByMember):
    """One heartbeat for all members of a process. `known`: the value of the field `news` in the last answer. The
    service holds the answer until its `news` differs from `known`, for at most `wait_ms`. In the body and its `members`
    together, up to 16 unknown fields of together 4 KB are ignored. In each element of `notices`, up to 16 further
    unknown fields of together 4 KB are ignored.
    """

    # fail_fast reports only the first error, because reporting an error takes far longer than decoding a member
    members: dict[Name, HeartbeatBody] = Field(
        min_length=1,
        max_length=MAX_PROCESS_MEMBERS,
        fail_fast=True,
        description="The members' heartbeats by member id.",
        examples=[{A_MEMBER_ID: {"generation_id": 1}}],
    )
    known: Name | None = None
    notices: Annotated[list[NoticeBody], Field(max_length=MAX_NOTICES)] | None = Field(
        None,
        description="The notices of the process, sent when they have changed. The newest notice of each process and "
        "code is kept in memory for a day, and shown in the description of the group.",
    )

    def _counted_together(self) -> list[tuple[BaseModel, int]]:
        return [(self, 0), *((member, 2) for member in self.members.values())]

    def heartbeats(self) -> dict[str, Heartbeat]:
        """Returns the heartbeats as events, by member id."""
        return {member_id: heartbeat.to_heartbeat(member_id) for member_id, heartbeat in self.members.items()}

    def process_notices(self) -> tuple[ProcessNotice, ...]:
        return tuple(ProcessNotice(each.code, each.text, each.count, each.at_ms) for each in self.notices or ())


class FailureBody(_SentByMember):
    """The error that ended the instance of a member. In each text, every character that cannot be printed is replaced
    by a blank.
    """

    nesting: ClassVar[int] = 1

    error: Annotated[str, Field(min_length=1, max_length=MAX_ERROR_LENGTH, examples=["ValueError"])] = Field(
        description="Name of the error's class."
    )
    message: Annotated[str, Field(max_length=MAX_TEXT_LENGTH, examples=["no amount in 'x'"])] = Field(
        "", description="The error's own text."
    )
    place: Annotated[str, Field(max_length=MAX_PLACE_LENGTH)] | None = Field(
        None,
        description="File and line of the code that raised the error; null if it is not known.",
        examples=["orders.py:12, in to_amount"],
    )
    task: Annotated[str, Field(pattern=TASK_PATTERN, max_length=MAX_TEXT_LENGTH)] | None = Field(
        None, description="The task that failed; null if the error happened in no task.", examples=["0_1"]
    )

    def to_failure(self) -> MemberFailure:
        return MemberFailure(
            printable(self.error),
            printable(self.message),
            None if self.place is None else printable(self.place),
            None if self.task is None else printable(self.task),
        )


class LeaveBody(_SentByMember):
    """The body of a leave, which may be empty. `failure`: the error because of which the member leaves; null if the
    member was stopped. Up to 16 unknown fields of together 4 KB are ignored, and as many in `failure`.
    """

    failure: FailureBody | None = None


class DefinitionAnswer(_Answer):
    """The group's present definition. `declared_by`, `declared_at_ms`: the caller that sent the definition, and the
    time; null if an earlier release stored the definition.
    """

    revision: int = Field(examples=[1])
    declared_by: Caller | None = Field(validation_alias=AliasPath("origin", "declared_by"))
    declared_at_ms: TimeMs | None = Field(validation_alias=AliasPath("origin", "declared_at_ms"))


class SubscriptionAnswer(_Answer):
    """The answer to a join. `generation_id`: the generation that the member waits for. The member sends this number as
    `min_generation` when it fetches its assignment. `definition`: the definition that the member has to run. `paused`:
    true if an operator has paused the group.
    """

    member_id: MemberId
    generation_id: Generation
    state: State = Field(examples=["PreparingRebalance"])
    definition: DefinitionAnswer
    paused: Paused = False


class AssignmentAnswer(_Answer):
    """The assignment of a member. `assignment`: base64 of ConsumerProtocolAssignment. `followup`: true if the
    coordinator will start a further rebalance by itself. The further rebalance starts when all members have their
    assignments. If source topics are missing, the rebalance starts when these topics exist. `error`: what is wrong, if
    the rebalance failed; else null.
    """

    generation_id: Generation
    assignment: str = Field(examples=[AN_ASSIGNMENT])
    followup: bool = Field(examples=[False])
    error: str | None = Field(None, examples=[None])


class HeartbeatAnswer(_Answer):
    """The answer to a heartbeat. `rejoin`: true if the member has to send its subscription. `stop`: true if the member
    has to leave the group and end. `generation_id`: the group's generation. `paused`: true if an operator has paused
    the group, so that the member must not process records. If `paused` is false, the answer does not have this field.
    """

    state: State
    rejoin: bool = Field(examples=[False])
    stop: bool = Field(examples=[False])
    generation_id: Generation
    paused: Paused = False


class MemberNewsAnswer(_Answer):
    """The news for one member, in the answer to the heartbeat of its process. `rejoin`: true if the member has to send
    its subscription. `stop`: true if the member has to leave the group and end. `assignment_generation`: the generation
    of the assignment that the member can fetch now; 0 if the member has no assignment to fetch.
    """

    rejoin: bool = Field(examples=[False])
    stop: bool = Field(examples=[False])
    assignment_generation: Generation


class MemberRefusal(_Answer):
    """The refusal of one member's heartbeat. `code`: Kafka's name of the error."""

    code: str = Field(examples=["UNKNOWN_MEMBER_ID"])
    detail: str


class ProcessHeartbeatAnswer(_Answer):
    """The answer to the heartbeat of a process. `news`: a digest of all other fields except `state`. The next heartbeat
    of the process contains this digest as `known`. `paused`: true if an operator has paused the group.
    """

    state: State
    generation_id: Generation
    news: str = Field(examples=["5b0a9f4c1d2e3f60718293a4"])
    members: dict[str, MemberNewsAnswer | MemberRefusal] = Field(
        examples=[{A_MEMBER_ID: {"rejoin": False, "stop": False, "assignment_generation": 1}}]
    )
    paused: Paused = False
