"""The HTTP client for calls to a coordinator. The client sends a call to one address after the other until a
coordinator answers. If the answer is a refusal, the client parses it and raises CoordinatorRefused. If no
address answers, the client raises NoAnswer. `addresses.py` chooses the order of the addresses.

The constructor's arguments set the headers, and whether connections are kept (`KeptConnections`). The arguments of each
call set its time limit and its retries. The token may change while the client is in use. A command that makes no call
must not import this module, because the import of httpx takes time.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from io import RawIOBase
from typing import TYPE_CHECKING, Any

import httpx

from assignor.errors import InputError
from coordinator_client.access.tls import client_context, tls_problem
from coordinator_client.addresses import REDIRECT, Attempt, CallRoute, CoordinatorAddresses, CoordinatorCall
from coordinator_client.calls import CallerToken, CoordinatorRefused, NoAnswer, refusal_of

if TYPE_CHECKING:
    # tenacity may be missing: the coordinator is installed without it, because the coordinator's commands do not retry
    # calls
    import tenacity

_LONGEST_CONNECT_S = 2.0
_SHORTEST_STEP_S = 0.001
_STEPS = ("connect", "pool", "read", "write")
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)
MOST_KEPT = 4
"""The largest number of open connections of a `KeptConnections`. When another connection is opened, the oldest
connection is closed.
"""

_KEPT_LIMITS = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
_OPENED = "connection.connect_tcp.complete"
_WRAPPED = "connection.start_tls.complete"
_CONNECTION_ENDED = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer:
    """An answer of a coordinator. `address`: the address of the coordinator that answered. `url`: the called URL, with
    path and query. `headers`: maps each header's name to its value; a name may be looked up in upper or lower case.
    """

    address: str
    url: str
    status: int
    headers: Mapping[str, str]
    content: bytes

    def document(self) -> dict[str, Any]:
        """Returns the JSON object in `content`. Raises ValueError if `content` is not a JSON object."""
        try:
            document = json.loads(self.content)
        except ValueError:
            raise ValueError("the answer is not JSON") from None
        if not isinstance(document, dict):
            raise ValueError("the answer is not a JSON object")
        return document


class CoordinatorHttpClient(AbstractContextManager["CoordinatorHttpClient"]):
    """Calls one coordinator, or several coordinators that share a database. The caller has to close the client after
    use.

    `token`: the bearer token, if any. `headers`: headers that are sent with every call. `keep_connections`: True to
    keep one connection to each address (see `KeptConnections`). If connections are kept, only one thread at a time may
    make calls. If connections are not kept, several threads may make calls at the same time.

    Raises InputError if a certificate file cannot be used, or if httpx does not accept an address. Without this check,
    calls to the address would fail with the misleading error that the coordinator cannot be reached.
    """

    def __init__(
        self,
        addresses: CoordinatorAddresses,
        token: str | CallerToken | None,
        *,
        headers: Mapping[str, str] | None = None,
        keep_connections: bool = False,
    ) -> None:
        for url in addresses.urls:
            try:
                httpx.URL(url)
            except httpx.InvalidURL as error:
                raise InputError(f"is no address of a coordinator: {error}", url) from None
        self._addresses = addresses
        connect = partial(http_client, token=token, headers=headers)
        self._kept = KeptConnections(connect) if keep_connections else None
        self._shared = None if keep_connections else connect(addresses.secured, limits=_LIMITS)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections. If connections are kept, only the thread that makes the calls may call `close`."""
        for each in (self._kept, self._shared):
            if each is not None:
                each.close()

    def break_off(self) -> None:
        """Makes the running call and all later calls fail, by closing the kept connections. Any thread may call
        `break_off`.
        """
        assert self._kept is not None
        self._kept.break_off()

    def call(
        self,
        method: str,
        call: CoordinatorCall,
        *,
        accept: tuple[int, ...] = (),
        retrying: tenacity.Retrying | None = None,
        **content: Any,
    ) -> CoordinatorAnswer:
        """Makes a call, and returns the answer of the first coordinator that answers.

        `accept`: further statuses that are not errors; the statuses 2xx are never errors. `retrying`: the pauses
        between retries, and the condition that ends the retries; None for no retries. A call is not retried after a
        coordinator has processed it. `content`: the arguments `json`, `content` and `headers` of httpx. Raises
        CoordinatorRefused or NoAnswer.
        """

        def once() -> CoordinatorAnswer:
            address, response = self._answer(method, call, content)
            if not response.is_success and response.status_code not in accept:
                retry_after = response.headers.get("Retry-After", "")
                refusal = refusal_of(response.status_code, response.content, response.reason_phrase, retry_after)
                raise CoordinatorRefused(refusal, address)
            url = str(response.request.url)
            return CoordinatorAnswer(address, url, response.status_code, response.headers, response.content)

        return once() if retrying is None else retrying.copy(retry=_was_not_taken, reraise=True)(once)

    def _answer(self, method: str, call: CoordinatorCall, content: Mapping[str, Any]) -> tuple[str, httpx.Response]:
        """Sends a call to one address after the other until a coordinator answers it. Returns the coordinator's address
        and the answer, which may be a refusal.

        If all answers have status 502, 503 or 504, the last of these answers is returned. Raises NoAnswer if no address
        answered.
        """
        route = CallRoute(self._addresses, call)
        ends_s = time.monotonic() + call.longest_s
        last: tuple[str, httpx.Response] | None = None
        while (attempt := route.next(ends_s - time.monotonic())) is not None:
            opened = 0 if self._kept is None else self._kept.opened
            try:
                response = self._send(method, attempt, content)
            except (httpx.RequestError, httpx.InvalidURL) as error:
                # if this request opened no connection, the broken connection has carried answers to earlier requests
                ended = self._kept is not None and self._kept.opened == opened and isinstance(error, _CONNECTION_ENDED)
                route.unanswered(attempt, transport_problem(error), old_connection_ended=ended)
                continue
            is_answer = route.answered(attempt, response.status_code, response.headers.get("Location"))
            if is_answer or response.status_code != REDIRECT:
                last = attempt.address, response
            if is_answer:
                break
        if last is None:
            raise NoAnswer(route.outcomes, self._addresses)
        address, response = last
        # A server error may come from a proxy, and then no coordinator has seen the new connection. So the old
        # connections stay open after a server error.
        if self._kept is not None and not response.is_server_error:
            self._kept.keep_only(address, response)
        return last

    def _send(self, method: str, attempt: Attempt, content: Mapping[str, Any]) -> httpx.Response:
        extensions: dict[str, Any] = {"timeout": TimeLeft(attempt.timeout_s)}
        http = self._shared
        if self._kept is not None:
            http = self._kept.client_of(attempt.address)
            extensions["trace"] = self._kept.trace
        assert http is not None, "it is shared, or kept"
        return http.request(method, attempt.url, extensions=extensions, **content)


