"""The endpoint itself: its port, its start, and how it ends."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from assignor.errors import InputError
from assignor.types import HostInfo
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.queries.server import QueryServer
from tests.no_tls import NO_TLS
from tests.streams_runtime.queries.fake_instance import STORE, FakeInstance, counts

QUICKLY_S = 3.0
ANY_PORT = "127.0.0.1:0"
ALIVE = {"status": "ok"}


@pytest.fixture
def server() -> Iterator[QueryServer]:
    with closing(QueryServer(ANY_PORT)) as made:
        yield made


def get(server: QueryServer, path: str) -> httpx.Response:
    return httpx.get(f"http://{server.endpoint}{path}", timeout=QUICKLY_S, trust_env=False, verify=NO_TLS)


def test_should_know_its_endpoint_before_it_starts_when_the_port_was_left_to_it(server: QueryServer) -> None:
    assert server.endpoint.host == "127.0.0.1"
    assert server.endpoint.port > 0
    before = server.endpoint
    server.start(FakeInstance())
    assert server.endpoint == before
    assert get(server, "/livez").json() == ALIVE


def test_should_have_the_port_for_itself_from_the_moment_it_is_made(server: QueryServer) -> None:
    with pytest.raises(InputError, match=r"application\.server: 127.0.0.1:\d+ cannot be listened on"):
        QueryServer(str(server.endpoint))


def test_should_take_the_same_port_again_when_the_one_before_has_ended() -> None:
    with closing(QueryServer(ANY_PORT)) as first:
        first.start(FakeInstance())
        get(first, "/livez")
    with closing(QueryServer(str(first.endpoint))) as second:
        assert second.endpoint == first.endpoint


def test_should_serve_on_ipv6_when_the_address_is_in_brackets() -> None:
    if not socket.has_ipv6:  # pragma: no cover
        pytest.fail("this machine has no IPv6")
    with closing(QueryServer("[::1]:0")) as server:
        server.start(FakeInstance())
        assert server.endpoint == HostInfo("[::1]", server.endpoint.port)
        assert get(server, "/livez").json() == ALIVE


@pytest.mark.parametrize(
    "address",
    [
        "",
        "7000",
        ":7000",
        "host:",
        "127.0.0.1:x",
        "127.0.0.1:70000",
        "127.0.0.1:-1",
        "::1:7000",
        "0.0.0.0:7000",
        "[::]:0",
        "192.0.2.1:0",
        "127.0.0.1:٣",
    ],
)
def test_should_refuse_an_address_that_cannot_be_listened_on_or_found_by_others(address: str) -> None:
    with pytest.raises(InputError, match=r"application\.server"):
        QueryServer(address, "a-token")


def test_should_start_once_only(server: QueryServer) -> None:
    server.start(FakeInstance())
    with pytest.raises(StreamsRuntimeError, match="was started before"):
        server.start(FakeInstance())
    assert get(server, "/livez").json() == ALIVE
    server.close()
    with pytest.raises(StreamsRuntimeError, match="was closed"):
        server.start(FakeInstance())


def test_should_close_without_ever_having_started(server: QueryServer) -> None:
    server.close()
    server.close()
    with pytest.raises(StreamsRuntimeError, match="was closed"):
        server.start(FakeInstance())


def test_should_say_how_an_ipv6_address_is_written() -> None:
    with pytest.raises(InputError, match=r"\[address\]:port for IPv6, not '::1:7000'"):
        QueryServer("::1:7000")


def test_should_show_no_password_and_no_long_text_of_an_address() -> None:
    with pytest.raises(InputError) as refused:
        QueryServer("user:hunter2@127.0.0.1:0")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(InputError) as refused:
        QueryServer("a:" * 10_000)
    assert len(str(refused.value)) < 400
    with pytest.raises(InputError, match="must be host:port"):
        QueryServer(" 127.0.0.1:0")


def test_should_close_quickly_when_connections_are_open(server: QueryServer) -> None:
    """One that is idle after an answer, one that never asked, one that stopped in the middle of asking."""
    server.start(FakeInstance())
    with httpx.Client(trust_env=False, verify=NO_TLS) as idle, connection(server), connection(server) as half:
        idle.get(f"http://{server.endpoint}/livez")
        half.sendall(b"GET /livez HTTP/1.1\r\nHost:")
        began_s = time.monotonic()
        server.close()
        assert time.monotonic() - began_s < QUICKLY_S
    assert not [thread for thread in threading.enumerate() if thread.name == f"queries-{server.endpoint.port}"]


def test_should_close_quickly_when_an_answer_never_comes(server: QueryServer) -> None:
    asked, released = threading.Event(), threading.Event()

    class Hanging(FakeInstance):
        def status_document(self) -> dict[str, object]:
            asked.set()
            released.wait(QUICKLY_S * 2)
            return {}

    server.start(Hanging())
    with connection(server) as waiting:
        waiting.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert asked.wait(QUICKLY_S)
        began_s = time.monotonic()
        try:
            server.close()
            assert time.monotonic() - began_s < QUICKLY_S
        finally:
            released.set()


def test_should_finish_what_it_is_answering_when_it_is_closed(server: QueryServer) -> None:
    asked, answers = threading.Event(), []

    class Slow(FakeInstance):
        def status_document(self) -> dict[str, object]:
            asked.set()
            ending.wait(QUICKLY_S)
            return {"state": "running"}

    ending = threading.Event()
    server.start(Slow())
    asking = threading.Thread(target=lambda: answers.append(get(server, "/status").json()))
    asking.start()
    assert asked.wait(QUICKLY_S)
    closer = threading.Thread(target=server.close)
    closer.start()
    ending.set()
    asking.join(QUICKLY_S)
    closer.join(QUICKLY_S)
    assert answers == [{"state": "running"}]


def test_should_serve_many_connections_at_once(server: QueryServer) -> None:
    server.start(FakeInstance().show(counts(cat=3)))
    values: list[object] = []

    def ask() -> None:
        with httpx.Client(trust_env=False, verify=NO_TLS) as http:
            url = f"http://{server.endpoint}/v1/stores/{STORE}/key?key=cat"
            values.extend(http.get(url).json()["value"] for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(QUICKLY_S * 3)
    assert values == [3] * 80


def connection(server: QueryServer) -> socket.socket:
    return socket.create_connection(server.endpoint, QUICKLY_S)
