"""What is answered about recorded rebalances, and what the service computes and does not keep."""

from __future__ import annotations

from pydantic import BaseModel, Field, JsonValue

_MS = "Milliseconds since the epoch."


class ReportAnswer(BaseModel):
    """`generation_id`: of the rebalance that is now known."""

    generation_id: int


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
    of a rebalance that waited.
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
    hold: HoldOfRebalance | None = None


class RebalanceList(BaseModel):
    """`next_before`: the `before` of the next page, null on the last one."""

    rebalances: list[RebalanceLine]
    next_before: int | None


class TaskExplanation(BaseModel):
    """Why a task is where it is: `text` in words, `steps` for programs."""

    task: str
    stateful: bool
    outcome: str
    text: str
    steps: list[dict[str, JsonValue]]


class RebalanceExplanation(BaseModel):
    """`same_result`: whether the rebalance, computed again, decides the same."""

    group_id: str
    generation_id: int
    error: str | None
    same_result: bool
    explanations: list[TaskExplanation]


class AssignAnswer(BaseModel):
    """`output`: as in the format of the request."""

    id: str
    output: dict[str, object]


class SimulateAnswer(BaseModel):
    """`forecast`: how it ends (`end`), totals over all rebalances, the measures of each one (`rounds`), where every
    task is at the end, and the `model` behind it. Times in milliseconds.
    """

    id: str
    forecast: dict[str, object]
