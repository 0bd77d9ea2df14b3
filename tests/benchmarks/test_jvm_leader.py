"""The benchmark beside Kafka's own leader prints what it promises, with and without a JVM, and its sums are right."""

import re
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.jvm_leader.cells import QUICK
from benchmarks.jvm_leader.contenders import Contender, RunTimes
from benchmarks.jvm_leader.running import run_with_options
from tests.benchmarks.printing import printed_by, rows

ONE_CELL = ["--quick", "--shape", "1000x10", "--rebalance", "second"]


def test_should_print_our_times_without_a_jvm_and_add_them_to_a_file(tmp_path: Path) -> None:
    results, markdown = tmp_path / "results.jsonl", tmp_path / "table.md"
    options = [*ONE_CELL, "--ours-only", "--results", str(results), "--markdown", str(markdown)]
    first, _ = (printed_by(lambda console: run_with_options(console, options)) for _ in range(2))
    found = [numbers for words, numbers in rows(first).items() if words.startswith("HighAvailability")]
    assert [len(numbers) for numbers in found] == [len(("cold", "warm", "wall cold", "wall warm"))] * 2
    assert all(number > 0 for numbers in found for number in numbers)
    assert first.splitlines()[-1] == "no JVM, no ratio"
    assert len(results.read_text().splitlines()) == 1, "what the file has is not run again"
    assert "| HighAvailability | none | 1000x10 | second | " in markdown.read_text()


def test_should_stop_a_run_that_takes_longer_than_the_limit_and_let_the_limit_stand_for_it() -> None:
    with Contender([sys.executable, "-c", "while True: pass"], limit_s=0.2) as endless:
        assert endless.run() == endless.run() == RunTimes.stopped_after(0.2)


@pytest.mark.java
def test_should_print_ratios_to_kafkas_own_leader_that_sent_the_same_bytes(oracle_jars: str) -> None:
    lines = printed_by(lambda console: BENCHMARKS["jvm-leader"](console, quick=True)).splitlines()
    table = [line for line in lines if line.startswith("│HighAvailability") and "equal" in line]
    assert len(table) == len(QUICK.cells())
    shown = [float(ratio) for line in lines for ratio in re.findall(r"│ *(\d+\.\d\d)(?=│)", line) if "│none " in line]
    assert lines[-1] == f"worst ratio {max(shown):.2f}"
    assert lines[-2].startswith("HighAvailabilityTaskAssignor, racks none, ")
