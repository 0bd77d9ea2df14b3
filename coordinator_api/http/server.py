"""Runs the service: opens the store, listens, prints the address, and stops gracefully on SIGTERM and SIGINT.

A shell makes its background jobs ignore SIGINT, but the service handles SIGINT even as a background job.
"""

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import FrameType

import structlog
import uvicorn
import uvloop
from prometheus_client import disable_created_metrics
from structlog.typing import EventDict, Processor

from assignor.errors import Unavailable
from assignor.names.printable import lines, one_line
from coordinator_api.http.app import Pages, create_app, open_with_tokens
from coordinator_api.http.audit import AuditLog
from coordinator_api.http.auth import Access
from coordinator_api.http.connections import OpenConnections, connection_class
from coordinator_api.http.housekeeping import FreedMemory, Garbage, ServiceManager, freeze_existing_objects
from coordinator_api.http.middleware import RequestBodies
from coordinator_api.http.settings_sources import unknown_environment, without_secrets
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.settings import Settings
from coordinator_api.store.engine import parse_url, sqlite_file
from coordinator_client.access.tls import ReloadedContext, server_context
from operating_system.private_files import access_warning
from operating_system.processes import raise_open_file_limit

_SWITCH_INTERVAL_S = 0.001
_LEFT_FOR_THE_STORE_S = 0.9
_EXIT_CODE_OF_A_STOP_CUT_SHORT = 1


class CannotListen(Unavailable):
    """The service cannot listen on its address."""


def run(settings: Settings, report: Callable[[str], None], pages: Pages | None = None) -> None:
    """Runs the service until a signal stops it. `report`: a function that `run` calls with a line of text. The line
    contains the address of the service, and is JSON if log.format is json. `pages`: the web pages; None for a service
    that has only the API.

    Raises InputError, StoreError or CannotListen.
    """
    access, tls = Access(settings), settings.tls
    # if the audit file cannot be written, SettingsError is raised before the service starts
    AuditLog(settings.audit_log_file).close()
    settings = without_secrets(settings, os.environ)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # use Python's handler until the event loop installs its own handler
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _configure_logging(settings)
    raise_open_file_limit()
    # When the event loop waits for the interpreter lock, another thread releases the lock after this time. Python's
    # default is 5 ms.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Without this call, /metrics would show two series for each counter: the count, and the time at which the counter
    # was created.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    for warning in unknown_environment(os.environ):
        structlog.get_logger("coordinator_api").warning("unknown_setting", message=warning)
    file = sqlite_file(parse_url(settings.database_url))
    open_to_others = None if file is None else access_warning(file)
    if open_to_others is not None:
        structlog.get_logger("coordinator_api").warning("open_to_others", message=open_to_others)
    uvloop.run(_serve(settings, access, None if tls is None else server_context(tls), report, pages))


async def _serve(
    settings: Settings, access: Access, tls: ReloadedContext | None, report: Callable[[str], None], pages: Pages | None
) -> None:
    with _listen(settings) as listening:
        url = _url_of(listening, "http" if tls is None else "https")
        coordinator = await open_with_tokens(settings, access, url)
        freeze_existing_objects()
        # the time limit is at least a second, because uvicorn takes 0 for "no limit"
        graceful_s = max(1, round(settings.shutdown_timeout_ms / 1000))
        connections = OpenConnections(coordinator)
        app = create_app(settings, coordinator, access, pages, connections)
        config = uvicorn.Config(
            app,
            http=connection_class(connections),
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            # Between two heartbeats, a running member may pause for the longest session timeout. If uvicorn closed the
            # connection during this pause, the service would conclude that the member's process has failed.
            timeout_keep_alive=settings.group_max_session_timeout_ms // 1000 + 1,
            timeout_graceful_shutdown=graceful_s,
        )

        def greet() -> str:
            callers = "open to this machine" if access.credentials.is_empty else "with a bearer token"
            greeting = f"assignor coordinator listens on {url} ({callers})"
            report(_as_logged(greeting) if settings.log_format == "json" else greeting)
            return greeting

        longest_stop_s = graceful_s + _LEFT_FOR_THE_STORE_S
        server = _Server(config, coordinator, app.state.request_bodies, tls, greet, longest_stop_s)
        await server.serve(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn's server with two changes. This server answers held requests at the first signal. This server exits with
    code 0 after a graceful stop.

    `greet`: a function that prints a line with the address, and returns the line. `longest_stop_s`: the longest time in
    seconds that a stop may take. After this time the process exits.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        coordinator: Coordinator,
        bodies: RequestBodies,
        tls: ReloadedContext | None,
        greet: Callable[[], str],
        longest_stop_s: float,
    ) -> None:
        super().__init__(config)
        self._longest_stop_s = longest_stop_s
        self._coordinator = coordinator
        self._bodies = bodies
        self._tls = tls
        self._greet = greet
        self._manager = ServiceManager(os.environ)
        self._garbage = Garbage()
        self._freed_memory = FreedMemory()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._manager.ready(self._greet())

    async def on_tick(self, counter: int) -> bool:
        now_s = asyncio.get_running_loop().time()
        if self._tls is not None:
            self._tls.reload_if_changed()
        self._garbage.collect_if_due(now_s)
        self._freed_memory.give_back_if_due(now_s)
        self._manager.alive(now_s)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        with _patience(self._longest_stop_s, lambda: self._coordinator.closed) as begin:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._on_signal, number)
                _call_first(begin, number)
            try:
                yield
            finally:
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        structlog.get_logger("coordinator_api").info("stopping", signal=number.name)
        # after a second signal, the stop does not wait for requests in progress
        self.force_exit = self.should_exit
        self.should_exit = True
        self._manager.stopping()
        self._coordinator.begin_stop()
        self._bodies.begin_stop()


