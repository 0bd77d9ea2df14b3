"""The rebalance that a group would have now."""

import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from assignor.errors import InputError
from assignor.pipeline.snapshot import Member
from assignor.recording import RecordedRebalance
from assignor.types import TaskId
from coordinator_api.group.subscriptions import subscription_now
from coordinator_api.runtime.coordinator import Coordinator


async def present_rebalance(
    coordinator: Coordinator, group_id: str, restored: Mapping[str, Mapping[TaskId, int]] = MappingProxyType({})
) -> RecordedRebalance:
    """Returns the input of a rebalance at this moment. The input has the group's definition, the present state of the
    cluster, and the members' subscriptions. Each subscription is the one that the member would send if it rejoined now.

    `restored`: for members by id, offset sums that they may reach; they replace the offset sums that the members have
    reported.
    """
    runtime = coordinator.group(group_id)
    described = await runtime.describe()
    snapshot = await runtime.seen_now(described.image)
    members = {}
    for each in described.members:
        member = each.member
        reported = {copy.task_id: copy.offset_sum for copy in each.tasks if copy.offset_sum is not None}
        reported.update(restored.get(member.member_id, {}))
        sent = subscription_now(member.last_join.subscription, member.last_assignment.assignment, reported)
        members[member.member_id] = Member(sent, member.last_join.client_id, member.last_join.group_instance_id)
    if not members:
        raise InputError("the group has no members now; choose a recorded generation", "generation")
    now_ms = time.time_ns() // 1_000_000
    return RecordedRebalance(
        id=f"{group_id}-now",
        group_id=group_id,
        generation_id=described.image.generation_id,
        now_ms=now_ms,
        source="coordinator",
        snapshot=replace(snapshot, members=members),
        output=None,
    )
