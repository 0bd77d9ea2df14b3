"""The command line's side of the HTTP contract: one call, its JSON, or one clear line of what went wrong."""

from __future__ import annotations

from typing import Any

import httpx


class CallFailed(Exception):
    """The service could not be reached, or refused. The message is for people."""


class CoordinatorClient:
    """Calls one coordinator, one call after the other. Close it, or use it in a `with`."""

    def __init__(self, url: str, token: str | None, timeout_s: float = 30) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, trust_env=False)
        except httpx.InvalidURL as error:
            raise CallFailed(f"--coordinator {url} is not an address: {error}") from None
        self._url = url

    def __enter__(self) -> CoordinatorClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(self, method: str, path: str, **parameters: str | int | None) -> Any:
        """The answer's JSON, None when it has no body. Raises CallFailed."""
        query = {name: value for name, value in parameters.items() if value is not None}
        try:
            response = self._http.request(method, path, params=query)
        except (httpx.TransportError, httpx.UnsupportedProtocol) as error:
            raise CallFailed(
                f"no coordinator answers at {self._url} ({error}): start one with `assignor serve`, or name its "
                "address with --coordinator"
            ) from None
        if response.is_success:
            return response.json() if response.content else None
        raise CallFailed(_refusal(response))


def _refusal(response: httpx.Response) -> str:
    try:
        problem = response.json()
        return f"{problem['code']}: {problem['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"the coordinator answered with status {response.status_code}, not in its own words: is it one?"
