"""`assignor demo`: the whole path once, for real, on one machine, and it ends by itself.

A coordinator on SQLite, Spark executors as members, one executor killed, the group followed until it is whole again,
and then recorded rounds of real Kafka groups through the same pipeline. Everything that was started is stopped at the
end.
"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from assignor.errors import AssignorFault
from spark_jobs.coordinator_process import CoordinatorProcess
from spark_jobs.demo_group import GROUP_ID, PARTITIONS, demo_definition
from spark_jobs.demo_tables import assignment_table, recordings_table, rounds_table
from spark_jobs.group_view import GroupView, NotInTime, explanation_text, round_summaries, wait_until_held
from spark_jobs.kafka_rounds import recorded_groups, replay
from spark_jobs.member_process import InstanceSettings
from spark_jobs.ownership_history import Gap, executors_of_members, gaps, overlaps, ownership_intervals
from spark_jobs.ownership_log import OwnershipLine, read_ownership
from spark_jobs.rounds_seen import rounds_seen
from spark_jobs.session import spark_session
from spark_jobs.workers import instance_settings, run_members
from streams_runtime.coordinator_client import CoordinatorClient

EXECUTORS = 3
THREADS = 2
TASKS = 3 * PARTITIONS
INITIAL_DELAY_MS = 3_000
SESSION_TIMEOUT_MS = 3_000  # a busy machine stalls for a second; the takeover does not wait for it
HEARTBEAT_INTERVAL_MS = 200
RESTORE_RATE = 30_000.0
JOIN_TIMEOUT_S = 90.0
FAILOVER_TIMEOUT_S = 20.0
NEW_EXECUTOR_TIMEOUT_S = 60.0


class DemoFailed(AssignorFault):
    """Something did not happen that should have; the message says what."""


@dataclass(frozen=True, slots=True)
class Kill:
    """An executor that was killed: its id, its JVM, its members, and when, in milliseconds since the epoch."""

    executor: str
    jvm_pid: int
    member_ids: frozenset[str]
    at_ms: float


class Demo:
    """One run. `console`: where it is shown; a line at a time, so that it needs no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_s = time.monotonic()

    def run(self) -> None:
        """Raises DemoFailed and what starting the coordinator or Spark raises."""
        with tempfile.TemporaryDirectory(prefix="assignor-demo-", ignore_cleanup_errors=True) as directory:
            self._executors_as_members(Path(directory))
        self._kafka_again()

    def _executors_as_members(self, directory: Path) -> None:
        self._say("starting a coordinator (uvicorn on loopback, SQLite)")
        coordinator = CoordinatorProcess(directory, {"group.initial.rebalance.delay.ms": INITIAL_DELAY_MS})
        coordinator.launch()  # it gets ready while Spark does
        try:
            master = f"local-cluster[{EXECUTORS},1,1024]"
            self._say(f"starting Spark: {master}, {THREADS} member threads an executor")
            with spark_session(master, "assignor demo") as spark:
                coordinator.wait_until_ready()
                settings = _instance_settings(coordinator.url, directory)
                workers = run_members(spark, demo_definition(), settings, EXECUTORS)
                try:
                    with CoordinatorClient(coordinator.url) as client:
                        self._watch(client, Path(settings.log_dir))
                finally:
                    self._say("telling the members to stop")
                    workers.stop()
        finally:
            coordinator.stop()

    def _watch(self, client: CoordinatorClient, log: Path) -> None:
        def wait(wanted: Callable[[GroupView], bool], what: str, timeout_s: float) -> GroupView:
            self._say(f"waiting for {what}")
            return wait_until_held(client, GROUP_ID, log, wanted, what, timeout_s)

        wait(_is_whole, "all members to have joined", JOIN_TIMEOUT_S)
        view = wait(_is_caught_up, "the standbys to have caught up", JOIN_TIMEOUT_S)
        self._show_assignment("everybody caught up", view, log)
        kill = self._kill_an_executor(view, read_ownership(log))
        view = wait(_is_whole_without(kill), "the others to have taken over", FAILOVER_TIMEOUT_S)
        self._show_assignment(f"executor {kill.executor} gone", view, log)
        try:
            view = wait(_is_whole, "Spark to start a new executor", NEW_EXECUTOR_TIMEOUT_S)
            self._show_assignment("with the executor that Spark started anew", view, log)
        except NotInTime:
            self._say(f"Spark has not started a new executor within {NEW_EXECUTOR_TIMEOUT_S:g} s; going on without")
        self._show_what_happened(client, kill, read_ownership(log))

    def _kill_an_executor(self, view: GroupView, lines: list[OwnershipLine]) -> Kill:
        executor_of = executors_of_members(lines)
        active: Counter[str] = Counter()
        for member in view.members:
            active[executor_of[member.member_id]] += len(member.active)
        executor, tasks = max(sorted(active.items()), key=lambda entry: entry[1])
        pids = {line.jvm_pid for line in lines if line.executor == executor and line.jvm_pid is not None}
        if len(pids) != 1:
            raise DemoFailed(f"the members of executor {executor} do not say which JVM it is: {pids}")
        gone = frozenset(member_id for member_id, its_executor in executor_of.items() if its_executor == executor)
        kill = Kill(executor, pids.pop(), gone, time.time() * 1000)
        os.kill(kill.jvm_pid, signal.SIGKILL)
        self._say(f"killed executor {executor} (JVM {kill.jvm_pid}, SIGKILL) with {tasks} active tasks")
        return kill

    def _show_what_happened(self, client: CoordinatorClient, kill: Kill, lines: list[OwnershipLine]) -> None:
        seen = {one.generation_id: one for one in rounds_seen(lines) if one.ended_ms >= kill.at_ms}
        summaries = [one for one in round_summaries(client, GROUP_ID) if one.generation_id in seen]
        self._show(rounds_table("rounds since the kill", summaries, seen))
        dead = {line.pid: kill.at_ms for line in lines if line.jvm_pid == kill.jvm_pid}
        without_owner = gaps(ownership_intervals(lines, dead), after_ms=kill.at_ms)
        orphaned = [gap for gap in without_owner if gap.start_ms == kill.at_ms]
        handed_over = [gap for gap in without_owner if gap.start_ms != kill.at_ms]
        self._say(f"after the kill: {_without_owner(orphaned)}")
        if orphaned and summaries:
            first = summaries[0].generation_id
            self._say(f"why, for one of them: {explanation_text(client, GROUP_ID, first, orphaned[0].task)}")
        self._say(f"handed over between living threads: {_without_owner(handed_over)}")
        as_written = ownership_intervals(lines)
        orphans = [gap.task for gap in gaps(as_written) if gap.end_ms is None]
        twice = overlaps(as_written)
        self._say(f"tasks without an owner now: {len(orphans)}; tasks owned by two at once, ever: {len(twice)}")
        if orphans or twice:
            raise DemoFailed(f"a task was lost or owned twice: {orphans} {twice}")

    def _kafka_again(self) -> None:
        self._say("running recorded rounds of real Kafka Streams 4.3.1 groups through the same pipeline")
        replayed = [replay(name, rounds) for name, rounds in recorded_groups()]
        self._show(recordings_table("what Kafka's own leader sent, and what comes out here", replayed))
        rounds, equal = sum(one.rounds for one in replayed), sum(one.equal for one in replayed)
        self._say(f"{equal} of {rounds} rounds equal what Kafka's own leader sent")
        different = [difference for one in replayed for difference in one.differences]
        if different:
            raise DemoFailed("not equal to Kafka: " + "; ".join(different[:5]))

    def _say(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._started_s:6.1f} s  {text}", highlight=False)

    def _show_assignment(self, when: str, view: GroupView, log: Path) -> None:
        executors = executors_of_members(read_ownership(log))
        self._show(assignment_table(f"generation {view.generation_id}, {when}", view, executors))

    def _show(self, table: object) -> None:
        self._console.print(table)


