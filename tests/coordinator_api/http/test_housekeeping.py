"""What the server does ten times a second: garbage that dies young is gone soon, what was freed goes back to the
operating system, and systemd hears of a service with `Type=notify`, on a real socket.
"""

from __future__ import annotations

import gc
import os
import socket
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_api.http.housekeeping import (
    ALL_EVERY_S,
    MIDDLE_EVERY_S,
    MIDDLE_PARTS,
    TRIM_EVERY_S,
    FreedMemory,
    Garbage,
    ServiceManager,
    freeze_existing_objects,
)
from tests.coordinator_api.service_process import ServiceProcess
from tests.known import known

BEGAN_S = 1_000.0
HEARS_WITHIN_S = 30


class Node:
    """Part of a circle."""

    me: Node


class Stopwatch:
    """Says that every collection takes as long as `took_s`."""

    def __init__(self, took_s: float) -> None:
        self._took_s = took_s
        self._now_s = 0.0

    def __call__(self) -> float:
        self._now_s += self._took_s
        return self._now_s


@pytest.fixture(autouse=True)
def only_what_is_tested_collects() -> Iterator[None]:
    """Objects of other tests are frozen, so that no collection here visits them."""
    before = gc.get_threshold()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture
def generations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Those that were collected."""
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", collected.append)
    return collected


def a_circle() -> Node:
    node = Node()
    node.me = node
    return node


def test_should_not_look_again_at_what_was_there_at_the_start() -> None:
    loaded = a_circle()
    there = weakref.ref(loaded)
    freeze_existing_objects()
    assert gc.get_freeze_count() > 0

    del loaded
    gc.collect()
    assert there() is not None


def test_should_collect_at_every_look_what_died_since_the_last_one() -> None:
    garbage = Garbage()
    garbage.collect_if_due(BEGAN_S)
    left = weakref.ref(a_circle())

    garbage.collect_if_due(BEGAN_S + 0.1)

    assert left() is None


@pytest.mark.parametrize(("survived", "gone_after_s"), [(1, MIDDLE_EVERY_S), (2, ALL_EVERY_S)])
def test_should_collect_within_a_bounded_time_what_died_later(survived: int, gone_after_s: float) -> None:
    """An error that is held for some seconds, with the body that its frames refer to."""
    garbage = Garbage(Stopwatch(0.0))
    garbage.collect_if_due(BEGAN_S)
    held = a_circle()
    for generation in range(survived):
        gc.collect(generation)
    left = weakref.ref(held)
    del held

    garbage.collect_if_due(BEGAN_S + gone_after_s / 2)
    assert left() is not None
    garbage.collect_if_due(BEGAN_S + gone_after_s)
    assert left() is None


def test_should_look_less_often_where_a_look_takes_long(generations: list[int]) -> None:
    took_s = 0.1
    garbage = Garbage(Stopwatch(took_s))
    due_s = BEGAN_S + MIDDLE_EVERY_S
    for now_s in (BEGAN_S, due_s, due_s + MIDDLE_EVERY_S, due_s + took_s * MIDDLE_PARTS + 0.001):
        garbage.collect_if_due(now_s)

    assert generations == [0, 1, 0, 1]


def test_should_look_at_one_generation_at_a_time(generations: list[int]) -> None:
    garbage = Garbage(Stopwatch(0.0))
    for now_s in (BEGAN_S, BEGAN_S + ALL_EVERY_S, BEGAN_S + ALL_EVERY_S + 0.1, BEGAN_S + ALL_EVERY_S + 0.2):
        garbage.collect_if_due(now_s)

    assert generations == [0, 2, 1, 0]


async def test_should_give_back_all_that_is_free_every_few_seconds_beside_the_loop() -> None:
    threads: list[threading.Thread] = []
    memory = FreedMemory(lambda: threads.append(threading.current_thread()))
    for tenths in range(5 * 10 * int(TRIM_EVERY_S)):
        begun = memory.give_back_if_due(BEGAN_S + tenths / 10)
        if begun is not None:
            await begun

    assert len(threads) == 5
    assert threading.current_thread() not in threads


async def test_should_not_begin_before_the_last_time_has_ended() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def give_back() -> None:
        begun.release()
        go_on.wait(60)

    memory = FreedMemory(give_back)
    for times in range(4):
        trimming = memory.give_back_if_due(BEGAN_S + times * TRIM_EVERY_S)
    assert begun.acquire(timeout=60)
    go_on.set()
    await known(trimming)

    assert not begun.acquire(blocking=False), "once"


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
