"""Callers as the service must survive them, on plain sockets; and one that wants to be served meanwhile."""

import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import httpx

from tests.coordinator_api.group_members import HttpMember, new_group, settle
from tests.coordinator_api.service_process import ServiceProcess
from tests.waiting import wait_until

PATIENCE_S = 60.0
"""Until something that has to happen has happened, on a machine that is busy with other things."""


def raise_own_limit(files: int) -> None:
    """The caller's own limit of open files must not be what stops it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def connect(url: str) -> socket.socket:
    """A plain connection to the service."""
    address = httpx.URL(url)
    return socket.create_connection((address.host, address.port or 0), timeout=PATIENCE_S)


class Crowd:
    """Many connections of one kind. They are all closed when the block ends."""

    def __init__(self, url: str, size: int, greeting: bytes = b"") -> None:
        self._url = url
        self._greeting = greeting
        self._size = size
        self._opened = ExitStack()
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        for _ in range(self._size):
            connection = self._opened.enter_context(connect(self._url))
            if self._greeting:
                connection.sendall(self._greeting)
            connection.setblocking(False)
            self.sockets.append(connection)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def send(self, data: bytes) -> None:
        """On each connection."""
        for connection in self.sockets if data else ():
            connection.send(data)

    def wait_until_cut(self, sends: bytes = b"") -> None:
        """Until the service has ended every connection, while each of them goes on to send. Raises AssertionError."""
        alive = set(self.sockets)
        deadline = time.monotonic() + PATIENCE_S
        with selectors.DefaultSelector() as selector:
            for connection in alive:
                selector.register(connection, selectors.EVENT_READ)
            while alive:
                assert time.monotonic() < deadline, f"{len(alive)} of {self._size} connections are still open"
                for key, _ in selector.select(timeout=0.1):
                    ready = key.fileobj
                    assert isinstance(ready, socket.socket)
                    if _ended(ready):
                        selector.unregister(ready)
                        alive.discard(ready)
                for connection in alive if sends else ():
                    with suppress(OSError):  # it is readable next
                        connection.send(sends)


def _ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(65_536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class Bystander:
    """A member on a connection of its own, which has been served before, and newcomers on fresh connections."""

    def __init__(self, service: ServiceProcess) -> None:
        self.service = service
        self.url = service.url
        self.client = service.client()
        self.member = HttpMember(self.client, new_group(self.client), session_timeout_ms=600_000)
        self.member.subscribe()
        settle(self.member)

    def calls(self, count: int = 20) -> None:
        """As many heartbeats, and as many newcomers. Raises AssertionError, or an error of the connection."""
        for _ in range(count):
            assert self.member.heartbeat().status_code == 200
            with self.service.client() as newcomer:
                assert newcomer.get("/livez").status_code == 200


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Runs `work` in a thread for as long as the block runs; raises what it raised."""
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(work)
        yield
        working.result(PATIENCE_S)


def wait_for(condition: Callable[[], bool], what: str = "it") -> None:
    """Raises AssertionError when it does not become true for long. `what`: what is waited for."""
    wait_until(condition, what, PATIENCE_S)


def metric(client: httpx.Client, name: str) -> float:
    """Its value, 0 before it was counted. `name`: with its labels."""
    for line in client.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


def memory_bytes(process: int) -> int:
    """What the process has in memory now."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1_024
    raise AssertionError("the process is gone")


def held_fetch(member: HttpMember) -> bytes:
    """A request that waits for the next generation."""
    wanted = member.generation_id + 1
    path = f"{member.path}/members/{member.member_id}/assignment?min_generation={wanted}&wait_ms=60000"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@contextmanager
def held(client: httpx.Client, call: Callable[[], httpx.Response]) -> Iterator[Future[httpx.Response]]:
    """Within the block the service holds `call`, and nothing else; it has been answered when the block ends."""
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(call)
        wait_for(lambda: metric(client, "assignor_long_polls") == 1)
        yield answer
