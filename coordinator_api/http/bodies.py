"""Calls whose body is a whole document: it is read and worked on in a worker process, for as long as the caller waits.

A body may have `Content-Encoding: gzip`. The bound on its size (`request.max.bytes`) holds unpacked as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.documents import SentBody, read_sent
from coordinator_api.http.hang_ups import unless_hung_up
from coordinator_api.http.problems import Problem, input_as_problems, stopping
from coordinator_api.workers.worker_pool import PoolClosed

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")

_GZIP_HEADER = {
    "name": "Content-Encoding",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "enum": ["identity", "gzip", "x-gzip", ""]},  # a header without a value names none
}


def documented(*models: type[BaseModel]) -> dict[str, Any]:
    """For OpenAPI: a body is one of `models`; `openapi.py` adds their schemas."""
    references = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    schema: dict[str, Any] = references[0] if len(references) == 1 else {"anyOf": references}
    return {
        "parameters": [_GZIP_HEADER],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
    }


OFF_LOOP_BYTES = 16_384
"""From this size on, parsing would hold up the heartbeats of other members."""


async def run_on_document(
    request: Request,
    coordinator: Coordinator,
    bytes_in: str,
    function: Callable[Concatenate[dict[str, object], Arguments], Value],
    *arguments: Arguments.args,
    **named: Arguments.kwargs,
) -> Value:
    """`function(document, *arguments)` with the body's JSON object, in a worker process that is killed when the caller
    hangs up.

    `function`: of a module that the workers know (`service_workers`). `bytes_in`: the field whose bytes it decodes.
    Raises Problem with the place of what is wrong, CallerGone.
    """
    assert not named, "a worker takes no named arguments"
    if "content-type" in request.headers:
        check_json(request)
    max_bytes = coordinator.settings.request_max_bytes
    body = SentBody(await request.body(), _is_packed(request), max_bytes)
    with input_as_problems(bytes_in):
        return await run_in_worker(request, coordinator, read_sent, body, function, *arguments)


def check_json(request: Request) -> None:
    """Raises Problem for another kind of body: a web page may send that without being asked who it is."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Problem("INVALID_REQUEST", "body: must come as Content-Type: application/json")


def check_not_encoded(request: Request) -> None:
    """Raises Problem for a body that is packed."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
        raise Problem(
            "UNSUPPORTED_COMPRESSION_TYPE",
            "Content-Encoding: a body of this call comes as it is",
            headers={"Accept-Encoding": "identity"},
        )


async def run_in_worker(
    request: Request, coordinator: Coordinator, function: Callable[..., Value], *arguments: object
) -> Value:
    """`function(*arguments)` in a worker process that is killed when the caller hangs up: raises CallerGone.

    Raises Problem when the service stops meanwhile.
    """
    try:
        return await unless_hung_up(request, coordinator.workers.computations.run(function, *arguments))
    except PoolClosed:
        raise stopping() from None


def _is_packed(request: Request) -> bool:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise Problem(
            "UNSUPPORTED_COMPRESSION_TYPE",
            "Content-Encoding: a body comes as it is or as gzip",
            headers={"Accept-Encoding": "gzip, identity"},
        )
    return encoding.endswith("gzip")
