"""Writes a history while it happens: the calls of a member's real client, and the tasks of its stream threads.

A line is written when the call has ended and before its answer is used, so what a process acts on is in its file, also
when it is killed right after.
"""

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assignor.types import TaskId
from coordinator_api.group.subscriptions import assigned_tasks, subscription_info
from coordinator_client.addresses import CoordinatorAddresses
from streams_runtime.common.failures import ReportedFailure
from streams_runtime.common.notices import Notice
from streams_runtime.instance.thread_listener import TaskRestored, ThreadListener
from streams_runtime.membership.calls import (
    CoordinatorError,
    FetchedAssignment,
    JoinReply,
    JoinRequest,
    MemberHeartbeat,
    ProcessHeartbeatReply,
)
from streams_runtime.membership.coordinator_client import (
    ANSWER_TIMEOUT_S,
    NO_PATIENCE,
    CoordinatorClient,
    Patience,
    ProcessHeartbeats,
)
from streams_runtime.membership.member_events import HeldTasks
from tests.history.calls import SUFFIX, Call, FaultLine, Outcome, TasksLine, encoded

_DIGEST_BYTES = 12
_NOTHING = HeldTasks("", 0)


class Recorder:
    """One file, of one client. Any thread may write."""

    def __init__(self, directory: Path, client: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.client = client
        self._file = (directory / f"{client}{SUFFIX}").open("a", encoding="utf-8")
        self._turn = threading.Lock()

    def write(self, line: Call | TasksLine | FaultLine) -> None:
        """Once this returns, the line survives the end of this process."""
        text = encoded(line)
        with self._turn:
            self._file.write(text)
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def call(self, group: str, operation: str, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Record what is called within. The answer is put into what is yielded; an error passes on."""
        answer: dict[str, Any] = {}
        begin_ns = time.monotonic_ns()
        outcome = Outcome.UNKNOWN
        try:
            yield answer
            outcome = Outcome.ANSWERED
        except CoordinatorError as error:
            outcome, answer = Outcome.REFUSED, {"code": error.code}
            raise
        finally:
            end_ns = time.monotonic_ns()
            self.write(Call(self.client, group, operation, arguments, begin_ns, end_ns, outcome, answer))


class RecordedClient(CoordinatorClient):
    """The real client, with each call and its answer written down."""

    def __init__(self, base_url: str, recorder: Recorder) -> None:
        super().__init__(base_url)
        self._recorder = recorder

    def join(self, group_id: str, request: JoinRequest, *, patience: Patience = NO_PATIENCE) -> JoinReply:
        subscribed = subscription_info(request.subscription)
        arguments = {
            "client_id": request.settings.client_id,
            "member_id": request.member_id,
            "instance_id": request.settings.group_instance_id,
            "incarnation": request.settings.incarnation,
            "join_id": request.join_id,
            "process_id": None if subscribed is None else str(subscribed.process_id),
        }
        with self._recorder.call(group_id, "join", arguments) as answer:
            reply = super().join(group_id, request, patience=patience)
            answer.update(
                member_id=reply.member_id,
                generation_id=reply.generation_id,
                state=reply.state,
                revision=None if reply.definition is None else reply.definition.revision,
            )
        return reply

    def assignment(
        self, group_id: str, member_id: str, *, min_generation: int, wait_ms: int
    ) -> FetchedAssignment | None:
        arguments = {"member_id": member_id, "min_generation": min_generation}
        with self._recorder.call(group_id, "fetch", arguments) as answer:
            fetched = super().assignment(group_id, member_id, min_generation=min_generation, wait_ms=wait_ms)
            if fetched is not None:
                answer.update(_fetched(fetched))
        return fetched

    def process_heartbeats(self, group_id: str) -> ProcessHeartbeats:
        return RecordedHeartbeats(self.addresses, group_id, self._recorder)

    def leave(
        self,
        group_id: str,
        member_id: str,
        *,
        failure: ReportedFailure | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        with self._recorder.call(group_id, "leave", {"member_id": member_id}):
            super().leave(group_id, member_id, failure=failure, timeout_s=timeout_s)


class RecordedHeartbeats(ProcessHeartbeats):
    """The real connection of heartbeats, with each of them written down."""

    def __init__(self, addresses: CoordinatorAddresses, group_id: str, recorder: Recorder) -> None:
        super().__init__(addresses, None, group_id)
        self._group_id = group_id
        self._recorder = recorder

    def send(
        self,
        members: Mapping[str, MemberHeartbeat],
        *,
        known: str | None = None,
        wait_ms: int = 0,
        timeout_s: float = ANSWER_TIMEOUT_S,
        notices: Sequence[Notice] = (),
    ) -> ProcessHeartbeatReply:
        arguments = {"members": {member_id: each.generation_id for member_id, each in members.items()}}
        with self._recorder.call(self._group_id, "heartbeat", arguments) as answer:
            reply = super().send(members, known=known, wait_ms=wait_ms, timeout_s=timeout_s, notices=notices)
            answer.update(
                state=reply.state,
                generation_id=reply.generation_id,
                paused=reply.paused is True,
                members={
                    member_id: {"code": news.code}
                    if isinstance(news, CoordinatorError)
                    else {"rejoin": news.rejoin, "stop": news.stop, "assignment": news.assignment_generation}
                    for member_id, news in reply.members.items()
                },
            )
        return reply


class RecordedTasks(ThreadListener):
    """The tasks of one thread."""

    def __init__(self, recorder: Recorder, group: str, thread: str) -> None:
        self._recorder, self._group, self._thread = recorder, group, thread
        self._held = _NOTHING
        self._write("started")

    def joining(self, held: HeldTasks) -> None:
        self._hold("joining", held)

    def assigned(self, held: HeldTasks) -> None:
        self._hold("assigned", held)

    def revoked(self, held: HeldTasks) -> None:
        self._hold("revoked", held)

    def dropped(self, reason: str, *, clean: bool) -> None:
        self._hold("dropped", _NOTHING)

    def restored(self, task: TaskRestored) -> None:
        self._write("restored", str(task.task_id))

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        self._write("processed", str(task_id))

    def _hold(self, event: str, held: HeldTasks) -> None:
        self._held = held
        self._write(event)

    def _write(self, event: str, task: str = "") -> None:
        held = self._held
        self._recorder.write(
            TasksLine(
                self._recorder.client,
                self._group,
                self._thread,
                event,
                time.monotonic_ns(),
                held.member_id,
                held.generation_id,
                tuple(map(str, sorted(held.active))),
                tuple(map(str, sorted(held.standby))),
                task,
            )
        )


def listeners(recorder: Recorder, group: str) -> Callable[[str], RecordedTasks]:
    """From a thread's name to what writes down its tasks."""
    return lambda thread: RecordedTasks(recorder, group, thread)


def _fetched(fetched: FetchedAssignment) -> dict[str, Any]:
    tasks = assigned_tasks(fetched.assignment)
    return {
        "generation_id": fetched.generation_id,
        "active": [str(task) for task in sorted(tasks.active)],
        "standby": [str(task) for task in sorted(tasks.standby)],
        "digest": hashlib.blake2b(fetched.assignment, digest_size=_DIGEST_BYTES).hexdigest(),
    }
