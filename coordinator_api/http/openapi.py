"""`/openapi.json`: FastAPI's description of the service. This module adds the bodies that `JsonBody` reads, the bearer
token, and the redirect to another coordinator.

The OpenAPI document is encoded once and cached: it has 200 KB, and a program may request it in a loop.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from coordinator_api.http.audit import MAX_REASON, REASON_PATTERN
from coordinator_api.http.call_rights import ENDPOINTS, OPEN_PATHS
from coordinator_api.http.dependencies import JsonBody, described_body
from coordinator_api.http.models.documents import DefinitionDocument, RebalanceDocument
from coordinator_api.http.models.group_models import AssignAnswer
from coordinator_api.http.models.service_models import ProblemDocument
from coordinator_api.http.problems import MEDIA_TYPE, MOVED
from coordinator_api.http.proxies import public_address

SECURITY_SCHEME = "bearerToken"
_REASON: dict[str, Any] = {
    "name": "reason",
    "in": "query",
    "required": False,
    "schema": {"type": "string", "maxLength": MAX_REASON, "pattern": REASON_PATTERN},
    "description": "Why, for the audit log.",
}
_NEEDS_A_REASON = "/v1/groups/{group}/discard"


def install(app: FastAPI, needs_token: Callable[[], bool]) -> None:
    """Serve `/openapi.json`. `app`: the application with all its routes. FastAPI must not serve this address too:
    create the application with `openapi_url=None`. `needs_token`: a function that returns True if calls need a bearer
    token now.
    """

    @lru_cache(8)
    def document(with_token: bool, prefix: str) -> bytes:
        servers = {"servers": [{"url": prefix}]} if prefix else {}
        return json.dumps({**described(app, needs_token=with_token), **servers}).encode("ascii")

    async def openapi(request: Request) -> Response:
        return Response(document(needs_token(), public_address(request.scope).prefix), media_type="application/json")

    app.add_route("/openapi.json", openapi, include_in_schema=False)


def described(app: FastAPI, *, needs_token: bool = False) -> dict[str, Any]:
    """Returns the OpenAPI document. `app`: the application with all its routes."""
    document = deepcopy(app.openapi())  # change a copy, because FastAPI caches its document
    _describe_bodies(app, document)
    _secure(document, needs_token)
    _describe_redirects(document)
    _take_reasons(document)
    return document


def _describe_bodies(app: FastAPI, document: dict[str, Any]) -> None:
    """Adds the request bodies that `JsonBody` reads, because FastAPI does not know that a dependency reads a body. Adds
    the models to which `problems` and `described_body` refer. Replaces the schema of AssignAnswer, because FastAPI
    drops the nulls from its example.
    """
    others = (ProblemDocument, DefinitionDocument, RebalanceDocument, AssignAnswer)
    models: list[tuple[type[BaseModel], Literal["validation"]]] = [(each, "validation") for each in others]
    for route in app.routes:
        if isinstance(route, APIRoute):
            for body in (each.call for each in route.dependant.dependencies if isinstance(each.call, JsonBody)):
                for method in route.methods or ():
                    document["paths"][route.path][method.lower()] |= described_body(body.model, required=body.required)
                models.append((body.model, "validation"))
    _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")
    document["components"]["schemas"].update(definitions["$defs"])


def _secure(document: dict[str, Any], needs_token: bool) -> None:
    """Adds the bearer token to the document. A service without tokens listens on loopback only, and its calls need no
    token.
    """
    document["components"]["securitySchemes"] = {
        SECURITY_SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of the settings auth.*, or one that `POST /v1/tokens` created. A service without "
            "any listens on loopback only, and asks for none.",
        }
    }
    document["security"] = [{SECURITY_SCHEME: []}] if needs_token else [{}, {SECURITY_SCHEME: []}]
    for path in OPEN_PATHS:
        document["paths"][path]["get"]["security"] = []


def _describe_redirects(document: dict[str, Any]) -> None:
    """Adds the answer that redirects a call to the coordinator that owns the group. `RequestGuard` sends the redirect
    before any route runs.
    """
    answer = {
        "description": "RFC 9457; `code`: NOT_COORDINATOR. Another coordinator of the same database owns the group: "
        "make the same call there.",
        "headers": {
            "Location": {
                "description": "The address of the call at the coordinator that owns the group.",
                "schema": {"type": "string", "format": "uri"},
                "required": True,
            }
        },
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
    for path, operations in document["paths"].items():
        if "{group}" in path:
            for operation in operations.values():
                operation["responses"] = dict(sorted({**operation["responses"], str(MOVED): answer}.items()))


def _take_reasons(document: dict[str, Any]) -> None:
    """Adds the parameter `reason` to each audited call."""
    for endpoint in ENDPOINTS:
        operation = document["paths"].get(endpoint.route, {}).get(endpoint.method.lower())
        if operation is not None and endpoint.is_audited:
            reason = {**_REASON, "required": endpoint.route == _NEEDS_A_REASON}
            if reason["required"]:
                reason["schema"] = {**_REASON["schema"], "minLength": 1}
            operation["parameters"] = [*operation.get("parameters", ()), reason]
