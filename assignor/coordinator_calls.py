"""What every caller of a coordinator goes by: its address, the path of a group, and what an unsuccessful answer says.

There is no HTTP client here, because callers need different ones: a member keeps its connections and is patient, a
command asks once, a report is one compressed POST. A refusal is a problem document (RFC 9457) whose `code` is Kafka's
error name (`Errors`).
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from assignor.errors import InputError

DEFAULT_URL = "http://127.0.0.1:8080"
TOKEN_VARIABLE = "ASSIGNOR_AUTH_TOKEN"  # noqa: S105 (the name of a variable)
TOKEN_FILE_VARIABLE = "ASSIGNOR_AUTH_TOKEN_FILE"  # noqa: S105 (the name of a variable)
_LOOK_EVERY_S = 1.0

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
    """Where a coordinator listens. `token_file`: has the bearer token; None: ASSIGNOR_AUTH_TOKEN has it, if any.

    Raises InputError for a URL or a token that cannot be used.
    """

    url: str
    token_file: Path | None = None

    def __post_init__(self) -> None:
        check_url(self.url)
        self.headers()

    def headers(self) -> dict[str, str]:
        """Those of one call. The token is read each time, so that it can be changed. Raises InputError."""
        return authorization(read_token(self.token_file))

    def url_of(self, path: str) -> str:
        """`path`: begins with /v1."""
        return f"{self.url.rstrip('/')}{path}"


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


def check_url(url: str) -> None:
    """Raises InputError for text that is no URL: a call to it would look like a coordinator that is down.

    Messages and logs name the URL. So it is refused, and not shown, when it may have a password or a token in it.
    """
    if not {"@", "?", "#"}.isdisjoint(url):
        raise InputError(
            f"must be a URL such as {DEFAULT_URL}, without user, password or parameters: a token is given by "
            f"--token-file or {TOKEN_VARIABLE}",
            "--coordinator",
        )
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise InputError(f"must be a URL such as {DEFAULT_URL}, not {url!r}", "--coordinator")


def authorization(token: str | None) -> dict[str, str]:
    """The header that carries the token; none without a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def read_token(token_file: Path | None) -> str | None:
    """The token in the file, else that of ASSIGNOR_AUTH_TOKEN, else that in the file of ASSIGNOR_AUTH_TOKEN_FILE.

    Raises InputError for a file that cannot be read, and for a token that no header can carry.
    """
    token_file = token_file_of(token_file)
    if token_file is None:
        token, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
    else:
        where = "--token-file"
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            problem = "is not text" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise InputError(f"{token_file} cannot be read: {problem}", where) from None
    if token and not (token.isascii() and token.isprintable()):
        raise InputError("a token is one line of printable ASCII", where)
    return token


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
    file. Any thread may use it.
    """

    def __init__(self, token: str | None = None, file: Path | None = None) -> None:
        self._token = token
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
