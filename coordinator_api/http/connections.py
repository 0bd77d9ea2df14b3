"""The connections of the service: how many there may be, which one makes room for another, and which ones are cut.

Any number of silent or slow connections leaves the others served:

- A connection that has not sent its complete headers in time is cut, however steadily they trickle in. The time runs
  from the first byte of a request, and from the start of a connection.
- At the limit the connection makes room that has waited longest without ever having sent a whole request; after these,
  the one that has been sending the body of a later request longest, and then the one that has been idle longest between
  two requests. When all are busy, the new one gets a 503.
- A caller who does not read its answer is cut once it had enough time for it, or has read nothing of it for a moment.
  When all unread answers together are too many bytes, those are cut that are being read longest.
- Connections that have sent much at once take turns (`reading_turns`), and so do those that send a request before the
  last one was answered.

`ServiceConnections` counts and chooses; it knows no sockets. `ServiceConnection` is uvicorn's protocol for one of them.
Every connection has a number, which requests carry in `scope["state"]`, so that a group can tell which of its processes
died when a connection breaks. Source of the limits' names: the broker's `SocketServerConfigs`.
"""

from __future__ import annotations

import asyncio
import math
import os
import resource
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from itertools import count
from typing import Any, Protocol

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from coordinator_api.http.problems import Problem, problem_response
from coordinator_api.http.reading_turns import STEP_BYTES, ReadingTurns, TurnsFlowControl, goes_at_once, has_hung_up
from coordinator_api.settings import Settings

CONNECTION_ID = "connection_id"
"""Under this key the `state` of a request has the number of its connection."""

MAX_HEADER_BYTES = 65_536
MAX_HEADER_COUNT = 100
"""Of one request, its request line included; 431 above."""

SLOWEST_READER_BYTES_PER_S = 131_072
"""A caller may read its answer as slowly as this."""

STALLED_S = 5.0
"""A caller who reads nothing of its answer for so long is not expected to read the rest."""

MOST_UNREAD_BYTES = 256 * 1024 * 1024
"""Of the answers of all connections, beyond what the system's own buffers hold."""

BODY_PIECE_BYTES = 16_384
"""Of a body that is read in turns, the application gets no smaller pieces as long as more has come."""

MOST_FRAME_BYTES = 65_536
"""So many bytes of a chunked body, of which less than a quarter is content, are enough: its chunks have hardly more
than a byte each."""

LINGER_S = 1.0
"""How long a refused connection stays open for its caller to read why."""

_REFUSED_AT_ONE_TIME = 32
_LEAST_RESERVE = 64
_RESERVED_SHARE = 8

_TRY_AGAIN = {"Retry-After": "1", "Connection": "close"}


def connection_limit(settings: Settings) -> int:
    """How many connections there may be. Raises this process's limit of open files as far as it may.

    What the limit of open files allows is what is left of it beside the files that are open now and a reserve, which
    the store, worker processes, cluster clients and refused connections share.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # a system may refuse its own hard limit: what counts is what is read back
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = settings.max_connections or 2**31 - 1
    if soft == resource.RLIM_INFINITY:
        return most
    reserve = max(_LEAST_RESERVE, soft // _RESERVED_SHARE)
    return max(1, min(most, soft - reserve - _open_files()))


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0


class CutReason(StrEnum):
    """Why the service ended a connection."""

    ROOM = "room"
    HEADERS = "headers"
    READER = "reader"
    REFUSED = "refused"


class Cuttable(Protocol):
    """A connection as `ServiceConnections` sees it."""

    @property
    def due_s(self) -> float:
        """On the event loop's clock: when the connection has had its time; infinite while it has all the time."""

    @property
    def slow(self) -> CutReason:
        """What it has spent its time with."""

    @property
    def slow_since_s(self) -> float:
        """Since when its caller has been behind with reading its answers; infinite while he keeps up."""

    def unread_bytes(self, now_s: float) -> int:
        """How much he still has to read. Notes when he last read something."""

    def end_if_hung_up(self) -> None:
        """While what its caller had sent waits for its turn, nobody reads on to the end: so look."""

    def cut(self) -> None:
        """End it at once, whatever has not been sent yet."""


