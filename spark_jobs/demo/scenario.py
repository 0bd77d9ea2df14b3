"""`assignor demo`: a word count on Spark executors of one machine. One executor is killed, and every count is checked.
The text is the source code of Python's standard library. The word count has a stream-table join and a repartition step,
and uses exactly-once processing. At the end of the word count, all counts are compared with the counts of a plain loop
over the text. Finally, the demo runs recorded rebalances of real Kafka groups again. The same code computes the
recorded rebalances and the rebalances of the word count.
"""

import itertools
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from assignor.errors import AssignorFault
from spark_engine.session.spark_session import spark_session
from spark_jobs.demo.replayed_groups import recorded_groups, replay
from spark_jobs.demo.tables import assignment_table, rebalances_table, recordings_table, takeovers_table
from spark_jobs.demo.takeovers import Takeover, takeovers, witnessed_rebalances
from spark_jobs.demo.word_count import (
    COUNT_STORE,
    LINES,
    PARTITIONS,
    SourceLine,
    TextFeed,
    different_counts,
    expected_counts,
    read_counts,
    stdlib_lines,
    word_count,
)
from spark_jobs.ownership.group_view import (
    GroupView,
    NotInTime,
    explanation_text,
    group_view,
    listed_rebalances,
    wait_until_held,
)
from spark_jobs.ownership.ownership_history import executors_of_members, gaps, overlaps, ownership_intervals
from spark_jobs.ownership.ownership_log import OwnershipLine, read_ownership
from spark_jobs.workers.member_process import EXECUTOR_TAG
from spark_jobs.workers.running import Workers, run
from spark_jobs.workers.spark_confs import EXECUTOR_CONF
from streams_runtime.instance.application import Application
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.local_run.local_run import Progress, ProgressMeter
from streams_runtime.logs.base import Log
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient

APPLICATION_ID = "demo"
TEXT_LINES = 200_000
EXECUTORS = 3
THREADS = 2
TASKS = 2 * PARTITIONS
KILL_AT_SHARE = 0.4
JOIN_TIMEOUT_S = 90.0
FAILOVER_TIMEOUT_S = 20.0
PROCESSING_TIMEOUT_S = 600.0
PROGRESS_INTERVAL_S = 5.0
KEPT_LINES_EACH_S = 20


class DemoFailed(AssignorFault):
    """Raised if a check of the demo failed. The message has the difference between the expected and the actual
    result.
    """


@dataclass(frozen=True, slots=True)
class Kill:
    """A killed executor. `at_ms`: the time of the kill, in milliseconds since the epoch."""

    executor: str
    jvm_pid: int
    member_ids: frozenset[str]
    at_ms: float


