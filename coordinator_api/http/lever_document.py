"""The levers of a group as JSON: each null or empty while it is off, else its numbers with who, when and why."""

from __future__ import annotations

from coordinator_api.group.holding import DescribedHeld
from coordinator_api.group.levers import Decision, Levers


def levers_document(levers: Levers) -> dict[str, object]:
    hold, grace = levers.hold, levers.rejoin_grace
    return {
        "hold": None if hold is None else {"time_limit_ms": hold.value_ms, **said(hold.decision)},
        "rejoin_grace": None if grace is None else {"grace_ms": grace.value_ms, **said(grace.decision)},
        "promotion": None if levers.promotion is None else said(levers.promotion.decision),
        "pause": None if levers.pause is None else said(levers.pause.decision),
        "drained": [
            {"process_id": each.process_id, "member_id": each.member_id, **said(each.decision)}
            for _, each in sorted(levers.drained.items())
        ],
    }


def held_document(held: DescribedHeld | None) -> dict[str, object] | None:
    if held is None:
        return None
    return {
        "generation_id": held.generation_id,
        "since_ms": held.since_ms,
        "until_ms": held.until_ms,
        "outcome": str(held.outcome),
        "tasks_to_move": [str(task) for task in held.tasks_to_move],
    }


def said(one: Decision) -> dict[str, object]:
    return {"by": one.by, "at_ms": one.at_ms, "reason": one.reason}
