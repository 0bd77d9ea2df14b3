"""`/ui/static/...`: styles and scripts, for everybody, to be kept for ever."""

from __future__ import annotations

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from coordinator_api.http.dependencies import checked_router
from coordinator_api.web.rendering import SECURITY_HEADERS
from coordinator_api.web.static_files import digest, static_files

router = checked_router(include_in_schema=False)

_FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/ui/static/{digest}/{file}")
async def static_file(request: Request) -> Response:
    """One file. A page of an earlier release asks under another digest: it gets what there is, and does not keep it."""
    found = static_files().get(request.path_params["file"])
    if found is None:
        raise HTTPException(404)
    is_present = request.path_params["digest"] == digest()
    headers = {
        **SECURITY_HEADERS,
        "Cache-Control": _FOR_EVER if is_present else "no-cache",
        "ETag": found.etag,
        "Vary": "Accept-Encoding",
    }
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body = found.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        body = found.packed
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type=found.media_type)
