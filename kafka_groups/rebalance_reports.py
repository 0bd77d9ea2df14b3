"""Reports a rebalance that was led elsewhere to a coordinator, which then shows the group like any other.

It is one POST of the rebalance/1 document to the coordinator that owns the group. A caller continues when it
fails, and shows RebalanceNotReported as a warning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import httpx
import tenacity

from assignor.errors import AssignorFault
from coordinator_client.access.tls import client_context, tls_problem
from coordinator_client.addresses import CoordinatorCall
from coordinator_client.calls import Asked, CoordinatorAddress, NoAnswer, Unanswered, ask, group_path, refusal_of

_ANSWER_TIMEOUT_S = 10.0
_TRIES = 3
_FIRST_PAUSE_S = 0.2


class RebalanceNotReported(AssignorFault):
    """The coordinator could not be reached, or refused the rebalance. The message says why."""


class _TryAgain(Exception):
    pass


def report_rebalance(coordinator: CoordinatorAddress, document: Mapping[str, object]) -> None:
    """`document`: rebalance/1. Reporting a rebalance twice is no error.

    Raises RebalanceNotReported; InputError when the coordinator's token, or a file for TLS, can no longer be read.
    """
    headers = {"Content-Type": "application/json", **coordinator.headers()}
    body = json.dumps(document, separators=(",", ":")).encode()
    call = CoordinatorCall(f"{group_path(str(document['group_id']))}/rebalances", _ANSWER_TIMEOUT_S)
    tls = client_context(coordinator.addresses.secured, httpx.create_ssl_context)
    with httpx.Client(headers=headers, trust_env=False, verify=tls) as http:

        def send(asked: Asked) -> httpx.Response:
            try:
                return http.post(asked.url, content=body, extensions={"timeout": asked.time_left})
            except (httpx.HTTPError, httpx.InvalidURL) as fault:
                raise Unanswered(tls_problem(fault) or str(fault) or type(fault).__name__) from None

        try:
            for attempt in tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(_TryAgain),
                stop=tenacity.stop_after_attempt(_TRIES),
                wait=tenacity.wait_exponential(_FIRST_PAUSE_S) + tenacity.wait_random(0, _FIRST_PAUSE_S),
                reraise=True,
            ):
                with attempt:
                    _post(coordinator, call, send)
        except _TryAgain as fault:
            raise RebalanceNotReported(f"coordinator at {coordinator.url}: {fault}") from None


def _post(coordinator: CoordinatorAddress, call: CoordinatorCall, send: Callable[[Asked], httpx.Response]) -> None:
    try:
        address, response = ask(coordinator.addresses, call, send)
    except NoAnswer as fault:
        raise _TryAgain(str(fault)) from None
    if response.is_success:
        return
    refusal = refusal_of(response.status_code, response.content)
    if refusal.may_be_repeated:
        raise _TryAgain(f"status {refusal.status}: {refusal.detail}")
    raise RebalanceNotReported(f"{address}{call.path}: status {refusal.status}: {refusal.detail}")
