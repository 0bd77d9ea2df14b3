"""The JSON of requests and answers. Strict: a wrong type or an unknown field is a 422 that names it."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, Strict, WithJsonSchema

from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX, TaskId

MAX_NAME_LENGTH = 249
"""Kafka's limit for names of topics, and so for application ids."""

MAX_TEXT_LENGTH = 1_000


def _decode_base64(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("must be a base64 string")
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("not base64") from None


def _parse_task(text: object) -> TaskId:
    if not isinstance(text, str):
        raise ValueError("must be a task id, for example 0_3")
    task = TaskId.parse(text)
    if max(task.subtopology, task.partition) > JAVA_INT_MAX:
        raise ValueError(f"not a task id: its numbers go to {JAVA_INT_MAX}")
    return task


Base64Bytes = Annotated[
    bytes, PlainValidator(_decode_base64), WithJsonSchema({"type": "string", "contentEncoding": "base64"})
]
ParsedTask = Annotated[TaskId, PlainValidator(_parse_task), WithJsonSchema({"type": "string", "examples": ["0_3"]})]
Name = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]
Int32 = Annotated[int, Strict(), Field(ge=-(2**31), le=JAVA_INT_MAX)]
Int64 = Annotated[int, Strict(), Field(ge=-(2**63), le=JAVA_LONG_MAX)]
PositiveMs = Annotated[int, Strict(), Field(ge=1, le=JAVA_INT_MAX)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SubscriptionBody(_Body):
    """A first join (no `member_id`) or a rejoin. Times in milliseconds."""

    member_id: Name | None = None
    group_instance_id: Name | None = Field(None, description="Makes the member a static one.")
    incarnation: Annotated[Int64, Field(ge=0)] | None = Field(
        None, description="Rises each time the static member is started anew; older incarnations are fenced."
    )
    client_id: Name | None = None
    session_timeout_ms: PositiveMs
    rebalance_timeout_ms: PositiveMs
    subscription: Base64Bytes = Field(description="ConsumerProtocolSubscription, its user data a SubscriptionInfo.")


class SubscriptionAnswer(_Body):
    """`generation_id`: the generation to wait for, as `min_generation` of the assignment's GET."""

    member_id: str
    generation_id: int
    state: str


class AssignmentAnswer(_Body):
    """`assignment`: base64 of ConsumerProtocolAssignment. `followup`: another rebalance starts by itself: once all
    members have their assignments, or, when source topics are missing, once these exist.
    """

    generation_id: int
    assignment: str
    followup: bool


class HeartbeatBody(_Body):
    """`generation_id`: of the assignment that the member works by, 0 before its first one."""

    generation_id: Int32
    task_offset_sums: dict[ParsedTask, Int64] | None = None
    group_instance_id: Name | None = None


class HeartbeatAnswer(_Body):
    """`rejoin`: send the subscription. `stop`: leave and end. `generation_id`: the group's."""

    state: str
    rejoin: bool
    stop: bool
    generation_id: int


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


class ProblemDocument(BaseModel):
    """RFC 9457. `code`: Kafka's name of the error; `offset`: the byte at which reading failed."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    offset: int | None = None
    where: str | None = None
    errors: list[dict[str, object]] | None = None
    instance: str | None = None
