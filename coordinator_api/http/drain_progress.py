"""How far a drain has come: whether the instance can be stopped, and what it still waits for, in sentences.

It is read off the group's document, so it says the same as the group's tasks and members there. An instance can be
stopped when the group is stable, its members have the assignment of this generation, and none of them has an active
task. A member that is away fetches nothing, and nobody waits for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_api.group.states import GroupState, RebalanceOutcome

_MORE_TO_COME = (RebalanceOutcome.FOLLOW_UP, RebalanceOutcome.PROBING)


def add_drain_progress(document: Mapping[str, Any]) -> None:
    """`document`: of a group; each entry of `levers.drained` is told further."""
    drained = document["levers"]["drained"]
    drained[:] = [_with_progress(each, document) for each in drained]


def _with_progress(drained: Mapping[str, object], document: Mapping[str, Any]) -> dict[str, object]:
    members = [each for each in document["members"] if _is_meant(drained, each)]
    ids = {member["member_id"] for member in members}
    missing = _active_tasks(ids, document)
    if document["held_rebalance"] is not None:
        missing.append(_missing(None, None, "a rebalance waits for approval"))
    elif document["state"] != GroupState.STABLE:
        missing.append(_missing(None, None, "a rebalance is under way"))
    elif late := sorted(member["member_id"] for member in _present(document) if not member["fetched"]):
        missing.append(_missing(None, None, f"not yet fetched its assignment: {', '.join(late)}"))
    elif document["last_rebalance"] is not None and document["last_rebalance"]["outcome"] == "follow-up":
        missing.append(_missing(None, None, "the rebalance that hands over its tasks comes next"))
    return {**drained, "safe_to_stop": not missing, "missing": missing}


def _present(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [member for member in document["members"] if member["away_until_ms"] is None]


def _is_meant(drained: Mapping[str, object], member: Mapping[str, Any]) -> bool:
    if drained["member_id"] is not None:
        return bool(member["member_id"] == drained["member_id"])
    return bool(member["process_id"] == drained["process_id"])


def _active_tasks(ids: set[str], document: Mapping[str, Any]) -> list[dict[str, object]]:
    copies: dict[str, list[Mapping[str, Any]]] = {}
    tasks, stays = document["tasks"], _why_it_stays(document)
    for copy in tasks:
        if copy["member_id"] not in ids:
            copies.setdefault(copy["task"], []).append(copy)
    return [
        _missing(copy["task"], copy["role"], stays or _why(copies.get(copy["task"], [])))
        for copy in tasks
        if copy["member_id"] in ids and copy["role"] == "active"
    ]


def _why_it_stays(document: Mapping[str, Any]) -> str | None:
    """None while a rebalance is to come that can take it away: a discarded one is not computed again by itself."""
    last = document["last_rebalance"]
    if document["state"] != GroupState.STABLE or last is None or last["outcome"] in _MORE_TO_COME:
        return None
    drained = document["levers"]["drained"]
    if all(any(_is_meant(each, member) for each in drained) for member in _present(document)):
        is_one_away = len(_present(document)) < len(document["members"])
        every = "every instance is drained or away" if is_one_away else "every instance is drained"
        return f"{every}, so nobody can have it: start another instance, or end a drain"
    return "the last rebalance kept it here, and no other one is due: start one (`assignor groups rebalance`)"


def _why(elsewhere: Sequence[Mapping[str, Any]]) -> str:
    """The warm-up comes first: it is the next owner."""
    waits = sorted(elsewhere, key=lambda copy: (copy["role"] != "warm-up", str(copy["member_id"])))
    if not waits:
        return "waits for its turn to be restored elsewhere (max.warmup.replicas)"
    copy = waits[0]
    lag = copy["lag"]
    behind = "how far it is behind is not known" if lag is None or lag < 0 else f"{lag:,} records behind"
    return f"{copy['role']} on {copy['member_id']} of instance {copy['process_id']}, {behind}"


def _missing(task: object, role: object, why: str) -> dict[str, object]:
    return {"task": task, "role": role, "why": why}
