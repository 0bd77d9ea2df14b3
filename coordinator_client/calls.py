"""What every caller of a coordinator goes by: addresses, the path of a group, what an unsuccessful answer says.

`ask` is the one place that leads a call from address to address; where it goes is said by `addresses.py`.
There is no HTTP client here, because callers need different ones: a member keeps its connections and is patient, a
command asks once, a report is one compressed POST. A refusal is a problem document (RFC 9457) whose `code` is Kafka's
error name (`Errors`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from assignor.errors import InputError, Unavailable
from coordinator_client.access.token_files import token_in
from coordinator_client.access.tokens import checked_token
from coordinator_client.addresses import (
    SENT_ON,
    CallRoute,
    CoordinatorAddresses,
    CoordinatorCall,
    is_address,
    may_have_secret,
    told,
)

DEFAULT_URL = "http://127.0.0.1:8080"
COORDINATOR_METAVAR = "URL,..."
SEVERAL_COORDINATORS = "several are separated by commas"
"""What the help of an option says that takes the addresses."""

TOKEN_VARIABLE = "ASSIGNOR_AUTH_TOKEN"  # noqa: S105 (the name of a variable)
TOKEN_FILE_VARIABLE = "ASSIGNOR_AUTH_TOKEN_FILE"  # noqa: S105 (the name of a variable)
_OPTION = "--coordinator"
_LOOK_EVERY_S = 1.0
_LONGEST_CONNECT_S = 2.0
_SHORTEST_STEP_S = 0.001
_STEPS = ("connect", "pool", "read", "write")

_CONDITIONS = {
    "MISSING_SOURCE_TOPICS": "waits for topics",
    "REBALANCE_FAILED": "rebalance failed",
    "NO_TASKS": "has no tasks",
    "PAUSED": "paused",
}

_UNAUTHORIZED = 401
_TRY_AGAIN_STATUSES = frozenset({408, 425, 502, 503, 504})
_TRY_AGAIN_CODES = frozenset({"THROTTLING_QUOTA_EXCEEDED"})
_LONGEST_DETAIL = 2_000
"""Of a coordinator's own problem, which says what to do at its end."""

_LONGEST_FOREIGN_TEXT = 300


@dataclass(frozen=True, slots=True)
class CoordinatorAddress:
    """Where coordinators listen. `url`: of one, or of several, separated by commas. `token_file`: has the bearer token;
    None: ASSIGNOR_AUTH_TOKEN has it, if any.

    Raises InputError for a URL or a token that cannot be used.
    """

    url: str
    token_file: Path | None = None
    addresses: CoordinatorAddresses = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "addresses", addresses_of(self.url))
        self.headers()

    def headers(self) -> dict[str, str]:
        """Those of one call. The token is read each time, so that it can be changed. Raises InputError."""
        return authorization(read_token(self.token_file))


class Unanswered(Unavailable):
    """What the `send` of a call raises when no answer came. The message says why. `old_connection_ended`: that was all,
    and the coordinator had answered over it before.
    """

    def __init__(self, why: str, *, old_connection_ended: bool = False) -> None:
        super().__init__(why)
        self.old_connection_ended = old_connection_ended


class NoAnswer(Unavailable):
    """No coordinator gave an answer. `answers`: what became of the call at each address that was asked, in that order.
    The message names them, unless there is one and the caller knows it.
    """

    def __init__(self, answers: Mapping[str, str], addresses: CoordinatorAddresses) -> None:
        super().__init__(told(answers, addresses.urls))
        self.answers = answers


class TimeLeft(Mapping[str, float]):
    """What is left of `timeout_s`, in seconds, as an HTTP client asks for it before each step: so that connecting, TLS,
    sending and waiting together take no longer. Connecting never takes longer than 2 s.
    """

    def __init__(self, timeout_s: float) -> None:
        self._ends_s = time.monotonic() + timeout_s

    def __getitem__(self, step: str) -> float:
        if step not in _STEPS:
            raise KeyError(step)
        left_s = max(self._ends_s - time.monotonic(), _SHORTEST_STEP_S)
        return min(left_s, _LONGEST_CONNECT_S) if step == "connect" else left_s

    def __iter__(self) -> Iterator[str]:
        return iter(_STEPS)

    def __len__(self) -> int:
        return len(_STEPS)


class Asked(NamedTuple):
    """One request of a call. `address`: of the coordinator. `url`: with path and query."""

    address: str
    url: str
    time_left: TimeLeft


