"""Parses addresses, tokens and refusals of a coordinator. The HTTP client is in `http_client.py`.

A refusal is a problem document (RFC 9457) whose `code` is Kafka's error name (`Errors`).
"""

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from assignor.errors import AssignorFault, InputError, Unavailable
from coordinator_client.access.token_files import state_of, token_in
from coordinator_client.access.tokens import checked_token
from coordinator_client.addresses import CoordinatorAddresses, is_address, may_have_secret, outcomes_text

DEFAULT_URL = "http://127.0.0.1:8080"
COORDINATOR_METAVAR = "URL,..."
SEVERAL_COORDINATORS = "several are separated by commas"
"""Each option that accepts several addresses has this text in its help."""

TOKEN_VARIABLE = "ASSIGNOR_AUTH_TOKEN"  # noqa: S105 (this is the name of a variable).
TOKEN_FILE_VARIABLE = "ASSIGNOR_AUTH_TOKEN_FILE"  # noqa: S105 (this is also the name of a variable).
_OPTION = "--coordinator"
_READ_EVERY_S = 1.0

_CONDITIONS = {
    "MISSING_SOURCE_TOPICS": "waits for topics",
    "REBALANCE_FAILED": "rebalance failed",
    "NO_TASKS": "has no tasks",
    "PAUSED": "paused",
}

_UNAUTHORIZED = 401
_TOO_MANY_REQUESTS = 429
_LONGEST_RETRY_AFTER_S = 60.0
_TRY_AGAIN_STATUSES = frozenset({408, 425, 502, 503, 504})
_TRY_AGAIN_CODES = frozenset({"THROTTLING_QUOTA_EXCEEDED"})
_LONGEST_DETAIL = 2_000
"""The length limit for the `detail` in a coordinator's problem document, in characters. The limit is large because the
last sentence of the detail says how to correct the error.
"""

_LONGEST_FOREIGN_TEXT = 300


@dataclass(frozen=True, slots=True)
class CoordinatorAddress:
    """The addresses of coordinators and the caller's token. `url`: one or more URLs, separated by commas. `token_file`:
    the file with the bearer token; if None, the token comes from the environment. Raises InputError if a URL or the
    token cannot be used.
    """

    url: str
    token_file: Path | None = None
    addresses: CoordinatorAddresses = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "addresses", addresses_of(self.url))
        self.token()

    def token(self) -> str | None:
        """Returns the token for the next call. The token file is read again for each call, so the token may change.
        Raises InputError.
        """
        return read_token(self.token_file)


class NoAnswer(Unavailable):
    """No coordinator gave an answer. `answers`: maps each tried address to a text about the result, in the order of the
    attempts. The error's message names the tried addresses. If the user gave one address and only this address was
    tried, the message does not name the address.
    """

    def __init__(self, answers: Mapping[str, str], addresses: CoordinatorAddresses) -> None:
        super().__init__(outcomes_text(answers, addresses.urls))
        self.answers = answers


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer with an error. `code`: Kafka's error name; None if the answer does not come from a coordinator.
    `detail`: the coordinator's explanation; the beginning of the answer's body if there is no explanation.
    `retry_after_s`: an overloaded coordinator asks the caller to repeat the call after this time.
    """

    status: int
    code: str | None
    detail: str
    retry_after_s: float | None = None

    @property
    def may_be_repeated(self) -> bool:
        """True if the coordinator is starting, stopping or overloaded, and therefore did not process the request."""
        return self.status in _TRY_AGAIN_STATUSES or self.code in _TRY_AGAIN_CODES


class CoordinatorRefused(AssignorFault):
    """The coordinator at `address` refused the call. `refusal`: the coordinator's answer."""

    def __init__(self, refusal: Refusal, address: str) -> None:
        super().__init__(f"{refusal.code or refusal.status}: {refusal.detail}")
        self.refusal = refusal
        self.address = address


def addresses_of(text: str) -> CoordinatorAddresses:
    """Parses the addresses of coordinators. `text`: one or more URLs, separated by commas.

    Raises InputError if an address is not a URL. Without this check, calls to a wrong address would fail with the
    misleading error that the coordinator cannot be reached. Raises InputError if a URL may contain a password or a
    token, because messages and logs show URLs. The error about a secret does not show the URL.
    """
    urls = [part.strip() for part in text.split(",")]
    for number, url in enumerate(urls, start=1):
        which = "" if len(urls) == 1 else f"address {number} of {len(urls)} "
        if may_have_secret(url):
            raise InputError(
                f"{which}must be a URL such as {DEFAULT_URL}, without user, password or parameters: a token is given "
                f"by --token-file or {TOKEN_VARIABLE}",
                _OPTION,
            )
        if not is_address(url):
            raise InputError(f"{which}must be a URL such as {DEFAULT_URL}, not {url!r}", _OPTION)
    return CoordinatorAddresses(tuple(dict.fromkeys(url.rstrip("/") for url in urls)))


