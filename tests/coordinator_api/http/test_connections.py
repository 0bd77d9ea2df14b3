"""Which end of a connection is the death of a process, and which is not."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import pytest

from tests.coordinator_api.group_members import HttpMember, new_group, settle
from tests.coordinator_api.http.hostile_callers import connect, metric, wait_for
from tests.coordinator_api.service_process import ServiceProcess

SESSION_MS = 600_000
"""So long that no session ends within a test."""


class Processes:
    """Processes of one group, each with one member and a connection of its own, and somebody who watches them."""

    def __init__(self, service: ServiceProcess, count: int, opened: ExitStack) -> None:
        self.watcher, *clients = [opened.enter_context(service.client()) for _ in range(count + 1)]
        self.group_id = new_group(self.watcher)
        settings: Any = {"leave_on_disconnect": True, "session_timeout_ms": SESSION_MS}
        self.all = [HttpMember(client, self.group_id, **settings) for client in clients]
        for each in self.all:
            assert each.subscribe().status_code == 201
        settle(*self.all)
        for each in self.all:
            assert each.process_heartbeat().status_code == 200

    def members(self) -> set[str]:
        document = self.watcher.get(f"/v1/groups/{self.group_id}").json()
        return {each["member_id"] for each in document["members"]}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def post(path: str, body: object) -> bytes:
    octets = json.dumps(body).encode()
    sent = f"Content-Type: application/json\r\nContent-Length: {len(octets)}"
    return f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{sent}\r\n\r\n".encode() + octets


def ids(*members: HttpMember) -> set[str]:
    return {str(each.member_id) for each in members}


def test_should_remove_a_process_that_dies_while_another_pauses(service: ServiceProcess, opened: ExitStack) -> None:
    processes = Processes(service, 2, opened)
    living, dying = processes.all

    dying.client.close()

    wait_for(lambda: processes.members() == ids(living))
    assert living.process_heartbeat().json()["members"][living.member_id]["rejoin"]


def test_should_wait_for_sessions_when_most_connections_are_gone(service: ServiceProcess, opened: ExitStack) -> None:
    processes = Processes(service, 3, opened)
    first, second, third = processes.all

    first.client.close()
    second.client.close()
    with service.client() as later:
        later_processes = Processes(service, 2, opened)
        later_processes.all[1].client.close()
        wait_for(lambda: later_processes.members() == ids(later_processes.all[0]))
        assert later.get("/livez").status_code == 200

    assert processes.members() == ids(first, second, third)


@pytest.mark.parametrize("header", ["close", "keep-alive, close"])
def test_should_read_every_connection_option(service: ServiceProcess, opened: ExitStack, header: str) -> None:
    processes = Processes(service, 3, opened)
    living, closing, dying = processes.all
    assert closing.process_heartbeat(Connection=header).status_code == 200
    assert living.process_heartbeat(Connection="x-close-y").status_code == 200

    dying.client.close()

    wait_for(lambda: processes.members() == ids(living, closing))
    living.client.close()
    wait_for(lambda: processes.members() == ids(closing))


def test_should_remove_a_process_that_dies_while_its_body_is_read(service: ServiceProcess, opened: ExitStack) -> None:
    """A body of this size is read in a thread, so the connection breaks before the heartbeat reaches its group."""
    processes = Processes(service, 4, opened)
    dying, *living = processes.all
    sums = {f"0_{task}": task for task in range(9_000)}
    large = {"members": {dying.member_id: {"generation_id": dying.generation_id, "task_offset_sums": sums}}}
    path = f"/v1/groups/{processes.group_id}/heartbeat"

    with connect(service.url) as raw:
        raw.sendall(post(path, {"members": {dying.member_id: {"generation_id": dying.generation_id}}}))
        assert raw.recv(65_536).startswith(b"HTTP/1.1 200")
        raw.sendall(post(path, large))

    wait_for(lambda: processes.members() == ids(*living))


def test_should_remove_a_process_that_dies_with_several_heartbeats(service: ServiceProcess, opened: ExitStack) -> None:
    """uvicorn answers the requests of one connection in their order, and tells only the last one that it broke."""
    processes = Processes(service, 4, opened)
    dying, *living = processes.all
    held = {
        "members": {dying.member_id: {"generation_id": dying.generation_id}},
        "known": dying.process_heartbeat().json()["news"],
    }
    path = f"/v1/groups/{processes.group_id}/heartbeat?wait_ms={SESSION_MS}"

    with connect(service.url) as raw:
        raw.sendall(3 * post(path, held))
        wait_for(lambda: metric(processes.watcher, "assignor_long_polls") >= 1)

    wait_for(lambda: processes.members() == ids(*living))
    wait_for(lambda: metric(processes.watcher, "assignor_long_polls") == 0)
    assert not [line for line in service.log if "Exception" in line or "ASGI" in line or "Error" in line]


def test_should_refuse_an_upgrade_whose_body_hides_a_request(service: ServiceProcess, client: httpx.Client) -> None:
    kept = new_group(client)
    hidden = f"DELETE /v1/groups/{kept} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    upgrade = f"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: {len(hidden)}"
    head = f"PUT /v1/groups/{kept} HTTP/1.1\r\nHost: 127.0.0.1\r\n{upgrade}"

    with connect(service.url) as raw:
        raw.sendall(f"{head}\r\n\r\n".encode() + hidden)
        answer = b"".join(iter(lambda: raw.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 422")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"send the request without an upgrade" in answer

    with connect(service.url) as raw:
        raw.sendall(f"{head}\r\n\r\n".encode())
        # the service closes the connection with this unread, so the system may reset it, and the answer is lost
        with suppress(ConnectionResetError, BrokenPipeError):
            raw.sendall(hidden)
            answer = b"".join(iter(lambda: raw.recv(65_536), b""))
            assert answer.count(b"HTTP/1.1 ") == 1

    assert client.get(f"/v1/groups/{kept}").status_code == 200


def test_should_count_open_connections(service: ServiceProcess, client: httpx.Client) -> None:
    before = metric(client, "assignor_connections")
    with service.client() as other:
        other.get("/livez")
        assert metric(client, "assignor_connections") == before + 1
    wait_for(lambda: metric(client, "assignor_connections") == before)
