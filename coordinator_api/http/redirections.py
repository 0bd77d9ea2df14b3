"""Calls about groups that other coordinators own: where they are answered.

    asked about a group -> is it open here? -> else wait until it is known where it is
        elsewhere: 307 with the owner's address and the same path     nobody has it for now: 503, ask again
        no such group: this coordinator answers 404, or creates it

The guard asks before every call, once the caller's right has been checked and the body read. A group that moves while a
call is under way, or held, raises NotOwner from below: then the same is asked again. 307 keeps method and body.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from assignor.legal_names import is_legal_name
from coordinator_api.errors import CoordinatorFault
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.call_rights import call_of
from coordinator_api.http.problems import Problem, answer_to, from_fault, from_store_error
from coordinator_api.lease.decisions import Elsewhere
from coordinator_api.store.errors import StoreError

MOVED = 307

_TRY_AGAIN = {"Retry-After": "1"}


def group_of(scope: Scope) -> str | None:
    """Which group the call is about; None for a call about none."""
    call = call_of(scope["method"], scope["path"])
    return None if call is None else call.parameters.get("group")


async def not_here(scope: Scope, coordinator: Coordinator, group_id: str | None) -> Problem | None:
    """Where the call about this group is answered, or why nowhere for now; None when it is to be answered here."""
    if group_id is None or coordinator.is_open(group_id) or not is_legal_name(group_id):
        return None
    try:
        found = await coordinator.lease.located(group_id)
    except CoordinatorFault as fault:
        return from_fault(fault)
    except StoreError as error:
        return from_store_error(error, scope["path"])
    return _moved(scope, group_id, found.url) if isinstance(found, Elsewhere) else None


async def moved_meanwhile(scope: Scope, coordinator: Coordinator) -> Problem:
    """What is answered to a call whose group was lost or given away under it."""
    return await not_here(scope, coordinator, group_of(scope)) or Problem(
        "COORDINATOR_LOAD_IN_PROGRESS",
        "the group had another owner for a moment, so nothing was done: ask again",
        headers=_TRY_AGAIN,
    )


async def on_not_owner(request: Request, error: Exception) -> Response:
    """FastAPI's handler of NotOwner."""
    return answer_to(request.scope, await moved_meanwhile(request.scope, request.app.state.coordinator))


def _moved(scope: Scope, group_id: str, url: str) -> Problem:
    path: bytes = scope.get("raw_path") or scope["path"].encode("utf-8")
    query: bytes = scope.get("query_string", b"")
    location = url + path.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
    return Problem(
        "NOT_COORDINATOR",
        f"group {group_id} is owned by the coordinator at {url}: ask that one",
        status=MOVED,
        headers={"Location": location},
    )
