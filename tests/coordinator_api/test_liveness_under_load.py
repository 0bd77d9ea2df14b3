"""A real service that hardly gets any time: nobody alive is evicted, and who is really dead still is."""

from __future__ import annotations

import base64
import multiprocessing
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.coordinator_api.group_members import new_group, subscription
from tests.coordinator_api.service_process import ServiceProcess

SESSION_MS = 1_000
HEARTBEAT_S = 0.2
PROCESSES, THREADS = 4, 10
UNDER_LOAD_S = 6.0
GONE_WITHIN_S = 60.0
BUSY_LOOPS = 6


def _busy() -> None:
    while True:
        pass


@contextmanager
def busy_machine(_service: ServiceProcess) -> Iterator[None]:
    """Programs that never rest beside the service and its members."""
    loops = [multiprocessing.get_context("spawn").Process(target=_busy, daemon=True) for _ in range(BUSY_LOOPS)]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.join()


@contextmanager
def starved_service(service: ServiceProcess) -> Iterator[None]:
    """The service stands still for 900 of 1,000 ms, again and again."""
    over = threading.Event()

    def starve() -> None:
        while not over.is_set():
            service.process.send_signal(signal.SIGSTOP)
            time.sleep(0.9)  # what is tested: the service does not run
            service.process.send_signal(signal.SIGCONT)
            over.wait(0.1)

    starving = threading.Thread(target=starve)
    starving.start()
    try:
        yield
    finally:
        over.set()
        starving.join()


class Process:
    """Members of one process, and the one heartbeat that it sends for all of them, until it dies."""

    def __init__(self, service: ServiceProcess, group_id: str, session_ms: int) -> None:
        self._client = service.client()
        self._path = f"/v1/groups/{group_id}"
        raw = subscription(str(uuid.uuid4()))
        body = {
            "session_timeout_ms": session_ms,
            "rebalance_timeout_ms": 600_000,
            "subscription": base64.b64encode(raw).decode(),
        }
        self.member_ids: list[str] = []
        self.evicted: set[str] = set()
        self.dead = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()  # before the last has joined, the session of the first may be over
        for _ in range(THREADS):
            joined = self._client.post(f"{self._path}/subscriptions", json=body)
            self.member_ids.append(joined.json()["member_id"])

    def die(self) -> None:
        self.dead.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self.dead.wait(HEARTBEAT_S):
            member_ids = [*self.member_ids]
            if not member_ids:
                continue
            beats = {"members": {member_id: {"generation_id": 0} for member_id in member_ids}}
            told = self._client.post(f"{self._path}/heartbeat", json=beats)
            assert told.status_code == 200, told.text
            self.evicted |= {member_id for member_id, news in told.json()["members"].items() if "code" in news}


def expired(client: httpx.Client) -> float:
    found = re.search(r"^assignor_session_expired_total (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found
    return float(found[1])


# on a busy machine the members are starved, too, so their sessions are longer; and so are other tests
@pytest.mark.long
@pytest.mark.parametrize("load, session_ms", [(starved_service, SESSION_MS), (busy_machine, 3 * SESSION_MS)])
def test_should_evict_the_dead_and_nobody_else_when_the_service_hardly_runs(
    tmp_path: Path, load: Callable[[ServiceProcess], AbstractContextManager[None]], session_ms: int
) -> None:
    service = ServiceProcess(tmp_path, "--group-initial-rebalance-delay-ms", "600000", "--log-level", "warning")
    with service, service.client() as client:
        group_id = new_group(client)
        alive = [Process(service, group_id, session_ms) for _ in range(PROCESSES)]
        dead = Process(service, group_id, session_ms)
        try:
            with load(service):
                began_s = time.monotonic()
                dead.die()
                while expired(client) < THREADS:
                    assert time.monotonic() < began_s + GONE_WITHIN_S, "the dead are still members"
                    time.sleep(0.1)
                # what is tested: many sessions of the living go by
                time.sleep(max(0.0, began_s + UNDER_LOAD_S - time.monotonic()))
            assert expired(client) == THREADS
        finally:
            for process in (*alive, dead):
                process.die()

        assert [process.evicted for process in (*alive, dead)] == [set()] * (PROCESSES + 1)
