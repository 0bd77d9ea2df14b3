"""Whole histories: some seeds whenever the tests run, and every history that once broke a rule.

`make simulate` runs thousands.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.simulation.finding import named
from tests.simulation.rule_names import Rule
from tests.simulation.running import run
from tests.simulation.schedule import FEWEST_EVENTS, FEWEST_GROUPS, FEWEST_MEMBERS, drawn, parse
from tests.simulation.shrinking import shrunk

SEEDS = 20
MOST_FAULTS = 5
FOUND = sorted((Path(__file__).parent / "found").glob("*.txt"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_should_keep_every_rule_whatever_goes_wrong(seed: int) -> None:
    schedule = drawn(seed)
    assert len(schedule.groups) >= FEWEST_GROUPS
    assert sum(process.threads for process in schedule.processes) >= FEWEST_MEMBERS
    once = run(schedule)
    assert once.rule is None, f"{once.what}\n{schedule.text()}"
    assert once.events >= FEWEST_EVENTS


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_should_keep_every_rule_in_a_history_that_broke_one(path: Path) -> None:
    once = run(parse(path.read_text(encoding="utf-8")))
    assert once.rule is None, once.what


def test_should_find_a_bug_and_its_shortest_history() -> None:
    with named("pause not heard").switched_on():
        failed = next(one for one in map(run, map(drawn, range(1_005, 1_050))) if one.rule == Rule.LEVERS_STAY)
        shortest = shrunk(failed)
        assert run(parse(shortest.schedule.text())).rule == Rule.LEVERS_STAY
    assert 1 <= len(shortest.schedule.faults) <= MOST_FAULTS
    assert shortest.history
    assert run(shortest.schedule).rule is None, "production code keeps the rule"


def test_should_read_the_schedule_that_it_writes() -> None:
    for seed in range(100):
        assert parse(drawn(seed).text()) == drawn(seed)


def test_should_have_the_same_history_for_the_same_seed_in_any_process() -> None:
    program = (
        "from tests.simulation.running import run; from tests.simulation.schedule import drawn\n"
        "once = run(drawn(3)); print(once.events, once.digest)"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    once = run(drawn(3))
    assert other.stdout == f"{once.events} {once.digest}\n"