def transport_problem(error: Exception) -> str:
    """Returns the reason why no answer came. For a TLS error, the text also says how to correct it. For any other
    error, the result is the error's own text.
    """
    return tls_problem(error) or str(error) or type(error).__name__


def http_client(url: str, token: str | CallerToken | None, **more: Any) -> httpx.Client:
    """Returns an HTTP client that sends this token. `url`: a URL that the client will call. For an https URL, this
    function reads the TLS files. `more`: further arguments of `httpx.Client`. Raises InputError if a certificate file
    cannot be used.
    """
    return httpx.Client(auth=BearerAuth(token), **_direct(url), **more)


def async_http_client(url: str, **more: Any) -> httpx.AsyncClient:
    """Returns an HTTP client for an event loop; the client sends no token. The arguments have the same meanings as in
    `http_client`, and the same errors are raised.
    """
    return httpx.AsyncClient(**_direct(url), **more)


def _direct(url: str) -> dict[str, Any]:
    # the proxies in environment variables are for external hosts, and must not see calls to a coordinator
    return {"trust_env": False, "verify": client_context(url, httpx.create_ssl_context)}


class BearerAuth(httpx.Auth):
    """Sends `token` with each call. If a call is refused with 401 and the token file has a new token, the call is sent
    once more with the new token.
    """

    def __init__(self, token: str | CallerToken | None) -> None:
        self._token = token if isinstance(token, CallerToken) else CallerToken(token)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        sent = self._token.current()
        _authorize(request, sent)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            newest = self._token.reread()
            if newest != sent:
                _authorize(request, newest)
                yield request


