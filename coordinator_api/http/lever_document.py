"""The levers of a group as they are answered: each null or empty while it is off, else with who, when and why.

Of a drain there is also how far it has come: whether the instance can be stopped, and what it still waits for, in
sentences. That is read off the members and tasks of the group's answer, so it says the same as these. An instance can
be stopped when the group is stable, its members have the assignment of this generation, and none of them has an active
task. A member that is away fetches nothing, and nobody waits for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assignor.types import Role
from coordinator_api.group.description import GroupDescription
from coordinator_api.group.holding import DescribedHeld
from coordinator_api.group.levers import Lever, Levers, OperatorDecision
from coordinator_api.group.states import GroupState, RebalanceOutcome
from coordinator_api.http.models.groups import GroupMemberAnswer, TaskCopyAnswer
from coordinator_api.http.models.levers import (
    DrainedLever,
    HeldAnswer,
    HoldLever,
    LeverAnswer,
    LeversAnswer,
    MissingForDrain,
    RejoinGraceLever,
)

_MORE_TO_COME = (RebalanceOutcome.FOLLOW_UP, RebalanceOutcome.PROBING)


def levers_answer(levers: Levers, drained: Sequence[DrainedLever]) -> LeversAnswer:
    """`drained`: of `drained_levers`."""
    grace = levers.rejoin_grace
    return LeversAnswer(
        hold=hold_lever(levers),
        rejoin_grace=None
        if grace is None
        else RejoinGraceLever(grace_ms=grace.value_ms, **decision_fields(grace.decision)),
        promotion=None if levers.promotion is None else LeverAnswer(**decision_fields(levers.promotion.decision)),
        pause=None if levers.pause is None else LeverAnswer(**decision_fields(levers.pause.decision)),
        drained=list(drained),
    )


def hold_lever(levers: Levers) -> HoldLever | None:
    hold = levers.hold
    return None if hold is None else HoldLever(time_limit_ms=hold.value_ms, **decision_fields(hold.decision))


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


def decision_fields(decision: OperatorDecision) -> dict[str, Any]:
    """The fields of a `LeverAnswer`."""
    return {"by": decision.by, "at_ms": decision.at_ms, "reason": decision.reason}


def drained_levers(
    group: GroupDescription, members: Sequence[GroupMemberAnswer], tasks: Sequence[TaskCopyAnswer]
) -> list[DrainedLever]:
    """`members`, `tasks`: of the group, as they are answered."""
    drained = [each for _, each in sorted(group.levers.drained.items())]
    stays = _why_it_stays(group, members, drained)
    of_group = _missing_of_group(group, members)
    levers = []
    for each in drained:
        ids = {member.member_id for member in members if _is_meant(each, member)}
        missing = _active_tasks(ids, tasks, stays) + of_group
        levers.append(
            DrainedLever(
                process_id=each.process_id,
                member_id=each.member_id,
                safe_to_stop=not missing,
                missing=missing,
                **decision_fields(each.decision),
            )
        )
    return levers


def _missing_of_group(group: GroupDescription, members: Sequence[GroupMemberAnswer]) -> list[MissingForDrain]:
    """What concerns all tasks."""
    late = sorted(member.member_id for member in _present(members) if not member.fetched)
    if group.held is not None:
        why = "a rebalance waits for approval"
    elif group.state is not GroupState.STABLE:
        why = "a rebalance is under way"
    elif late:
        why = f"not yet fetched its assignment: {', '.join(late)}"
    elif group.last_rebalance is not None and group.last_rebalance.end.outcome is RebalanceOutcome.FOLLOW_UP:
        why = "the rebalance that hands over its tasks comes next"
    else:
        return []
    return [MissingForDrain(task=None, role=None, why=why)]


def _present(members: Sequence[GroupMemberAnswer]) -> list[GroupMemberAnswer]:
    return [member for member in members if member.away_until_ms is None]


def _is_meant(drained: Lever, member: GroupMemberAnswer) -> bool:
    if drained.member_id is not None:
        return member.member_id == drained.member_id
    return member.process_id == drained.process_id


def _active_tasks(ids: set[str], tasks: Sequence[TaskCopyAnswer], stays: str | None) -> list[MissingForDrain]:
    """`ids`: of the drained members. `stays`: why all of their tasks stay."""
    elsewhere: dict[str, list[TaskCopyAnswer]] = {}
    for copy in tasks:
        if copy.member_id not in ids:
            elsewhere.setdefault(copy.task, []).append(copy)
    return [
        MissingForDrain(task=copy.task, role=copy.role, why=stays or _why(elsewhere.get(copy.task, [])))
        for copy in tasks
        if copy.member_id in ids and copy.role == Role.ACTIVE
    ]


def _why_it_stays(
    group: GroupDescription, members: Sequence[GroupMemberAnswer], drained: Sequence[Lever]
) -> str | None:
    """None while a rebalance is to come that can take it away: a discarded one is not computed again by itself."""
    last = group.last_rebalance
    if group.state is not GroupState.STABLE or last is None or last.end.outcome in _MORE_TO_COME:
        return None
    present = _present(members)
    if all(any(_is_meant(each, member) for each in drained) for member in present):
        every = "every instance is drained or away" if len(present) < len(members) else "every instance is drained"
        return f"{every}, so nobody can have it: start another instance, or end a drain"
    return "the last rebalance kept it here, and no other one is due: start one (`assignor groups rebalance`)"


def _why(elsewhere: Sequence[TaskCopyAnswer]) -> str:
    """The warm-up comes first: it is the next owner."""
    waits = sorted(elsewhere, key=lambda copy: (copy.role != Role.WARM_UP, copy.member_id))
    if not waits:
        return "waits for its turn to be restored elsewhere (max.warmup.replicas)"
    copy = waits[0]
    is_known = copy.lag is not None and copy.lag >= 0
    behind = f"{copy.lag:,} records behind" if is_known else "how far it is behind is not known"
    return f"{copy.role} on {copy.member_id} of instance {copy.process_id}, {behind}"
