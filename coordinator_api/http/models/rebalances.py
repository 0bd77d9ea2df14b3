"""What is answered about recorded rebalances, and what the service computes and does not keep."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

_MS = "Milliseconds since the epoch."


def _is_none(value: object) -> bool:
    return value is None


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
    hold: HoldOfRebalance | None = Field(None, exclude_if=_is_none)
    led_by: str | None = Field(None, exclude_if=_is_none)


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
