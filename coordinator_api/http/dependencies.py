"""Functions that all routes share. The functions find the coordinator and the group of a call, parse bodies and
parameters, and build answers and problems.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Generic, TypeVar, TypeVarTuple

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_core import PydanticKnownError
from starlette.responses import Response

from assignor.errors import DecodeError
from assignor.names.legal_names import LEGAL_NAME, LONGEST_NAME, NAME_PATTERN, NAME_RULE
from assignor.types import JAVA_INT_MAX
from coordinator_api.errors import UnreadableBytes
from coordinator_api.group.outcome import Rejected
from coordinator_api.group.outcome import Response as GroupResponse
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.json_objects import Value, not_json, read_document
from coordinator_api.http.models.member_models import MAX_TEXT_LENGTH
from coordinator_api.http.problems import MEDIA_TYPE, TITLES, Problem, from_validation, refusing_input, stopping
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_client.access.principals import ANYBODY

Answer = TypeVar("Answer")
Model = TypeVar("Model", bound=BaseModel)
Arguments = TypeVarTuple("Arguments")

BODY = "body"
"""The key in a request's `state` for the whole body, which `RequestGuard` has read. `Request.body()` would wait for a
second body, which never comes.
"""

MOST_OF_A_USER_AGENT = 200


# the dependencies are asynchronous, because FastAPI calls a synchronous dependency in a thread


def named_router(**named: Any) -> APIRouter:
    """Returns the router of a file of routes. The name of a route function is the operation id of its call.

    The application uses the router's routes directly. `include_router` would build each route again during the first
    request, and would delay other requests.
    """
    return APIRouter(generate_unique_id_function=lambda route: route.name, **named)


async def the_coordinator(request: Request) -> Coordinator:
    """Returns the coordinator of the service. Raises Problem while the service is stopping."""
    coordinator: Coordinator = request.app.state.coordinator
    if coordinator.stopping:
        raise stopping()
    return coordinator


TheCoordinator = Annotated[Coordinator, Depends(the_coordinator)]


GroupInPath = Annotated[
    str,
    Path(
        description="The group: the application.id of its members.",
        json_schema_extra={"pattern": NAME_PATTERN, "minLength": 1, "maxLength": LONGEST_NAME},
    ),
]


async def group_id_in(group: GroupInPath) -> str:
    """Checks a group id. A group id is Kafka Streams' application id, which is part of topic names. So the id may have
    only characters that Kafka allows in topic names. Raises Problem for an id with other characters.
    """
    if LEGAL_NAME.fullmatch(group) is None:
        raise Problem("INVALID_GROUP_ID", f"a group id has {NAME_RULE}")
    return group


GroupId = Annotated[str, Depends(group_id_in)]


async def requested_group(request: Request, group: GroupInPath) -> GroupRuntime:
    """Returns the group whose id is in the address of the call. Raises Problem, and the errors of `Coordinator.group`
    such as GroupNotFound.
    """
    # Plain calls are faster: FastAPI takes 10 us for each nested dependency. A whole heartbeat takes 200 us.
    coordinator = await the_coordinator(request)
    return coordinator.group(await group_id_in(group))


RequestedGroup = Annotated[GroupRuntime, Depends(requested_group)]

_MOST_DIGITS = 19
"""The largest number of digits of a number, including leading zeros. Without this limit, `int` could take long."""


def whole_number(text: str, most: int = JAVA_INT_MAX) -> int | None:
    """Parses a number in a form or in a page's address. Returns None if the text contains a character that is not a
    digit, or if the number is larger than the parameter `most`.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number and int(text) <= most else None


_DIGITS = re.compile(r"-?[0-9]+", re.ASCII)


def _check_digits(sent: object) -> object:
    """Refuses texts such as `5.0`, `+5` and `1_0`, because pydantic accepts them as integers."""
    if isinstance(sent, str) and _DIGITS.fullmatch(sent) is None:
        raise PydanticKnownError("int_parsing")
    return sent


DIGITS = BeforeValidator(_check_digits)
"""The validator of an integer in an address. In `Annotated`, put `DIGITS` after the bounds of the integer: otherwise
OpenAPI does not show the bounds.
"""

_UUID_PATTERN = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

DrainedInstance = Annotated[
    str | None,
    Query(pattern=_UUID_PATTERN, max_length=36, description="Process id of an instance. Drains only this instance."),
]
DrainedMember = Annotated[
    str | None, Query(min_length=1, max_length=MAX_TEXT_LENGTH, description="Id of a member. Drains only this member.")
]


async def one_drained(instance: DrainedInstance = None, member: DrainedMember = None) -> tuple[str | None, str | None]:
    """Returns the process id and the member id that the call names; one of them is None. Raises Problem unless the call
    names either an instance or a member.
    """
    if (instance is None) == (member is None):
        raise Problem("INVALID_REQUEST", "name what is drained: ?instance= (a process id) or ?member=, one of them")
    return (None if instance is None else instance.lower()), member


OneDrained = Annotated[tuple[str | None, str | None], Depends(one_drained)]


