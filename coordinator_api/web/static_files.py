"""The files that pages are made of: styles, scripts, and libraries of others from `vendor/`.

They are read once. The address of each has a digest of all of them, so that a browser keeps them for ever and a new
release brings new addresses; modules import each other by their names alone.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}
_FOLDERS = ("static", "vendor")


class StaticFile(NamedTuple):
    """`packed`: by gzip. `etag`: with its quotes."""

    content: bytes
    packed: bytes
    media_type: str
    etag: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """By name."""
    found: dict[str, StaticFile] = {}
    for folder in _FOLDERS:
        for each in sorted(files("coordinator_api.web").joinpath(folder).iterdir(), key=lambda each: each.name):
            kind = each.name.rpartition(".")[2]
            if kind not in _TYPES:
                continue
            assert each.name not in found, f"two files are named {each.name}"
            content = each.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[each.name] = StaticFile(content, gzip.compress(content, mtime=0), _TYPES[kind], etag)
    return found


@cache
def digest() -> str:
    """Of all files together."""
    together = hashlib.sha256()
    for name, file in sorted(static_files().items()):
        together.update(f"{name} {file.etag}\n".encode())
    return together.hexdigest()[:16]


def address_of(name: str) -> str:
    """Where a browser fetches the file."""
    assert name in static_files(), f"there is no file {name} in static/ or vendor/"
    return f"/ui/static/{digest()}/{name}"
