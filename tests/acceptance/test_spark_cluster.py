"""docs/how-to/run-on-a-spark-cluster.md on a real standalone master with two workers, as processes on loopback.

Its application runs by both of its commands. Instances spread over the workers, one executor gets SIGKILL in the middle
of the work, a standby takes over, and every count is exact.
"""

import json
import os
import re
import shlex
import signal
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spark_engine.session.spark_installation import spark_environment
from spark_engine.session.spark_options import LOOPBACK
from spark_jobs.demo.takeovers import takeovers
from spark_jobs.ownership.group_view import GroupView, wait_for_group, wait_until_held
from spark_jobs.ownership.ownership_history import gaps, overlaps, ownership_intervals
from spark_jobs.ownership.ownership_log import OwnershipLine, read_ownership
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.logs.record_producer import RecordProducer
from streams_runtime.logs.topic_reading import read_topic
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.serdes import LONG, STRING
from tests.checkout import ROOT
from tests.docs.pages import blocks
from tests.docs.python_blocks import file_name
from tests.known import known
from tests.running_program import WITHIN_S, RunningProgram
from tests.spark_jobs.owners import are_owned_once
from tests.spark_jobs.quick_java import OPTIONS, quick_java
from tests.spark_jobs.standalone_cluster import standalone_cluster
from tests.waiting import wait_until
from tests.warm_coordinator import WarmCoordinator

pytestmark = [pytest.mark.spark, pytest.mark.long]

PAGE = "docs/how-to/run-on-a-spark-cluster.md"
PARTITIONS = 4
TASKS = {f"{subtopology}_{partition}" for subtopology in range(2) for partition in range(PARTITIONS)}
LINES = 1_000
CLEAN_ENDS = ["instance 0: not-running", "instance 1: not-running"]
DEFAULTS = """# what an administrator has set
spark.executor.memory           600m
spark.test.of.defaults          defaults
spark.test.of.command           defaults
spark.executor.extraJavaOptions -Dmine=1
"""
SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.test.of.defaults": "defaults",
    "spark.test.of.command": "command",
    "spark.cores.max": "2",
}
"""What becomes of them with `--conf spark.test.of.command=command` and our own defaults."""


@dataclass(frozen=True, slots=True)
class PageInUse:
    """The page's files in `directory`, and its commands, with the names of this machine instead of its own."""

    directory: Path
    commands: tuple[str, ...]
    log: str
    coordinator: CoordinatorProcess

    def start(self, beginning: str, environment: dict[str, str], *more: str) -> RunningProgram:
        """The command of the page that begins so."""
        (command,) = (each for each in self.commands if each.startswith(beginning))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return RunningProgram(
            [*shlex.split(command), *more],
            self.directory / "stderr",
            stdout=self.directory / "stdout",
            cwd=self.directory,
            environment={**os.environ, **OPTIONS, **environment, "PATH": path},
        )


@pytest.fixture(scope="module")
def master() -> Iterator[str]:
    with quick_java(), standalone_cluster(cores=1, workers=2) as url:
        yield url


@pytest.fixture
def page(master: str, tmp_path: Path) -> Iterator[PageInUse]:
    log = f"embedded:{tmp_path / 'log'}"
    settings = {"group.initial.rebalance.delay.ms": 3_000, "cluster.bootstrap.servers": log}
    with WarmCoordinator(tmp_path / "coordinator", settings) as coordinator:
        names = {
            "spark://master:7077": master,
            "http://coordinator:8080": coordinator.url,
            "broker:9092": log,
            "run(spark, app, ": f"run(spark, app, state_dir={str(tmp_path / 'state')!r}, ",
        }

        def of_this_machine(text: str) -> str:
            for name, here in names.items():
                text = text.replace(name, here)
            return text

        for block in blocks(PAGE):
            if block.language == "python":
                (tmp_path / known(file_name(block))).write_text(of_this_machine(block.code), encoding="utf-8")
        commands = tuple(of_this_machine(block.code) for block in blocks(PAGE) if block.language == "shell")
        with closing(open_log(log)) as opened:
            opened.create_topics([NewTopic("lines", PARTITIONS), NewTopic("word-counts", PARTITIONS)])
        yield PageInUse(tmp_path, commands, log, coordinator)


