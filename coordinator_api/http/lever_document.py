"""The levers of a group as they are answered: each null or empty while it is off, else with who, when and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator_api.group.holding import DescribedHeld
from coordinator_api.group.levers import Decision, Levers
from coordinator_api.http.models.levers import (
    DrainedLever,
    HeldAnswer,
    HoldLever,
    LeverAnswer,
    LeversAnswer,
    RejoinGraceLever,
)


def levers_answer(levers: Levers, drained: Sequence[DrainedLever]) -> LeversAnswer:
    """`drained`: of `drain_progress.py`."""
    grace = levers.rejoin_grace
    return LeversAnswer(
        hold=hold_lever(levers),
        rejoin_grace=None if grace is None else RejoinGraceLever(grace_ms=grace.value_ms, **said(grace.decision)),
        promotion=None if levers.promotion is None else LeverAnswer(**said(levers.promotion.decision)),
        pause=None if levers.pause is None else LeverAnswer(**said(levers.pause.decision)),
        drained=list(drained),
    )


def hold_lever(levers: Levers) -> HoldLever | None:
    hold = levers.hold
    return None if hold is None else HoldLever(time_limit_ms=hold.value_ms, **said(hold.decision))


def held_answer(held: DescribedHeld | None) -> HeldAnswer | None:
    if held is None:
        return None
    return HeldAnswer(
        generation_id=held.generation_id,
        since_ms=held.since_ms,
        until_ms=held.until_ms,
        outcome=str(held.outcome),
        tasks_to_move=[str(task) for task in held.tasks_to_move],
    )


def said(one: Decision) -> dict[str, Any]:
    """The fields of a `LeverAnswer`."""
    return {"by": one.by, "at_ms": one.at_ms, "reason": one.reason}
