"""The HTTP server of an instance, for queries of its stores and for its status.

Rules: the subscription of an instance contains the server's port (`application.server`). So the server binds the port
before the instance sends its first subscription. The server keeps the port until `close`. The library uvicorn runs in a
separate thread. `close` ends idle connections at once, and waits up to a second for running calls. Source: KIP-67,
KIP-535.
"""

import contextlib
import os
import socket
import threading

import uvicorn

from assignor.errors import InputError
from assignor.names.legal_names import shown_name
from assignor.types import HostInfo
from coordinator_client.access.tls import ReloadedContext, ServerTls, server_context
from coordinator_client.calls import CallerToken
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.queries.routes import create_query_app
from streams_runtime.queries.store_metadata import Queryable
from streams_runtime.queries.token_gate import AskersTokens, TokenGate, check_exposure

START_TIMEOUT_S = 10.0
ANSWERS_MAY_TAKE_S = 1
STOP_TIMEOUT_S = 5.0
_WHERE = "application.server"
_WILDCARDS = ("0.0.0.0", "[::]", "*")  # noqa: S104  # these hosts are refused


class QueryServer:
    """The HTTP server of one instance. The constructor binds the port. The server answers calls from `start` until
    `close`.
    """

    def __init__(self, address: str, token: str | CallerToken | None = None, tls: ServerTls | None = None) -> None:
        """`address`: host:port; port 0 stands for any free port. `token`: the bearer token that callers have to send;
        None for no token. Tokens from environment variables are accepted too (see `token_gate`). `tls`: None for plain
        HTTP.

        Raises InputError if the server cannot listen on `address`, or if `address` is not loopback and there is no
        token. Raises InputError if the settings of an OIDC issuer are incomplete or invalid, or if a certificate file
        cannot be used.
        """
        host, port = _host_and_port(address)
        self._tokens = AskersTokens(token, os.environ)
        check_exposure(address, host, self._tokens)
        self._tls = None if tls is None else server_context(tls)
        self._socket = _listening_socket(address, host, port)
        self.endpoint = HostInfo(host, self._socket.getsockname()[1])
        """The address of the server, which the instance's subscription contains."""
        self._lock = threading.Lock()
        self._closed = False
        self._server: _SignallingServer | None = None
        self._thread: threading.Thread | None = None

    def start(self, instance: Queryable) -> None:
        """Starts the server, and returns when it answers calls. Raises StreamsRuntimeError if the server cannot start,
        or if it was already started or closed.
        """
        with self._lock:
            if self._closed or self._thread is not None:
                state = "was closed" if self._closed else "was started before"
                raise StreamsRuntimeError(f"a query server starts once; {self.endpoint} {state}")
            config = uvicorn.Config(
                TokenGate(create_query_app(instance), self._tokens, instance.application_id),
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                ws="none",
                timeout_graceful_shutdown=ANSWERS_MAY_TAKE_S,
            )
            self._server = _SignallingServer(config, self._tls, self._tokens)
            self._tokens.start()
            self._thread = threading.Thread(
                target=self._server.run, args=([self._socket],), name=f"queries-{self.endpoint.port}", daemon=True
            )
            self._thread.start()
        if not self._server.wait_until_started(self._thread, START_TIMEOUT_S):
            self.close()
            raise StreamsRuntimeError(f"the query server at {self.endpoint} did not start")

    def close(self) -> None:
        """Stops the server, and returns after the server has ended its running calls. A second call of `close` has no
        effect. Any thread may call `close`.
        """
        with self._lock:
            self._closed = True
            self._tokens.close()
            if self._server is not None and self._thread is not None:
                self._server.should_exit = True
                self._thread.join(STOP_TIMEOUT_S)
            with contextlib.suppress(OSError):
                self._socket.close()


class _SignallingServer(uvicorn.Server):
    """A uvicorn server with a method that waits until the server has started. The server reads its certificate and
    token files again when they change.
    """

    def __init__(self, config: uvicorn.Config, tls: ReloadedContext | None, tokens: AskersTokens) -> None:
        super().__init__(config)
        self._tokens = tokens
        self._ready = threading.Event()
        self._tls = tls
        config.load()
        config.ssl = tls

    async def on_tick(self, counter: int) -> bool:
        self._tokens.reload_if_due()
        if self._tls is not None:
            self._tls.reload_if_changed()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            self._ready.set()  # if the server ends before it is ready, `start` must not wait longer

    def wait_until_started(self, thread: threading.Thread, timeout_s: float) -> bool:
        self._ready.wait(timeout_s)
        # it is not an error if `close` ends the server during its start
        return self.started or (thread.is_alive() and self.should_exit)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    is_host = host != "" and not any(map(str.isspace, host)) and (bracketed or ":" not in host)
    if not is_host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        # the error message does not show an address with an @, because it may contain a password
        shown = "a text with a user in it" if "@" in address else shown_name(address)
        raise InputError(f"must be host:port, or [address]:port for IPv6, not {shown}", _WHERE)
    if host in _WILDCARDS:
        raise InputError(f"must be where other machines find this instance, which {host} does not say", _WHERE)
    return host, int(port)


def _listening_socket(address: str, host: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host.strip("[]"), port))
        # listen at once: because of SO_REUSEADDR, a second socket could bind the same port until this socket listens
        found.listen()
    except OSError as error:
        found.close()
        raise InputError(f"{address} cannot be listened on: {error.strerror or error}", _WHERE) from None
    return found
