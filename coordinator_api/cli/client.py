"""One call to a running coordinator for a command: its JSON, or one clear line about what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from assignor.access.tls import client_context, tls_problem
from assignor.coordinator_calls import CoordinatorAddress, refusal_of
from assignor.errors import AssignorFault, InputError

TIMEOUT_S = 30
_NOT_LET_IN = frozenset({401, 403})


class CallFailed(AssignorFault):
    """The coordinator refused. `code`: Kafka's error name of a refusal."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


def call(
    method: str,
    url: str,
    path: str,
    token_file: str | None,
    parameters: Mapping[str, str | int | None],
    body: Mapping[str, object] | None = None,
) -> Any:
    """The answer's JSON, None when it has no body. `path`: begins with /v1. `body`: to send as JSON.

    Raises CallFailed for a refusal, and InputError for a token file that cannot be used or an address where no
    coordinator answers.
    """
    query = {name: value for name, value in parameters.items() if value is not None}
    try:
        address = CoordinatorAddress(url, None if token_file is None else Path(token_file))
        tls = client_context(url, httpx.create_ssl_context)
        # the environment's proxies are for the world outside, not for a coordinator
        with httpx.Client(headers=address.headers(), timeout=TIMEOUT_S, trust_env=False, verify=tls) as http:
            response = http.request(method, address.url_of(path), params=query, json=body)
    except httpx.InvalidURL as error:
        raise InputError(f"is no address of a coordinator: {error}", url) from None
    except httpx.TransportError as error:
        problem = tls_problem(error)
        if problem is not None:
            raise InputError(problem, url) from None
        raise InputError(
            f"no coordinator answers at {url} ({error}): start one with `assignor serve`, or name it by --coordinator"
        ) from None
    if response.is_success:
        return _answer(response, url)
    refusal = refusal_of(response.status_code, response.content)
    if refusal.code is None:
        raise _no_coordinator(response, url)
    if refusal.status in _NOT_LET_IN:
        raise InputError(f"{refusal.code}: {refusal.detail}", url)
    raise CallFailed(f"{refusal.code}: {refusal.detail}", refusal.code)


def _answer(response: httpx.Response, url: str) -> Any:
    """Raises InputError for what no coordinator sends: another service may answer at the address."""
    if not response.content:
        return None
    try:
        answer = response.json()
    except ValueError:
        raise _no_coordinator(response, url) from None
    if not isinstance(answer, dict):
        raise _no_coordinator(response, url)
    return answer


def _no_coordinator(response: httpx.Response, url: str) -> InputError:
    return InputError(f"answers with status {response.status_code} and is no coordinator: is the address right?", url)
