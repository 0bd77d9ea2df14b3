"""What systemd hears of a service with `Type=notify`, on a real socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_api.http.housekeeping import ServiceManager
from tests.coordinator_api.service_process import ServiceProcess

HEARS_WITHIN_S = 30


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "n"))
        listening.settimeout(HEARS_WITHIN_S)
        yield listening


def test_should_say_when_it_is_ready_alive_and_ending(manager: socket.socket, tmp_path: Path) -> None:
    variables = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "200000", "ASSIGNOR_LOG_FORMAT": "json"}
    with ServiceProcess(tmp_path, environment=variables) as service:
        ready = manager.recv(1_000).decode().splitlines()
        alive = [manager.recv(1_000) for _ in range(2)]
        with service.client() as client:
            assert client.get("/readyz").status_code == 200
        assert service.stop() == 0

    assert ready == ["READY=1", f"STATUS=assignor coordinator listens on {service.url} (open to this machine)"]
    assert alive == [b"WATCHDOG=1"] * 2
    while (message := manager.recv(1_000)) == b"WATCHDOG=1":
        pass
    assert message.startswith(b"STOPPING=1\n")
    assert all(line.startswith("{") for line in service.log), "the log is JSON from its first line to its last"


def test_should_tell_it_twice_in_the_time_that_the_manager_waits(manager: socket.socket) -> None:
    manager.setblocking(False)
    service = ServiceManager({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "10000000"})
    heard = []
    for now_s in range(0, 20, 2):
        service.alive(now_s)
        try:
            heard.append((now_s, manager.recv(1_000)))
        except BlockingIOError:
            continue

    assert heard == [(0, b"WATCHDOG=1"), (6, b"WATCHDOG=1"), (12, b"WATCHDOG=1"), (18, b"WATCHDOG=1")]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "/nowhere/at/all"},
        {"NOTIFY_SOCKET": "@nobody-listens-here"},
        {"WATCHDOG_USEC": "nonsense"},
        {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getpid() + 1)},
    ],
)
def test_should_go_on_when_nobody_listens(variables: dict[str, str]) -> None:
    service = ServiceManager(variables)
    service.ready("well")
    service.alive(0.0)
    service.stopping()


def test_should_find_a_manager_at_an_abstract_address() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0assignor-test-{os.getpid()}")
        listening.settimeout(HEARS_WITHIN_S)
        ServiceManager({"NOTIFY_SOCKET": f"@assignor-test-{os.getpid()}"}).ready("well")
        assert listening.recv(1_000) == b"READY=1\nSTATUS=well"