def _authorize(request: httpx.Request, token: str | None) -> None:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"


class TimeLeft(Mapping[str, float]):
    """Maps each step of a request to its time-out. Before each step, httpx reads the time-out, which is the remaining
    part of `timeout_s`. So connecting, TLS, sending and waiting together take at most `timeout_s`. Connecting takes at
    most 2 s.
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


def _was_not_taken(state: tenacity.RetryCallState) -> bool:
    """Returns True if the call may be repeated, because no coordinator answered or processed it."""
    error = None if state.outcome is None else state.outcome.exception()
    return isinstance(error, NoAnswer) or (isinstance(error, CoordinatorRefused) and error.refusal.may_be_repeated)


class KeptConnections:
    """Keeps connections open, even after a time-out. A coordinator assumes that a process has failed when the process's
    connection closes. So a connection stays open until an answer has come over another connection.

    Each called address has one TCP connection. A single thread uses the connection for one call after the other.

    When a connection breaks, a new connection to the same coordinator is opened before the next address is tried. The
    new connection is opened quickly, because a coordinator gives a process only a short time to reconnect. A new
    connection is also opened when the group has moved to another coordinator, or when no answer came in time. The old
    connection is closed only after a call was answered over the new connection. A coordinator therefore never sees the
    old connection close before it sees the new connection. After a time-out, httpx closes its socket. To keep the
    connection open, this class makes a file object from each socket.

    `connect`: a function that makes the HTTP client of one address. `opened`: the number of all connections that this
    object has opened. Any thread may call `break_off`.
    """

    def __init__(self, connect: Callable[..., httpx.Client]) -> None:
        self.opened = 0
        self._connect = connect
        self._clients: dict[str, httpx.Client] = {}
        self._sockets: deque[tuple[socket.socket, RawIOBase]] = deque()
        self._broken_off = False

    def client_of(self, address: str) -> httpx.Client:
        client = self._clients.pop(address, None) or self._connect(address, limits=_KEPT_LIMITS)
        if len(self._clients) >= MOST_KEPT:
            self._clients.pop(next(iter(self._clients))).close()  # close the least recently used client
        self._clients[address] = client
        return client

    def trace(self, event: str, info: Mapping[str, object]) -> None:
        """Collects the sockets of new connections. This method is the `trace` extension of each request, so httpx calls
        it for each event of the request. Before the answer, httpx offers no other access to the socket.
        """
        if event not in (_OPENED, _WRAPPED):
            return
        if event == _WRAPPED:
            self._sockets.pop()[1].close()  # the plain socket's descriptor now belongs to the TLS socket
        else:
            self.opened += 1
        opened: socket.socket = info["return_value"].get_extra_info("socket")  # type: ignore[attr-defined]

        # The operating system keeps a connection open until its socket and all files made from this socket are closed.
        self._sockets.append((opened, opened.makefile("rb", buffering=0)))
        if len(self._sockets) > MOST_KEPT:
            self._sockets.popleft()[1].close()
        if self._broken_off:
            self.break_off()

    def keep_only(self, address: str, response: httpx.Response) -> None:
        """Closes all connections except the connection over which the coordinator at `address` has just answered."""
        for other in self._clients.keys() - {address}:
            self._clients.pop(other).close()
        answered = response.extensions["network_stream"].get_extra_info("socket")
        sockets, self._sockets = self._sockets, deque(each for each in self._sockets if each[0] is answered)
        for each, file in sockets:
            if each is not answered:
                file.close()

    def break_off(self) -> None:
        """Makes all running and later calls fail by shutting down their sockets."""
        self._broken_off = True
        for each, _ in tuple(self._sockets):
            with contextlib.suppress(OSError):  # the connection has already ended
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes all connections. Only the thread that makes the calls may call `close`."""
        for client in self._clients.values():
            client.close()
        while self._sockets:
            self._sockets.popleft()[1].close()
