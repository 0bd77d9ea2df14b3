"""The gate before an instance's endpoint: who may read the stores. `assignor.http_access` has the rule.

The token is the coordinator's. Without one the endpoint stands on loopback only. `/livez` is open to everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi.responses import JSONResponse

from assignor.errors import InputError
from assignor.http_access import access_refusal, is_loopback
from streams_runtime.queries.problems import STATUS, QueryCode, QueryProblem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = frozenset({"/livez"})


def check_exposure(address: str, host: str, token: str | None) -> None:
    """Refuse to listen where others can read the stores without a token. Raises InputError."""
    if token is None and not is_loopback(host):
        raise InputError(
            f"{address} can be reached from outside this machine, and there is no token: give the coordinator and this "
            "application the same one (ASSIGNOR_AUTH_TOKEN), or serve on 127.0.0.1",
            "application.server",
        )


class TokenGate:
    """Before every call of `app`, also to paths that it does not have."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = None if token is None else token.encode("utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            refused = access_refusal(self._token, headers)
            if refused is not None:
                await _answer(refused.detail, refused.challenge)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _answer(detail: str, challenge: str | None) -> JSONResponse:
    code = QueryCode.CLUSTER_AUTHORIZATION_FAILED if challenge is None else QueryCode.SASL_AUTHENTICATION_FAILED
    return JSONResponse(
        QueryProblem(code, detail).document(),
        STATUS[code],
        headers=None if challenge is None else {"WWW-Authenticate": challenge},
        media_type="application/problem+json",
    )
