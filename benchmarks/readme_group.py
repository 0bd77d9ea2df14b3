"""README's application on Spark executors, fed without a pause: its instances are ended one by one, and come back.

A group outlives its instances: after a drain, `run_instances` starts them again on the same coordinator and log.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from assignor.errors import AssignorFault
from assignor.types import TopicPartition
from benchmarks import readme_application as readme
from benchmarks.feed import FedRecord, Feed
from benchmarks.handovers import Handover, all_run, handovers
from spark_jobs.ownership.group_status import ACTIVE, RUNNING, CopyStatus, GroupStatus, GroupWatch
from spark_jobs.ownership.group_view import group_view
from spark_jobs.ownership.ownership_history import members_behind
from spark_jobs.ownership.ownership_log import OwnershipLine, read_ownership
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.calls import GroupIdNotFound
from streams_runtime.membership.coordinator_client import CoordinatorClient

FEED_INTERVAL_S = 0.02
WORDS_A_LINE = 4
CAUGHT_UP_LAG = 200
"""About a second of a task's input: a standby that follows has less."""
TASKS = 2 * readme.PARTITIONS
_DIFFERENT_WORDS = 2_000
_SETTLE_TIMEOUT_S = 120.0
_TAKEOVER_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_LOOK_INTERVAL_S = 0.25
_LEFT_INTERVAL_S = 0.01


@dataclass(frozen=True, slots=True)
class Drained:
    """A stop of everything, in ms from its order: until the group had no member, and until Spark had ended."""

    left: float
    ended: float


class ReadmeGroup:
    """The coordinator, the log and its feed, while the context lasts. `directory`: for everything that is kept."""

    def __init__(self, directory: Path, bootstrap_servers: str) -> None:
        self._directory = directory
        self._servers = bootstrap_servers
        self._log_dir = directory / "ownership"
        self._closing = ExitStack()
        self._deaths: dict[int, float] = {}

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            self._directory.mkdir(parents=True, exist_ok=True)
            (self._directory / f"{readme.MODULE}.py").write_text(readme.module_text(self._servers), encoding="utf-8")
            readme.create_topics(self._servers)
            coordinator = closing.enter_context(
                CoordinatorProcess(self._directory / "coordinator", readme.coordinator_settings(self._servers))
            )
            self._url = coordinator.url
            self._client = closing.enter_context(CoordinatorClient(self._url))
            self._watch = closing.enter_context(GroupWatch(self._client, readme.APPLICATION_ID))
            log = open_log(self._servers)
            closing.callback(log.close)
            closing.enter_context(Feed(log, FEED_INTERVAL_S, lines_of_words(readme.LINES)))
            self._closing = closing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @contextmanager
    def instances(self) -> Iterator[Instances]:
        """`assignor workers run`, until the context ends or they are drained."""
        command = readme.workers_command(self._url, self._directory / "state", self._log_dir)
        with (self._directory / "workers.log").open("ab") as output:
            # a process group of its own, so that Ctrl-C ends the benchmark first, and not the instances under it
            process = subprocess.Popen(  # noqa: S603
                command, cwd=self._directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
            )
            try:
                yield Instances(process, self._client, self._watch, self._log_dir, self._deaths)
            finally:
                _stop(process)


