"""Telling a coordinator of a rebalance that was led elsewhere, so that it shows the group like any other.

One POST of the rebalance/1 document, gzipped. Whoever calls goes on without when it fails: RebalanceNotReported is for
a warning.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import httpx
import tenacity

from assignor.errors import AssignorFault, InputError

TOKEN_VARIABLE = "ASSIGNOR_AUTH_TOKEN"  # noqa: S105 (the name of a variable)

_CONNECT_TIMEOUT_S = 2.0
_ANSWER_TIMEOUT_S = 10.0
_TRIES = 3
_FIRST_PAUSE_S = 0.2
_TRY_AGAIN_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
_MOST_WORDS = 300


class RebalanceNotReported(AssignorFault):
    """The coordinator was not reached, or did not take the rebalance; one line says why."""


class _TryAgain(Exception):
    pass


def report_rebalance(coordinator_url: str, token_file: Path | None, document: Mapping[str, object]) -> None:
    """`document`: rebalance/1. The token is read anew each time, so that it may be changed; without a file it is that
    of ASSIGNOR_AUTH_TOKEN, if any. A rebalance that the coordinator has already is fine.

    Raises RebalanceNotReported; InputError for a URL or a token file that cannot be used.
    """
    token = check_coordinator(coordinator_url, token_file)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    group = quote(str(document["group_id"]), safe="")
    body = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), compresslevel=6)
    timeout = httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
    url = f"{coordinator_url.rstrip('/')}/v1/groups/{group}/rebalances"
    with httpx.Client(timeout=timeout, headers=headers, trust_env=False) as http:
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
            raise RebalanceNotReported(f"coordinator at {coordinator_url}: {fault}") from None


def check_coordinator(coordinator_url: str, token_file: Path | None) -> str | None:
    """The token to use. Raises InputError for a URL or a token file that cannot be used."""
    if not _is_url(coordinator_url):
        raise InputError(f"must be a URL such as http://127.0.0.1:8080, not {coordinator_url!r}", "--coordinator")
    return read_token(token_file)


def read_token(token_file: Path | None) -> str | None:
    """Raises InputError for a file that cannot be read, and for a token that no header can carry."""
    if token_file is None:
        token, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
    else:
        where = "--token-file"
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as fault:
            raise InputError(f"{token_file} cannot be read: {fault}", where) from None
    if token and not (token.isascii() and token.isprintable()):
        raise InputError("a token is one line of printable ASCII", where)
    return token


def _is_url(text: str) -> bool:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)


def _post(http: httpx.Client, url: str, body: bytes) -> None:
    try:
        response = http.post(url, content=body)
    except httpx.HTTPError as fault:
        raise _TryAgain(str(fault) or type(fault).__name__) from None
    if response.is_success:
        return
    if response.status_code in _TRY_AGAIN_STATUSES:
        raise _TryAgain(f"status {response.status_code}")
    raise RebalanceNotReported(f"{url}: status {response.status_code}: {_words(response)}")


def _words(response: httpx.Response) -> str:
    """What a problem document says, else the beginning of the body."""
    try:
        problem = response.json()
    except ValueError:
        return response.text[:_MOST_WORDS]
    detail = problem.get("detail") if isinstance(problem, dict) else None
    return str(detail or problem)[:_MOST_WORDS]
