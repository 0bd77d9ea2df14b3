"""`/v1/groups/{group}/...`: the calls by which members subscribe, fetch their assignments, send heartbeats and leave.

A large fleet sends thousands of these calls a second.
"""

import asyncio
import base64
from contextlib import nullcontext
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request, Response
from starlette.types import Receive, Scope, Send

from assignor.errors import DecodeError
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.protocol.subscription_info import decode_member
from assignor.types import JAVA_INT_MAX
from coordinator_api.errors import UnreadableBytes
from coordinator_api.group import events
from coordinator_api.group.outcome import (
    AssignmentPending,
    AssignmentReady,
    HeartbeatAnswered,
    JoinAnswered,
    Left,
    ProcessHeartbeatAnswered,
)
from coordinator_api.http.audit import note_effect
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.connections import connection_of, hung_up
from coordinator_api.http.dependencies import (
    DIGITS,
    OFF_LOOP_BYTES,
    JsonBody,
    RequestedGroup,
    TheCoordinator,
    accepted,
    answer,
    named_router,
    problems,
)
from coordinator_api.http.models.member_models import (
    MAX_TEXT_LENGTH,
    AssignmentAnswer,
    DefinitionAnswer,
    HeartbeatAnswer,
    HeartbeatBody,
    LeaveBody,
    ProcessHeartbeatAnswer,
    ProcessHeartbeatBody,
    SubscriptionAnswer,
    SubscriptionBody,
)

router = named_router(prefix="/v1/groups/{group}", tags=["members"], responses=problems(404, 409, 415))

RAW = "application/octet-stream"
MAX_ERROR_LENGTH = 1_000
"""The length limit of the header Assignor-Error before percent-encoding."""

MAX_WAIT_MS = 86_400_000

MemberId = Annotated[
    str,
    Path(
        alias="member",
        max_length=MAX_TEXT_LENGTH,
        description="The `member_id` in the answer to the subscription.",
        json_schema_extra={"pattern": r"^[^/]+$", "minLength": 1},
    ),
]
InstanceId = Annotated[str | None, Query(alias="group_instance_id", min_length=1, max_length=MAX_TEXT_LENGTH)]
WaitMs = Annotated[
    int, Query(ge=0, le=MAX_WAIT_MS, description="Longest time for which the request may be held."), DIGITS
]

SubscriptionJson = Annotated[SubscriptionBody, Depends(JsonBody(SubscriptionBody, may_be_large=True))]
HeartbeatJson = Annotated[HeartbeatBody, Depends(JsonBody(HeartbeatBody, may_be_large=True))]
ProcessHeartbeatJson = Annotated[ProcessHeartbeatBody, Depends(JsonBody(ProcessHeartbeatBody, may_be_large=True))]
LeaveJson = Annotated[LeaveBody, Depends(JsonBody(LeaveBody, required=False))]


async def _admit_join(coordinator: TheCoordinator) -> None:
    """If the service is overloaded, refuses a join before the body of the join is decoded. Raises TooManyRequests."""
    coordinator.overload.admit("join")


AdmittedJoin = Annotated[None, Depends(_admit_join)]


@router.post("/subscriptions", responses={status: {"model": SubscriptionAnswer} for status in (200, 201)})
async def subscribe(
    request: Request, coordinator: TheCoordinator, runtime: RequestedGroup, _: AdmittedJoin, body: SubscriptionJson
) -> Response:
    """Join (201, with a new member id) or rejoin (200)."""
    await _check_subscription(body.subscription)
    joined = accepted(
        await runtime.handle(
            body.to_join(coordinator.new_member_id(body.client_id, body.group_instance_id)),
            tenant=principal_of(request).group_prefix,
        ),
        JoinAnswered,
    )
    runtime.callers.joined(joined.member_id, request.headers.get("user-agent", ""), runtime.image.members)
    if joined.replaced is not None:
        note_effect(request, replaced_member=joined.replaced)
    return answer(
        SubscriptionAnswer(
            member_id=joined.member_id,
            generation_id=joined.generation_id,
            state=str(joined.state),
            definition=DefinitionAnswer.model_validate(runtime.image),
            paused=runtime.image.levers.pause is not None,
        ),
        201 if joined.created else 200,
    )


