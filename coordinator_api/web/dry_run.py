"""What an operator command would move. A form on the page shows it before the operator confirms the command.

A command that starts a rebalance, that lets a held one go on, or that promotes warm-ups, needs a confirmation. The dry
run computes the rebalance that would follow from the present state of the group, and compares it with a rebalance that
moves nothing. A promotion waits for the warm-ups, so its dry run assumes that they have caught up.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import Request

from assignor.errors import AssignorFault
from assignor.recording import RecordedRebalance
from assignor.types import Role, TaskId
from coordinator_api.group import events
from coordinator_api.group.group_levers import Lever, LeverName, Levers, OperatorDecision
from coordinator_api.group.image import GroupImage
from coordinator_api.group.rebalancing import processes_of_all
from coordinator_api.http.dependencies import compute
from coordinator_api.http.page_computations import effects
from coordinator_api.http.present_rebalance import present_rebalance
from coordinator_api.runtime.coordinator import Coordinator

LETS_HELD_GO_ON = ("approve", "hold-off")
"""The commands that carry out the rebalance that waits for approval."""


def moves_tasks(name: str, event: events.Event, document: Mapping[str, Any]) -> bool:
    """Returns whether a command may move tasks at once. `name`: as in `lever_page.EVENTS`. `document`: of the group."""
    members = document["members"]
    if name in LETS_HELD_GO_ON:
        return document["held_rebalance"] is not None
    if name == "promote":
        return any(copy["role"] == Role.WARM_UP for copy in document["tasks"])
    if name == "grace-off":
        return any(member["away_until_ms"] is not None for member in members)
    if isinstance(event, events.SetInstanceDrain):
        return any(event.process_id == each["process_id"] or event.member_id == each["member_id"] for each in members)
    return name == "rebalance" and bool(members)


async def dry_run(
    request: Request, coordinator: Coordinator, group_id: str, event: events.Event, document: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Returns the `effects` of the rebalance that the command would start now; None if they cannot be computed, for
    example because the cluster does not answer or the service is busy. `document`: of the group.
    """
    image = coordinator.group(group_id).image
    restored = _restored_warm_ups(document) if _promotes(event) else {}
    try:
        now = await present_rebalance(coordinator, group_id, restored)
        before = _steered(now, image, image.levers)
        after = _steered(_without_away(now, image) if _ends_grace(event) else now, image, _levers_after(event, image))
        return await compute(request, coordinator, effects, before, after, coordinator.document_bounds)
    except AssignorFault:
        return None


def _steered(now: RecordedRebalance, image: GroupImage, levers: Levers) -> RecordedRebalance:
    away = {member.member_id for member in image.members.away()}
    steering = replace(levers.steering, away_processes=processes_of_all(image, away))
    return replace(now, snapshot=replace(now.snapshot, steering=steering))


def _levers_after(event: events.Event, image: GroupImage) -> Levers:
    if not isinstance(event, events.SetInstanceDrain):
        return image.levers
    decision = OperatorDecision(None, 0)
    lever = Lever(LeverName.DRAIN, decision, process_id=event.process_id or "", member_id=event.member_id)
    return image.levers.changed(lever, event.is_on)


def _promotes(event: events.Event) -> bool:
    return isinstance(event, events.SetLever) and event.name is LeverName.PROMOTION and event.is_on


def _restored_warm_ups(document: Mapping[str, Any]) -> Mapping[str, Mapping[TaskId, int]]:
    """Returns the offset sums of warm-ups that have caught up, by member."""
    restored: dict[str, dict[TaskId, int]] = {}
    for copy in document["tasks"]:
        if copy["role"] == Role.WARM_UP and copy["end_offset_sum"] is not None:
            restored.setdefault(copy["member_id"], {})[TaskId.parse(copy["task"])] = copy["end_offset_sum"]
    return restored


def _ends_grace(event: events.Event) -> bool:
    return isinstance(event, events.SetLever) and event.name is LeverName.REJOIN_GRACE and not event.is_on


def _without_away(now: RecordedRebalance, image: GroupImage) -> RecordedRebalance:
    away = {member.member_id for member in image.members.away()}
    members = {name: member for name, member in now.snapshot.members.items() if name not in away}
    return replace(now, snapshot=replace(now.snapshot, members=members))
