"""A TCP proxy on loopback that loses answers or falls silent, and knows which calls came over which connection."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CHUNK_BYTES = 65_536


@dataclass(slots=True, eq=False)
class Connection:
    """`calls`: the request lines that came over it."""

    caller: socket.socket
    service: socket.socket
    calls: list[str] = field(default_factory=list)

    def break_off(self) -> None:
        for one in (self.caller, self.service):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class LosingProxy:
    """`lose`: how many answers to calls whose request line contains `lost_call` are lost with their connection.

    The service has carried out a call whose answer is lost. `carries`: while it is not set, nothing passes in either
    direction, and no connection breaks.
    """

    def __init__(self, service_url: str) -> None:
        self.lose = 0
        self.lost_call = ""
        self.connections: list[Connection] = []
        self.changed = threading.Condition()
        self.carries = threading.Event()
        self.carries.set()
        self._service = urlsplit(service_url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def calls(self, text: str) -> list[str]:
        with self.changed:
            return [call for connection in self.connections for call in connection.calls if text in call]

    def connections_with(self, text: str) -> list[Connection]:
        with self.changed:
            return [each for each in self.connections if any(text in call for call in each.calls)]

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # the proxy is closed
            while True:
                caller, _ = self._listening.accept()
                caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                service = socket.create_connection((self._service.hostname or "", self._service.port or 0))
                service.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = Connection(caller, service)
                with self.changed:
                    self.connections.append(connection)
                for carry in (self._carry_calls, self._carry_answers):
                    threading.Thread(target=carry, args=(connection,), daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.carries.set()
        for connection in self.connections:
            connection.break_off()

    def _carry_calls(self, connection: Connection) -> None:
        with contextlib.suppress(OSError):
            while data := connection.caller.recv(CHUNK_BYTES):
                if data.startswith((b"GET ", b"POST ", b"PUT ", b"DELETE ")):
                    with self.changed:
                        connection.calls.append(data.split(b"\r\n", 1)[0].decode("ascii"))
                        self.changed.notify_all()
                self.carries.wait()
                connection.service.sendall(data)
        connection.break_off()

    def _carry_answers(self, connection: Connection) -> None:
        with contextlib.suppress(OSError):
            while data := connection.service.recv(CHUNK_BYTES):
                with self.changed:
                    loses = self.lose > 0 and self.lost_call in connection.calls[-1]
                    self.lose -= loses
                if loses:
                    break
                self.carries.wait()
                connection.caller.sendall(data)
        connection.break_off()


@contextlib.contextmanager
def losing_proxy(service_url: str) -> Iterator[LosingProxy]:
    proxy = LosingProxy(service_url)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
