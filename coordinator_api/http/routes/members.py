"""`/v1/groups/{group}/...` for members: subscribe, fetch the assignment, heartbeat, leave."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from assignor.types import JAVA_INT_MAX
from coordinator_api.group import events
from coordinator_api.group.outcome import AssignmentPending, AssignmentReady, HeartbeatAnswered, JoinAnswered, Left
from coordinator_api.group.outcome import Response as GroupResponse
from coordinator_api.group.subscriptions import read_subscription
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.groups.group_runtime import GroupRuntime
from coordinator_api.http.bodies import OFF_LOOP_BYTES
from coordinator_api.http.problems import input_as_problems
from coordinator_api.http.routes.surface import PROBLEMS, GroupId, MemberId, TheCoordinator, accepted
from coordinator_api.http.schemas import (
    MAX_TEXT_LENGTH,
    AssignmentAnswer,
    HeartbeatAnswer,
    HeartbeatBody,
    SubscriptionAnswer,
    SubscriptionBody,
)

router = APIRouter(prefix="/v1/groups/{group}", tags=["members"], responses=PROBLEMS)

RAW = "application/octet-stream"
MAX_WAIT_MS = 86_400_000

InstanceId = Annotated[str | None, Query(min_length=1, max_length=MAX_TEXT_LENGTH)]


@router.post("/subscriptions", responses={201: {"model": SubscriptionAnswer}})
async def subscribe(
    body: SubscriptionBody, response: Response, group_id: GroupId, coordinator: TheCoordinator
) -> SubscriptionAnswer:
    """Join (201, with a new member id) or rejoin (200)."""
    runtime = coordinator.group(group_id)
    await _check_subscription(body.subscription)
    joined = accepted(
        await runtime.handle(
            events.Join(
                subscription=body.subscription,
                session_timeout_ms=body.session_timeout_ms,
                rebalance_timeout_ms=body.rebalance_timeout_ms,
                new_member_id=coordinator.new_member_id(body.client_id, body.group_instance_id),
                member_id=body.member_id,
                group_instance_id=body.group_instance_id,
                incarnation=body.incarnation,
                client_id=body.client_id,
            )
        ),
        JoinAnswered,
    )
    response.status_code = 201 if joined.created else 200
    return SubscriptionAnswer(member_id=joined.member_id, generation_id=joined.generation_id, state=str(joined.state))


@router.get(
    "/members/{member}/assignment",
    response_model=AssignmentAnswer,
    responses={200: {"content": {RAW: {}}}, 204: {"description": "There is no assignment yet: ask again."}},
)
async def fetch_assignment(
    request: Request,
    group_id: GroupId,
    member: MemberId,
    coordinator: TheCoordinator,
    min_generation: Annotated[
        int,
        Query(ge=-(2**31), le=JAVA_INT_MAX, description="The `generation_id` of the subscription's answer."),
    ] = 0,
    wait_ms: Annotated[int, Query(ge=0, le=MAX_WAIT_MS, description="How long the request may be held.")] = 0,
    group_instance_id: InstanceId = None,
) -> AssignmentAnswer | Response:
    """The assignment of `min_generation` or later. Waits up to `wait_ms` for it; 204 when it has not come by then.

    With `Accept: application/octet-stream` the body is the bytes alone, and headers have the rest.
    """
    runtime = coordinator.group(group_id)
    fetch = events.FetchAssignment(member, min_generation, group_instance_id)
    wait_ms = min(wait_ms, coordinator.settings.longpoll_max_wait_ms)
    fetched = await (_held(request, coordinator, runtime, fetch, wait_ms) if wait_ms else runtime.handle(fetch))
    if isinstance(fetched, AssignmentPending):
        return Response(status_code=204)
    ready = accepted(fetched, AssignmentReady)
    if RAW in request.headers.get("accept", ""):
        headers = {
            "Assignor-Generation-Id": str(ready.generation_id),
            "Assignor-Followup": "true" if ready.followup else "false",
        }
        return Response(bytes(ready.assignment), headers=headers, media_type=RAW)
    return AssignmentAnswer(
        generation_id=ready.generation_id,
        assignment=base64.b64encode(bytes(ready.assignment)).decode("ascii"),
        followup=ready.followup,
    )


@router.post("/members/{member}/heartbeat")
async def heartbeat(
    body: HeartbeatBody, group_id: GroupId, member: MemberId, coordinator: TheCoordinator
) -> HeartbeatAnswer:
    """Keep the session alive. The answer says what the member has to do."""
    event = events.Heartbeat(member, body.generation_id, body.task_offset_sums, body.group_instance_id)
    answered = accepted(await coordinator.group(group_id).handle(event), HeartbeatAnswered)
    return HeartbeatAnswer(
        state=str(answered.state),
        rejoin=answered.rejoin,
        stop=answered.stop,
        generation_id=answered.generation_id,
    )


@router.delete("/members/{member}", status_code=204)
async def leave(
    group_id: GroupId, member: MemberId, coordinator: TheCoordinator, group_instance_id: InstanceId = None
) -> None:
    """Leave the group. A rebalance gives the member's tasks to others at once."""
    accepted(await coordinator.group(group_id).handle(events.Leave(member, group_instance_id)), Left)


async def _held(
    request: Request, coordinator: Coordinator, runtime: GroupRuntime, fetch: events.FetchAssignment, wait_ms: int
) -> GroupResponse:
    with coordinator.long_polls.one():
        return await runtime.wait_for_assignment(fetch, wait_ms / 1000, lambda: _hung_up(request))


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _check_subscription(subscription: bytes) -> None:
    """A subscription that the leader cannot read must not reach the group: Kafka's own leader would die of it."""
    with input_as_problems(bytes_in="subscription"):
        if len(subscription) >= OFF_LOOP_BYTES:
            await asyncio.to_thread(read_subscription, subscription)
        else:
            read_subscription(subscription)
