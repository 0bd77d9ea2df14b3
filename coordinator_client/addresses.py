"""The addresses of several coordinators, and the order in which a call tries them. The module does no I/O.

The caller of this module makes the requests. The caller gets each address from `CallRoute.next`, and calls `answered`
or `unanswered` with the result. The caller repeats these steps until the call has an answer or no address is left.

Rules:
- A call goes first to the coordinator that answered the last call for the same group. If this coordinator fails, or if
  no call for the group was answered before, the call tries the addresses of the list one after the other. The call
  first tries the address that answered the last call for any group.
- If an address does not answer, or answers with status 502, 503 or 504, the call goes to the next address of the list.
  A call does not try a failed address a second time, with one exception. A connection may break after it has carried
  earlier answers. The call is then sent once more to the same address.
- An answer with status 307 names the coordinator that owns the group. The redirected call goes to the owner, even if
  the owner's address is not in the list. A redirected call is sent unchanged. A call follows at most three redirects. A
  redirect from https to http is not followed, so that no token is sent unencrypted. A redirect to a URL with a
  different path or query is not followed, so that the call stays unchanged.
- Each call has a time limit. Each address gets only a share of the call's time. So time remains for the other addresses
  if one address does not answer. A coordinator may hold its answer to some calls. The client asks the coordinator to
  answer before the call's time limit ends.

Source of the idea: `bootstrap.servers` and NOT_COORDINATOR of Kafka's clients. Differs from Kafka: the answer
NOT_COORDINATOR does not name the right coordinator, so a Kafka client has to look it up. The answer of this project's
coordinator names the right coordinator.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

MOST_REDIRECTS = 3
"""The largest number of redirects that one call follows."""

REDIRECT = 307
_ASK_ANOTHER = frozenset({502, 503, 504})
_SECRETS = "@?#"
"""A URL with a password or a token contains at least one of these characters."""

_LONGEST_ADDRESS = 2_000


def may_have_secret(url: str) -> bool:
    """Returns True if the URL may contain a password or a token. No message may show a URL that may contain a
    secret.
    """
    return not set(_SECRETS).isdisjoint(url)


def is_host(host: str) -> bool:
    """Returns True if Python can resolve this host name. Python cannot resolve a name that has an empty label or a
    label of more than 63 characters.
    """
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def is_address(url: str) -> bool:
    """Returns True if the URL can be the address of a coordinator. The URL must have a host and the scheme http or
    https. The URL may have a port and a path prefix.
    """
    if may_have_secret(url) or not url.isprintable() or " " in url or len(url) > _LONGEST_ADDRESS:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and is_host(parts.hostname or "") and parts.port != 0
    except ValueError:
        return False


def _is_secured(url: str) -> bool:
    return url.lower().startswith("https:")


class CoordinatorAddresses:
    """The addresses of the coordinators. `urls`: one or more URLs without a slash at the end, which `is_address` has
    accepted.

    Threads may share a `CoordinatorAddresses` without a lock. Two threads may overwrite each other's data about the
    last answers. The worst effect is that the next call needs one more redirect.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = tuple(urls)
        # the address that gave the last answer; before any answer, the first address of the list
        self._best = self.urls[0]
        self._owners: dict[str, str] = {}

    def __str__(self) -> str:
        return ",".join(self.urls)

    @property
    def secured(self) -> str:
        """The first https address of the list, or the first address if no address is https. If an HTTP client can call
        this address, it can call all addresses of the list.
        """
        return next((url for url in self.urls if _is_secured(url)), self.urls[0])

    def current(self, group: str) -> str:
        """Returns the address for the next call about this group. `group`: empty if the call concerns no group."""
        return self._owners.get(group, self._best)

    def moved(self, group: str, url: str) -> None:
        """Remembers that the coordinator at `url` answered a call for this group."""
        self._owners[group] = url
        self.answers(url)

    def answers(self, url: str) -> None:
        """Remembers that the coordinator at `url` answered. The answer may be a redirect to another coordinator."""
        if url in self.urls:
            self._best = url

    def failed(self, url: str) -> None:
        """Remembers that the coordinator at `url` gave no usable answer. The next call first tries another address of
        the list, if there is one.
        """
        for group, owner in self._owners.copy().items():
            if owner == url:
                self._owners.pop(group, None)
        if self._best == url:
            self._best = self.urls[(self.urls.index(url) + 1) % len(self.urls)]

    def in_turn(self, group: str) -> Iterator[str]:
        """Yields each address once, in the order in which a call about this group tries the addresses."""
        current, best = self.current(group), self._best
        if current not in self.urls:
            yield current
            current = best
        start = self.urls.index(current)
        yield from self.urls[start:] + self.urls[:start]