class Demo:
    """One run of the demo. `console`: the console to which the demo prints its lines; it may also print to a file or a
    pipe.

    `keep`: True to keep the group running after the checks. The instances then process further lines of the text until
    the demo is interrupted or the group is drained.
    """

    def __init__(self, console: Console, text_lines: int = TEXT_LINES, *, keep: bool = False) -> None:
        self._console = console
        self._text_lines = text_lines
        self._keep = keep
        self._started_s = time.monotonic()

    def run(self) -> None:
        """Runs the demo. Raises DemoFailed if a check failed. Also raises the error if the coordinator or Spark cannot
        be started.
        """
        with tempfile.TemporaryDirectory(prefix="assignor-demo-", ignore_cleanup_errors=True) as directory:
            self._word_count_on_executors(Path(directory))
        if not self._keep:
            self._kafka_again()

    def _word_count_on_executors(self, directory: Path) -> None:
        application = word_count(_configs(directory))
        address = application.configs.bootstrap_servers
        self._report("starting a coordinator (uvicorn on loopback, SQLite)")
        coordinator = CoordinatorProcess(directory, {"cluster.bootstrap.servers": address})
        # `launch` returns before the coordinator is ready, so Spark starts at the same time
        coordinator.launch()
        try:
            log = open_log(address)
            feed, lines = self._write_text(log)
            master = f"local-cluster[{EXECUTORS},1,1024]"
            self._report(f"starting Spark: {master}, {THREADS} stream threads an executor, one standby a task")
            with spark_session(master, "assignor demo", conf=EXECUTOR_CONF) as spark:
                coordinator.wait_until_ready()
                page = f"{coordinator.url}/ui/groups/{APPLICATION_ID}"
                self._report(f"in a browser, while it runs: {page}")
                workers = run(
                    spark,
                    application,
                    instances=EXECUTORS,
                    coordinator_url=coordinator.url,
                    state_dir=str(directory / "state"),
                    log_dir=str(directory / "log"),
                )
                try:
                    with CoordinatorClient(coordinator.url) as client:
                        self._watch(client, log, directory / "log", application)
                    if self._keep:
                        self._compare(log, lines)
                        self._kafka_again()
                        self._keep_running(workers, feed, lines, page)
                finally:
                    self._report("telling the instances to stop")
                    workers.stop()
            if not self._keep:
                self._compare(log, lines)
            feed.close()
            log.close()
        finally:
            coordinator.stop()

    def _write_text(self, log: Log) -> tuple[TextFeed, list[SourceLine]]:
        lines = list(stdlib_lines(self._text_lines))
        feed = TextFeed(log, lines)
        feed.write(lines)
        modules = len({line.module for line in lines})
        self._report(f"{len(lines):,} lines of {modules} modules of Python's standard library are in topic {LINES!r}")
        return feed, lines

    def _keep_running(self, workers: Workers, feed: TextFeed, lines: list[SourceLine], page: str) -> None:
        """Keeps the group running until Ctrl-C or SIGTERM, or until the group is drained."""
        self._report(f"the group runs on, with {KEPT_LINES_EACH_S} lines a second to count; look at it: {page}")
        self._report("Ctrl-C ends it")
        more = itertools.cycle(lines)
        try:
            while workers.wait(1.0) is None:
                feed.write(itertools.islice(more, KEPT_LINES_EACH_S))
            self._report("the group was drained")
        except KeyboardInterrupt:
            self._report("interrupted")

    def _watch(self, client: CoordinatorClient, log: Log, log_dir: Path, application: Application) -> None:
        def wait(wanted: Callable[[GroupView], bool], what: str, timeout_s: float) -> GroupView:
            self._report(f"waiting for {what}")
            return wait_until_held(client, APPLICATION_ID, log_dir, wanted, what, timeout_s)

        meter = ProgressMeter(log, APPLICATION_ID, (LINES, f"{APPLICATION_ID}-{COUNT_STORE}-repartition"))
        view = wait(_is_whole, "all threads to have joined", JOIN_TIMEOUT_S)
        self._show_assignment("everybody here", view, log_dir)
        meter.wait(lambda seen: seen.share >= KILL_AT_SHARE, PROCESSING_TIMEOUT_S, self._line_reporter())
        kill = self._kill_an_executor(client, read_ownership(log_dir))
        view = wait(_is_whole_without(kill), "the others to have taken over", FAILOVER_TIMEOUT_S)
        self._show_assignment(f"executor {kill.executor} gone", view, log_dir)
        done = meter.wait(lambda seen: seen.is_complete, PROCESSING_TIMEOUT_S, self._line_reporter())
        self._report(f"all {done.there:,} records are processed and committed")
        try:
            view = wait(_is_whole, "Spark's new executor to be part of it", JOIN_TIMEOUT_S)
            self._show_assignment("with the executor that Spark started anew", view, log_dir)
        except NotInTime:
            self._report(f"Spark has not started a new executor within {JOIN_TIMEOUT_S:g} s; continuing without it")
        self._show_results_of_kill(client, kill, read_ownership(log_dir))

    def _kill_an_executor(self, client: CoordinatorClient, lines: list[OwnershipLine]) -> Kill:
        executor_of = executors_of_members(lines)
        view = group_view(client, APPLICATION_ID)
        active: Counter[str] = Counter()
        for member in view.members:
            active[executor_of[member.member_id]] += len(member.active)
        executor, tasks = max(sorted(active.items()), key=lambda entry: entry[1])
        pids = {line.jvm_pid for line in lines if line.executor == executor and line.jvm_pid is not None}
        if len(pids) != 1:
            raise DemoFailed(f"the ownership logs name no single JVM for executor {executor}: {pids}")
        gone = frozenset(member_id for member_id, its_executor in executor_of.items() if its_executor == executor)
        kill = Kill(executor, pids.pop(), gone, time.time() * 1000)
        os.kill(kill.jvm_pid, signal.SIGKILL)
        self._report(f"killed executor {executor} (JVM {kill.jvm_pid}, SIGKILL) with {tasks} active tasks, in mid-work")
        return kill

    def _show_results_of_kill(self, client: CoordinatorClient, kill: Kill, lines: list[OwnershipLine]) -> None:
        seen = {one.generation_id: one for one in witnessed_rebalances(lines) if one.ended_ms >= kill.at_ms}
        summaries = [one for one in listed_rebalances(client, APPLICATION_ID) if one.generation_id in seen]
        self._show(rebalances_table("rebalances since the kill", summaries, seen))
        deaths = {line.pid: kill.at_ms for line in lines if line.jvm_pid == kill.jvm_pid}
        lost = takeovers(lines, kill.at_ms, deaths)
        self._show(takeovers_table(f"the tasks of executor {kill.executor}, counted from its death", lost))
        self._report(_summed_up(lost))
        if lost and summaries:
            first = summaries[0].generation_id
            self._report(f"why, for one of them: {explanation_text(client, APPLICATION_ID, first, lost[0].task)}")
        as_written = ownership_intervals(lines)
        orphans = [gap.task for gap in gaps(as_written) if gap.end_ms is None]
        twice = overlaps(as_written)
        self._report(f"tasks without an owner now: {len(orphans)}; tasks owned by two at once, ever: {len(twice)}")
        if orphans or twice:
            raise DemoFailed(f"a task was lost or owned twice: {orphans} {twice}")

    def _compare(self, log: Log, lines: list[SourceLine]) -> None:
        expected, found = expected_counts(lines), read_counts(log)
        wrong = different_counts(found, expected)
        if wrong:
            raise DemoFailed(f"{len(wrong):,} of {len(expected):,} counts differ: {'; '.join(wrong[:5])}")
        self._report(
            f"{len(found):,} counts over {sum(found.values()):,} words are exactly those of a plain loop over the text"
        )

    def _kafka_again(self) -> None:
        self._report("running recorded rebalances of real Kafka Streams 4.3.1 groups through the same leader")
        replayed = [replay(name, rebalances) for name, rebalances in recorded_groups()]
        self._show(recordings_table("what Kafka's own leader sent, and what comes out here", replayed))
        rebalances, equal = sum(one.rebalances for one in replayed), sum(one.equal for one in replayed)
        self._report(f"{equal} of {rebalances} rebalances equal what Kafka's own leader sent")
        different = [difference for one in replayed for difference in one.differences]
        if different:
            raise DemoFailed("not equal to Kafka: " + "; ".join(different[:5]))

    def _line_reporter(self) -> Callable[[Progress], None]:
        """Returns a function that reports progress every few seconds."""
        next_s = time.monotonic()

        def report_line(seen: Progress) -> None:
            nonlocal next_s
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + PROGRESS_INTERVAL_S
                self._report(f"{seen.first_done:,} of {seen.first_there:,} lines read, {seen.done:,} records in all")

        return report_line

    def _report(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._started_s:6.1f} s  {text}", highlight=False)

    def _show_assignment(self, when: str, view: GroupView, log_dir: Path) -> None:
        executors = executors_of_members(read_ownership(log_dir))
        self._show(assignment_table(f"generation {view.generation_id}, {when}", view, executors))

    def _show(self, table: object) -> None:
        self._console.print(table)


