"""Errors over HTTP: RFC 9457 `application/problem+json` whose `code` is Kafka's error name.

Every error of the service leaves through `problem_response`, so a client can decide on `code` alone. This is the one
place that turns errors of the packages below into problems. A problem never echoes the values that the caller sent. An
unexpected error shows no stack trace: the log has it, under the `instance` that the caller sees. Source of the names:
`org.apache.kafka.common.protocol.Errors`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from assignor.errors import AssignorFault, InputError, NotBuiltYet, OwnAssignorFailed
from coordinator_api.errors import CoordinatorFault, GroupIsLoading, TooManyRequests, UnreadableBytes
from coordinator_api.store.store_errors import LeaseEnded, StoreError

MEDIA_TYPE = "application/problem+json"

TITLES: Mapping[str, tuple[int, str]] = {
    # code -> (status it usually comes with, title)
    "INVALID_REQUEST": (422, "The request cannot be read"),
    "INVALID_GROUP_ID": (422, "Not a group id"),
    "INVALID_SESSION_TIMEOUT": (422, "The session timeout is out of bounds"),
    "INCONSISTENT_GROUP_PROTOCOL": (409, "This does not fit the group"),
    "UNSUPPORTED_ASSIGNOR": (422, "The assignor is not available"),
    "UNSUPPORTED_VERSION": (501, "Not in this release"),
    "SASL_AUTHENTICATION_FAILED": (401, "A bearer token is needed"),
    "CLUSTER_AUTHORIZATION_FAILED": (403, "Refused"),
    "GROUP_AUTHORIZATION_FAILED": (403, "Not for this token"),
    "RESOURCE_NOT_FOUND": (404, "Nothing under this address"),
    "GROUP_ID_NOT_FOUND": (404, "No such group"),
    "UNKNOWN_MEMBER_ID": (404, "No such member"),
    "REQUEST_TIMED_OUT": (408, "The request took too long to arrive"),
    "ILLEGAL_GENERATION": (409, "Not the group's generation"),
    "REBALANCE_IN_PROGRESS": (409, "The group is rebalancing"),
    "FENCED_INSTANCE_ID": (409, "Another member took over this instance id"),
    "FENCED_MEMBER_EPOCH": (409, "A newer incarnation of this member has joined"),
    "UNRELEASED_INSTANCE_ID": (409, "The instance id is still in use"),
    "NOT_COORDINATOR": (409, "The group is led elsewhere"),
    "NON_EMPTY_GROUP": (409, "The group has members"),
    "DUPLICATE_RESOURCE": (409, "There is one of this name already"),
    "UNACCEPTABLE_CREDENTIAL": (409, "This change of the tokens is not possible"),
    "CORRUPT_MESSAGE": (409, "The log cannot be repaired"),
    "MESSAGE_TOO_LARGE": (413, "The request body is too large"),
    "UNSUPPORTED_COMPRESSION_TYPE": (415, "The body's encoding is not known"),
    "GROUP_MAX_SIZE_REACHED": (429, "The group is full"),
    "POLICY_VIOLATION": (429, "More than is allowed"),
    "THROTTLING_QUOTA_EXCEEDED": (429, "The service is busy"),
    "UNKNOWN_SERVER_ERROR": (500, "Something failed in the service"),
    "KAFKA_STORAGE_ERROR": (503, "The store cannot be used"),
    "COORDINATOR_LOAD_IN_PROGRESS": (503, "The group is being opened"),
    "COORDINATOR_NOT_AVAILABLE": (503, "The service cannot serve now"),
}

MOVED = 307
"""The status of NOT_COORDINATOR for a group that another coordinator of the same database owns."""

_OF_A_NAME = "[key]"
"""Ends the path of an error that is about a name of an object, and not about its value."""

_logger = structlog.get_logger("coordinator_api")

TRY_AGAIN_SOON: Mapping[str, str] = {"Retry-After": "1"}


class Problem(AssignorFault):
    """An answer that is an error. `code`: a key of TITLES. `extensions`: further members of the document."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        extensions: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = TITLES[code][0] if status is None else status
        self.headers = dict(headers or {})
        self.extensions = dict(extensions or {})


def problem_response(problem: Problem) -> Response:
    """The document as ASCII, so that nothing a caller sent can make it unwritable."""
    document: dict[str, object] = {
        "type": f"urn:assignor:error:{problem.code}",
        "title": TITLES[problem.code][1],
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        **problem.extensions,
    }
    return Response(
        json.dumps(document).encode("ascii"), problem.status, headers=problem.headers, media_type=MEDIA_TYPE
    )


ProblemPage = Callable[[Scope, Problem], Response | None]
"""A problem for people, as a page; None for a caller who is a program."""

PROBLEM_CODE = "problem_code"
"""Under this key the `state` of a request has the code of the problem that it was answered with."""


