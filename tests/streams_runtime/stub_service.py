"""Real servers on loopback: one gives prepared answers and remembers what it was asked, one never says anything."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`document` None: no body; bytes are sent as they are. `hang_up`: close the connection instead of answering.

    `after`: answer only when this is set. `first`: called before the answer is sent. `owner`: where a redirect leads.
    """

    status: int = 200
    document: object = None
    hang_up: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    after: threading.Event | None = None
    first: Callable[[], object] = lambda: None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    body: object
    authorization: str | None
    content_type: str | None = field(default=None, compare=False)


@dataclass(slots=True)
class StubService:
    """Gives `answers` in turn, the last one for ever. `open`: how many connections it has; `changed` tells of both."""

    url: str
    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    open: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_until_asked(self, times: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.asked) >= times, LONGEST_WAIT_S), self.asked

    def wait_until_open(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.open == count, LONGEST_WAIT_S), self.open


def sent_on(owner: str) -> Answer:
    """To the same path and query of another coordinator."""
    return Answer(307, {"status": 307, "code": "NOT_COORDINATOR", "detail": "it is elsewhere"}, owner=owner)


def problem(status: int, code: str, detail: str = "because") -> Answer:
    return Answer(status, {"type": "about:blank", "status": status, "code": code, "detail": detail})


@contextmanager
def silent_service() -> Iterator[str]:
    """Its URL. It takes connections, as the kernel does for a process that is frozen, and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def stub_service(*answers: Answer, port: int = 0, certificate: Path | None = None) -> Iterator[StubService]:
    """`certificate`: it speaks TLS with it; the file has the key as well."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            self.count(1)
            super().setup()

        def finish(self) -> None:
            super().finish()
            self.count(-1)

        def count(self, change: int) -> None:
            with service.changed:
                service.open += change
                service.changed.notify_all()

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            with service.changed:
                headers = self.headers.get("Authorization"), self.headers.get("Content-Type")
                service.asked.append(Asked(self.command, self.path, body, *headers))
                service.changed.notify_all()
            given = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
            if given.hang_up:
                self.close_connection = True
                return
            if given.after is not None:
                given.after.wait(LONGEST_WAIT_S)
            given.first()
            content = b"" if given.document is None else given.document
            if not isinstance(content, bytes):
                content = json.dumps(content).encode()
            self.send_response(given.status)
            for name, value in given.headers:
                self.send_header(name, value)
            if given.owner:
                self.send_header("Location", f"{given.owner}{self.path}")
            if given.status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if certificate is None else "https"
    service = StubService(f"{scheme}://127.0.0.1:{server.server_address[1]}", list(answers))
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield service
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