def _instance_settings(coordinator_url: str, directory: Path) -> InstanceSettings:
    return replace(
        instance_settings(demo_definition(), coordinator_url, str(directory / "state"), str(directory / "log")),
        threads=THREADS,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        restore_rate=RESTORE_RATE,
    )


def _is_whole(view: GroupView) -> bool:
    return len(view.members) == EXECUTORS * THREADS and _is_owned_once(view)


def _is_caught_up(view: GroupView) -> bool:
    return _is_whole(view) and all(lag <= 0 for lag in view.lags.values())


def _is_whole_without(kill: Kill) -> Callable[[GroupView], bool]:
    def wanted(view: GroupView) -> bool:
        return all(member.member_id not in kill.member_ids for member in view.members) and _is_owned_once(view)

    return wanted


def _is_owned_once(view: GroupView) -> bool:
    owners = view.owners()
    return len(owners) == TASKS and all(len(names) == 1 for names in owners.values())


def _without_owner(found: Iterable[Gap]) -> str:
    lengths = [gap.length_ms for gap in found if gap.length_ms is not None]
    if not lengths:
        return "no task was without an owner"
    longest, median = max(lengths), statistics.median(lengths)
    return f"{len(lengths)} tasks had no owner for {longest:.0f} ms at most, {median:.0f} ms in the median"
