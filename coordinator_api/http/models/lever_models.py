"""What sets the levers of a group, and how they are shown."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from coordinator_api.http.models import Caller, Generation, MemberId, ProcessId, StrictBody, TaskId, TimeMs

LONGEST_GRACE_MS = 3_600_000
LONGEST_HOLD_MS = 604_800_000
"""A week. Members of a group that waits go on, but nobody takes over what is slow."""

Forecast = Annotated[dict[str, Any], Field(examples=[{"end": "stable", "stable_after_ms": 500, "active_moves": 1}])]
"""The examples have some of its fields."""


class RejoinGraceBody(StrictBody):
    """How long the tasks of a member that leaves wait for its process to come back."""

    grace_ms: int = Field(ge=1_000, le=LONGEST_GRACE_MS, examples=[60_000])


class HoldBody(StrictBody):
    """How long a computed rebalance waits for approval at most."""

    time_limit_ms: int = Field(
        ge=1_000, le=LONGEST_HOLD_MS, description="Milliseconds. Then it is carried out.", examples=[600_000]
    )


class GenerationAnswer(BaseModel):
    """`generation_id`: of the rebalance that waited, or that is now known."""

    generation_id: Generation


class LeverAnswer(BaseModel):
    """Who pulled a lever, when, and why."""

    # made of a `Lever` of the group
    model_config = ConfigDict(from_attributes=True, validate_by_name=True)

    by: Caller | None = Field(validation_alias=AliasPath("decision", "by"))
    at_ms: TimeMs = Field(validation_alias=AliasPath("decision", "at_ms"))
    reason: str | None = Field(validation_alias=AliasPath("decision", "reason"), examples=["the disk is replaced"])


class HoldLever(LeverAnswer):
    time_limit_ms: int = Field(validation_alias="value_ms", examples=[600_000])


class HeldAnswer(BaseModel):
    """A rebalance that waits for approval. `outcome`: how it ends when it is approved. `tasks_to_move`: those that it
    takes a copy of from a process, warm-ups apart.
    """

    model_config = ConfigDict(from_attributes=True)

    generation_id: Generation
    since_ms: TimeMs
    until_ms: TimeMs = Field(description="Milliseconds since the epoch. Then it is carried out.")
    outcome: str = Field(examples=["follow-up"])
    tasks_to_move: list[Annotated[TaskId, BeforeValidator(str)]]


class LookedAtHeld(HeldAnswer):
    """`difference`: what is elsewhere `after` it has been approved, compared with `before`, when all is kept; as in a
    what-if. `forecast`: as of `POST /v1/simulate`. Each is null when it cannot be computed.
    """

    difference: dict[str, Any] | None = Field(examples=[{"active_elsewhere": 1, "standbys_new": 0, "tasks": []}])
    forecast: Forecast | None


class HoldAnswer(BaseModel):
    """`hold`: null when computed rebalances do not wait. `held`: null when none waits now."""

    hold: HoldLever | None
    held: LookedAtHeld | None


class RejoinGraceLever(LeverAnswer):
    grace_ms: int = Field(validation_alias="value_ms", examples=[60_000])


class MissingForDrain(BaseModel):
    """What a drain waits for. `task`: an active one that has to go; null for what concerns all of them."""

    task: TaskId | None
    role: str | None = Field(examples=["active"])
    why: str = Field(examples=["waits for its turn to be restored elsewhere (max.warmup.replicas)"])


class DrainedLever(LeverAnswer):
    """`member_id`: null when the whole process is drained."""

    process_id: ProcessId
    member_id: MemberId | None = Field(examples=[None])
    safe_to_stop: bool = Field(description="Nothing stands still when it is stopped now.", examples=[False])
    missing: list[MissingForDrain]


class LeversAnswer(BaseModel):
    """What operators have set beside Kafka's behaviour. Null or empty: off."""

    hold: HoldLever | None = Field(examples=[None])
    rejoin_grace: RejoinGraceLever | None = Field(examples=[None])
    promotion: LeverAnswer | None = Field(examples=[None])
    pause: LeverAnswer | None = Field(examples=[None])
    drained: list[DrainedLever] = Field(examples=[[]])
