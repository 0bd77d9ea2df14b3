"""The command line's side of the HTTP contract: one call, its JSON, or one clear line of what went wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

TOKEN_VARIABLE = "ASSIGNOR_AUTH_TOKEN"  # noqa: S105 (the name of a variable)
TIMEOUT_S = 30


class CallFailed(Exception):
    """The service could not be reached, or refused. The message is for people."""


def call(method: str, url: str, path: str, token_file: str | None, parameters: Mapping[str, str | int | None]) -> Any:
    """The answer's JSON, None when it has no body. Raises CallFailed."""
    token = _token(token_file)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    query = {name: value for name, value in parameters.items() if value is not None}
    try:
        # the environment's proxies are for the world outside, not for a coordinator
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False) as http:
            response = http.request(method, path, params=query)
    except (httpx.TransportError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise CallFailed(
            f"no coordinator answers at {url} ({error}): start one with `assignor serve`, or name it by --coordinator"
        ) from None
    if response.is_success:
        return response.json() if response.content else None
    raise CallFailed(_refusal(response))


def _token(token_file: str | None) -> str | None:
    if token_file is None:
        return os.environ.get(TOKEN_VARIABLE)
    try:
        return Path(token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CallFailed(f"--token-file {token_file} cannot be read: {error}") from None


def _refusal(response: httpx.Response) -> str:
    try:
        problem = response.json()
        return f"{problem['code']}: {problem['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"the answer has status {response.status_code} and is not a coordinator's: is the address right?"
