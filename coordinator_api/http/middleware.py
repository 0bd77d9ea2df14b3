"""The only middleware of the service. Each request passes through this middleware before FastAPI finds the route.

The steps, in this order:
- Determine the public address.
- Find the call in the table of calls.
- Begin the audit.
- Refuse an upgrade to another protocol.
- Find the caller.
- Check the caller's right.
- Read the whole body.
- Find the owner of the group.
- Run the route.
- Write the audit line.
- Send the answer.
- Update the metrics.

The caller's right is checked before the body is read, so a caller without a right cannot fill the memory. A body is
read whole before its route runs, so that a route never sees an incomplete body. The body of each call has a size limit.
All bodies together have a memory limit. The arrival of a body has a time limit. A call about a group of another
coordinator is redirected. The middleware converts the errors of all packages to problems. An unexpected error gets
status 500.
"""

import asyncio
import time
from datetime import UTC, datetime
from traceback import clear_frames

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinator_api.http.audit import AUDITED_CALL, AuditedCall, AuditLog
from coordinator_api.http.call_rights import CALL, PRINCIPAL, Call, call_of, caller_of, forbidden, is_page, need
from coordinator_api.http.connections import CallerGone, OpenConnections
from coordinator_api.http.dependencies import BODY, user_agent_of
from coordinator_api.http.other_coordinators import not_here
from coordinator_api.http.problems import TRY_AGAIN_SOON, Problem, answer_to, problem_of, stopping
from coordinator_api.http.proxies import Proxies
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.settings import Settings
from coordinator_client.access.credentials import Credentials
from coordinator_client.access.principals import Need, Right, bearer_token

_NO_ROUTE = "(none)"
_DOCUMENT_METHODS = frozenset({"PUT", "POST"})
_DOCUMENT, _FORM, _EMPTY = "request.max.bytes", "for a form of the page", "for a call without a document"

EMPTY_BODY_BYTES = 1_024
"""The size limit for the body of a call that needs no body, in bytes."""

FORM_BYTES = 65_536
"""The size limit in bytes for the body of a web form. The limit is small because a caller without a token may send the
login form.
"""

BODIES_AT_ONE_TIME = 8
"""The memory limit for the bodies of all calls together is this number times the largest size of one body
(`request.max.bytes`).
"""


SMALL_BYTES = 65_536
"""The largest size of a small body, in bytes. A small body counts towards the memory limit only while it arrives in
pieces. So the small bodies of heartbeats do not count while the service holds the heartbeats.
"""