class ServiceConnections:
    """All connections of one service, on its event loop. No method takes longer when there are more of them, `sweep`
    apart.

    `on_lost`: gets the number of each connection that broke, or that its caller closed. `on_closed`: those that the
    service ended itself. `on_cut`: why it ended one before its time.
    """

    def __init__(self, limit: int, limit_per_address: int, headers_timeout_s: float, answer_timeout_s: float) -> None:
        self.limit = limit
        self.headers_timeout_s = headers_timeout_s
        self.answer_timeout_s = answer_timeout_s
        self.turns = ReadingTurns()
        self.on_lost: Callable[[int], None] = lambda number: None
        self.on_closed: Callable[[int], None] = lambda number: None
        self.on_cut: Callable[[CutReason], None] = lambda reason: None
        self._limit_per_address = limit_per_address
        self._numbers = count(1)
        self._open: dict[int, tuple[Cuttable, str]] = {}
        self._of_address: Counter[str] = Counter()
        # each in the order in which its connections came into it
        self._without_a_request: dict[int, None] = {}
        self._in_a_body: dict[int, None] = {}
        self._between_requests: dict[int, None] = {}
        self._refused: set[Cuttable] = set()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Cuttable, address: str) -> int:
        """Let in a connection, if need be in place of an idle one, and give it its number. Raises Problem."""
        if self._of_address[address] >= self._limit_per_address:
            raise Problem(
                "THROTTLING_QUOTA_EXCEEDED",
                f"this address has {self._limit_per_address} connections already (max.connections.per.ip)",
                headers=_TRY_AGAIN,
            )
        if len(self._open) >= self.limit and not self._make_room():
            raise Problem(
                "THROTTLING_QUOTA_EXCEEDED",
                f"{self.limit} connections are busy (max.connections, limit of open files): try again",
                status=503,
                headers=_TRY_AGAIN,
            )
        number = next(self._numbers)
        self._open[number] = connection, address
        self._of_address[address] += 1
        self._without_a_request[number] = None
        return number

    def refuse(self, connection: Cuttable) -> bool:
        """Keep a refused connection for a moment; False when too many are kept already."""
        self.on_cut(CutReason.REFUSED)
        if len(self._refused) >= _REFUSED_AT_ONE_TIME:
            return False
        self._refused.add(connection)
        return True

    def begun(self, number: int) -> None:
        """The connection has sent the headers of a request."""
        if number not in self._without_a_request:
            self._between_requests.pop(number, None)
            self._in_a_body[number] = None

    def busy(self, number: int) -> None:
        """The connection has sent a whole request."""
        self._without_a_request.pop(number, None)
        self._in_a_body.pop(number, None)
        self._between_requests.pop(number, None)

    def idle(self, number: int) -> None:
        """The last request of the connection has been answered."""
        if number in self._open:
            self._between_requests[number] = None

    def gone(self, number: int | None, connection: Cuttable, *, ended_here: bool) -> None:
        """`number`: None for a connection that was refused. `ended_here`: the service ended it."""
        self._refused.discard(connection)
        if number is not None:
            self._forget(number)
            (self.on_closed if ended_here else self.on_lost)(number)

    def sweep(self, now_s: float) -> None:
        """Cut every connection that has had its time, or that is behind with too much; end those of hang-ups."""
        for connection in [each for each, _ in self._open.values()]:
            connection.end_if_hung_up()
        readers = [each for each, _ in self._open.values() if each.slow_since_s <= now_s]
        unread = {each: each.unread_bytes(now_s) for each in readers}
        for connection in [each for each, _ in self._open.values() if each.due_s <= now_s]:
            unread.pop(connection, None)
            self._cut(connection, connection.slow)
        too_many = sum(unread.values()) - MOST_UNREAD_BYTES
        for connection in sorted(unread, key=lambda each: each.slow_since_s):
            if too_many <= 0:
                break
            too_many -= unread[connection]
            self._cut(connection, CutReason.READER)
        for connection in [each for each in self._refused if each.due_s <= now_s]:
            connection.cut()

    def _cut(self, connection: Cuttable, reason: CutReason) -> None:
        self.on_cut(reason)
        connection.cut()

    def _make_room(self) -> bool:
        for idle in (self._without_a_request, self._in_a_body, self._between_requests):
            if idle:
                number = next(iter(idle))
                connection, _ = self._open[number]
                # counted as gone at once: the event loop tells of it only after it has let in others
                self._forget(number)
                self.on_cut(CutReason.ROOM)
                connection.cut()
                return True
        return False

    def _forget(self, number: int) -> None:
        self.busy(number)
        found = self._open.pop(number, None)
        if found is not None:
            self._of_address[found[1]] -= 1
            if not self._of_address[found[1]]:
                del self._of_address[found[1]]


