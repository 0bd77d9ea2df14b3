"""What all routes share: the coordinator, the ids in an address, and refusals of the group protocol as problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from assignor.access.principals import ANYBODY
from assignor.legal_names import LONGEST_NAME, NAME_PATTERN, NAME_RULE, is_legal_name
from coordinator_api.group.outcome import Rejected
from coordinator_api.group.outcome import Response as GroupResponse
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.models.members import MAX_TEXT_LENGTH
from coordinator_api.http.models.service import ProblemDocument
from coordinator_api.http.problems import MEDIA_TYPE, TITLES, Problem, stopping

Answer = TypeVar("Answer")

MOST_OF_A_USER_AGENT = 200

GROUP_ID_SCHEMA: dict[str, Any] = {
    "pattern": NAME_PATTERN,
    "minLength": 1,
    "maxLength": LONGEST_NAME,
}
GROUP_IS = "The group: the application.id of its members."
MEMBER_ID_SCHEMA: dict[str, Any] = {"pattern": r"^[^/]+$", "minLength": 1, "maxLength": MAX_TEXT_LENGTH}


def the_coordinator(request: Request) -> Coordinator:
    """Raises Problem while the service is stopping."""
    coordinator: Coordinator = request.app.state.coordinator
    if coordinator.stopping:
        raise stopping()
    return coordinator


def group_id_in(group: str) -> str:
    """Kafka Streams' application id is the group's name, and part of topic names: it takes their characters. Raises
    Problem for anything else.
    """
    if not is_legal_name(group):
        raise Problem("INVALID_GROUP_ID", f"a group id has {NAME_RULE}")
    return group


# both asynchronous, or FastAPI would hand each call of them to a thread
async def _coordinator(request: Request) -> Coordinator:
    return the_coordinator(request)


async def _group_id(group: Annotated[str, Path(description=GROUP_IS, json_schema_extra=GROUP_ID_SCHEMA)]) -> str:
    return group_id_in(group)


TheCoordinator = Annotated[Coordinator, Depends(_coordinator)]
GroupId = Annotated[str, Depends(_group_id)]

_UUID_PATTERN = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

DrainedInstance = Annotated[
    str | None,
    Query(pattern=_UUID_PATTERN, max_length=36, description="The process id of an instance, to drain it alone."),
]
DrainedMember = Annotated[
    str | None, Query(min_length=1, max_length=MAX_TEXT_LENGTH, description="A member's id, to drain it alone.")
]


def one_drained(instance: str | None, member: str | None) -> tuple[str | None, str | None]:
    """The instance or the member that a call is about. Raises Problem for none and for both."""
    if (instance is None) == (member is None):
        raise Problem("INVALID_REQUEST", "name what is drained: ?instance= (a process id) or ?member=, one of them")
    return (None if instance is None else instance.lower()), member


_ALWAYS = (401, 403, 408, 413, 422, 429, 500, 503)
"""Statuses that any call may end with: the gate, the limits, a broken or stopping service."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the problems that a call may answer with, `statuses` beside those of every call."""
    return {status: _problem(status) for status in sorted({*_ALWAYS, *statuses})}


def _problem(status: int) -> dict[str, Any]:
    codes = sorted({code for code, (usual, _) in TITLES.items() if usual == status})
    return {
        "description": f"RFC 9457; `code`: {', '.join(codes) or 'INVALID_REQUEST'}",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        "model": ProblemDocument,
    }


def link(operation: str, parameters: Mapping[str, str], body: Mapping[str, object] | None = None) -> dict[str, Any]:
    """For OpenAPI: a call that may follow, and what it takes from this one. `operation`: the name of its function.

    `parameters`, `body`: name to a value or a runtime expression, such as `$response.body#/member_id`.
    """
    linked: dict[str, Any] = {"operationId": operation, "parameters": dict(parameters)}
    if body is not None:
        linked["requestBody"] = dict(body)
    return linked


def caller(request: Request) -> str:
    """Whose token it is, who a caller says it is, and its address."""
    said = "".join(
        letter for letter in request.headers.get("user-agent", "") if letter.isascii() and letter.isprintable()
    )
    name = said[:MOST_OF_A_USER_AGENT] or "an unnamed caller"
    principal = principal_of(request)
    if principal is not ANYBODY:
        name = f"{principal.name}, {name}"
    return name if request.client is None else f"{name} at {request.client.host}"


def accepted(response: GroupResponse, kind: type[Answer]) -> Answer:
    """The group's answer as `kind`. Raises Problem when it refused."""
    if isinstance(response, Rejected):
        raise Problem(response.code.value, response.detail)
    assert isinstance(response, kind), f"expected {kind.__name__}, not {response!r}"
    return response


def answer(model: BaseModel, status: int = 200) -> Response:
    """ASCII JSON."""
    return Response(model.model_dump_json(ensure_ascii=True), status, media_type="application/json")
