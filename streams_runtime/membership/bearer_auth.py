"""The bearer token in the calls of an HTTP client: of each call anew, so that it can change while the client lives."""

from __future__ import annotations

from collections.abc import Generator

import httpx

from assignor.coordinator_calls import CallerToken, authorization


class BearerAuth(httpx.Auth):
    """Sends `token`. A call that is refused because its file has another one by now is sent once more with that."""

    def __init__(self, token: str | CallerToken | None) -> None:
        self._token = token if isinstance(token, CallerToken) else CallerToken(token)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        sent = self._token.current()
        request.headers.update(authorization(sent))
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            newest = self._token.looked_up()
            if newest != sent:
                request.headers.update(authorization(newest))
                yield request
