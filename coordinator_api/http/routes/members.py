"""`/v1/groups/{group}/...` for members: subscribe, fetch the assignment, heartbeat, leave.

Fleets send thousands of these a second, so each is a plain function of the request, and not of parameters that FastAPI
would make of it.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import JAVA_INT_MAX
from coordinator_api.group import events
from coordinator_api.group.image import GroupImage
from coordinator_api.group.outcome import (
    AssignmentPending,
    AssignmentReady,
    HeartbeatAnswered,
    JoinAnswered,
    Left,
    MemberNews,
    ProcessHeartbeatAnswered,
    Rejected,
)
from coordinator_api.group.subscriptions import check_subscription
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.groups.group_runtime import GroupRuntime
from coordinator_api.http.audited_calls import note_effect
from coordinator_api.http.bodies import OFF_LOOP_BYTES, JsonBody
from coordinator_api.http.call_rights import checked_router, principal_of
from coordinator_api.http.connections import OpenConnections
from coordinator_api.http.hang_ups import hung_up
from coordinator_api.http.models.members import (
    MAX_TEXT_LENGTH,
    AssignmentAnswer,
    DefinitionAnswer,
    HeartbeatAnswer,
    HeartbeatBody,
    LeaveBody,
    MemberNewsAnswer,
    MemberRefusal,
    ProcessHeartbeatAnswer,
    ProcessHeartbeatBody,
    SubscriptionAnswer,
    SubscriptionBody,
)
from coordinator_api.http.problems import Problem, input_as_problems
from coordinator_api.http.routes.surface import (
    GROUP_ID_SCHEMA,
    GROUP_IS,
    MEMBER_ID_SCHEMA,
    accepted,
    answer,
    group_id_in,
    link,
    problems,
    the_coordinator,
)

router = checked_router(prefix="/v1/groups/{group}", tags=["members"], responses=problems(404, 409, 415))

RAW = "application/octet-stream"
MAX_WAIT_MS = 86_400_000

_INTEGER = re.compile(r"-?[0-9]{1,10}\Z", re.ASCII)


def _parameter(name: str, place: str, schema: Mapping[str, object], description: str = "") -> dict[str, object]:
    described = {"description": description} if description else {}
    return {"name": name, "in": place, "required": place == "path", "schema": schema, **described}


_GROUP = _parameter("group", "path", {"type": "string", **GROUP_ID_SCHEMA}, GROUP_IS)
_MEMBER = _parameter(
    "member", "path", {"type": "string", **MEMBER_ID_SCHEMA}, "The `member_id` of the subscription's answer."
)
_INSTANCE_ID = _parameter(
    "group_instance_id", "query", {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_LENGTH}
)
_MIN_GENERATION = _parameter(
    "min_generation",
    "query",
    {"type": "integer", "minimum": -(2**31), "maximum": JAVA_INT_MAX, "default": 0},
    "The `generation_id` of the subscription's answer.",
)
_WAIT_MS = _parameter(
    "wait_ms",
    "query",
    {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS, "default": 0},
    "How long the request may be held.",
)


_SUBSCRIPTION = JsonBody(SubscriptionBody, may_be_large=True)
_HEARTBEAT = JsonBody(HeartbeatBody, may_be_large=True)
_PROCESS_HEARTBEAT = JsonBody(ProcessHeartbeatBody, may_be_large=True)
_LEAVE = JsonBody(LeaveBody, required=False)


def _documented(*parameters: Mapping[str, object], body: JsonBody[Any] | None = None) -> dict[str, Any]:
    """For OpenAPI."""
    return {"parameters": list(parameters), **({} if body is None else body.described)}


_OF_THE_MEMBER = {"group": "$request.path.group", "member": "$response.body#/member_id"}
_THEN = {
    "fetch_assignment": link("fetch_assignment", {**_OF_THE_MEMBER, "min_generation": "$response.body#/generation_id"}),
    "heartbeat": link("heartbeat", _OF_THE_MEMBER, {"generation_id": 0}),
    "leave": link("leave", _OF_THE_MEMBER),
    "list_rebalances": link("list_rebalances", {"group": "$request.path.group"}),
    "describe_group": link("describe_group", {"group": "$request.path.group"}),
}
_STILL_THE_MEMBER = {"group": "$request.path.group", "member": "$request.path.member"}
_HAS_FETCHED = {
    "heartbeat": link("heartbeat", _STILL_THE_MEMBER, {"generation_id": "$response.body#/generation_id"}),
    "leave": link("leave", _STILL_THE_MEMBER),
    "list_rebalances": link("list_rebalances", {"group": "$request.path.group"}),
    "describe_group": link("describe_group", {"group": "$request.path.group"}),
}


@router.post(
    "/subscriptions",
    responses={status: {"model": SubscriptionAnswer, "links": _THEN} for status in (200, 201)},
    openapi_extra=_documented(_GROUP, body=_SUBSCRIPTION),
)
async def subscribe(request: Request) -> Response:
    """Join (201, with a new member id) or rejoin (200)."""
    coordinator, runtime = _addressed(request)
    coordinator.overload.admit("join")
    body = await _SUBSCRIPTION(request)
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
                join_id=body.join_id,
                leave_on_disconnect=body.leave_on_disconnect,
            ),
            tenant=principal_of(request).group_prefix,
        ),
        JoinAnswered,
    )
    if joined.replaced is not None:
        note_effect(request, replaced_member=joined.replaced)
    return answer(
        SubscriptionAnswer(
            member_id=joined.member_id,
            generation_id=joined.generation_id,
            state=str(joined.state),
            definition=_definition(runtime.image),
            paused=runtime.image.levers.pause is not None,
        ),
        201 if joined.created else 200,
    )


@router.get(
    "/members/{member}/assignment",
    responses={
        200: {
            "model": AssignmentAnswer,
            "content": {RAW: {"schema": {"type": "string", "format": "binary"}}},
            "links": _HAS_FETCHED,
        },
        204: {"description": "There is no assignment yet: ask again."},
    },
    openapi_extra=_documented(_GROUP, _MEMBER, _MIN_GENERATION, _WAIT_MS, _INSTANCE_ID),
)
async def fetch_assignment(request: Request) -> Response:
    """The assignment of `min_generation` or later. Waits up to `wait_ms` for it; 204 when it has not come by then.

    With `Accept: application/octet-stream` the body is the bytes alone, and headers have the rest.
    """
    coordinator, runtime = _addressed(request)
    query = request.query_params
    fetch = events.FetchAssignment(
        _member_id(request),
        _integer(query, "min_generation", -(2**31), JAVA_INT_MAX),
        _instance_id(query),
    )
    wait_ms = _wait_ms(query, coordinator)
    if wait_ms:
        with coordinator.long_polls.one():
            fetched = await runtime.wait_for_assignment(fetch, wait_ms / 1000, lambda: hung_up(request))
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
        )
    )


@router.post(
    "/members/{member}/heartbeat",
    responses={200: {"model": HeartbeatAnswer}},
    openapi_extra=_documented(_GROUP, _MEMBER, body=_HEARTBEAT),
)
async def heartbeat(request: Request) -> Response:
    """Keep the session alive. The answer says what the member has to do."""
    _, runtime = _addressed(request)
    event = (await _HEARTBEAT(request)).of_member(_member_id(request))
    answered = accepted(await runtime.respond(event), HeartbeatAnswered)
    return answer(
        HeartbeatAnswer(
            state=str(answered.state),
            rejoin=answered.rejoin,
            stop=answered.stop,
            generation_id=answered.generation_id,
            paused=answered.paused,
        )
    )


@router.post(
    "/heartbeat",
    responses={200: {"model": ProcessHeartbeatAnswer}},
    openapi_extra=_documented(_GROUP, _WAIT_MS, body=_PROCESS_HEARTBEAT),
)
async def process_heartbeat(request: Request) -> Response:
    """Keep the sessions of all members of a process alive. Held while there is nothing newer than `known`, for half of
    the shortest session at most: to be held is no sign of life.

    The process is bound to the connection that this call comes on: when it breaks, the members that asked for
    `leave_on_disconnect` are removed soon.
    """
    coordinator, runtime = _addressed(request)
    wait_ms = _wait_ms(request.query_params, coordinator)
    body = await _PROCESS_HEARTBEAT(request)
    # where no more are held, a heartbeat is answered at once: it is never refused
    waits = bool(wait_ms) and body.known is not None and not coordinator.long_polls.is_full
    wait_s = wait_ms / 1000 if waits else 0
    connections: OpenConnections = request.app.state.connections
    with (
        connections.of_heartbeat(request.scope) as connection,
        coordinator.long_polls.one() if waits else nullcontext(),
    ):

        async def caller_gone() -> None:
            await hung_up(request)
            connections.hung_up(connection)

        beat = events.ProcessHeartbeat(body.heartbeats(), connection)
        heard = await runtime.process_heartbeat(beat, body.known, wait_s, caller_gone)
    answered = accepted(heard, ProcessHeartbeatAnswered)
    if body.notices:
        runtime.take_notices(answered, body.process_notices())
    return answer(
        ProcessHeartbeatAnswer(
            state=str(answered.state),
            generation_id=answered.generation_id,
            news=answered.news,
            members={member_id: _news(news) for member_id, news in answered.members.items()},
            paused=answered.paused,
        )
    )


@router.delete(
    "/members/{member}",
    status_code=204,
    openapi_extra=_documented(_GROUP, _MEMBER, _INSTANCE_ID, body=_LEAVE),
)
async def leave(request: Request) -> Response:
    """Leave the group. A rebalance gives the member's tasks to others at once."""
    _, runtime = _addressed(request)
    left = events.Leave(_member_id(request), _instance_id(request.query_params))
    await _LEAVE(request)
    accepted(await runtime.handle(left), Left)
    return Response(status_code=204)