def _configs(directory: Path) -> dict[str, object]:
    return {
        "application.id": APPLICATION_ID,
        "bootstrap.servers": f"embedded:{directory / 'log-of-records'}",
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": THREADS,
        "num.standby.replicas": 1,
        # Kafka's default is 10,000 records. The changelogs of the demo are shorter, so with this default, every task
        # copy would be treated as caught up.
        "acceptable.recovery.lag": 20,
        # with this tag, the assignor places the standby and the active copy of a task on different executors
        "rack.aware.assignment.tags": EXECUTOR_TAG,
    }


def _is_whole(view: GroupView) -> bool:
    return len(view.members) == EXECUTORS * THREADS and _is_owned_once(view)


def _is_whole_without(kill: Kill) -> Callable[[GroupView], bool]:
    def wanted(view: GroupView) -> bool:
        return all(member.member_id not in kill.member_ids for member in view.members) and _is_owned_once(view)

    return wanted


def _is_owned_once(view: GroupView) -> bool:
    owners = view.owners()
    return len(owners) == TASKS and all(len(names) == 1 for names in owners.values())


def _summed_up(lost: list[Takeover]) -> str:
    """Returns one sentence about the tasks that lost their owner."""
    without = [one.assigned_ms for one in lost if one.assigned_ms is not None]
    from_standby = [one for one in lost if one.had_standby and one.origin != "beginning"]
    if not without:
        return "no task was without an owner"
    return (
        f"{len(lost)} tasks had no owner for {max(without):.0f} ms at most; "
        f"{len(from_standby)} of them went on from the state of a hot standby, "
        f"with {sum(one.records or 0 for one in lost):,} records restored in all"
    )
