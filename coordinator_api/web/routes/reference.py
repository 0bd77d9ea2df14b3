"""`/docs`: every call of the OpenAPI document as a page, shown by the Swagger UI of `vendor/`.

The page loads `/openapi.json` and files of this service, and nothing from elsewhere.
"""

from __future__ import annotations

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from coordinator_api.http.dependencies import checked_router
from coordinator_api.http.proxies import reference
from coordinator_api.web.rendering import page

router = checked_router(include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    return page(request, "reference")


@router.get("/redoc")
async def redoc(request: Request) -> Response:
    return RedirectResponse(reference(request.scope, "/docs"))
