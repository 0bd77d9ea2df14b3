"""The head of a group's page: its name, how it is, and which levers are pulled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_api.web.views.group_list import GroupSummary
from coordinator_api.web.views.states import Badge, cause_in_words, state_badge


@dataclass(frozen=True, slots=True)
class PulledLever:
    """`what`: the lever in words. `by`, `reason`: None when they are not known. `at_ms`: None as well."""

    what: str
    by: str | None
    at_ms: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class GroupHeader:
    """`cause`: why the current or last rebalance was started. `waits`: a rebalance waits for approval."""

    group_id: str
    badge: Badge
    generation_id: int
    members: int
    summary: GroupSummary
    probing_at_ms: int | None
    led_by: str | None
    reported_at_ms: int | None
    cause: str | None
    error: str | None
    levers: tuple[PulledLever, ...]
    waits: bool

    @classmethod
    def of(cls, document: Mapping[str, Any], tasks: int | None = None) -> GroupHeader:
        """`document`: a group as `GET /v1/groups/{group}` answers it. `tasks`: as `GroupSummary.of` takes it."""
        return cls(
            document["group_id"],
            state_badge(document["state"], document["condition"], draining=document["draining"]),
            document["generation_id"],
            len(document["members"]),
            GroupSummary.of(document, tasks),
            document["probing_rebalance_at_ms"],
            document["led_by"],
            document["last_reported_ms"],
            cause_in_words(document["reason"] or (document["last_rebalance"] or {}).get("reason") or "") or None,
            document["error"],
            pulled_levers(document.get("levers") or {}),
            document.get("held_rebalance") is not None,
        )


_LEVERS = {
    "hold": "A rebalance that moves tasks waits for approval",
    "rejoin_grace": "Tasks of a member that leaves wait for it",
    "promotion": "Warm-ups are promoted when they have caught up",
    "pause": "Members process no records",
}


def pulled_levers(levers: Mapping[str, Any]) -> tuple[PulledLever, ...]:
    """`levers`: of a group's document."""
    pulled = [
        PulledLever(words, lever.get("by"), lever.get("at_ms"), lever.get("reason"))
        for name, words in _LEVERS.items()
        if isinstance(lever := levers.get(name), Mapping)
    ]
    drained = levers.get("drained") or []
    for each in drained.values() if isinstance(drained, Mapping) else drained:
        member = each.get("member_id")
        what = f"Member {member} is drained" if member else f"Instance {each.get('process_id')} is drained"
        pulled.append(PulledLever(what, each.get("by"), each.get("at_ms"), each.get("reason")))
    return tuple(pulled)
