"""Who may call one of our HTTP services: whoever has one of its tokens, or, without tokens, only this machine.

A service without tokens listens on loopback only. It then answers only calls that name a loopback host and come from
no foreign web page, so that a browser on the same machine is no way in. With tokens every call has to carry one. Kafka
has SASL for this; a bearer token is what a fleet of Spark executors can carry.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from assignor.access.principals import ANYBODY, Principal

FindPrincipal = Callable[[bytes], Principal | None]
"""Whose token it is; None when it is nobody's, or has expired."""


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a call may not pass. `challenge`: what WWW-Authenticate says with status 401; None: the status is 403."""

    detail: str
    challenge: str | None = None


def caller(find: FindPrincipal | None, headers: Mapping[str, str]) -> Principal | AccessRefusal:
    """Who calls. `find`: None for a service without tokens, on loopback. `headers` have lower-case names."""
    if find is None:
        return _foreign_page(headers) or ANYBODY
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        # latin-1 is how headers were decoded: it gives back the bytes that were sent
        principal = find(given.strip().encode("latin-1"))
        if principal is not None:
            return principal
    challenge = 'Bearer realm="assignor"' + (', error="invalid_token"' if given else "")
    detail = "the bearer token is none of this service's" if given else "send Authorization: Bearer <token>"
    return AccessRefusal(detail, challenge)


def is_loopback(host: str) -> bool:
    """Whether `host` can only be reached from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _foreign_page(headers: Mapping[str, str]) -> AccessRefusal | None:
    if not is_loopback(_host_of("//" + headers.get("host", "localhost"))):
        return AccessRefusal("without a token this service answers to loopback hosts only")
    origin = headers.get("origin")
    if origin is not None and not is_loopback(_host_of(origin)):
        return AccessRefusal("without a token this service refuses calls from foreign web pages")
    return None


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
