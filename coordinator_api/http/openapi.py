"""`/openapi.json`: the service described by itself, with the bodies that routes read by hand.

The document is made once and kept as bytes: it has 110 KB, and anybody on this machine may ask for it in a loop.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from coordinator_api.http.document_schemas import DefinitionBody, PlacementDocument, RebalanceDocument, ReportBody
from coordinator_api.http.schemas import HeartbeatBody, LeaveBody, ProcessHeartbeatBody, SubscriptionBody

BODIES: tuple[type[BaseModel], ...] = (
    *(SubscriptionBody, HeartbeatBody, ProcessHeartbeatBody, LeaveBody),
    *(DefinitionBody, ReportBody, RebalanceDocument, PlacementDocument),
)
"""Routes refer to their schemas by name."""


def install(app: FastAPI) -> None:
    """Serve the document. `app` has all its routes, and no `openapi_url` of FastAPI."""

    @cache
    def document() -> bytes:
        return json.dumps(described(app)).encode("ascii")

    async def openapi(request: Request) -> Response:
        return Response(document(), media_type="application/json")

    app.add_route("/openapi.json", openapi, include_in_schema=False)


def described(app: FastAPI) -> dict[str, Any]:
    """The document. `app`: with all its routes."""
    document = app.openapi()
    _, definitions = models_json_schema(
        [(each, "validation") for each in BODIES], ref_template="#/components/schemas/{model}"
    )
    _close_maps(definitions)
    document["components"]["schemas"].update(definitions["$defs"])
    return document


def _close_maps(schema: Any) -> None:
    """pydantic says which keys of a map have which values, and not that there are no others."""
    if isinstance(schema, dict):
        if "patternProperties" in schema:
            schema.setdefault("additionalProperties", False)
        for inner in schema.values():
            _close_maps(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close_maps(inner)
