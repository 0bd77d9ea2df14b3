"""What FastAPI cannot see for its OpenAPI document: the bodies that routes read by hand."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from coordinator_api.http.schemas import HeartbeatBody, ProcessHeartbeatBody, SubscriptionBody

BODIES: tuple[type[BaseModel], ...] = (SubscriptionBody, HeartbeatBody, ProcessHeartbeatBody)
"""Routes refer to their schemas by name."""


def describe_bodies(app: FastAPI) -> None:
    """Add the schemas of `BODIES` to the document of `app`, which FastAPI makes when it is asked for the first time."""
    described_by_fastapi = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = described_by_fastapi()
            _, definitions = models_json_schema(
                [(each, "validation") for each in BODIES], ref_template="#/components/schemas/{model}"
            )
            document["components"]["schemas"].update(definitions["$defs"])
        return described_by_fastapi()

    app.openapi = described  # type: ignore[method-assign]
