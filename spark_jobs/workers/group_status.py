"""The status of a whole group: the coordinator's view, completed by what each instance reports at its endpoint.

The coordinator knows which member has which task in which role, warm-ups included. Only the instance knows how far a
task has come. When an instance does not answer, or serves no endpoint, the coordinator's view is shown for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import httpx

from coordinator_client.http_client import http_client
from spark_jobs.workers.group_view import GroupView, MemberView, group_view
from streams_runtime.membership.coordinator_client import CoordinatorClient

ACTIVE, STANDBY, WARM_UP = "active", "standby", "warm-up"
RUNNING, RESTORING = "running", "restoring"
NO_ANSWER = "no answer"
REQUEST_TIMEOUT_S = 1.0
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """One copy of a task. `state`: empty when unknown. `lag`: changelog records still to read, None when unknown.

    `restored`: changelog records read since the task came to this thread.
    """

    task: str
    role: str
    state: str = ""
    lag: int | None = None
    restored: int = 0

    @property
    def restore_percent(self) -> int | None:
        """How much of an active task's state is restored; None when it is not restoring, or its lag is unknown."""
        if self.role != ACTIVE or self.state != RESTORING or self.lag is None:
            return None
        return 100 * self.restored // max(self.restored + self.lag, 1)


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A stream thread and its copies, active ones first. `instance`: its endpoint, or its process id without one.

    `processed`, `dropped`, `passed_over`: input records since the thread started; 0 where the instance does not say.
    """

    instance: str
    thread: str
    state: str
    copies: tuple[CopyStatus, ...]
    processed: int = 0
    dropped: int = 0
    passed_over: int = 0

    def of_role(self, role: str) -> tuple[CopyStatus, ...]:
        return tuple(copy for copy in self.copies if copy.role == role)


@dataclass(frozen=True, slots=True)
class InstanceNotice:
    """Something that an instance has to tell people. `instance`: as in `ThreadRow`, or the beginning of the process id
    of one that is gone.
    """

    instance: str
    code: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """`condition`: why a Stable group does nothing, None for one that works. `advice`: what to do about the group."""

    group_id: str
    state: str
    generation_id: int
    threads: tuple[ThreadRow, ...]
    condition: str | None = None
    advice: str | None = None
    notices: tuple[InstanceNotice, ...] = ()


class GroupWatch:
    """Asks for one group's status, as a context manager. `https`: its instances speak TLS."""

    def __init__(self, client: CoordinatorClient, group_id: str, *, https: bool = False) -> None:
        self._client = client
        self._group_id = group_id
        self._scheme = "https" if https else "http"
        self._http = http_client(f"{self._scheme}://", client.token, timeout=REQUEST_TIMEOUT_S)
        self._askers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="instance-status")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._askers.shutdown(cancel_futures=True)
        self._http.close()

    def look(self) -> GroupStatus:
        """Raises CoordinatorError, CoordinatorUnavailable."""
        view = group_view(self._client, self._group_id)
        endpoints = sorted({member.user_endpoint for member in view.members if member.user_endpoint is not None})
        answers = zip(endpoints, self._askers.map(self._ask, endpoints), strict=True)
        return merged(self._group_id, view, {endpoint: answer for endpoint, answer in answers if answer is not None})

    def _ask(self, endpoint: str) -> Mapping[str, Any] | None:
        try:
            answer = self._http.get(f"{self._scheme}://{endpoint}/status")
            document = answer.json() if answer.is_success else None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            return None
        return document if isinstance(document, dict) else None


def merged(group_id: str, view: GroupView, statuses: Mapping[str, Mapping[str, Any]]) -> GroupStatus:
    """`statuses`: endpoint to the answer of its GET /status."""
    rows = [_row(member, view, _thread_of(statuses.get(member.user_endpoint or ""), member)) for member in view.members]
    instances = {member.process_id: member.user_endpoint or member.process_id for member in view.members}
    return GroupStatus(
        group_id,
        view.state,
        view.generation_id,
        tuple(sorted(rows, key=lambda row: (row.thread, row.instance))),
        view.condition,
        view.advice,
        tuple(
            InstanceNotice(instances.get(each.process_id, each.process_id[:8]), each.code, each.text, each.count)
            for each in view.notices
        ),
    )


def _thread_of(status: Mapping[str, Any] | None, member: MemberView) -> Mapping[str, Any] | None:
    threads = () if status is None else status.get("threads", ())
    return next((thread for thread in threads if thread.get("name") == member.client_id), None)


def _row(member: MemberView, view: GroupView, thread: Mapping[str, Any] | None) -> ThreadRow:
    instance = member.user_endpoint or member.process_id
    if thread is None:
        state = NO_ANSWER if member.user_endpoint is not None else ""
        return ThreadRow(instance, member.client_id, state, tuple(_as_assigned(member, view)))
    copies = (_as_held(task, member.warm_up) for task in thread["tasks"])
    counts = (int(thread.get(count, 0)) for count in ("processed", "dropped", "passed_over"))
    return ThreadRow(instance, member.client_id, str(thread["state"]), tuple(copies), *counts)


def _as_assigned(member: MemberView, view: GroupView) -> Iterator[CopyStatus]:
    for role, tasks in ((ACTIVE, member.active), (STANDBY, member.standby), (WARM_UP, member.warm_up)):
        for task in tasks:
            lag = view.lags.get((task, member.member_id))
            # a negative lag is a sentinel for a running active, not a number of records
            yield CopyStatus(
                task, role, RUNNING if lag is not None and lag < 0 else "", None if lag is None else max(lag, 0)
            )


def _as_held(task: Mapping[str, Any], warm_ups: Iterable[str]) -> CopyStatus:
    name, role = str(task["task"]), str(task["role"])
    if role == STANDBY and name in warm_ups:
        role = WARM_UP
    return CopyStatus(name, role, str(task["state"]), task["lag"], task["restored"])