class Instances:
    """The running instances of a group. `deaths`: process id to when it got its signal; kept over all instances."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        client: CoordinatorClient,
        watch: GroupWatch,
        log_dir: Path,
        deaths: dict[int, float],
    ) -> None:
        self._process = process
        self._client = client
        self._watch = watch
        self._log_dir = log_dir
        self._deaths = deaths

    def settle(self) -> None:
        """Until all members hold their tasks, every task runs, and each with state has a standby that follows it."""
        self._wait(self._is_whole, "everybody to hold their tasks")
        self._wait(lambda: all_run(self._lines(), self._deaths, TASKS), "every task to process")
        self._wait(lambda: _follows(self._watch.poll()), "standbys to have caught up")

    def kill_executor(self) -> dict[str, Handover]:
        """SIGKILL of the JVM; its Python worker gets SIGHUP by the system. By lost task, its way to the new owner."""
        return self._end(lambda victim: (victim.jvm_pid or 0, signal.SIGKILL))

    def kill_worker(self) -> dict[str, Handover]:
        """SIGKILL of the Python worker, so that nobody says goodbye."""
        return self._end(lambda victim: (victim.pid, signal.SIGKILL))

    def stop_worker(self) -> dict[str, Handover]:
        """SIGTERM: the instance commits, closes its tasks and leaves."""
        return self._end(lambda victim: (victim.pid, signal.SIGTERM))

    def drain(self) -> Drained:
        """Have the coordinator tell everybody to leave and end. Raises AssignorFault when they do not."""
        began_s = time.monotonic()
        self._client.drain(readme.APPLICATION_ID)
        deadline_s = began_s + _STOP_TIMEOUT_S
        while group_view(self._client, readme.APPLICATION_ID).members:
            if time.monotonic() > deadline_s:
                raise AssignorFault(f"there are still members {_STOP_TIMEOUT_S:g} s after the drain")
            time.sleep(_LEFT_INTERVAL_S)
        left_s = time.monotonic()
        code = self._process.wait(_STOP_TIMEOUT_S)
        if code != 0:
            raise AssignorFault(f"`assignor workers run` ended with {code} after the drain")
        return Drained((left_s - began_s) * 1_000, (time.monotonic() - began_s) * 1_000)

    def _end(self, target: Callable[[OwnershipLine], tuple[int, signal.Signals]]) -> dict[str, Handover]:
        victim = _victim(self._watch.poll(), self._lines())
        pid, number = target(victim)
        assert pid > 0, f"the ownership log names the executor of {victim.instance}"
        died_ms = self._deaths[victim.pid] = time.time() * 1_000
        os.kill(pid, number)
        return handovers(self._lines, died_ms, self._deaths, _TAKEOVER_TIMEOUT_S)

    def _is_whole(self) -> bool:
        try:
            view = group_view(self._client, readme.APPLICATION_ID)
        except GroupIdNotFound:  # the instances' program has not declared it yet
            return False
        members = [member.member_id for member in view.members]
        owners = view.owners()
        return (
            view.is_settled
            and len(members) == readme.INSTANCES * readme.THREADS
            and len(owners) == TASKS
            and all(len(names) == 1 for names in owners.values())
            and not members_behind(self._lines(), members, view.generation_id)
        )

    def _lines(self) -> list[OwnershipLine]:
        return read_ownership(self._log_dir)

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _SETTLE_TIMEOUT_S
        while not holds():
            if self._process.poll() is not None:
                raise AssignorFault(f"`assignor workers run` ended with {self._process.returncode}")
            if time.monotonic() > deadline_s:
                raise AssignorFault(f"waited {_SETTLE_TIMEOUT_S:g} s for {what}; last seen: {self._watch.poll()}")
            time.sleep(_LOOK_INTERVAL_S)


def _follows(status: GroupStatus) -> bool:
    """Whether every active task runs and, if it has state, some other copy of it has caught up."""
    copies = [copy for row in status.threads for copy in row.copies]
    active = [copy for copy in copies if copy.role == ACTIVE and copy.state == RUNNING]
    caught_up = {copy.task for copy in copies if is_caught_up(copy)}
    return {copy.task for copy in active if _has_state(copy.task)} <= caught_up and len(active) == TASKS


def is_caught_up(copy: CopyStatus) -> bool:
    """Whether it is a standby or warm-up that follows its active task."""
    return copy.role != ACTIVE and copy.state == RUNNING and copy.lag is not None and copy.lag <= CAUGHT_UP_LAG


def _has_state(task: str) -> bool:
    return task.startswith(f"{readme.STATEFUL}_")


def _victim(status: GroupStatus, lines: list[OwnershipLine]) -> OwnershipLine:
    """A line of the instance with the most active tasks, those with state first."""
    newest: Mapping[str, OwnershipLine] = {line.thread: line for line in lines}
    held: dict[str, list[str]] = {}
    for row in status.threads:
        held.setdefault(newest[row.thread].instance, []).extend(copy.task for copy in row.of_role(ACTIVE))
    instance = max(sorted(held), key=lambda name: (sum(map(_has_state, held[name])), len(held[name])))
    if not any(map(_has_state, held[instance])):
        raise AssignorFault(f"no instance has an active task with state: {held}")
    return max((line for line in newest.values() if line.instance == instance), key=lambda line: line.at_ms)


def lines_of_words(topic: str) -> Iterator[list[FedRecord]]:
    """Lines of random words, one for each partition of the topic."""
    chance = random.Random(readme.APPLICATION_ID)
    while True:
        yield [
            (
                TopicPartition(topic, number),
                None,
                " ".join(f"word{chance.randrange(_DIFFERENT_WORDS)}" for _ in range(WORDS_A_LINE)).encode(),
            )
            for number in range(readme.PARTITIONS)
        ]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does: instances are drained; after a minute without success, SIGKILL."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
