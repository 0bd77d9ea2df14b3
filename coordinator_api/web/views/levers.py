"""The levers of a group as a page shows them: which are pulled, what waits for approval, and who can be drained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_api.web.views.what_if import WhatIf, what_if_view
from coordinator_api.web.views.words import duration, plural

INSTANCE, MEMBER = "instance", "member"
TASKS_NAMED = 20


@dataclass(frozen=True, slots=True)
class SetLever:
    """A lever that is pulled. `what`: what it does, in words. `by`, `reason`: None when they are not known."""

    what: str
    by: str | None
    at_ms: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class DrainedRow:
    """Somebody who is drained. `target`: as a form names it. `missing`: what it still waits for, in sentences."""

    target: str
    name: str
    pulled: SetLever
    safe_to_stop: bool
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DrainChoice:
    """`target`: as a form names it."""

    target: str
    words: str


@dataclass(frozen=True, slots=True)
class WaitingRound:
    """A rebalance that waits for approval. `moves`: in a sentence. `look`: what it would change, beside what a discard
    would; None when that cannot be computed now.
    """

    generation_id: int
    since_ms: int
    until_ms: int
    moves: str
    look: WhatIf | None


@dataclass(frozen=True, slots=True)
class AwayMember:
    """One that left, and whose tasks wait for it."""

    name: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class LeverBoard:
    """All levers of one group. A lever is None while it is off. `drainable`: instances, each with its members."""

    hold: SetLever | None
    rejoin_grace: SetLever | None
    promotion: SetLever | None
    pause: SetLever | None
    drained: tuple[DrainedRow, ...]
    drainable: tuple[tuple[DrainChoice, tuple[DrainChoice, ...]], ...]
    away: tuple[AwayMember, ...]
    waiting: WaitingRound | None
    members: int
    all_told_to_stop: bool

    @classmethod
    def of(cls, document: Mapping[str, Any], names: Mapping[str, str], looked: Mapping[str, Any] | None) -> LeverBoard:
        """`document`: as `GET /v1/groups/{group}` answers it. `names`: of instances, by process id. `looked`: as
        `page_computations.look_at_held` answers for the rebalance that waits.
        """
        levers, members = document["levers"], document["members"]
        hold, grace = levers["hold"], levers["rejoin_grace"]
        return cls(
            hold and _pulled(f"A rebalance that moves tasks waits up to {duration(hold['time_limit_ms'])}", hold),
            grace and _pulled(f"Tasks of a member that leaves wait {duration(grace['grace_ms'])} for it", grace),
            levers["promotion"]
            and _pulled("A rebalance comes as soon as warm-ups have caught up", levers["promotion"]),
            levers["pause"] and _pulled("Members process no records", levers["pause"]),
            tuple(_drained(each, names, members) for each in levers["drained"]),
            _drainable(levers["drained"], members, names),
            tuple(
                AwayMember(_member_name(each), each["away_until_ms"])
                for each in members
                if each["away_until_ms"] is not None
            ),
            _waiting(document["held_rebalance"], names, looked),
            len(members),
            document["draining"],
        )


def target_of(sent: str) -> tuple[str | None, str | None] | None:
    """The process id or the member id that a form names; None when it names nobody."""
    kind, _, one = sent.partition(":")
    if not one or kind not in (INSTANCE, MEMBER):
        return None
    return (one, None) if kind == INSTANCE else (None, one)


def _pulled(what: str, lever: Mapping[str, Any]) -> SetLever:
    return SetLever(what, lever["by"], lever["at_ms"], lever["reason"])


def _member_name(member: Mapping[str, Any]) -> str:
    return str(member["client_id"] or member["member_id"])


def _drained(drained: Mapping[str, Any], names: Mapping[str, str], members: Sequence[Mapping[str, Any]]) -> DrainedRow:
    process, member = drained["process_id"], drained["member_id"]
    missing = tuple(
        f"{each['task']}: {each['why']}" if each["task"] else str(each["why"]) for each in drained["missing"]
    )
    if member is None:
        target, name = f"{INSTANCE}:{process}", f"Instance {names.get(process, process)}"
    else:
        found = next((_member_name(each) for each in members if each["member_id"] == member), member)
        target, name = f"{MEMBER}:{member}", f"Member {found}"
    more = (f"and {len(missing) - TASKS_NAMED} more",) if len(missing) > TASKS_NAMED else ()
    return DrainedRow(
        target, name, _pulled("Its tasks go to others", drained), drained["safe_to_stop"], missing[:TASKS_NAMED] + more
    )


def _drainable(
    drained: Sequence[Mapping[str, Any]], members: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> tuple[tuple[DrainChoice, tuple[DrainChoice, ...]], ...]:
    """Without those that are drained already."""
    taken = {each["member_id"] or each["process_id"] for each in drained}
    instances: dict[str, list[Mapping[str, Any]]] = {}
    for each in members:
        if each["process_id"] is not None and each["process_id"] not in taken:
            instances.setdefault(each["process_id"], []).append(each)
    choices = []
    for process, threads in instances.items():
        active = sum(len(each["active"]) for each in threads)
        whole = f"{names.get(process, process)}: {plural(len(threads), 'member')}, {plural(active, 'active task')}"
        single = tuple(
            DrainChoice(
                f"{MEMBER}:{each['member_id']}",
                f"only {_member_name(each)}: {plural(len(each['active']), 'active task')}",
            )
            for each in threads
            if each["member_id"] not in taken and len(threads) > 1
        )
        choices.append((DrainChoice(f"{INSTANCE}:{process}", whole), single))
    return tuple(sorted(choices, key=lambda each: each[0].words))


def _waiting(
    held: Mapping[str, Any] | None, names: Mapping[str, str], looked: Mapping[str, Any] | None
) -> WaitingRound | None:
    if held is None:
        return None
    tasks = held["tasks_to_move"]
    named = ", ".join(tasks[:TASKS_NAMED]) + (" and others" if len(tasks) > TASKS_NAMED else "")
    look = None
    if looked is not None and looked["difference"] is not None and looked["forecast"] is not None:
        look = what_if_view({**looked, "id": "held", "names": names})
    verb = "loses" if len(tasks) == 1 else "lose"
    return WaitingRound(
        held["generation_id"],
        held["since_ms"],
        held["until_ms"],
        f"{plural(len(tasks), 'task')} {verb} a copy where it runs now: {named}." if tasks else "No task moves.",
        look,
    )