@dataclass(frozen=True, slots=True)
class CoordinatorCall:
    """A call to a coordinator. `path`: the quoted path of the URL, which begins with /v1. `timeout_s`: the time limit
    for all attempts and redirects of the call together; `wait_ms` is added to it. `wait_ms`: the time for which the
    coordinator may hold its answer; None if the answer is never held. `one_address`: True to try only one address of
    the list, because the caller will repeat the call soon.
    """

    path: str
    timeout_s: float
    query: Mapping[str, str | int] = field(default_factory=dict)
    wait_ms: int | None = None
    one_address: bool = False

    @property
    def group(self) -> str:
        """The URL-quoted id of the call's group; empty if the call concerns no group."""
        parts = self.path.split("/")
        return parts[3] if parts[1:3] == ["v1", "groups"] and len(parts) > 3 else ""

    @property
    def longest_s(self) -> float:
        return self.timeout_s + (self.wait_ms or 0) / 1000

    def target(self, wait_ms: int) -> str:
        """Returns the path and query of the URL. `wait_ms`: the time for which the coordinator may hold its answer."""
        query = dict(self.query) if self.wait_ms is None else {**self.query, "wait_ms": wait_ms}
        return f"{self.path}?{urlencode(query, quote_via=quote, safe='')}" if query else self.path


class Attempt(NamedTuple):
    """One request of a call, sent to one coordinator. `target`: the path and query of the URL. `timeout_s`: the time
    limit for connecting, sending and receiving the answer.
    """

    address: str
    target: str
    timeout_s: float

    @property
    def url(self) -> str:
        return f"{self.address}{self.target}"


class CallRoute:
    """Chooses the address for each attempt of one call. `outcomes`: maps each tried address to a text about the result,
    in the order of the attempts.
    """

    def __init__(self, addresses: CoordinatorAddresses, call: CoordinatorCall) -> None:
        self.outcomes: dict[str, str] = {}
        self._addresses = addresses
        self._call = call
        self._failed: set[str] = set()
        self._asks_now: str | None = None
        self._has_asked_again = False
        self._redirects = 0

    def next(self, left_s: float) -> Attempt | None:
        """Returns the next attempt, or None if no address or no time is left. `left_s`: the remaining part of the
        call's `longest_s`.
        """
        address, self._asks_now = self._asks_now, None
        if address is None:
            address = self._next_of_list()
        if address is None or left_s <= 0:
            return None
        call = self._call
        held_ms = 0 if call.wait_ms is None else min(call.wait_ms, max(0, math.ceil(1000 * (left_s - call.timeout_s))))
        held_s = held_ms / 1000
        return Attempt(address, call.target(held_ms), held_s + self._share_s(left_s - held_s, address))

    def unanswered(self, attempt: Attempt, why: str, *, old_connection_ended: bool = False) -> None:
        """Remembers that an attempt got no answer. `old_connection_ended`: True if the connection has carried answers
        to earlier requests, and has now ended.
        """
        if old_connection_ended and not self._has_asked_again:
            self._has_asked_again = True
            self._asks_now = attempt.address
            return
        self.outcomes[attempt.address] = why
        self._failed.add(attempt.address)
        self._addresses.failed(attempt.address)

    def answered(self, attempt: Attempt, status: int, location: str | None) -> bool:
        """Remembers the answer to an attempt. Returns True if the call is answered. Returns False if the caller has to
        call `next` for another attempt. `location`: the target URL of a redirect.
        """
        if status == REDIRECT:
            self._go_on(attempt, location or "")
            return False
        if status in _ASK_ANOTHER:
            self.unanswered(attempt, f"status {status}")
            return False
        self._addresses.moved(self._call.group, attempt.address)
        return True

    def _next_of_list(self) -> str | None:
        if self._call.one_address and self.outcomes:
            return None
        return next((each for each in self._addresses.in_turn(self._call.group) if each not in self.outcomes), None)

    def _share_s(self, left_s: float, address: str) -> float:
        """Returns the time limit for the attempt at this address: a share of the remaining time."""
        if self._call.one_address:
            return left_s
        urls = self._addresses.urls
        others = sum(1 for each in urls if each != address and each not in self.outcomes)
        return min(left_s / (1 + others), self._call.timeout_s / len(urls))

    def _go_on(self, attempt: Attempt, location: str) -> None:
        """Follows the redirect if the rules allow it."""
        here = attempt.address
        to, problem = _led_to(location, attempt)
        if to in self._failed:
            self.outcomes[here] = f"sends the call on to {to}, which has failed"
        elif not problem and self._redirects < MOST_REDIRECTS:
            self._redirects += 1
            self._asks_now = to
            self._addresses.answers(here)
            self.outcomes[here] = f"sends the call on to {to}"
        else:
            self.unanswered(attempt, problem or f"sends the call on to {to}, after {MOST_REDIRECTS} others did so")


def _led_to(location: str, attempt: Attempt) -> tuple[str, str]:
    """Returns the address in the target URL of a redirect, and the reason not to follow the redirect. The reason is
    empty if the client may follow the redirect.
    """
    address = location.removesuffix(attempt.target).rstrip("/")
    if not location.endswith(attempt.target):
        return "", "sends the call on to another path"
    if not is_address(address):
        return "", "sends the call on to what is no address of a coordinator"
    if _is_secured(attempt.address) and not _is_secured(address):
        return address, f"sends the call on to {address}, which is not followed from https"
    return address, ""


def outcomes_text(outcomes: Mapping[str, str], known: Collection[str]) -> str:
    """Returns one text with the results of all attempts of an unanswered call. `known`: the addresses that the user
    gave. If the user gave one address and only this address was tried, the text does not name the address.
    """
    if len(outcomes) == 1 and outcomes.keys() == set(known):
        return next(iter(outcomes.values()))
    return "; ".join(f"{address}: {outcome}" for address, outcome in outcomes.items())
