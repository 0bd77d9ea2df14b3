"""The access check of an instance's query endpoint. See `coordinator_client.access`.

The query endpoint accepts three kinds of tokens:
- The endpoint accepts the token with which the instance calls the coordinator.
- The endpoint accepts tokens from ASSIGNOR_AUTH_TOKENS, and from the file that ASSIGNOR_AUTH_TOKENS_FILE names. The
  groups of such a token must include the application's id.
- The endpoint accepts tokens that an OIDC issuer has signed, if environment variables name an issuer
  (`coordinator_client.access.signed_tokens`).

If no token is configured, the endpoint can listen only on loopback. `/livez` needs no token.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi.responses import JSONResponse

from assignor.errors import InputError
from coordinator_client.access.credentials import Credentials, wall_clock_ms
from coordinator_client.access.principals import AccessRefusal, Need, Right, caller, is_loopback
from coordinator_client.access.signed_tokens import SignedTokens, signed_tokens_in
from coordinator_client.access.token_files import CHECK_INTERVAL_S, TokenFiles
from coordinator_client.access.tokens import parse_entries, plain_token
from coordinator_client.calls import CallerToken
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.queries.routes import problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = frozenset({"/livez"})
_TOKENS = "ASSIGNOR_AUTH_TOKENS"
_TOKENS_FILE = "ASSIGNOR_AUTH_TOKENS_FILE"
FIRST_KEYS_S = 10.0
"""When the server starts, it waits at most this time for the issuer's keys. If the keys do not come in time, the server
starts without keys, and a thread fetches them.
"""

FORMER_TOKEN_MS = 10_000
"""When the instance's token is replaced, the endpoint accepts the old token for this time. The reason is that instances
and their callers do not read their token files at the same moment.
"""

_LOGGER = logging.getLogger("streams_runtime.queries")


class AskersTokens:
    """All tokens with which callers may query an instance. Raises InputError if a token cannot be used.

    `token`: the token with which the instance calls the coordinator. `environment`: the environment variables of the
    process.
    """

    def __init__(self, token: str | CallerToken | None, environment: Mapping[str, str]) -> None:
        self.credentials = Credentials()
        self._own = token if isinstance(token, CallerToken) else CallerToken(token)
        self._own_now: str | None = None
        self._files = TokenFiles(self.credentials, lambda setting, sentence: _LOGGER.warning("%s", sentence))
        self._checked_at_s = time.monotonic()
        self._take_own()
        listed, file = environment.get(_TOKENS), environment.get(_TOKENS_FILE)
        if listed:
            self.credentials.replace(_TOKENS, parse_entries(listed, _TOKENS))
        if file:
            self._files.add(_TOKENS_FILE, Path(file), parse_entries)
        self._closed = threading.Event()
        self._signed = signed_tokens_in(environment, lambda sentence: _LOGGER.warning("%s", sentence))
        if self._signed is not None:
            self.credentials.also_find(self._signed.find)

    def start(self) -> None:
        """Starts a thread that fetches the issuer's keys until `close`. So calls do not wait for keys."""
        if self._signed is not None:
            asked = threading.Event()
            given = (self._signed, asked)
            threading.Thread(target=self._fetch_keys, args=given, name="issuer-keys", daemon=True).start()
            asked.wait(FIRST_KEYS_S)

    def close(self) -> None:
        """Tells the thread that fetches keys to end, and does not wait for this thread. Idempotent."""
        self._closed.set()

    def _fetch_keys(self, signed: SignedTokens, asked: threading.Event) -> None:
        while not self._closed.is_set():
            signed.refresh_if_due()
            asked.set()
            self._closed.wait(CHECK_INTERVAL_S)

    def reload_if_due(self) -> None:
        """Reads the token files again if they have changed. Checks the files at most once a second."""
        if time.monotonic() - self._checked_at_s >= CHECK_INTERVAL_S:
            self._checked_at_s = time.monotonic()
            self._take_own()
            self._files.reload_changed()

    def _take_own(self) -> None:
        now = self._own.current()
        if now is not None and now != self._own_now:
            self._own_now = now
            ends_ms = wall_clock_ms() + FORMER_TOKEN_MS
            former = (each for each in self.credentials.entries("token") if each.expires_ms is None)
            entries = [plain_token("token", now), *(replace(each, expires_ms=ends_ms) for each in former)]
            self.credentials.replace("token", entries)


def check_exposure(address: str, host: str, tokens: AskersTokens) -> None:
    """Raises InputError if other machines can reach the address and no token is configured."""
    if tokens.credentials.is_empty and not is_loopback(host):
        raise InputError(
            f"{address} can be reached from outside this machine, and there is no token: give the coordinator and this "
            "application the same one (ASSIGNOR_AUTH_TOKEN), or serve on 127.0.0.1",
            "application.server",
        )


class TokenGate:
    """ASGI middleware that checks the token of every call before `app` gets the call. Calls for unknown paths are
    checked too.
    """

    def __init__(self, app: ASGIApp, tokens: AskersTokens, application_id: str) -> None:
        self._app = app
        self._credentials = tokens.credentials
        self._application_id = application_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            found = caller(None if self._credentials.is_empty else self._credentials.find, headers)
            if isinstance(found, AccessRefusal):
                await _answer(found.detail, found.challenge)(scope, receive, send)
                return
            refusal = found.refusal(Need(Right.READER, self._application_id))
            if refusal is not None:
                await _answer(refusal, None)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _answer(detail: str, challenge: str | None) -> JSONResponse:
    code = QueryCode.CLUSTER_AUTHORIZATION_FAILED if challenge is None else QueryCode.SASL_AUTHENTICATION_FAILED
    return problem_response(QueryProblem(code, detail), None if challenge is None else {"WWW-Authenticate": challenge})
