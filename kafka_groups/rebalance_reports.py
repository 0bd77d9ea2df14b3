"""Reports a rebalance that was led elsewhere to a coordinator, which then shows the group like any other.

It is one POST of the rebalance/1 document, gzipped. A caller continues when it fails, and shows RebalanceNotReported as
a warning.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping

import httpx
import tenacity

from assignor.access.tls import client_context, tls_problem
from assignor.coordinator_calls import CoordinatorAddress, group_path, refusal_of
from assignor.errors import AssignorFault

_CONNECT_TIMEOUT_S = 2.0
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
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", **coordinator.headers()}
    body = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), compresslevel=6)
    timeout = httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
    url = coordinator.url_of(f"{group_path(str(document['group_id']))}/rebalances")
    tls = client_context(url, httpx.create_ssl_context)
    with httpx.Client(timeout=timeout, headers=headers, trust_env=False, verify=tls) as http:
        try:
            for attempt in tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(_TryAgain),
                stop=tenacity.stop_after_attempt(_TRIES),
                wait=tenacity.wait_exponential(_FIRST_PAUSE_S),
                reraise=True,
            ):
                with attempt:
                    _post(http, url, body)
        except _TryAgain as fault:
            raise RebalanceNotReported(f"coordinator at {coordinator.url}: {fault}") from None


def _post(http: httpx.Client, url: str, body: bytes) -> None:
    try:
        response = http.post(url, content=body)
    except httpx.HTTPError as fault:
        raise _TryAgain(tls_problem(fault) or str(fault) or type(fault).__name__) from None
    if response.is_success:
        return
    refusal = refusal_of(response.status_code, response.content)
    if refusal.may_be_repeated:
        raise _TryAgain(f"status {refusal.status}: {refusal.detail}")
    raise RebalanceNotReported(f"{url}: status {refusal.status}: {refusal.detail}")