@contextlib.contextmanager
def _patience(seconds: float, in_order: Callable[[], bool]) -> Iterator[Callable[[], object]]:
    """Yields a function that starts a time limit. When the time limit has passed, the process exits, even if the event
    loop is blocked. A signal handler may call the function, because the function takes no lock. The time limit also
    applies after the block.

    `in_order`: a function that is called when the time limit has passed. If the function returns True, everything is
    closed, and the exit code is 0. The block may end before everything is closed, because a second signal also ends the
    block. A stop exceeds the time limit only if the store does not answer or the event loop is blocked. No change is
    lost, because a change is committed before it is answered.
    """
    begun, begin = os.pipe()

    def wait() -> None:
        if os.read(begun, 1):
            time.sleep(seconds)
            if in_order():
                os._exit(0)  # everything is closed: only the interpreter is still shutting down
            structlog.get_logger("coordinator_api").error("stop_cut_short", after_s=seconds)
            os._exit(_EXIT_CODE_OF_A_STOP_CUT_SHORT)
        os.close(begun)

    # A separate thread waits for the time limit. At this time, the event loop may have ended, and the main thread may
    # be waiting for the store's thread.
    threading.Thread(target=wait, name="patience", daemon=True).start()
    try:
        yield lambda: os.write(begin, b"!")
    finally:
        os.close(begin)


def _call_first(begin: Callable[[], object], number: signal.Signals) -> None:
    """Installs a signal handler that calls `begin` and then the event loop's own handler. While the event loop is
    blocked, the loop's own handler has no effect, but `begin` does.
    """
    loops_own = signal.getsignal(number)
    assert callable(loops_own), "the event loop has a handler of this signal"

    def handle(received: int, frame: FrameType | None) -> None:
        begin()
        loops_own(received, frame)

    signal.signal(number, handle)
    signal.siginterrupt(number, False)  # the event loop sets the same flag on its own handlers


def _listen(settings: Settings) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(settings, error) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise _cannot_listen(settings, error) from None
    return listening


def _cannot_listen(settings: Settings, error: OSError) -> CannotListen:
    address = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return CannotListen(
            f"{address} is in use, perhaps by another coordinator: stop that program, or choose another --port "
            "(0 takes a free one)"
        )
    if error.errno == errno.EACCES:
        return CannotListen(f"{address} needs more rights than this program has: choose a --port above 1023")
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return CannotListen(
            f"{settings.host} is no address of this machine ({error.strerror or error}): choose another --host"
        )
    return CannotListen(f"{address}: {error.strerror or error}")


def _url_of(listening: socket.socket, scheme: str) -> str:
    host, port = listening.getsockname()[:2]
    address = f"[{host}]" if ":" in host else host
    return f"{scheme}://{address}:{port}"


def _as_logged(greeting: str) -> str:
    """Formats the greeting as a line of the JSON log. The greeting is printed and not logged, so that it is shown at
    every log.level.
    """
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": "listening", "message": greeting, "level": "info", "timestamp": now})


def _for_a_terminal(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escapes control characters in a log line. Without this function, the name of a member or a caller could colour
    the line, end it, or forge another line. JSON log lines do not need this function, because JSON escapes control
    characters.
    """
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = lines(value) if name in ("exception", "stack") else one_line(value)
    return event


def _configure_logging(settings: Settings) -> None:
    """Configures the log of all modules. Log lines are written to stderr, each as a JSON object or as readable text."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if settings.log_format == "json":
        last: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # By default, structlog would print the local variables of all frames, which takes seconds for an error in a
        # deep call.
        last = [
            structlog.processors.format_exc_info,
            _for_a_terminal,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # requests are not logged, because /metrics counts them
    for quiet in ("uvicorn.access", "aiosqlite", "alembic", "asyncio", "httpcore", "httpx"):
        logging.getLogger(quiet).setLevel(logging.WARNING)
    # This file logs the start and the stop itself. If uvicorn's warnings were logged, any sender could fill the log
    # with requests that are not HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