class RequestBodies:
    """The bodies of all requests of one service that are not answered yet."""

    def __init__(self, settings: Settings) -> None:
        self._max_bytes = {
            "subscription.max.bytes": settings.subscription_max_bytes,
            "process.heartbeat.max.bytes": settings.process_heartbeat_max_bytes,
            "heartbeat.max.bytes": settings.heartbeat_max_bytes,
            _DOCUMENT: settings.request_max_bytes,
            _FORM: FORM_BYTES,
            _EMPTY: EMPTY_BODY_BYTES,
        }
        self._timeout_s = settings.request_timeout_ms / 1000
        self._most_held_bytes = BODIES_AT_ONE_TIME * settings.request_max_bytes
        self._held_bytes = 0
        self._arriving: set[asyncio.Timeout] = set()
        self._stopping = False

    def begin_stop(self) -> None:
        """Refuse the requests whose bodies are still arriving, because a slow sender would delay the stop."""
        self._stopping = True
        now_s = asyncio.get_running_loop().time()
        for timeout in self._arriving:
            if not timeout.expired():
                timeout.reschedule(now_s)

    def _hold(self, size: int) -> None:
        """Reserves memory for a part of a body. Raises Problem if all bodies together would take too much memory."""
        if self._held_bytes + size > self._most_held_bytes:
            detail = "many large bodies are under way already: try again"
            raise Problem("THROTTLING_QUOTA_EXCEEDED", detail, headers=TRY_AGAIN_SOON)
        self._held_bytes += size

    def release(self, body: bytes) -> None:
        """Free the memory of a body whose request has been answered."""
        if len(body) > SMALL_BYTES:
            self._held_bytes -= len(body)

    async def arrive(self, call: Call | None, scope: Scope, receive: Receive) -> bytes:
        """Read the whole body. Call `release` with the body when its request has been answered. Raises Problem with
        status 408, 413, 429 or 503. Raises CallerGone.
        """
        limit = _limit_of(call, scope["method"], scope["path"])
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if announced.isdigit() and int(announced[:20]) > self._max_bytes[limit]:
            raise self._too_large(limit)
        try:
            async with asyncio.timeout(0 if self._stopping else self._timeout_s) as timeout:
                self._arriving.add(timeout)
                try:
                    return await self._read(limit, receive)
                finally:
                    self._arriving.discard(timeout)
        except TimeoutError:
            if self._stopping:
                raise stopping() from None
            detail = f"the body did not arrive within {self._timeout_s:g} s"
            raise Problem("REQUEST_TIMED_OUT", detail, headers={"Connection": "close"}) from None

    async def _read(self, limit: str, receive: Receive) -> bytes:
        body, more = bytearray(), True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise CallerGone("the caller hung up before the whole body had arrived")
                piece: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) + len(piece) > self._max_bytes[limit]:
                    raise self._too_large(limit)
                # a heartbeat arrives in one piece, and must not be refused because of the large bodies of other callers
                if not more and not body and len(piece) <= SMALL_BYTES:
                    return bytes(piece)
                self._hold(len(piece))
                body += piece
        except BaseException:
            self._held_bytes -= len(body)
            raise
        if len(body) <= SMALL_BYTES:
            self._held_bytes -= len(body)
        return bytes(body)

    def _too_large(self, limit: str) -> Problem:
        return Problem("MESSAGE_TOO_LARGE", f"a body may have {self._max_bytes[limit]} bytes ({limit})")


def _limit_of(call: Call | None, method: str, path: str) -> str:
    """Returns the name of the size limit for the body of this request. The name is the dotted name of a setting, or the
    kind of body.
    """
    if call is not None and call.endpoint.body_limit is not None:
        return call.endpoint.body_limit
    if is_page(path):
        return _FORM
    return _DOCUMENT if method in _DOCUMENT_METHODS else _EMPTY


