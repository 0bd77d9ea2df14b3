"""The static files of pages: styles, scripts, and third-party libraries from `vendor/`.

The static files are read once. The address of each file contains a digest of all files. If a release changes a file,
all files get new addresses. Because addresses change with the content, a browser may cache a file for ever. JavaScript
modules import each other by file name.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from coordinator_api.http.dependencies import named_router

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}
_FOLDERS = ("static", "vendor")
_FOR_EVER = "public, max-age=31536000, immutable"

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # with `no-referrer`, browsers would send a form with the header `Origin: null`
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""The headers of all answers below /ui."""

router = named_router(include_in_schema=False)


class PackedFile(NamedTuple):
    """A file to send. `packed`: the content, compressed by gzip. `etag`: the ETag, with its quotes."""

    content: bytes
    packed: bytes
    media_type: str
    etag: str

    @classmethod
    def of(cls, content: bytes, media_type: str, level: int = 9) -> PackedFile:
        """Compresses `content`. `level`: the compression level of gzip."""
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        return cls(content, gzip.compress(content, level, mtime=0), media_type, etag)


def file_response(request: Request, file: PackedFile, headers: Mapping[str, str]) -> Response:
    """Answers with the file, or with 304 if the caller has it already."""
    headers = {**headers, "ETag": file.etag, "Vary": "Accept-Encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, headers=headers, media_type=file.media_type)
    return Response(file.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)


@cache
def static_files() -> Mapping[str, PackedFile]:
    """All static files, by name."""
    found: dict[str, PackedFile] = {}
    for folder in _FOLDERS:
        for each in sorted(files("coordinator_api.web").joinpath(folder).iterdir(), key=lambda each: each.name):
            kind = each.name.rpartition(".")[2]
            if kind not in _TYPES:
                continue
            assert each.name not in found, f"two files are named {each.name}"
            found[each.name] = PackedFile.of(each.read_bytes(), _TYPES[kind])
    return found


@cache
def digest() -> str:
    """The digest of all static files together."""
    together = hashlib.sha256()
    for name, file in sorted(static_files().items()):
        together.update(f"{name} {file.etag}\n".encode())
    return together.hexdigest()[:16]


def address_of(name: str) -> str:
    """The address from which a browser fetches the file."""
    assert name in static_files(), f"there is no file {name} in static/ or vendor/"
    return f"/ui/static/{digest()}/{name}"


@router.get("/ui/static/{digest}/{file}")
async def static_file(request: Request) -> Response:
    """Sends one file. A page of an earlier release may request a file under an earlier digest. For an earlier digest,
    the service sends the present file. Before each use of such a file, the browser must check the file for changes.
    """
    found = static_files().get(request.path_params["file"])
    if found is None:
        raise HTTPException(404)
    is_present = request.path_params["digest"] == digest()
    return file_response(request, found, {**SECURITY_HEADERS, "Cache-Control": _FOR_EVER if is_present else "no-cache"})
