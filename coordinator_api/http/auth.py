"""The service's token, and the gate that every call passes: `assignor.http_access` has the rule.

Without a token the service refuses to listen where others can reach it. The two health checks are open to everybody.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.http_access import access_refusal, is_loopback
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
        refused = access_refusal(self._token, headers)
        if refused is None:
            return
        if refused.challenge is None:
            raise Problem("CLUSTER_AUTHORIZATION_FAILED", refused.detail)
        raise Problem("SASL_AUTHENTICATION_FAILED", refused.detail, headers={"WWW-Authenticate": refused.challenge})
