"""Who may call: whoever has the bearer token, or, without a token, only this machine.

Without a token the service listens on loopback only. It then answers only calls that name a loopback host and come from
no foreign web page, so that a browser on the same machine is no way in. With a token every call has to carry it, except
the two health checks. Kafka has SASL for this; one shared secret is what a fleet of Spark executors can carry.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from coordinator_api.http.problems import Problem
from coordinator_api.settings import Settings, SettingsError

OPEN_PATHS = frozenset({"/livez", "/readyz"})


def token_of(settings: Settings) -> str | None:
    """The token from its setting or file. Raises SettingsError for a file without one."""
    if settings.auth_token_file is None:
        return settings.auth_token
    try:
        token = settings.auth_token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"auth.token.file: {settings.auth_token_file} cannot be read: {error}") from None
    if not token:
        raise SettingsError(f"auth.token.file: {settings.auth_token_file} is empty")
    return token


def is_loopback(host: str) -> bool:
    """Whether `host` can only be reached from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(settings: Settings) -> None:
    """Refuse to listen where others can reach the service without a token. Raises SettingsError."""
    if token_of(settings) is None and not is_loopback(settings.host):
        raise SettingsError(
            f"host {settings.host} can be reached from outside this machine, and no token is set: set auth.token or "
            "auth.token.file, or listen on 127.0.0.1"
        )


class Gate:
    """Lets a request through or raises Problem. `token`: None for a service that is open on loopback."""

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else token.encode("utf-8")

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """`headers` have lower-case names. Raises Problem 401 or 403."""
        if path in OPEN_PATHS:
            return
        if self._token is None:
            _refuse_foreign_pages(headers)
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # latin-1 is how headers were decoded: it gives back the bytes that were sent
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), self._token):
            challenge = 'Bearer realm="assignor"' + (', error="invalid_token"' if given else "")
            detail = "the bearer token is not this service's" if given else "send Authorization: Bearer <token>"
            raise Problem("SASL_AUTHENTICATION_FAILED", detail, headers={"WWW-Authenticate": challenge})


def _refuse_foreign_pages(headers: Mapping[str, str]) -> None:
    host = _host_of("//" + headers.get("host", "localhost"))
    if not is_loopback(host):
        raise Problem("CLUSTER_AUTHORIZATION_FAILED", "without a token this service answers to loopback hosts only")
    origin = headers.get("origin")
    if origin is not None and not is_loopback(_host_of(origin)):
        raise Problem(
            "CLUSTER_AUTHORIZATION_FAILED", "without a token this service refuses calls from foreign web pages"
        )


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