def answer_to(scope: Scope, problem: Problem) -> Response:
    """The problem as the caller of this request can read it: a page for a browser, else a document."""
    scope.setdefault("state", {})[PROBLEM_CODE] = problem.code
    page: ProblemPage | None = scope["app"].state.problem_page
    return (page and page(scope, problem)) or problem_response(problem)


def stopping() -> Problem:
    """The service is stopping: ask again soon, when there is another one."""
    return Problem("COORDINATOR_NOT_AVAILABLE", "the service is stopping", headers=TRY_AGAIN_SOON)


@contextmanager
def refusing_input() -> Iterator[None]:
    """Raises Problem for the InputError of its block, which reads what a caller sent or a recording: 422, also for a
    feature that this release does not have. Elsewhere an InputError is a fault of the service, and so is
    OwnAssignorFailed here, too: the service's own settings list the class.
    """
    try:
        yield
    except OwnAssignorFailed:
        raise
    except InputError as error:
        code = "UNSUPPORTED_VERSION" if isinstance(error, NotBuiltYet) else "INVALID_REQUEST"
        where = {"where": error.where} if error.where else {}
        raise Problem(code, str(error), status=422, extensions=where) from None


def install(app: FastAPI) -> None:
    """Have FastAPI's own errors answered as all others. `middleware.py` answers what nobody handles here."""
    app.add_exception_handler(RequestValidationError, _on_error)
    app.add_exception_handler(HTTPException, _on_error)


async def _on_error(request: Request, error: Exception) -> Response:
    return answer_to(request.scope, problem_of(error, request.scope))


def problem_of(error: Exception, scope: Scope) -> Problem:
    """The error that ended a request, as its caller gets it. Logs an error of the store and an unexpected one."""
    match error:
        case Problem():
            return error
        case CoordinatorFault():
            return _from_fault(error)
        case LeaseEnded():  # which is in the log once, and not for each call
            return Problem("COORDINATOR_NOT_AVAILABLE", f"{error.in_public}: ask again", headers=TRY_AGAIN_SOON)
        case StoreError():
            _logger.error("store_error", path=scope["path"], error=str(error))
            detail = f"the change could not be stored, so it does not count: {error.in_public}"
            return Problem("KAFKA_STORAGE_ERROR", detail, headers=TRY_AGAIN_SOON)
        case RequestValidationError():
            return from_validation(error.errors())
        case HTTPException():
            return _from_http_exception(error, scope)
    return _unexpected(error, f"{scope['method']} {scope['path']}")


def _from_fault(fault: CoordinatorFault) -> Problem:
    """The coordinator's own error: its Kafka name is the code, its message the detail."""
    extensions: dict[str, object] = {}
    if isinstance(fault, UnreadableBytes):
        extensions["offset"] = fault.offset
    if fault.where is not None:
        extensions["where"] = fault.where
    headers: Mapping[str, str] = {}
    if isinstance(fault, TooManyRequests):
        headers = {"Retry-After": str(fault.retry_after_s)}
    elif isinstance(fault, GroupIsLoading):
        headers = TRY_AGAIN_SOON
    return Problem(fault.kafka_name, str(fault), headers=headers, extensions=extensions)


def from_validation(errors: Iterable[Mapping[str, Any]]) -> Problem:
    """pydantic's errors as one problem: the first as `detail`, 20 of them under `errors`, each with its path."""
    details = [
        {
            "where": ".".join(str(part) for part in error["loc"] if part != _OF_A_NAME),
            "message": str(error["msg"]).removeprefix("Value error, "),
        }
        for error in islice(errors, 20)
    ]
    first = details[0]
    return Problem("INVALID_REQUEST", f"{first['where']}: {first['message']}", extensions={"errors": details})


def _from_http_exception(error: HTTPException, scope: Scope) -> Problem:
    if error.status_code == 404:
        return Problem("RESOURCE_NOT_FOUND", "this service has no such address; /docs and /openapi.json list them")
    if error.status_code == 405:
        allowed = ", ".join(_methods_of(scope)) or "another method"
        return Problem("INVALID_REQUEST", f"this address answers to {allowed}", status=405, headers={"Allow": allowed})
    if error.status_code < 500:
        status = 422 if error.status_code == 400 else error.status_code
        return Problem("INVALID_REQUEST", f"body: {error.detail}", status=status, headers=error.headers)
    return Problem("UNKNOWN_SERVER_ERROR", str(error.detail), status=error.status_code)


def _methods_of(scope: Scope) -> list[str]:
    """What this address answers to. Each route knows only its own methods."""
    return [
        method
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in scope["app"].routes)
    ]


def _unexpected(error: Exception, what: str) -> Problem:
    """Log the whole error; answer with the id under which the log has it."""
    incident = secrets.token_hex(8)
    _logger.error("unexpected_error", incident=incident, request=what, exc_info=error)
    return Problem(
        "UNKNOWN_SERVER_ERROR",
        f"an unexpected error; the service's log has it under incident {incident}",
        extensions={"instance": f"urn:assignor:incident:{incident}"},
    )