class HasStatus(Protocol):
    """The answer of any HTTP client."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


Answer = TypeVar("Answer", bound=HasStatus)


class Answered(NamedTuple, Generic[Answer]):
    """`address`: of the coordinator whose answer it is."""

    address: str
    answer: Answer


def ask(addresses: CoordinatorAddresses, call: CoordinatorCall, send: Callable[[Asked], Answer]) -> Answered[Answer]:
    """Make the call, at one address after the other, until one answers it. An answer may be a refusal.

    `send`: makes one request, follows no redirect, and raises Unanswered. When no coordinator can serve the call, the
    last one that said so is the answer: status 502, 503 or 504. Raises NoAnswer, and what else `send` raises.
    """
    route = CallRoute(addresses, call)
    ends_s = time.monotonic() + call.longest_s
    cannot: Answered[Answer] | None = None
    while (attempt := route.next(ends_s - time.monotonic())) is not None:
        try:
            answer = send(Asked(attempt.address, attempt.url, TimeLeft(attempt.timeout_s)))
        except Unanswered as error:
            route.unanswered(attempt, str(error), old_connection_ended=error.old_connection_ended)
            continue
        answered = Answered(attempt.address, answer)
        if route.answered(attempt, answer.status_code, answer.headers.get("Location")):
            return answered
        if answer.status_code != SENT_ON:
            cannot = answered
    if cannot is None:
        raise NoAnswer(route.said, addresses)
    return cannot


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is not a success. `code`: Kafka's error name; None when the answer is not a coordinator's.
    `detail`: its explanation, or the beginning of what it sent instead.
    """

    status: int
    code: str | None
    detail: str

    @property
    def may_be_repeated(self) -> bool:
        """The coordinator is starting, stopping or overloaded, and did not take the request."""
        return self.status in _TRY_AGAIN_STATUSES or self.code in _TRY_AGAIN_CODES


def addresses_of(text: str) -> CoordinatorAddresses:
    """`text`: the URL of a coordinator, or several, separated by commas.

    Raises InputError for what is no URL: a call to it would look like a coordinator that is down. Messages and logs
    name URLs. So one that may have a password or a token in it is refused, and not shown.
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


def authorization(token: str | None) -> dict[str, str]:
    """The header that carries the token; none without a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def read_token(token_file: Path | None) -> str | None:
    """The token in the file, else that of ASSIGNOR_AUTH_TOKEN, else that in the file of ASSIGNOR_AUTH_TOKEN_FILE.

    Raises InputError for a file that cannot be read or has no token, and for a token that no header can carry.
    """
    file = token_file_of(token_file)
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE)
        return checked_token(token, TOKEN_VARIABLE) if token else None
    return token_in(file, TOKEN_FILE_VARIABLE if token_file is None else "--token-file")


def token_file_of(token_file: Path | None) -> Path | None:
    """The file that has the token: the given one, or that of ASSIGNOR_AUTH_TOKEN_FILE if there is no token without it.

    None: there is no file.
    """
    if token_file is None and not os.environ.get(TOKEN_VARIABLE):
        named = os.environ.get(TOKEN_FILE_VARIABLE)
        return Path(named) if named else None
    return token_file


class CallerToken:
    """The token that a program sends for as long as it runs: one that stays, or that of a file, which may change.

    Rules: the file is looked at no more than once a second, and read when it has changed. While it cannot be read, or
    has no token that a header can carry, the token that it had before stays. `token`: None for none, or for that of the
    file. Any thread may use it. Raises InputError for a given token that no header can carry.
    """

    def __init__(self, token: str | None = None, file: Path | None = None) -> None:
        self._token = checked_token(token, "token") if token else None
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        self._looked_at_s = 0.0
        if file is not None:
            self.looked_up()

    def __repr__(self) -> str:
        return f"CallerToken({'of ' + str(self._file) if self._file is not None else '...'})"

    def current(self) -> str | None:
        """What the next call has to carry."""
        if self._file is not None and time.monotonic() - self._looked_at_s >= _LOOK_EVERY_S:
            self.looked_up()
        return self._token

    def looked_up(self) -> str | None:
        """The same, after a look at the file: for a call that was refused."""
        if self._file is None:
            return self._token
        self._looked_at_s = time.monotonic()
        try:
            found = self._file.stat()
            seen = (found.st_ino, found.st_size, found.st_mtime_ns)
            if seen != self._seen:
                self._token = read_token(self._file) or self._token
                self._seen = seen
        except (OSError, InputError):
            pass  # it is being replaced, or is no token yet
        return self._token


def state_in_words(state: str, condition: str | None) -> str:
    """What people see as the state of a group: Kafka's name, or why a group in that state does nothing. `condition`: as
    the description of a group has it.
    """
    return state if condition is None else _CONDITIONS.get(condition, condition)


def group_path(group_id: str) -> str:
    """`/v1/groups/...`, whatever characters the id has."""
    return f"/v1/groups/{quote(group_id, safe='')}"


def refusal_of(status: int, content: bytes) -> Refusal:
    """What an unsuccessful answer says. `content`: its body."""
    try:
        problem = json.loads(content)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        return Refusal(status, None, content.decode("utf-8", "replace")[:_LONGEST_FOREIGN_TEXT])
    code, detail = problem.get("code"), problem.get("detail")
    text = str(detail or problem)[: _LONGEST_DETAIL if detail else _LONGEST_FOREIGN_TEXT]
    if status == _UNAUTHORIZED and code is not None:
        text = f"{text}; a command takes it from --token-file or {TOKEN_VARIABLE}"
    return Refusal(status, None if code is None else str(code), text)
