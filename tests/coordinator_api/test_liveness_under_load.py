"""A real service that hardly gets any time: nobody alive is evicted, and who is really dead still is."""

import base64
import math
import multiprocessing
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

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


class SentHeartbeat(NamedTuple):
    """When its first byte was sent, when its last was, and when its process had read the answer."""

    began_s: float
    sent_s: float
    answered_s: float


Since = Callable[[SentHeartbeat], float]


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
        self.sent: list[SentHeartbeat] = []
        self.dead = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()  # before the last has joined, the session of the first may be over
        for _ in range(THREADS):
            joined = self._client.post(f"{self._path}/subscriptions", json=body)
            self.member_ids.append(joined.json()["member_id"])

    def longest_silence_s(self, since: Since) -> float:
        """At least so long none of its heartbeats was on its way: from `since` in one until the next was sent whole."""
        return max((later.sent_s - since(earlier) for earlier, later in pairwise(self.sent)), default=math.inf)

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
            at_s: dict[str, float] = {}
            told = self._client.post(
                f"{self._path}/heartbeat",
                json=beats,
                extensions={"trace": lambda step, _: at_s.setdefault(step, time.monotonic())},  # noqa: B023
            )
            assert told.status_code == 200, told.text
            began_s, sent_s = at_s["http11.send_request_headers.started"], at_s["http11.send_request_body.complete"]
            self.sent.append(SentHeartbeat(began_s, sent_s, time.monotonic()))
            self.evicted |= {member_id for member_id, news in told.json()["members"].items() if "code" in news}


def members(client: httpx.Client, group_id: str) -> set[str]:
    """Asks again while the service is behind: it then refuses whoever only looks, and no heartbeat."""
    until_s = time.monotonic() + GONE_WITHIN_S
    while (told := client.get(f"/v1/groups/{group_id}")).status_code == 429:
        assert time.monotonic() < until_s, told.text
        time.sleep(0.1)
    return {each["member_id"] for each in told.json()["members"]}


class Load(NamedTuple):
    """What keeps the service from running. `silent_since`: where in a heartbeat its process's own silence begins.

    A stopped service answers late, which is no silence of its members. On a busy machine members may themselves get no
    processor, and nobody can tell how long an answer lay there unread. So there the whole time between two heartbeats
    counts, and a process that let a session go by is not judged.
    """

    of: Callable[[ServiceProcess], AbstractContextManager[None]]
    session_ms: int
    silent_since: Since


LOADS = {
    "starved service": Load(starved_service, SESSION_MS, lambda sent: sent.answered_s),
    "busy machine": Load(busy_machine, 3 * SESSION_MS, lambda sent: sent.began_s),
}


@pytest.mark.long
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_should_evict_the_dead_and_nobody_else_when_the_service_hardly_runs(tmp_path: Path, load: Load) -> None:
    service = ServiceProcess(tmp_path, "--group-initial-rebalance-delay-ms", "600000", "--log-level", "warning")
    with service, service.client() as client:
        group_id = new_group(client)
        alive = [Process(service, group_id, load.session_ms) for _ in range(PROCESSES)]
        dead = Process(service, group_id, load.session_ms)
        try:
            with load.of(service):
                began_s = time.monotonic()
                dead.die()
                while not members(client, group_id).isdisjoint(dead.member_ids):
                    assert time.monotonic() < began_s + GONE_WITHIN_S, "the dead are still members"
                    time.sleep(0.1)
                # what is tested: many sessions of the living go by
                time.sleep(max(0.0, began_s + UNDER_LOAD_S - time.monotonic()))
            remaining = members(client, group_id)
        finally:
            for process in (*alive, dead):
                process.die()

    silent_s = {process: process.longest_silence_s(load.silent_since) for process in alive}
    print(f"{load.of.__name__}: silent for at most {[round(each, 2) for each in silent_s.values()]} s")
    judged = [process for process, longest_s in silent_s.items() if longest_s * 1000 < load.session_ms]
    assert judged, "no process sent heartbeats in time, so none of them can be judged"
    for process in judged:
        assert process.evicted == set()
        assert remaining.issuperset(process.member_ids)
