"""Which right each call needs, and which group it is about. The guard asks before it reads a body.

A call that is not in the table is of no address that this service has: who may look hears so.
`docs/how-to/protect-the-coordinator.md` has the same table for people, and a test tries each of its cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request

from assignor.access.principals import ANYBODY, Principal, Right
from coordinator_api.http.page_rights import PAGE_RIGHTS
from coordinator_api.http.problems import Problem

OPEN_PATHS = frozenset({"/livez", "/readyz"})
"""Health checks, which everybody may ask."""

PRINCIPAL = "principal"
"""Under this key the `state` of a request has who calls."""

CALL = "call"
"""Under this key the `state` of a request has the `Call` that the guard found; None for none."""

_GROUP, _ANY = "{group}", "{}"

RIGHTS: Mapping[tuple[str, str], Right] = {
    ("GET", "/"): Right.READER,
    ("GET", "/version"): Right.READER,
    ("GET", "/docs"): Right.READER,
    ("GET", "/redoc"): Right.READER,
    ("GET", "/openapi.json"): Right.READER,
    ("GET", "/metrics"): Right.READER,
    ("POST", "/v1/assign"): Right.READER,
    ("POST", "/v1/simulate"): Right.READER,
    ("GET", "/v1/groups"): Right.READER,
    ("GET", "/v1/groups/{group}"): Right.READER,
    ("GET", "/v1/groups/{group}/rebalances"): Right.READER,
    ("GET", "/v1/groups/{group}/rebalances/{generation}"): Right.READER,
    ("GET", "/v1/groups/{group}/rebalances/{generation}/explain"): Right.READER,
    ("PUT", "/v1/groups/{group}"): Right.MEMBER,
    ("POST", "/v1/groups/{group}/rebalances"): Right.MEMBER,
    ("POST", "/v1/groups/{group}/subscriptions"): Right.MEMBER,
    ("POST", "/v1/groups/{group}/heartbeat"): Right.MEMBER,
    ("POST", "/v1/groups/{group}/members/{member}/heartbeat"): Right.MEMBER,
    ("GET", "/v1/groups/{group}/members/{member}/assignment"): Right.MEMBER,
    ("DELETE", "/v1/groups/{group}/members/{member}"): Right.MEMBER,
    ("POST", "/v1/groups/{group}/drain"): Right.OPERATOR,
    ("GET", "/v1/groups/{group}/drain"): Right.READER,
    ("DELETE", "/v1/groups/{group}/drain"): Right.OPERATOR,
    ("PUT", "/v1/groups/{group}/promotion"): Right.OPERATOR,
    ("DELETE", "/v1/groups/{group}/promotion"): Right.OPERATOR,
    ("POST", "/v1/groups/{group}/rebalance"): Right.OPERATOR,
    ("GET", "/v1/groups/{group}/hold"): Right.READER,
    ("PUT", "/v1/groups/{group}/hold"): Right.OPERATOR,
    ("DELETE", "/v1/groups/{group}/hold"): Right.OPERATOR,
    ("POST", "/v1/groups/{group}/approve"): Right.OPERATOR,
    ("POST", "/v1/groups/{group}/discard"): Right.OPERATOR,
    ("POST", "/v1/groups/{group}/pause"): Right.OPERATOR,
    ("POST", "/v1/groups/{group}/resume"): Right.OPERATOR,
    ("PUT", "/v1/groups/{group}/rejoin-grace"): Right.OPERATOR,
    ("DELETE", "/v1/groups/{group}/rejoin-grace"): Right.OPERATOR,
    ("DELETE", "/v1/groups/{group}"): Right.OPERATOR,
    ("GET", "/v1/groups/{group}/log"): Right.OPERATOR,
    ("POST", "/v1/groups/{group}/repair"): Right.OPERATOR,
    ("GET", "/v1/tokens"): Right.ADMIN,
    ("POST", "/v1/tokens"): Right.ADMIN,
    ("DELETE", "/v1/tokens/{name}"): Right.ADMIN,
}
"""Method and address, as FastAPI has it, to the lowest right that may call it; `page_rights` has those of the page."""

_OF_ALL_GROUPS = frozenset({("GET", "/metrics")})
"""They count the groups of every tenant, so who sees only some of them may not ask."""


class Need(NamedTuple):
    """`group_id`: whom the call is about; None for the service. `all_groups`: who calls has to see every group."""

    right: Right
    group_id: str | None = None
    all_groups: bool = False


class Call(NamedTuple):
    """`route`: the address as FastAPI has it. `parameters`: what stands in the place of its names."""

    route: str
    parameters: Mapping[str, str]
    right: Right
    all_groups: bool


def call_of(method: str, path: str) -> Call | None:
    """Which call of the table this is; None for none. `path`: without escapes and query."""
    segments = path.split("/")
    route = _route(method, segments)
    if route is None:
        return None
    named = zip(route.address.split("/"), segments, strict=True)
    parameters = {name[1:-1]: segment for name, segment in named if name.startswith("{")}
    return Call(route.address, parameters, route.right, route.all_groups)


def need(call: Call | None, path: str) -> Need:
    """What this call needs. `path`: without escapes and query."""
    if call is not None:
        return Need(call.right, call.parameters.get("group"), call.all_groups)
    segments = path.split("/")
    # no such address, or it has no such method; but whose group is named shall not be found out that way either
    in_group = segments[:3] in (["", "v1", "groups"], ["", "ui", "groups"]) and len(segments) > 3
    return Need(Right.READER, segments[3] if in_group else None)


async def check_is_same_call(request: Request) -> None:
    """The guard and FastAPI each find the call by its address: a difference, such as a line break that
    only one of them overlooks, would be a way around the rights. Raises HTTPException 404.
    """
    path = request.scope["path"]
    found: Call | None = request.scope["state"][CALL]
    known = path if found is None and path in OPEN_PATHS else found and found.route
    if request.scope["route"].path != known:
        raise HTTPException(404)


def checked_router(**named: Any) -> APIRouter:
    """What every file of routes begins with: `APIRouter(**named)` with `check_is_same_call`. A call's id is its name.

    The application takes its routes as they are. Included by another router, each would be built once more, within the
    first request, which others would wait for.
    """
    return APIRouter(
        dependencies=[Depends(check_is_same_call)], generate_unique_id_function=lambda route: route.name, **named
    )


def check_right(principal: Principal, asked: Need) -> None:
    """Raises Problem 403 when the principal may not make such a call."""
    if asked.group_id is not None and not principal.sees(asked.group_id):
        raise Problem(
            "GROUP_AUTHORIZATION_FAILED",
            f"the token of {principal.name} is for groups whose ids begin with {principal.group_prefix}",
        )
    if asked.all_groups and not principal.sees_all:
        raise Problem(
            "CLUSTER_AUTHORIZATION_FAILED", f"this shows all groups, and the token of {principal.name} is not for all"
        )
    if not principal.may(asked.right):
        code = "CLUSTER_AUTHORIZATION_FAILED" if asked.group_id is None else "GROUP_AUTHORIZATION_FAILED"
        raise Problem(
            code,
            f"this needs the right {asked.right}, and the token of {principal.name} has the right {principal.right}",
        )


def principal_of(request: Request) -> Principal:
    """Who calls, as the guard found out."""
    principal: Principal = request.scope.get("state", {}).get(PRINCIPAL, ANYBODY)
    return principal


class _Route(NamedTuple):
    address: str
    segments: list[str]
    right: Right
    all_groups: bool


def _route(method: str, segments: list[str]) -> _Route | None:
    for route in _BY_SHAPE.get((method, len(segments)), ()):
        if all(
            expected in (_ANY, _GROUP) or expected == segment
            for expected, segment in zip(route.segments, segments, strict=True)
        ):
            return route
    return None


def _by_shape() -> dict[tuple[str, int], list[_Route]]:
    routes: dict[tuple[str, int], list[_Route]] = {}
    for (method, address), right in (*RIGHTS.items(), *PAGE_RIGHTS.items()):
        segments = [
            segment if segment == _GROUP or not segment.startswith("{") else _ANY for segment in address.split("/")
        ]
        route = _Route(address, segments, right, (method, address) in _OF_ALL_GROUPS)
        routes.setdefault((method, len(segments)), []).append(route)
    return routes


_BY_SHAPE = _by_shape()