class RawAssignment(Response):
    """The pieces of an assignment, one after the other: nothing is joined, and what all members share is not copied."""

    def __init__(self, ready: AssignmentReady) -> None:
        self._parts: AssignmentParts = ready.assignment
        headers = {
            "Content-Length": str(self._parts.size),
            "Assignor-Generation-Id": str(ready.generation_id),
            "Assignor-Followup": "true" if ready.followup else "false",
        }
        super().__init__(None, headers=headers, media_type=RAW)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for part in self._parts:
            if part:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _addressed(request: Request) -> tuple[Coordinator, GroupRuntime]:
    coordinator = the_coordinator(request)
    return coordinator, coordinator.group(group_id_in(request.path_params["group"]))


def _member_id(request: Request) -> str:
    member_id: str = request.path_params["member"]
    if len(member_id) > MAX_TEXT_LENGTH:
        raise Problem("INVALID_REQUEST", f"path.member: String should have at most {MAX_TEXT_LENGTH} characters")
    return member_id


def _wait_ms(query: Mapping[str, str], coordinator: Coordinator) -> int:
    return min(_integer(query, "wait_ms", 0, MAX_WAIT_MS), coordinator.settings.longpoll_max_wait_ms)


def _integer(query: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = query.get(name, "0")
    if _INTEGER.match(text) is None or not least <= int(text) <= most:
        raise Problem("INVALID_REQUEST", f"query.{name}: Input should be an integer from {least} to {most}")
    return int(text)


def _instance_id(query: Mapping[str, str]) -> str | None:
    text = query.get("group_instance_id")
    if text is not None and not 1 <= len(text) <= MAX_TEXT_LENGTH:
        raise Problem("INVALID_REQUEST", f"query.group_instance_id: must have 1 to {MAX_TEXT_LENGTH} characters")
    return text


def _definition(image: GroupImage) -> DefinitionAnswer:
    return DefinitionAnswer(
        revision=image.revision,
        declared_by=image.origin.declared_by,
        declared_at_ms=image.origin.declared_at_ms,
    )


def _news(news: MemberNews | Rejected) -> MemberNewsAnswer | MemberRefusal:
    if isinstance(news, Rejected):
        return MemberRefusal(code=news.code.value, detail=news.detail)
    return MemberNewsAnswer(rejoin=news.rejoin, stop=news.stop, assignment_generation=news.assignment_generation)


async def _check_subscription(subscription: bytes) -> None:
    """A subscription that the leader cannot read must not reach the group: Kafka's own leader would die of it."""
    with input_as_problems(bytes_in="subscription"):
        if len(subscription) > OFF_LOOP_BYTES:
            await asyncio.to_thread(check_subscription, subscription)
        else:
            check_subscription(subscription)
