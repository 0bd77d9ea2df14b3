"""Errors over HTTP: RFC 9457 `application/problem+json` whose `code` is Kafka's error name.

`problem_response` makes every error answer, so a client needs only `code` to recognize an error. Only this file
converts errors of the lower packages to problems. A problem never repeats values that the caller sent. The problem for
an unexpected error does not have the stack trace. The stack trace is in the service's log, under the id that the
problem has in its `instance`. Source of the names: `org.apache.kafka.common.protocol.Errors`.
"""

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
    # the usual HTTP status and the title of each error code
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
"""The HTTP status of the problem NOT_COORDINATOR, if another coordinator of the same database owns the group."""

_OF_A_NAME = "[key]"
"""If the name of a field is wrong, pydantic's path to the error ends with this element."""

_logger = structlog.get_logger("coordinator_api")

TRY_AGAIN_SOON: Mapping[str, str] = {"Retry-After": "1"}


class Problem(AssignorFault):
    """An error answer, as an exception. `code`: a key of TITLES. `extensions`: further fields of the document."""

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
    """Returns the problem as a JSON response. The response is ASCII, so even a text with lone surrogates can be
    encoded.
    """
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
"""A function that returns a problem as an HTML page. The function returns None if the caller is not a browser."""

PROBLEM_CODE = "problem_code"
"""The key in a request's `state` for the code of the problem that answered the request."""


def answer_to(scope: Scope, problem: Problem) -> Response:
    """Returns the answer to a request that ended with a problem. The answer to a browser is an HTML page. The answer to
    any other caller is a problem document.
    """
    scope.setdefault("state", {})[PROBLEM_CODE] = problem.code
    page: ProblemPage | None = scope["app"].state.problem_page
    return (page and page(scope, problem)) or problem_response(problem)


def stopping() -> Problem:
    """Returns the problem for a call to a service that is stopping. The caller may repeat the call after the service
    has restarted.
    """
    return Problem("COORDINATOR_NOT_AVAILABLE", "the service is stopping", headers=TRY_AGAIN_SOON)


@contextmanager
def refusing_input() -> Iterator[None]:
    """Converts an InputError raised in the block to a Problem with status 422. A NotBuiltYet becomes a Problem with the
    code UNSUPPORTED_VERSION. Use `refusing_input` only around code that reads a caller's input or a recording. An
    InputError from any other code is a fault of the service.

    Does not convert OwnAssignorFailed, which is an InputError too. The service's settings list the custom assignor, so
    its failure is a fault of the service.
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
    """Adds handlers to the application. A handler responds with a problem document to each error of FastAPI itself.
    `middleware.py` answers all other errors.
    """
    app.add_exception_handler(RequestValidationError, _on_error)
    app.add_exception_handler(HTTPException, _on_error)


async def _on_error(request: Request, error: Exception) -> Response:
    return answer_to(request.scope, problem_of(error, request.scope))


def problem_of(error: Exception, scope: Scope) -> Problem:
    """Converts the error that ended a request to the Problem that the caller receives. Logs store errors and unexpected
    errors.
    """
    match error:
        case Problem():
            return error
        case CoordinatorFault():
            return _from_fault(error)
        case LeaseEnded():  # not logged here: other code logs this error once
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
    """Converts an error of the coordinator to a problem. The Kafka name of the error becomes the `code` of the problem,
    and the message of the error becomes the `detail`.
    """
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
    """Converts pydantic's errors to one problem. The field `detail` has the first error. The field `errors` has up to
    20 errors, each with its path.
    """
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
        methods = [  # the methods of all routes with this path, because a single route knows only its own methods
            method
            for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
            if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in scope["app"].routes)
        ]
        allowed = ", ".join(methods) or "another method"
        return Problem("INVALID_REQUEST", f"this address answers to {allowed}", status=405, headers={"Allow": allowed})
    if error.status_code < 500:
        status = 422 if error.status_code == 400 else error.status_code
        return Problem("INVALID_REQUEST", f"body: {error.detail}", status=status, headers=error.headers)
    return Problem("UNKNOWN_SERVER_ERROR", str(error.detail), status=error.status_code)


def _unexpected(error: Exception, what: str) -> Problem:
    """Logs the error with its stack trace under a new id, and returns a problem with this id."""
    incident = secrets.token_hex(8)
    _logger.error("unexpected_error", incident=incident, request=what, exc_info=error)
    return Problem(
        "UNKNOWN_SERVER_ERROR",
        f"an unexpected error; the service's log has it under incident {incident}",
        extensions={"instance": f"urn:assignor:incident:{incident}"},
    )