class ServiceConnection(HttpToolsProtocol):
    """One connection. uvicorn reads requests and writes answers; this adds the number, the limits and the times."""

    registry: ServiceConnections
    flow: TurnsFlowControl

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._number: int | None = None
        self._ended_here = False
        self._answering: RequestResponseCycle | None = None
        # on the event loop's clock; infinite for never
        self._headers_due_s = math.inf
        self._answer_due_s = math.inf
        self._closes_s = math.inf
        self.slow_since_s = math.inf
        self._last_read_s = math.inf
        self._unread = 0
        # between two requests, or in the headers of the next one
        self._awaits_headers = True
        self._header_bytes = 0
        self._header_count = 0
        self._message_ended = False
        self._message_bytes = 0
        # of the present body, as it comes and without the frames of its chunks
        self._framed_bytes = self._body_bytes = 0
        # what has been read and not parsed
        self._rest = memoryview(b"")
        # pipelined: it has sent its request before the answer to the one before was out
        self._next: tuple[RequestResponseCycle, ASGI3Application] | None = None
        self._has_answered = False
        # what the caller hears, and nothing after it, once its earlier requests are answered
        self._refusal: Problem | None = None

    @property
    def due_s(self) -> float:
        return min(self._headers_due_s, self._answer_due_s, self._last_read_s + STALLED_S, self._closes_s)

    def unread_bytes(self, now_s: float) -> int:
        unread = self.transport.get_write_buffer_size()
        if unread != self._unread:
            self._unread, self._last_read_s = unread, now_s
        return unread

    @property
    def slow(self) -> CutReason:
        return CutReason.READER if self.slow_since_s < math.inf else CutReason.HEADERS

    def end_if_hung_up(self) -> None:
        if self.flow.read_paused and not self.transport.is_closing() and has_hung_up(self.transport):
            self.transport.abort()

    def cut(self) -> None:
        self._ended_here = True
        self._stop_clocks()
        self._leave_unanswered()
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = TurnsFlowControl(transport, self._ask_for_a_turn)
        try:
            self._number = self.registry.admit(self, self.client[0] if self.client else "")
        except Problem as problem:
            self._refuse(problem)
        else:
            self._start_header_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._leave_unanswered()
        self._stop_clocks()
        self.registry.gone(self._number, self, ended_here=self._ended_here)

    def data_received(self, data: bytes) -> None:
        if self._ended_here or self._refusal is not None:
            return  # the answer is out, or will be the last; nobody reads what else comes
        if self._rest or self._answers_another() or not goes_at_once(data, self._message_bytes):
            self._rest = memoryview(bytes(self._rest) + data)
            self.flow.keep(len(self._rest))
            self._ask_for_a_turn()
        else:
            self._parse(data)

    def take_turn(self) -> bool:
        """Start the next request, or parse the next step of what was read."""
        if self._next is not None:
            cycle, app = self._next
            self._next = None
            self._start(cycle, app)
        elif self._may_parse():
            step, self._rest = self._rest[:STEP_BYTES], self._rest[STEP_BYTES:]
            self._parse(bytes(step))
            if self._rest:
                self._headers_due_s = math.inf  # it is not the caller who is slow
            self.flow.keep(len(self._rest))
        return self._may_parse()

    def _ask_for_a_turn(self) -> None:
        if self._rest or self._next is not None:
            self.registry.turns.ask(self)

    def _may_parse(self) -> bool:
        """Else an answer asks for the next turn, or the application, when it has taken in the body so far."""
        waits = self._answers_another() or self.flow.application_waits
        return bool(self._rest) and not self._is_over() and not waits

    def _is_over(self) -> bool:
        return self._ended_here or self._refusal is not None or self.transport.is_closing()

    def _answers_another(self) -> bool:
        """Whether what comes next belongs to a request that has to wait for the answer to an earlier one."""
        return self._awaits_headers and self.cycle is not None and not self.cycle.response_complete

    def _parse(self, data: bytes) -> None:
        awaited_headers = self._awaits_headers
        if awaited_headers and self._headers_due_s == math.inf:
            self._start_header_clock()
        self._message_ended = False
        self._message_bytes += len(data)
        self._framed_bytes += 0 if awaited_headers else len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            broken = None if self._awaits_headers else self.cycle
            self._refuse_request(Problem("INVALID_REQUEST", "this is no HTTP/1.1 request", status=400), broken)
        except httptools.HttpParserUpgrade:
            pass  # nothing is offered to upgrade to: the request is answered as it is
        if not self._awaits_headers and self._framed_bytes > max(MOST_FRAME_BYTES, 4 * self._body_bytes):
            detail = "body: its chunks are too small; send it in larger ones, or with a Content-Length"
            self._refuse_request(Problem("INVALID_REQUEST", detail, status=400), self.cycle)
        if awaited_headers and self._awaits_headers and not self._message_ended:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self._refuse_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_count = 0
        self.scope["state"][CONNECTION_ID] = self._number

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count <= MAX_HEADER_COUNT:
            super().on_header(name, value)
        elif not self._awaits_headers:
            self.cut()  # trailers without end, which nobody reads

    def on_headers_complete(self) -> None:
        self._awaits_headers = False
        self._header_bytes = self._framed_bytes = self._body_bytes = 0
        self._headers_due_s = math.inf
        if self._is_over():
            return
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if self._header_count > MAX_HEADER_COUNT or size > MAX_HEADER_BYTES:
            self._refuse_headers()
            return
        if self._number is not None:
            self.registry.begun(self._number)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._is_over() or self.cycle.response_complete:
            return
        self.cycle.body += body
        if len(self.cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        # not a piece for each step of a body in steps: the application keeps them all
        if not self._rest or len(self.cycle.body) >= BODY_PIECE_BYTES:
            self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._awaits_headers = True
        self._message_ended = True
        self._message_bytes = 0
        if self._is_over():
            return
        if self._number is not None:
            self.registry.busy(self._number)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._answering is not None and not self._answering.keep_alive:
            self._end()  # one of the two sides had asked for it; a caller who died meanwhile had not
        elif not self.pipeline and not self._rest and self._number is not None:
            self.registry.idle(self._number)
        self._has_answered = True
        try:
            super().on_response_complete()
        finally:
            self._has_answered = False
        if self._refusal is not None and self._next is None and not self.transport.is_closing():
            self._end_with(self._refusal)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_answer_clock()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_answer_clock()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._end()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._end()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._has_answered:
            self._next = cycle, app
            self._ask_for_a_turn()
        else:
            self._start(cycle, app)

    def _start(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _leave_unanswered(self) -> None:
        """uvicorn knows only the request that came last; the one that is being answered may be an earlier one."""
        self.pipeline.clear()
        self._next = None
        self._rest = memoryview(b"")
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def _stop_clocks(self) -> None:
        self._headers_due_s = self._closes_s = math.inf
        self._stop_answer_clock()

    def _start_header_clock(self) -> None:
        self._headers_due_s = self.loop.time() + self.registry.headers_timeout_s

    def _start_answer_clock(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self.slow_since_s = self._last_read_s = self.loop.time()
        allowed_s = self.registry.answer_timeout_s + self._unread / SLOWEST_READER_BYTES_PER_S
        self._answer_due_s = self.slow_since_s + allowed_s

    def _stop_answer_clock(self) -> None:
        self._answer_due_s = self.slow_since_s = self._last_read_s = math.inf

    def _refuse_headers(self) -> None:
        detail = f"a request may have {MAX_HEADER_COUNT} headers and {MAX_HEADER_BYTES} bytes of them"
        self._refuse_request(Problem("INVALID_REQUEST", detail, status=431), None)

    def _refuse_request(self, problem: Problem, broken: RequestResponseCycle | None) -> None:
        """The last thing that this caller hears, after the answers to its earlier requests.

        `broken`: the request in whose body the fault is; None when its headers are not even complete.
        """
        if self._is_over():
            return
        self._refusal = problem
        self._rest = memoryview(b"")
        if broken is not None and broken is self._answering:
            if broken.response_complete:
                self.transport.close()
                self._end()
            else:
                self._end_with(problem)
            return
        if broken is not None and self.pipeline:
            self.pipeline.popleft()  # the one that came last
        elif broken is not None:
            self._next = None
        if self._next is None and (self._answering is None or self._answering.response_complete):
            self._end_with(problem)

    def _refuse(self, problem: Problem) -> None:
        if self.registry.refuse(self):
            self._end_with(problem)
        else:
            self.cut()

    def _end_with(self, problem: Problem) -> None:
        """Answer without a request, and close once the caller has read it, or after a moment."""
        if self._ended_here:
            return
        self._ended_here = True
        if self._half_answered():
            self.cut()  # no other answer can follow
            return
        self._leave_unanswered()
        response = problem_response(problem)
        lines = [STATUS_LINE[problem.status]]
        lines += [b"%s: %s\r\n" % header for header in response.raw_headers if header[0] != b"connection"]
        self.transport.write(b"".join([*lines, b"connection: close\r\n\r\n", bytes(response.body)]))
        self.transport.write_eof()
        self._closes_s = self.loop.time() + LINGER_S

    def _half_answered(self) -> bool:
        answering = self._answering
        return answering is not None and answering.response_started and not answering.response_complete

    def _end(self) -> None:
        """The service has closed the connection: what is left of the answer goes out first."""
        self._ended_here = True
        if self.transport.get_write_buffer_size():
            self._start_answer_clock()


def protocol_of(connections: ServiceConnections) -> type[asyncio.Protocol]:
    """The class of which uvicorn makes one object for each connection."""
    return type("Connection", (ServiceConnection,), {"registry": connections})
