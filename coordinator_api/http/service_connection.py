"""One connection of the service, as uvicorn's protocol: its number, its limits and its times, and the order of answers.

    read -> parse, at once or in turns -> start -> answer -> the next request

A request that is broken, or whose headers are too large, is refused after the answers to earlier ones, and nothing is
read after it. Which connections are cut, and for whom they make room, is decided in `connections`.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from coordinator_api.http.connections import CONNECTION_ID, CutReason, ServiceConnections
from coordinator_api.http.problems import Problem, problem_response
from coordinator_api.http.reading_turns import STEP_BYTES, TurnsFlowControl, goes_at_once, has_hung_up

MAX_HEADER_BYTES = 65_536
MAX_HEADER_COUNT = 100
"""Of one request, its request line included; 431 above."""

SLOWEST_READER_BYTES_PER_S = 131_072
"""A caller may read its answer as slowly as this."""

STALLED_S = 5.0
"""A caller who reads nothing of its answer for so long is not expected to read the rest."""

BODY_PIECE_BYTES = 16_384
"""Of a body that is read in turns, the application gets no smaller pieces as long as more has come."""

MOST_FRAME_BYTES = 65_536
"""So many bytes of a chunked body, of which less than a quarter is content, are enough: its chunks have hardly more
than a byte each."""

LINGER_S = 1.0
"""How long a refused connection stays open for its caller to read why."""


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
        self._use(transport)
        try:
            self._number = self.registry.admit(self, self.client[0] if self.client else "")
        except Problem as problem:
            self._refuse(problem)
        else:
            self._start_header_clock()

    def _use(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.flow = TurnsFlowControl(transport, self._ask_for_a_turn)

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
        if self._ended_here:
            self.transport.close()  # what it was told goes out; nobody sweeps any more while the service stops
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
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()  # TLS has no half that could be closed, and reads to the end by itself
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
