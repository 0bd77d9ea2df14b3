"""Sends one call of a command to a running coordinator. Returns the JSON of the answer, or raises an error with a
message of one line.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assignor.errors import AssignorFault, InputError
from coordinator_client.access.tls import tls_problem
from coordinator_client.addresses import CoordinatorCall
from coordinator_client.calls import CoordinatorRefused, NoAnswer, addresses_of, read_token
from coordinator_client.http_client import CoordinatorAnswer, CoordinatorHttpClient
from operating_system.processes import advice_of

TIMEOUT_S = 30
_NOT_ALLOWED = frozenset({401, 403})


class CallFailed(AssignorFault):
    """The coordinator refused the call. `code`: Kafka's name of the error."""

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
    """Returns the answer's JSON; None if the answer has no body. `url`: the address of a coordinator, or several
    addresses, separated by commas. `path`: a path that begins with /v1. `body`: the request's body, which is sent as
    JSON.

    Raises CallFailed if the coordinator refuses the call. Raises InputError if the token file cannot be used, or if no
    coordinator answers at the addresses.
    """
    query = {name: value for name, value in parameters.items() if value is not None}
    addresses = _addresses(url)
    token = read_token(None if token_file is None else Path(token_file))
    try:
        with CoordinatorHttpClient(addresses, token) as http:
            return _document(http.call(method, CoordinatorCall(path, TIMEOUT_S, query), json=body))
    except NoAnswer as error:
        raise _no_answer(error.answers) from None
    except CoordinatorRefused as error:
        refusal = error.refusal
        if refusal.code is None:
            raise _no_coordinator(refusal.status, error.address) from None
        if refusal.status in _NOT_ALLOWED:
            raise InputError(str(error), error.address) from None
        raise CallFailed(str(error), refusal.code) from None


_addresses = functools.cache(addresses_of)
"""Parses addresses. The parsed object is cached. The cached object remembers the state of each address for the later
calls of a command.
"""


def _no_answer(answers: Mapping[str, str]) -> InputError:
    """Returns the error for a call that got no answer at any address. `answers`: the outcome of the call at each
    address.
    """
    for address, outcome in answers.items():
        if len(answers) == 1 and tls_problem(outcome) is not None:
            return InputError(outcome, address)
        advice = advice_of(outcome)
        if advice is not None:  # the error came from this machine, and not from the coordinator
            return InputError(f"cannot be asked: {outcome}; {advice}", address)
    each = ", ".join(f"{address} ({outcome})" for address, outcome in answers.items())
    return InputError(f"no coordinator answers at {each}: start one with `assignor serve`, or name it by --coordinator")


def _document(answer: CoordinatorAnswer) -> Any:
    """The answer's JSON; None for an empty answer. Raises InputError if the answer is not JSON. Another service may
    have answered at this address.
    """
    try:
        return answer.document() if answer.content else None
    except ValueError:
        raise _no_coordinator(answer.status, answer.address) from None


def _no_coordinator(status: int, address: str) -> InputError:
    return InputError(f"answers with status {status} and is no coordinator: is the address right?", address)
