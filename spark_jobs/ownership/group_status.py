"""Combines the coordinator's description of a group with the status that each instance serves.

The coordinator knows the tasks and roles of each member, including warm-ups. Only the instance of a task knows how many
changelog records the task still has to read. If an instance does not respond or serves no endpoint, the group status
has only the coordinator's description of it.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import httpx

from coordinator_client.http_client import http_client
from spark_jobs.ownership.group_view import GroupView, MemberView, group_view
from streams_runtime.membership.coordinator_client import CoordinatorClient

ACTIVE, STANDBY, WARM_UP = "active", "standby", "warm-up"
RUNNING, RESTORING = "running", "restoring"
NO_ANSWER = "no answer"
REQUEST_TIMEOUT_S = 1.0
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """One copy of a task. `state`: the state of the copy; empty if unknown. `lag`: the number of changelog records that
    the copy still has to read; None if unknown.

    `restored`: the number of changelog records that the copy has read since it was assigned to this thread. `left_ms`:
    the time until the copy has read the records of its lag, as the coordinator expects it; None if unknown.
    """

    task: str
    role: str
    state: str = ""
    lag: int | None = None
    restored: int = 0
    left_ms: int | None = None

    @property
    def restore_percent(self) -> int | None:
        """The percentage of the task's state that has been restored. The result is None if the copy is not a restoring
        active task, or if the lag of the copy is unknown.
        """
        if self.role != ACTIVE or self.state != RESTORING or self.lag is None:
            return None
        return 100 * self.restored // max(self.restored + self.lag, 1)


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A stream thread and its copies, active copies first. `instance`: the endpoint of the thread's instance, or the
    process id of an instance without an endpoint.

    `processed`, `dropped`, `passed_over`: the numbers of input records that the thread has processed, dropped or passed
    over since its start. The numbers are 0 if the instance does not report them.
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
class GroupStatus:
    """The status of a group. `view`: the coordinator's view of the group. `threads`: the threads of all members, sorted
    by name.
    """

    group_id: str
    view: GroupView
    threads: tuple[ThreadRow, ...]

    def instance_of(self, process_id: str) -> str:
        """Returns the name of an instance, as in `ThreadRow.instance`. If the instance has left the group, returns the
        first characters of its process id.
        """
        return next((each.instance for each in self.view.members if each.process_id == process_id), process_id[:8])


class GroupWatch(AbstractContextManager["GroupWatch"]):
    """A context manager that requests the status of one group. `https`: True if the instances serve HTTPS."""

    def __init__(self, client: CoordinatorClient, group_id: str, *, https: bool = False) -> None:
        self._client = client
        self._group_id = group_id
        self._scheme = "https" if https else "http"
        self._http = http_client(f"{self._scheme}://", client.token, timeout=REQUEST_TIMEOUT_S)
        self._askers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="instance-status")

    def __exit__(self, *_: object) -> None:
        self._askers.shutdown(cancel_futures=True)
        self._http.close()

    def poll(self) -> GroupStatus:
        """Requests the present status of the group. Raises CoordinatorError, CoordinatorUnavailable."""
        view = group_view(self._client, self._group_id)
        endpoints = sorted({member.user_endpoint for member in view.members if member.user_endpoint is not None})
        answers = dict(zip(endpoints, self._askers.map(self._ask, endpoints), strict=True))
        return GroupStatus(self._group_id, view, thread_rows(view, answers))

    def _ask(self, endpoint: str) -> Mapping[str, Any]:
        """Returns the response of an instance to GET /status. The result is empty if there is no usable response."""
        try:
            answer = self._http.get(f"{self._scheme}://{endpoint}/status")
            document = answer.json() if answer.is_success else {}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            return {}
        return document if isinstance(document, dict) else {}


def thread_rows(view: GroupView, statuses: Mapping[str, Mapping[str, Any]]) -> tuple[ThreadRow, ...]:
    """Returns a row for each thread of the group. `statuses`: the response of each instance to GET /status, by
    endpoint.
    """
    rows = [_row(member, view, statuses.get(member.user_endpoint or "", {})) for member in view.members]
    return tuple(sorted(rows, key=lambda row: (row.thread, row.instance)))


def _row(member: MemberView, view: GroupView, status: Mapping[str, Any]) -> ThreadRow:
    thread = next((each for each in status.get("threads", ()) if each.get("name") == member.client_id), None)
    if thread is None:
        state = NO_ANSWER if member.user_endpoint is not None else ""
        return ThreadRow(member.instance, member.client_id, state, tuple(_as_assigned(member, view)))
    copies = tuple(_as_held(task, member, view) for task in thread["tasks"])
    counts = (int(thread.get(count, 0)) for count in ("processed", "dropped", "passed_over"))
    return ThreadRow(member.instance, member.client_id, str(thread["state"]), copies, *counts)


def _as_assigned(member: MemberView, view: GroupView) -> Iterator[CopyStatus]:
    for role, tasks in ((ACTIVE, member.active), (STANDBY, member.standby), (WARM_UP, member.warm_up)):
        for task in tasks:
            lag = view.lags.get((task, member.member_id))
            # a negative lag is not a number of records: it marks a running active task
            state = RUNNING if lag is not None and lag < 0 else ""
            left_ms = view.left_ms.get((task, member.member_id))
            yield CopyStatus(task, role, state, None if lag is None else max(lag, 0), left_ms=left_ms)


def _as_held(task: Mapping[str, Any], member: MemberView, view: GroupView) -> CopyStatus:
    name, role = str(task["task"]), str(task["role"])
    if role == STANDBY and name in member.warm_up:
        role = WARM_UP
    left_ms = view.left_ms.get((name, member.member_id))
    return CopyStatus(name, role, str(task["state"]), task["lag"], task["restored"], left_ms)
