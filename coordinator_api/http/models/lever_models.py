"""The bodies that set the levers of a group, and the answers that show the levers."""

from typing import Annotated, Any

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from coordinator_api.http.models import Caller, Generation, MemberId, ProcessId, StrictBody, TaskId, TimeMs

LONGEST_GRACE_MS = 3_600_000
LONGEST_HOLD_MS = 604_800_000
"""The longest time for which a rebalance may wait for approval: a week. While a rebalance waits, members keep
processing, but the tasks of a slow member do not move.
"""

Forecast = Annotated[dict[str, Any], Field(examples=[{"end": "stable", "stable_after_ms": 500, "active_moves": 1}])]
"""A forecast. The example shows only some fields of a forecast."""


class RejoinGraceBody(StrictBody):
    """Sets the rejoin grace. After a member has left, the group reserves its tasks for this time."""

    grace_ms: int = Field(ge=1_000, le=LONGEST_GRACE_MS, examples=[60_000])


class HoldBody(StrictBody):
    """Sets the longest time for which a computed rebalance waits for approval."""

    time_limit_ms: int = Field(
        ge=1_000,
        le=LONGEST_HOLD_MS,
        description="In milliseconds. After this time the rebalance is carried out.",
        examples=[600_000],
    )


class GenerationAnswer(BaseModel):
    """The answer to three calls: the approval, the discard and the report of a rebalance. `generation_id`: the
    generation of this rebalance.
    """

    generation_id: Generation


class LeverAnswer(BaseModel):
    """The caller that set a lever, the time at which it was set, and the reason."""

    # FastAPI makes this answer from the attributes of a `Lever`
    model_config = ConfigDict(from_attributes=True, validate_by_name=True)

    by: Caller | None = Field(validation_alias=AliasPath("decision", "by"))
    at_ms: TimeMs = Field(validation_alias=AliasPath("decision", "at_ms"))
    reason: str | None = Field(validation_alias=AliasPath("decision", "reason"), examples=["the disk is replaced"])


class HoldLever(LeverAnswer):
    time_limit_ms: int = Field(validation_alias="value_ms", examples=[600_000])


class HeldAnswer(BaseModel):
    """A rebalance that waits for approval. `outcome`: the outcome of the rebalance if it is approved. `tasks_to_move`:
    the tasks whose active copy or standby copy the rebalance removes from a process. The field leaves out tasks that
    lose only warm-up copies.
    """

    model_config = ConfigDict(from_attributes=True)

    generation_id: Generation
    since_ms: TimeMs
    until_ms: TimeMs = Field(description="Milliseconds since the epoch. At this time the rebalance is carried out.")
    outcome: str = Field(examples=["follow-up"])
    tasks_to_move: list[Annotated[TaskId, BeforeValidator(str)]]


class LookedAtHeld(HeldAnswer):
    """A held rebalance with its effects. `difference`: the effects of an approval, in the form of a what-if answer. The
    field `before` of `difference` has the placement that keeps every task in place. The field `after` has the placement
    after the approval. `forecast`: the rebalances that follow an approval, in the form of the answer of `POST
    /v1/simulate`. `difference` and `forecast` are null when they cannot be computed.
    """

    difference: dict[str, Any] | None = Field(examples=[{"active_elsewhere": 1, "standbys_new": 0, "tasks": []}])
    forecast: Forecast | None


class HoldAnswer(BaseModel):
    """The hold of a group. `hold`: the lever; null if computed rebalances do not wait for approval. `held`: the
    rebalance that waits now; null if no rebalance waits.
    """

    hold: HoldLever | None
    held: LookedAtHeld | None


class RejoinGraceLever(LeverAnswer):
    grace_ms: int = Field(validation_alias="value_ms", examples=[60_000])


class MissingForDrain(BaseModel):
    """A reason why a drained instance cannot be stopped yet. `task`: the active task that has to move; null if the
    reason concerns the whole group.
    """

    task: TaskId | None
    role: str | None = Field(examples=["active"])
    why: str = Field(examples=["waits for its turn to be restored elsewhere (max.warmup.replicas)"])


class DrainedLever(LeverAnswer):
    """The drain of an instance or a member. `member_id`: null when the whole process is drained."""

    process_id: ProcessId
    member_id: MemberId | None = Field(examples=[None])
    safe_to_stop: bool = Field(
        description="True if a stop of the instance or member would now interrupt no active task.", examples=[False]
    )
    missing: list[MissingForDrain]


class LeversAnswer(BaseModel):
    """The levers of a group. A lever is an operator command that stays in force and changes Kafka's behaviour. The
    field of a lever that is off is null or empty.
    """

    hold: HoldLever | None = Field(examples=[None])
    rejoin_grace: RejoinGraceLever | None = Field(examples=[None])
    promotion: LeverAnswer | None = Field(examples=[None])
    pause: LeverAnswer | None = Field(examples=[None])
    drained: list[DrainedLever] = Field(examples=[[]])
