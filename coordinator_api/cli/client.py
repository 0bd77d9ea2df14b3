"""One call to a running coordinator for a command: its JSON, or one clear line about what went wrong."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from assignor.errors import AssignorFault, InputError
from coordinator_client.access.tls import client_context, tls_problem
from coordinator_client.addresses import CoordinatorCall
from coordinator_client.calls import (
    Asked,
    NoAnswer,
    Unanswered,
    addresses_of,
    ask,
    authorization,
    read_token,
    refusal_of,
)
from operating_system.processes import advice_of

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
    """The answer's JSON, None when it has no body. `url`: of one coordinator, or of several, separated by commas.
    `path`: begins with /v1. `body`: to send as JSON.

    Raises CallFailed for a refusal, and InputError for a token file that cannot be used or addresses where no
    coordinator answers.
    """
    query = {name: value for name, value in parameters.items() if value is not None}
    addresses = _addresses(url)
    headers = authorization(read_token(None if token_file is None else Path(token_file)))
    tls = client_context(addresses.secured, httpx.create_ssl_context)
    # the environment's proxies are for the world outside, not for a coordinator
    with httpx.Client(headers=headers, trust_env=False, verify=tls) as http:

        def send(asked: Asked) -> httpx.Response:
            try:
                return http.request(method, asked.url, json=body, extensions={"timeout": asked.time_left})
            except httpx.InvalidURL as error:
                raise InputError(f"is no address of a coordinator: {error}", asked.address) from None
            except httpx.TransportError as error:
                raise Unanswered(str(error)) from None

        try:
            address, response = ask(addresses, CoordinatorCall(path, TIMEOUT_S, query), send)
        except NoAnswer as error:
            raise _unanswered(error.answers) from None
    if response.is_success:
        return _answer(response, address)
    refusal = refusal_of(response.status_code, response.content)
    if refusal.code is None:
        raise _no_coordinator(response, address)
    if refusal.status in _NOT_LET_IN:
        raise InputError(f"{refusal.code}: {refusal.detail}", address)
    raise CallFailed(f"{refusal.code}: {refusal.detail}", refusal.code)


_addresses = functools.cache(addresses_of)
"""The same for all calls of a command: what one call has learnt about the addresses, the next one knows."""


def _unanswered(answers: Mapping[str, str]) -> InputError:
    """`answers`: what became of the call at each address that was asked."""
    problems = {address: tls_problem(what) for address, what in answers.items()}
    if len(answers) == 1:
        address, problem = next(iter(problems.items()))
        if problem is not None:
            return InputError(problem, address)
    for address, what in answers.items():
        advice = advice_of(what)
        if advice is not None:  # this machine refused, not the coordinator
            return InputError(f"cannot be asked: {what}; {advice}", address)
    each = ", ".join(f"{address} ({problems[address] or what})" for address, what in answers.items())
    return InputError(f"no coordinator answers at {each}: start one with `assignor serve`, or name it by --coordinator")


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
