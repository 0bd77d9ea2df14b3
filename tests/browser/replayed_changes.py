"""A small server in front of a coordinator, whose event stream tells of changes as fast as a page takes them.

What the page fetches then was recorded from the coordinator. All else is the coordinator's own answer.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

TOLD_AT_ONCE = 4
"""Changes come while the page fetches, too: it fetches once for all of these."""

_DIGEST = re.compile(r'data-digest="[^"]*"')
_PASSED_ON = ("content-type", "content-security-policy", "cache-control")
_LIVE_PART = "HX-Request"


@dataclass
class ReplayedChanges:
    """`coordinator`: its URL. `page`: the path whose live part is replayed. `recorded`: that part at several moments,
    answered in turn, each time with another digest. `answered`: how often it was fetched.
    """

    coordinator: str
    page: str
    recorded: Sequence[str]
    answered: int = 0
    last: int = 0
    _told: int = 0
    _more: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False

    def play(self, count: int) -> str:
        """So many changes more, the next ones whenever the page has fetched what it was told. Gives the last digest."""
        with self._more:
            self.last += count
            self._tell_next()
            return f"change-{self.last}"

    def live_part(self) -> str:
        with self._more:
            number = self._told
            self.answered += 1
            self._tell_next()
            part = self.recorded[number % len(self.recorded)]
        return _DIGEST.sub(f'data-digest="change-{number}"', part)

    def digests(self) -> Iterator[str]:
        """Of all changes, as they are told, until the server closes."""
        number = 0
        while self._is_told(number + 1):
            number += 1
            yield f"change-{number}"

    def close(self) -> None:
        with self._more:
            self._closed = True
            self._more.notify_all()

    def _is_told(self, number: int) -> bool:
        """As soon as it is; False when the server closes before."""
        with self._more:
            self._more.wait_for(lambda: self._told >= number or self._closed)
            return not self._closed

    def _tell_next(self) -> None:
        if self._told < self.last:
            self._told = min(self._told + TOLD_AT_ONCE, self.last)
            self._more.notify_all()


@contextmanager
def replaying(changes: ReplayedChanges) -> Iterator[str]:
    """Gives the server's URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == changes.page and _LIVE_PART in self.headers:
                self._answer(200, {"content-type": "text/html; charset=utf-8"}, changes.live_part().encode())
            elif self.headers.get("Accept") == "text/event-stream":
                self._stream()
            else:
                accept = {name: value for name in ("Accept",) if (value := self.headers.get(name))}
                found = httpx.get(changes.coordinator + self.path, headers=accept, trust_env=False)
                headers = {name: value for name, value in found.headers.items() if name in _PASSED_ON}
                self._answer(found.status_code, headers, found.content)

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def _stream(self) -> None:
            self.close_connection = True
            self.send_response_only(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            try:
                for digest in changes.digests():
                    self.wfile.write(f"event: changed\ndata: {digest}\n\n".encode())
                    self.wfile.flush()
            except OSError:
                pass  # the page is closed

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, name="replayed changes", daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        changes.close()
        server.shutdown()
        serving.join()
        server.server_close()