_ALWAYS = (401, 403, 408, 413, 422, 429, 500, 503)
"""The error statuses that any call may have. An error status has one of these reasons: `RequestGuard` refused the call,
a limit was exceeded, the service has a fault, or the service is stopping.
"""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the OpenAPI description of the error answers of a call. `statuses`: the error statuses that this call may
    have, without the statuses that any call may have.
    """
    described: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*_ALWAYS, *statuses}):
        codes = sorted({code for code, (usual, _) in TITLES.items() if usual == status})
        described[status] = {
            "description": f"RFC 9457; `code`: {', '.join(codes) or 'INVALID_REQUEST'}",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        }
    return described


def described_body(model: type[BaseModel], *, required: bool = True, **more: str) -> dict[str, Any]:
    """Describes the body of a call, for `openapi_extra`. `more`: further fields, such as `description`. `openapi.py`
    adds the schema of `model`.
    """
    schema = {"$ref": f"#/components/schemas/{model.__name__}", **more}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


OFF_LOOP_BYTES = 65_536
"""The largest body that is parsed on the event loop. Parsing a larger body on the event loop would delay the heartbeats
of other members.
"""


def body_of(request: Request) -> bytes:
    body: bytes = request.scope["state"][BODY]
    return body


class JsonBody(Generic[Model]):
    """A FastAPI dependency that parses the body of a call to `model`. `openapi.py` describes the body.

    Without `JsonBody`, FastAPI would parse a body of any size on the event loop.
    """

    def __init__(self, model: type[Model], *, required: bool = True, may_be_large: bool = False) -> None:
        """`required`: False if the body of the call may be missing; a missing body counts as `{}`. `may_be_large`: True
        if the body may have more than `OFF_LOOP_BYTES`; then only the size limit of `RequestGuard` applies.
        """
        self.model = model
        self.required = required
        self._may_be_large = may_be_large

    async def __call__(self, request: Request) -> Model:
        """Parses the body. Raises Problem with the path of the wrong field."""
        if self.required:
            check_json(request)
        check_not_encoded(request)
        raw = body_of(request)
        if not raw and not self.required:
            raw = b"{}"
        if len(raw) <= OFF_LOOP_BYTES:
            return self.decode(raw)
        if not self._may_be_large:
            raise Problem("MESSAGE_TOO_LARGE", f"a body of this call may have {OFF_LOOP_BYTES} bytes")
        return await asyncio.to_thread(self.decode, raw)

    def decode(self, raw: bytes) -> Model:
        """Parses `raw`. Raises Problem with the path of the wrong field."""
        try:
            return self.model.model_validate_json(raw)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
        if errors[0]["type"] == "json_invalid":
            raise not_json(errors[0]["ctx"]["error"], raw)
        raise from_validation({**each, "loc": ("body", *each["loc"])} for each in errors)


@contextmanager
def computing(request: Request, coordinator: Coordinator) -> Iterator[None]:
    """Counts one computation towards the limits of its caller and of the service, until the block ends.

    Raises TooManyRequests if a limit is reached or the service is overloaded.
    """
    coordinator.overload.admit("computation")
    with coordinator.quotas.computation(principal_of(request).group_prefix), coordinator.computations.one():
        yield


async def compute(
    request: Request, coordinator: Coordinator, function: Callable[[*Arguments], Value], *arguments: *Arguments
) -> Value:
    """Calls `run_in_worker`, within the limits of `computing`. Raises the errors of `run_in_worker` and `computing`."""
    with computing(request, coordinator):
        return await run_in_worker(request, coordinator, function, *arguments)


async def run_on_document(
    request: Request,
    coordinator: Coordinator,
    members: str,
    function: Callable[[dict[str, object], *Arguments], Value],
    *arguments: *Arguments,
) -> Value:
    """Runs `function(document, *arguments)` with the body's JSON object, in a worker process that is killed when the
    caller disconnects.

    `function`: a function of a module that the workers know (`worker_pool.MODULES`). `members`: the name of the body's
    field that contains the members. An error about the bytes of a member shows this name. Raises CallerGone. Raises
    Problem and UnreadableBytes; both contain the path of the wrong field.
    """
    if "content-type" in request.headers:
        check_json(request)
    check_not_encoded(request)
    try:
        with refusing_input():
            return await run_in_worker(request, coordinator, read_document, body_of(request), function, *arguments)
    except DecodeError as error:
        member_id = error.member_id
        where = members if member_id is None else f"{members}[{member_id!r}].subscription"
        raise UnreadableBytes(error, where) from None


def check_json(request: Request) -> None:
    """Raises Problem if the body is not declared as JSON. Without this check, a page of another site could make a
    browser send text or a form to this service without a preflight request.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Problem("INVALID_REQUEST", "body: must come as Content-Type: application/json")


def check_not_encoded(request: Request) -> None:
    """Raises Problem for a compressed body."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
        raise Problem(
            "UNSUPPORTED_COMPRESSION_TYPE",
            "Content-Encoding: a body is sent uncompressed",
            headers={"Accept-Encoding": "identity"},
        )


def caller(request: Request) -> str:
    """Returns a description of the caller: the name of its token, its User-Agent, and its address."""
    name = user_agent_of(request.headers)
    principal = principal_of(request)
    if principal is not ANYBODY:
        name = f"{principal.name}, {name}"
    return name if request.client is None else f"{name} at {request.client.host}"


def user_agent_of(headers: Mapping[str, str]) -> str:
    """Returns how a caller names itself. `headers`: the headers of its request by lower-case name."""
    user_agent = "".join(
        letter for letter in headers.get("user-agent", "") if letter.isascii() and letter.isprintable()
    )
    return user_agent[:MOST_OF_A_USER_AGENT] or "an unnamed caller"


def accepted(response: GroupResponse, kind: type[Answer]) -> Answer:
    """Returns the group's response as an object of the class `kind`. Raises Problem if the group refused the
    request.
    """
    if isinstance(response, Rejected):
        raise Problem(response.code.value, response.detail)
    assert isinstance(response, kind), f"expected {kind.__name__}, not {response!r}"
    return response


def answer(model: BaseModel, status: int = 200) -> Response:
    """Returns a response with the model as ASCII JSON."""
    return Response(model.model_dump_json(ensure_ascii=True), status, media_type="application/json")
