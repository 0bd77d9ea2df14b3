"""Members of two groups that send heartbeats, and callers that change and read, each in a thread of its own.

Every call is noted with what was answered and how long it took. Nobody stops at an error: that is what is measured.
"""

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import httpx

from tests.coordinator_api.group_members import HttpMember, definition, settle

CONCERNED, OTHER = "concerned", "other"
"""The first is changed during a fault, so that its own log is concerned, too."""

MEMBERS_OF_A_GROUP = 3
HEARTBEAT_INTERVAL_S = 3.0
"""The default of `heartbeat.interval.ms`."""
SESSION_TIMEOUT_MS = 10_000
"""Shorter than the default, so that a fault lasts longer than a session."""

PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Call:
    """`what`: heartbeat, declare, change, read or readyz. `status` 0: no answer. `said`: the problem's `detail`."""

    what: str
    began_s: float
    took_s: float
    status: int
    said: str = ""
    code: str = ""


class GroupsUnderFault:
    """Two settled groups. While the context is entered, their members and the callers work."""

    def __init__(self, url: str, heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S) -> None:
        self._url = url
        self._heartbeat_interval_s = heartbeat_interval_s
        self._closing = ExitStack()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self.calls: list[Call] = []
        self.acknowledged: set[str] = {CONCERNED, OTHER}
        """Groups whose declaration was answered with success."""
        self.revision = 0
        """Of the group that is changed, as it was answered last."""
        self.members = [self._member(group_id) for group_id in (CONCERNED, OTHER) for _ in range(MEMBERS_OF_A_GROUP)]

    def __enter__(self) -> Self:
        client = self._client()
        for group_id in (CONCERNED, OTHER):
            client.put(f"/v1/groups/{group_id}", json=definition()).raise_for_status()
            members = [member for member in self.members if member.path.endswith(f"/{group_id}")]
            for member in members:
                member.subscribe().raise_for_status()
            settle(*members)
        steps: list[Callable[[], None]] = [self._heartbeats(member) for member in self.members]
        steps += [self._declares(), self._changes(), self._reads(), self._asks_whether_it_is_ready()]
        pauses = [self._heartbeat_interval_s] * len(self.members) + [PAUSE_S, 8 * PAUSE_S, PAUSE_S, PAUSE_S]
        for number, (step, pause_s) in enumerate(zip(steps, pauses, strict=True)):
            first_s = pause_s * number / len(steps)  # not all at one moment
            thread = threading.Thread(target=self._repeat, args=(step, first_s, pause_s), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._closing.close()

    def wait(self, seconds: float) -> None:
        """While they all go on."""
        self._stopped.wait(seconds)

    def _repeat(self, step: Callable[[], None], first_s: float, pause_s: float) -> None:
        self._stopped.wait(first_s)
        while not self._stopped.is_set():
            step()
            self._stopped.wait(pause_s)

    def _heartbeats(self, member: HttpMember) -> Callable[[], None]:
        def beat() -> None:
            answer = self._noted("heartbeat", member.heartbeat)
            if answer is not None and answer.is_success and answer.json()["rejoin"]:
                # what it does about its assignment is not measured; it does it again after its next heartbeat
                if self._noted("rejoin", member.subscribe) is not None:
                    self._noted("fetch", lambda: member.fetch(wait_ms=0))
            elif answer is not None and answer.is_success and answer.json()["generation_id"] != member.generation_id:
                self._noted("fetch", lambda: member.fetch(wait_ms=0))

        return beat

    def _declares(self) -> Callable[[], None]:
        client, numbers = self._client(), itertools.count()

        def declare() -> None:
            group_id = f"new-{next(numbers)}"
            answer = self._noted("declare", lambda: client.put(f"/v1/groups/{group_id}", json=definition()))
            if answer is not None and answer.is_success:
                self.acknowledged.add(group_id)

        return declare

    def _changes(self) -> Callable[[], None]:
        client, numbers = self._client(), itertools.count(1)

        def change() -> None:
            changed = definition()
            changed["changelog_end_offsets"] = {
                name: [1_000 + next(numbers)] * 4 for name in changed["changelog_end_offsets"]
            }
            answer = self._noted("change", lambda: client.put(f"/v1/groups/{CONCERNED}", json=changed))
            if answer is not None and answer.is_success:
                self.revision = int(answer.json()["revision"])

        return change

    def _reads(self) -> Callable[[], None]:
        client = self._client()
        return lambda: void(self._noted("read", lambda: client.get(f"/v1/groups/{OTHER}")))

    def _asks_whether_it_is_ready(self) -> Callable[[], None]:
        client = self._client()
        return lambda: void(self._noted("readyz", lambda: client.get("/readyz")))

    def _noted(self, what: str, call: Callable[[], httpx.Response]) -> httpx.Response | None:
        began_s = time.monotonic()
        try:
            answer = call()
        except httpx.TransportError as error:
            self.calls.append(Call(what, began_s, time.monotonic() - began_s, 0, type(error).__name__))
            return None
        document: dict[str, Any] = {} if answer.is_success else answer.json()
        said = document.get("detail", "")
        self.calls.append(
            Call(what, began_s, time.monotonic() - began_s, answer.status_code, said, document.get("code", ""))
        )
        return answer

    def _member(self, group_id: str) -> HttpMember:
        return HttpMember(
            self._client(), group_id, session_timeout_ms=SESSION_TIMEOUT_MS, rebalance_timeout_ms=SESSION_TIMEOUT_MS
        )

    def _client(self) -> httpx.Client:
        return self._closing.enter_context(httpx.Client(base_url=self._url, timeout=60, trust_env=False))


def void(_: object) -> None:
    """For a step whose answer is noted, and otherwise nobody's business."""