def test_should_spread_over_the_workers_and_count_exactly_when_one_executor_is_killed(page: PageInUse) -> None:
    expected = write_lines(page.log, LINES)
    settings = page.directory / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(DEFAULTS)
    owned = page.directory / "owned"
    own = ["--conf", "spark.test.of.command=command", "--state-dir", str(page.directory / "state")]
    own += ["--log-dir", str(owned)]
    with page.start("assignor workers run", {"SPARK_CONF_DIR": str(settings)}, *own) as driver:
        started = driver.wait_for(r"^Spark \S+ runs as app-\S+, its UI is http://127\.0\.0\.1:\d+$")
        told = settings_of(started)
        assert {name: told.get(name) for name in SETTINGS} == SETTINGS
        # Spark itself puts options of its own before it
        assert re.search(r"(^| )-Dmine=1$", told["spark.executor.extraJavaOptions"]), "and none of ours"
        with CoordinatorClient(page.coordinator.url) as client:
            wait_until_held(client, "words", owned, owned_once_by_two, "both instances", WITHIN_S)
            lines = read_ownership(owned)
            victim = lines[-1]
            assert victim.jvm_pid is not None
            assert len({worker_of(pid) for pid in {line.jvm_pid for line in lines}}) == 2, "one on each worker"

            died_ms = time.time() * 1000
            os.kill(victim.jvm_pid, signal.SIGKILL)
            expected += write_lines(page.log, LINES)
            gone = {line.member_id for line in lines if line.jvm_pid == victim.jvm_pid}
            wait_until_held(
                client,
                "words",
                owned,
                lambda view: owned_once_by_two(view) and gone.isdisjoint(one.member_id for one in view.members),
                "Spark to have started the lost instance again",
                WITHIN_S,
            )
            wait_for_group(client, "words", lambda _: counts(page.log) == expected, "every count", WITHIN_S)
        assert_taken_over_from_standbys(read_ownership(owned), victim, died_ms)
        driver.wait_for(r"^instance \d was lost with executor \d+ on 127\.0\.0\.1: .*; Spark starts it again$")
        assert (driver.interrupt(), ends_in(driver.printed)) == (0, CLEAN_ENDS)
    assert counts(page.log) == expected
    assert "Traceback" not in driver.log


def test_should_run_from_a_program_that_spark_submit_starts(page: PageInUse) -> None:
    expected = write_lines(page.log, LINES)
    environment = {**spark_environment(page.directory), "SPARK_LOCAL_IP": LOOPBACK, "PYTHONPATH": str(ROOT)}
    submit = f"spark-submit --conf spark.executor.memory=600m --conf spark.driver.host={LOOPBACK}"
    here = replace(page, commands=tuple(each.replace("spark-submit", submit) for each in page.commands))
    with here.start("spark-submit", environment) as program:
        wait_until(
            lambda: counts(page.log) == expected,
            lambda: program.log,
            WITHIN_S,
            every_s=0.2,
            alive=lambda: program.is_running,
        )
        with CoordinatorClient(page.coordinator.url) as client:
            wait_for_group(client, "words", owned_once_by_two, "both instances", WITHIN_S)
            client.drain("words")
        assert program.wait() == 0, program.log
    assert ends_in(program.printed) == CLEAN_ENDS
    assert "it should be" not in program.log


def ends_in(stdout: str) -> list[str]:
    """How instances ended, without their notices, which are indented."""
    return [line for line in stdout.splitlines() if not line.startswith(" ")]


def write_lines(log: str, number: int) -> Counter[str]:
    """Lines of three words each; gives how often each word is in them."""
    words: Counter[str] = Counter()
    with RecordProducer(log, STRING, STRING) as lines:
        for each in range(number):
            line = [f"word-{each % 7}", f"word-{each % 11}", "all"]
            lines.send("lines", f"line-{each}", " ".join(line))
            words.update(line)
    return words


def counts(log: str) -> dict[str, int]:
    """The last count of each word."""
    return {str(record.key): int(record.value or 0) for record in read_topic(log, "word-counts", STRING, LONG)}


def owned_once_by_two(view: GroupView) -> bool:
    return len(view.members) == 2 and are_owned_once(view, TASKS)


def settings_of(started: str) -> dict[str, str]:
    """What Spark's UI, whose address the driver has told, says of the application's settings."""
    url = started.rpartition(" ")[2]
    application = started.partition("runs as ")[2].partition(",")[0]
    with urllib.request.urlopen(f"{url}/api/v1/applications/{application}/environment") as answer:
        return dict(json.load(answer)["sparkProperties"])


def worker_of(jvm_pid: int | None) -> str:
    """The worker that has started this executor."""
    command = Path(f"/proc/{jvm_pid}/cmdline").read_text().split("\0")
    return command[command.index("--worker-url") + 1]


def assert_taken_over_from_standbys(lines: list[OwnershipLine], victim: OwnershipLine, died_ms: float) -> None:
    intervals = ownership_intervals(lines)
    assert [gap for gap in gaps(intervals) if gap.end_ms is None] == []
    assert overlaps(intervals) == []
    lost = takeovers(lines, died_ms, {line.pid: died_ms for line in lines if line.jvm_pid == victim.jvm_pid})
    with_state = [one for one in lost if one.task.startswith("1_")]
    assert with_state
    assert [one for one in with_state if not one.had_standby or one.thread is None] == []