@router.get(
    "/members/{member}/assignment",
    responses={
        200: {"model": AssignmentAnswer, "content": {RAW: {"schema": {"type": "string", "format": "binary"}}}},
        204: {"description": "There is no assignment yet: ask again."},
    },
)
async def fetch_assignment(
    request: Request,
    coordinator: TheCoordinator,
    runtime: RequestedGroup,
    member_id: MemberId,
    min_generation: Annotated[
        int,
        Query(ge=-(2**31), le=JAVA_INT_MAX, description="The `generation_id` in the answer to the subscription."),
        DIGITS,
    ] = 0,
    wait_ms: WaitMs = 0,
    instance_id: InstanceId = None,
) -> Response:
    """Fetch the assignment of `min_generation` or of a later generation. The call waits up to `wait_ms` for the
    assignment. If the group still has no such assignment after `wait_ms`, the status is 204.

    With `Accept: application/octet-stream`, the body of the answer is the bytes of the assignment, and the headers
    contain the other fields. The header `Assignor-Error` is percent-encoded.
    """
    fetch = events.FetchAssignment(member_id, min_generation, instance_id)
    wait_s = min(wait_ms, coordinator.settings.longpoll_max_wait_ms) / 1000
    if wait_s:
        with coordinator.long_polls.one():
            fetched = await runtime.wait_for_assignment(fetch, wait_s, lambda: hung_up(request))
    else:
        fetched = await runtime.respond(fetch)
    if isinstance(fetched, AssignmentPending):
        return Response(status_code=204)
    ready = accepted(fetched, AssignmentReady)
    if RAW in request.headers.get("accept", ""):
        return RawAssignment(ready)
    return answer(
        AssignmentAnswer(
            generation_id=ready.generation_id,
            assignment=base64.b64encode(bytes(ready.assignment)).decode("ascii"),
            followup=ready.followup,
            error=ready.error,
        )
    )


@router.post("/members/{member}/heartbeat", responses={200: {"model": HeartbeatAnswer}})
async def heartbeat(runtime: RequestedGroup, member_id: MemberId, body: HeartbeatJson) -> Response:
    """Keep the session alive. The answer says whether the member has to rejoin, to stop or to pause."""
    answered = accepted(await runtime.respond(body.to_heartbeat(member_id)), HeartbeatAnswered)
    return answer(HeartbeatAnswer.model_validate(answered))


@router.post("/heartbeat", responses={200: {"model": ProcessHeartbeatAnswer}})
async def process_heartbeat(
    request: Request,
    coordinator: TheCoordinator,
    runtime: RequestedGroup,
    body: ProcessHeartbeatJson,
    wait_ms: WaitMs = 0,
) -> Response:
    """Keep the sessions of all members of a process alive. The service holds the call until the field `news` of the
    answer would differ from the field `known` of the call. The service holds the call at most for half of the members'
    shortest session timeout, because a held call does not extend sessions.

    If the connection of this call breaks, the members that joined with `leave_on_disconnect` are removed soon.
    """
    wait_s = min(wait_ms, coordinator.settings.longpoll_max_wait_ms) / 1000
    # If longpoll.max.count requests are held already, a heartbeat is not refused but answered at once.
    waits = wait_s > 0 and body.known is not None and not coordinator.long_polls.is_full
    connection = connection_of(request)

    async def caller_gone() -> None:
        await hung_up(request)
        if connection is not None:
            coordinator.connection_lost(connection.number)

    event = events.ProcessHeartbeat(body.heartbeats(), None if connection is None else connection.number_of_heartbeat())
    with coordinator.long_polls.one() if waits else nullcontext():
        outcome = await runtime.process_heartbeat(event, body.known, wait_s if waits else 0, caller_gone)
    answered = accepted(outcome, ProcessHeartbeatAnswered)
    if body.notices:
        runtime.add_notices(answered, body.process_notices())
    return answer(ProcessHeartbeatAnswer.model_validate(answered))


@router.delete("/members/{member}", status_code=204)
async def leave(runtime: RequestedGroup, member_id: MemberId, body: LeaveJson, instance_id: InstanceId = None) -> None:
    """Leave the group. A group without a rejoin grace rebalances at once, and other members get the tasks. In a group
    with a rejoin grace, the tasks are reserved for the member until the grace ends. The group remembers the end of the
    member's instance, and the failure in the body.
    """
    failure = None if body.failure is None else body.failure.to_failure()
    accepted(await runtime.handle(events.Leave(member_id, instance_id, failure)), Left)


class RawAssignment(Response):
    """A response that sends the parts of an assignment one by one. The common part of the assignments is in memory only
    once for all responses.
    """

    def __init__(self, ready: AssignmentReady) -> None:
        self._parts: AssignmentParts = ready.assignment
        headers = {
            "Content-Length": str(self._parts.size),
            "Assignor-Generation-Id": str(ready.generation_id),
            "Assignor-Followup": "true" if ready.followup else "false",
        }
        if ready.error is not None:
            headers["Assignor-Error"] = quote(ready.error[:MAX_ERROR_LENGTH], safe=" ")
        super().__init__(None, headers=headers, media_type=RAW)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for part in self._parts:
            if part:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _check_subscription(subscription: bytes) -> None:
    """Raises UnreadableBytes for a subscription that cannot be decoded. In Kafka, a subscription that cannot be decoded
    would crash the leader.
    """
    try:
        if len(subscription) > OFF_LOOP_BYTES:
            await asyncio.to_thread(decode_member, subscription)
        else:
            decode_member(subscription)
    except DecodeError as error:
        raise UnreadableBytes(error, "subscription") from None
