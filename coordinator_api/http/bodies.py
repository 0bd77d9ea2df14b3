"""How bodies are read: a `JsonBody` by its model; a whole document (a definition, a recording) in a worker process,
for as long as the caller waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.hang_ups import unless_hung_up
from coordinator_api.http.json_objects import not_json, read_document
from coordinator_api.http.problems import Problem, from_validation, input_as_problems, stopping
from coordinator_api.workers.worker_pool import PoolClosed

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")


OFF_LOOP_BYTES = 65_536
"""Parsing a larger body on the event loop would hold up the heartbeats of other members."""


class JsonBody(Generic[Model]):
    """The body of a call: a dependency for FastAPI that gives it as `model`, and describes it.

    FastAPI's own way would parse it on the event loop, whatever its size.
    """

    def __init__(self, model: type[Model], *, required: bool = True, may_be_large: bool = False) -> None:
        """`required`: False when the call may come without a body, which then counts as `{}`. `may_be_large`: whether
        it may have more than `OFF_LOOP_BYTES`; a setting has another limit then.
        """
        self._model = model
        self._required = required
        self._may_be_large = may_be_large

    @property
    def described(self) -> dict[str, Any]:
        """For `openapi_extra`; `openapi.py` adds the model's schema."""
        schema = {"$ref": f"#/components/schemas/{self._model.__name__}"}
        return {"requestBody": {"required": self._required, "content": {"application/json": {"schema": schema}}}}

    async def __call__(self, request: Request) -> Model:
        """Raises Problem with the place of what is wrong."""
        if self._required:
            check_json(request)
        check_not_encoded(request)
        raw = await request.body()
        if not raw and not self._required:
            raw = b"{}"
        if len(raw) <= OFF_LOOP_BYTES:
            return self.decode(raw)
        if not self._may_be_large:
            raise Problem("MESSAGE_TOO_LARGE", f"a body of this call may have {OFF_LOOP_BYTES} bytes")
        return await asyncio.to_thread(self.decode, raw)

    def decode(self, raw: bytes) -> Model:
        """Raises Problem."""
        try:
            return self._model.model_validate_json(raw)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
        if errors[0]["type"] == "json_invalid":
            raise not_json(errors[0]["ctx"]["error"], raw)
        raise from_validation({**each, "loc": ("body", *each["loc"])} for each in errors)


def document_body(description: str) -> dict[str, Any]:
    """For `openapi_extra` of a call that takes a whole document. Its fields are checked by whoever reads it."""
    schema = {"type": "object", "description": description}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
    }


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

    `function`: of a module that the workers know (`worker_pool.MODULES`). `bytes_in`: the field whose bytes it decodes.
    Raises Problem with the place of what is wrong, CallerGone.
    """
    assert not named, "a worker takes no named arguments"
    if "content-type" in request.headers:
        check_json(request)
    check_not_encoded(request)
    body = await request.body()
    with input_as_problems(bytes_in):
        return await run_in_worker(request, coordinator, read_document, body, function, *arguments)


def check_json(request: Request) -> None:
    """Raises Problem for another kind of body: a web page may send that without being asked who it is."""
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