class RequestGuard:
    """Authenticates, limits and audits each request before its route runs. `bodies`: the request bodies of the service
    and their limits. `proxies`: determines the address at which a browser sees the service.
    """

    def __init__(
        self, app: ASGIApp, credentials: Credentials, bodies: RequestBodies, proxies: Proxies, audit: AuditLog
    ) -> None:
        self._app = app
        self._credentials = credentials
        self._bodies = bodies
        self._proxies = proxies
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        state = scope.setdefault("state", {})
        connections: OpenConnections = scope["app"].state.connections
        coordinator: Coordinator = scope["app"].state.coordinator
        headers, body = Headers(scope=scope), b""
        forwarded = {name: value for name, value in scope["headers"] if name.startswith(b"x-forwarded-")}
        if forwarded or self._proxies.root_path:
            self._proxies.note(scope, forwarded)
        connection = connections.of_request(scope)
        call = state[CALL] = call_of(scope)
        audited: AuditedCall | None = None
        if call is not None and call.endpoint.is_audited:
            audited = state[AUDITED_CALL] = AuditedCall(self._audit, scope, call)
        send_on = send if audited is None else audited.before(send)
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if connection is not None and _ends_connection(scope, message):
                    coordinator.connections.closed(connection.number)
            await send_on(message)

        try:
            _check_hides_no_request(headers)
            asked = need(call, scope["path"])
            try:
                principal = state[PRINCIPAL] = caller_of(scope["path"], headers, self._credentials)
            except Problem:
                self._note_expired_token(asked, headers, coordinator)
                raise
            if audited is not None:
                audited.made_by(principal)
            # Starlette also matches an address with a line break at its end
            address = scope["path"].rstrip("\n") if call is None else call.endpoint.route.format(**call.parameters)
            if address != scope["path"]:
                raise HTTPException(404)
            why_not = principal.refusal(asked)
            if why_not is not None:
                raise forbidden(asked, why_not)
            body = state[BODY] = await self._bodies.arrive(call, scope, receive)
            if coordinator.lease.is_shared:
                elsewhere = await not_here(scope, coordinator)
                if elsewhere is not None:
                    raise elsewhere
            await self._app(scope, receive, send_and_note)
        except CallerGone:
            # No caller reads this answer. Without an answer, uvicorn would report an error.
            if not status:
                await Response()(scope, receive, send)
        except asyncio.CancelledError:
            # uvicorn cancels a request only if the service is stopping and the time limit of the stop has passed
            if status:
                raise
            await answer_to(scope, stopping())(scope, receive, send_and_note)
        except Exception as error:
            # An error and the frames of its traceback refer to each other, and the frames have the body. Such a cycle
            # would live until the next collection of all generations. So the frames are cleared, and no variable of
            # this frame keeps the problem.
            clear_frames(error.__traceback__)
            answer = answer_to(scope, problem_of(error, scope))
            if status:
                raise  # The response has started, so the connection can only be closed.
            # Do not close the connection, because the caller could then lose the answer. uvicorn discards the rest of
            # the body.
            await answer(scope, receive, send_and_note)
        finally:
            self._bodies.release(body)
            state.pop(BODY, None)  # the scope and the request refer to each other, too
            if connection is not None and connection.is_forwarded:
                coordinator.connections.closed(connection.number)
            self._measure(call, scope, status, time.perf_counter() - started)

    def _note_expired_token(self, asked: Need, headers: Headers, coordinator: Coordinator) -> None:
        """Remembers the refused call of an instance for the health of its group, if its token has expired. Other calls
        with unknown tokens are not remembered, because anybody can make them.
        """
        token = bearer_token(headers)
        runtime = None if asked.group_id is None else coordinator.groups.get(asked.group_id)
        if token is None or runtime is None or asked.right is not Right.MEMBER:
            return
        found = self._credentials.find_expired(token)
        if found is not None and found.principal.refusal(asked) is None:
            at = datetime.fromtimestamp(found.expired_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
            why = f"their token `{found.principal.name}` expired at {at}"
            runtime.callers.token_refused(user_agent_of(headers), why)

    def _measure(self, call: Call | None, scope: Scope, status: int, seconds: float) -> None:
        # use the route's pattern as the label: a path contains ids of groups and members, so there would be too many
        # labels
        route = call.endpoint.route if call is not None else getattr(scope.get("route"), "path", _NO_ROUTE)
        method = scope["method"] if route != _NO_ROUTE else "(any)"
        coordinator: Coordinator = scope["app"].state.coordinator
        coordinator.metrics.requests.labels(method, route, str(status)).inc()
        coordinator.metrics.request_duration.labels(method, route).observe(seconds)


def _ends_connection(scope: Scope, answer: Message) -> bool:
    """Returns whether uvicorn closes the connection after this answer."""
    options = {
        option.strip().lower() for value in Headers(scope=scope).getlist("connection") for option in value.split(",")
    }
    asked = scope["http_version"] == "1.0" or "close" in options
    return asked or (b"connection", b"close") in answer.get("headers", ())


def _check_hides_no_request(headers: Headers) -> None:
    """Raises Problem for a request that has a body and asks for another protocol.

    uvicorn's parser would read the body of this request as the next request on the connection. If a proxy forwarded
    this request, its body could contain requests that the proxy has not checked.
    """
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if "upgrade" in headers and has_body:
        detail = "Upgrade: the service speaks HTTP/1.1; send the request without an upgrade"
        raise Problem("INVALID_REQUEST", detail, headers={"Connection": "close"})
