"""A real HTTP server on loopback that gives prepared answers and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`document` None: no body; bytes are sent as they are. `hang_up`: close the connection instead of answering.

    `after`: answer only when this is set.
    """

    status: int = 200
    document: object = None
    hang_up: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    after: threading.Event | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    body: object
    authorization: str | None


@dataclass(slots=True)
class StubService:
    """Gives `answers` in turn, the last one for ever."""

    url: str
    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)


def problem(status: int, code: str, detail: str = "because") -> Answer:
    return Answer(status, {"type": "about:blank", "status": status, "code": code, "detail": detail})


@contextmanager
def stub_service(*answers: Answer, port: int = 0) -> Iterator[StubService]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            service.asked.append(Asked(self.command, self.path, body, self.headers.get("Authorization")))
            given = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
            if given.hang_up:
                self.close_connection = True
                return
            if given.after is not None:
                given.after.wait(LONGEST_WAIT_S)
            content = b"" if given.document is None else given.document
            if not isinstance(content, bytes):
                content = json.dumps(content).encode()
            self.send_response(given.status)
            for name, value in given.headers:
                self.send_header(name, value)
            if given.status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    service = StubService(f"http://127.0.0.1:{server.server_address[1]}", list(answers))
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield service
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