def read_token(token_file: Path | None) -> str | None:
    """Returns the caller's token, or None if no token is given. The token comes from the first source that is given:
    `token_file`, the variable ASSIGNOR_AUTH_TOKEN, or the file that the variable ASSIGNOR_AUTH_TOKEN_FILE names.

    Raises InputError if the file cannot be read or has no token. Raises InputError if the token has a character that an
    HTTP header cannot contain.
    """
    file = token_file_of(token_file)
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE)
        return checked_token(token, TOKEN_VARIABLE) if token else None
    return token_in(file, TOKEN_FILE_VARIABLE if token_file is None else "--token-file")


def token_file_of(token_file: Path | None) -> Path | None:
    """Returns the file that contains the token. If `token_file` is given, this file is returned. If neither
    `token_file` nor ASSIGNOR_AUTH_TOKEN is given, returns the file that ASSIGNOR_AUTH_TOKEN_FILE names. Returns None if
    the token does not come from a file.
    """
    if token_file is None and not os.environ.get(TOKEN_VARIABLE):
        named = os.environ.get(TOKEN_FILE_VARIABLE)
        return Path(named) if named else None
    return token_file


class CallerToken:
    """The token that a running program sends: a fixed token, or the present token in a file.

    The token file is checked for changes at most once a second, and is read again if it has changed. If the changed
    file cannot be read or has no valid token, the old token stays in use. `token`: the fixed token; None if there is no
    token, or if `file` contains the token. Threads may share a `CallerToken`. Raises InputError if the fixed token has
    a character that an HTTP header cannot contain.
    """

    def __init__(self, token: str | None = None, file: Path | None = None) -> None:
        self._token = checked_token(token, "token") if token else None
        self._file = file
        self._state: tuple[object, ...] = ()
        self._read_at_s = 0.0
        if file is not None:
            self.reread()

    def __repr__(self) -> str:
        return f"CallerToken({'of ' + str(self._file) if self._file is not None else '...'})"

    def current(self) -> str | None:
        """Returns the token for the next call."""
        if self._file is not None and time.monotonic() - self._read_at_s >= _READ_EVERY_S:
            self.reread()
        return self._token

    def reread(self) -> str | None:
        """Reads the token file again if it has changed, and returns the token. A client calls `reread` when a
        coordinator has refused its call.
        """
        if self._file is None:
            return self._token
        self._read_at_s = time.monotonic()
        state = state_of(self._file)
        if state != self._state:
            with contextlib.suppress(InputError):  # the token file is being replaced, or has no valid token yet
                self._token = read_token(self._file) or self._token
                self._state = state
        return self._token


def state_text(state: str, condition: str | None) -> str:
    """Returns a text about a group's state: the reason why the group does nothing, or else Kafka's name of the state.
    `condition`: the condition that stops the group, from the coordinator's description of the group; None if no
    condition stops it.
    """
    return state if condition is None else _CONDITIONS.get(condition, condition)


def group_path(group_id: str) -> str:
    """Returns the path `/v1/groups/...` of a group. The group id in the path is URL-quoted."""
    return f"/v1/groups/{quote(group_id, safe='')}"


def refusal_of(status: int, content: bytes, reason_phrase: str = "", retry_after: str = "") -> Refusal:
    """Parses an answer with an error. `content`: the body of the answer. `reason_phrase`: the HTTP reason phrase, which
    becomes the detail if the answer has no body. `retry_after`: the answer's header Retry-After.
    """
    try:
        problem = json.loads(content)
    except (ValueError, RecursionError):
        problem = None
    after_s = _retry_after_s(status, retry_after)
    if not isinstance(problem, dict):
        text = content.decode("utf-8", "replace")[:_LONGEST_FOREIGN_TEXT]
        return Refusal(status, None, text or reason_phrase, after_s)
    code, detail = problem.get("code"), problem.get("detail")
    text = str(detail or problem)[: _LONGEST_DETAIL if detail else _LONGEST_FOREIGN_TEXT]
    if status == _UNAUTHORIZED and code is not None:
        text = f"{text}; a command takes it from --token-file or {TOKEN_VARIABLE}"
    return Refusal(status, None if code is None else str(code), text, after_s)


def _retry_after_s(status: int, text: str) -> float | None:
    """Returns the value of the header Retry-After in seconds, but at most 60. Returns None if the status is not 429
    (overloaded). The header may also contain a date. A date is ignored, because it may come from a proxy. If the
    coordinator is starting or stopping, the header is ignored. The call is then repeated sooner, because a waiting
    member does no work.
    """
    if status != _TOO_MANY_REQUESTS or not (text.isascii() and text.isdigit()):
        return None
    return min(float(text), _LONGEST_RETRY_AFTER_S)
