"""One instance inside an executor's Python worker: k member threads that share a process id and a state directory.

Rules: the static member id of a thread is `<application>-p<partition>-t<thread>`, stable over retries, and its
incarnation is Spark's task attempt id, which rises, so that a newer attempt fences an older one. Host and executor go
out as client tags. When the executor's JVM dies, pyspark's daemon sends SIGHUP: the members give up their tasks,
leave the group, and the process ends at once, so that the standbys take over long before a session would have timed
out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from pyspark import TaskContext

from spark_jobs.definition import Changelogs
from spark_jobs.executor_identity import ExecutorIdentity, executor_identity
from spark_jobs.held_tasks import HoldingTasks
from spark_jobs.ownership_log import Holder, OwnershipLog
from spark_jobs.task_positions import TaskPositions
from streams_runtime.coordinator_client import CoordinatorClient
from streams_runtime.coordinator_errors import CoordinatorError
from streams_runtime.group_member import AssignmentFailed, GroupMember, MemberSettings
from streams_runtime.member_subscription import SubscriptionWriter
from streams_runtime.process_id import stored_process_id

HOST_TAG = "host"
EXECUTOR_TAG = "executor"
_LEAVING_SIGNALS = (signal.SIGHUP, signal.SIGTERM)
_EXIT_CODE_AFTER_LEAVING = 0


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """All that an instance needs, shipped to it with the Spark task. Times in milliseconds.

    `state_dir` and `log_dir` are paths on the executor's machine; each partition has a directory of its own in the
    first. `restore_rate`: records a second and changelog partition.
    """

    coordinator_url: str
    group_id: str
    application_id: str
    source_topics: tuple[str, ...]
    changelogs: Changelogs
    state_dir: str
    log_dir: str
    threads: int = 1
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    heartbeat_interval_ms: int | None = None
    restore_rate: float = 10_000.0
    token: str | None = field(default=None, repr=False)
    client_tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstanceEnd:
    """How an instance ended: of each member thread its `MemberEnd`, or what its group refused it with."""

    partition: int
    members: Mapping[str, str]


def run_partition(settings: InstanceSettings, partition: int, _rows: Iterator[object]) -> Iterator[InstanceEnd]:
    """The body of the Spark task: be an instance until its members have ended."""
    context = TaskContext.get()
    assert context is not None, "runs inside a Spark task"
    yield run_instance(settings, partition, context.taskAttemptId(), executor_identity())


def run_instance(
    settings: InstanceSettings, partition: int, incarnation: int, executor: ExecutorIdentity
) -> InstanceEnd:
    """Be an instance until its members have ended; a refusal by the group ends it, any other error is raised.

    On SIGHUP or SIGTERM all members leave the group and this process ends.
    """
    directory = Path(settings.state_dir) / f"instance-{partition}" / settings.application_id
    process_id = stored_process_id(directory)
    positions = TaskPositions(directory, settings.changelogs, restore_rate=settings.restore_rate)
    tags = {**settings.client_tags, HOST_TAG: socket.gethostname(), EXECUTOR_TAG: executor.executor_id}
    with CoordinatorClient(settings.coordinator_url, token=settings.token) as client:
        threads = []
        for thread in range(settings.threads):
            name = f"{settings.application_id}-p{partition}-t{thread}"
            holder = Holder(f"p{partition}", name, executor.executor_id, os.getpid(), executor.jvm_pid)
            member = GroupMember(
                client,
                MemberSettings(
                    group_id=settings.group_id,
                    client_id=name,
                    group_instance_id=name,
                    incarnation=incarnation,
                    session_timeout_ms=settings.session_timeout_ms,
                    rebalance_timeout_ms=settings.rebalance_timeout_ms,
                    heartbeat_interval_ms=settings.heartbeat_interval_ms,
                ),
                SubscriptionWriter(process_id, settings.source_topics, tags),
                HoldingTasks(name, positions, OwnershipLog(Path(settings.log_dir), holder)),
            )
            threads.append(_MemberThread(name, member))
        return InstanceEnd(partition, _run_together(threads))


class _MemberThread:
    """A member and the thread that runs it. `ended`: how; None while it runs. `failure`: what it died of."""

    def __init__(self, name: str, member: GroupMember) -> None:
        self.name = name
        self.member = member
        self.ended: str | None = None
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._woken: threading.Event | None = None

    def start(self, woken: threading.Event) -> None:
        self._woken = woken
        self.thread.start()

    def _run(self) -> None:
        try:
            self.ended = str(self.member.run())
        except (AssignmentFailed, CoordinatorError) as refused:
            self.ended = f"refused: {refused}"  # starting it again would only be refused again
        except BaseException as fault:
            self.failure = fault
        finally:
            assert self._woken is not None, "started"
            self._woken.set()


def _run_together(threads: list[_MemberThread]) -> dict[str, str]:
    """Run all members until all have ended; when one fails, the others leave, and its error is raised."""
    woken = threading.Event()
    with _leaving_signals(woken) as received:
        for thread in threads:
            thread.start(woken)
        while any(thread.thread.is_alive() for thread in threads):
            woken.wait()
            woken.clear()
            if received:
                _close(threads)
                os._exit(_EXIT_CODE_AFTER_LEAVING)  # the executor is gone, nobody waits for a result
            if any(thread.failure is not None for thread in threads):
                _close(threads)
            for thread in threads:
                if thread.ended is not None or thread.failure is not None:
                    thread.thread.join()
    for thread in threads:
        if thread.failure is not None:
            raise thread.failure
    return {thread.name: str(thread.ended) for thread in threads}


def _close(threads: list[_MemberThread]) -> None:
    closers = [threading.Thread(target=thread.member.close) for thread in threads]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()


@contextlib.contextmanager
def _leaving_signals(woken: threading.Event) -> Iterator[list[int]]:
    """Collect the signals that mean "leave"; only a main thread may, elsewhere none arrive."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        woken.set()

    before = {number: signal.signal(number, note) for number in _LEAVING_SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
