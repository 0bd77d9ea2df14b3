"""Recordings and vectors through `assignor replay`: the counts of `assignor assign --check`, the same bytes from every
engine, and nothing lost when the whole program is killed.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.checkout import VECTORS
from tests.program import PROGRAM, assignor, environment, smoke, write_lines
from tests.waiting import wait_until

OWN = "own.jsonl"
"""A rebalance of a user's own assignor, whose module lies beside it, where the program is started."""
VECTORS_OF = ("fresh_rebalances", "rebalances_custom", "placements_custom", "placements_sticky")
FILES = [
    OWN,
    *(str(VECTORS / f"{name}.jsonl.gz") for name in VECTORS_OF),
    *sorted(str(file) for file in (VECTORS / "recordings").glob("*.jsonl.gz")),
]
COUNTS = (
    "total",
    "compared",
    "equal_after_decoding",
    "compared_bytes",
    "equal_to_the_byte",
    "not_compared",
    "refused",
    "unusable",
)
RESULT = ("rounds.parquet", "rejects.jsonl")
LOCAL = ("--engine", "local", "--cores", "2")
TIMEOUT_S = 480.0
pytestmark = pytest.mark.long
PARTS_BEFORE_KILL = 4


def counts(document: dict[str, Any]) -> dict[str, int]:
    return {name: document[name] for name in COUNTS}


def summary(output: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((output / "summary.json").read_text())
    return document


def contents(output: Path) -> list[bytes]:
    return [(output / name).read_bytes() for name in RESULT]


def parts(output: Path) -> list[Path]:
    """Chunks that are complete."""
    return [file for file in output.glob("parts/*/*.parquet") if not file.name.startswith(".")]


def wait_for_parts(output: Path, count: int) -> None:
    wait_until(lambda: len(parts(output)) >= count, f"{count} parts", TIMEOUT_S, every_s=0.005)


@pytest.fixture(scope="module")
def start_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("start")
    (directory / "own_of_acceptance.py").write_text(
        "from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor\n"
        "class Mine(HighAvailabilityTaskAssignor):\n    name = 'Mine'\n"
    )
    line = smoke(3)
    line["input"]["assignor"] = "own_of_acceptance:Mine"
    write_lines(directory / OWN, [line])
    return directory


@pytest.fixture(scope="module")
def local(start_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of processes of this machine."""
    output = tmp_path_factory.mktemp("local") / "out"
    with contextlib.chdir(start_directory):
        assert assignor("replay", *FILES, "--output", str(output), *LOCAL).returncode == 0
    return output


@pytest.fixture(autouse=True)
def _started_there(start_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(start_directory)


def test_should_count_as_assign_does(local: Path) -> None:
    check = json.loads(assignor("assign", *FILES, "--check", "--format", "json").stdout)
    found = summary(local)
    assert counts(found) == counts(check)
    assert found["refusals"] == check["refusals"]
    assert (found["differences"], found["nothing_recorded"]) == ([], 0)
    assert found["equal_after_decoding"] == found["compared"] > 700
    assert [each["input"] for each in found["inputs"]] == FILES
    assert {name: sum(each[name] for each in found["inputs"]) for name in COUNTS} == counts(check)
    rebalances = pq.read_table(local / "rounds.parquet")
    assert rebalances.num_rows == check["total"] - check["refused"]
    assert rebalances.column("equal").to_pylist().count(True) == check["equal_after_decoding"]


@pytest.mark.spark
def test_should_leave_the_same_bytes_on_spark(local: Path, tmp_path: Path) -> None:
    ran = assignor("replay", *FILES, "--output", str(tmp_path / "out"), "--master", "local[2]", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert contents(tmp_path / "out") == contents(local)
    assert counts(json.loads(ran.stdout)) == counts(summary(local))
    assert [*map(counts, json.loads(ran.stdout)["inputs"])] == [*map(counts, summary(local)["inputs"])]


def test_should_go_on_when_the_whole_program_was_killed(local: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    arguments = ["replay", *FILES, "--output", str(output), "--engine", "local", "--cores", "1"]
    program = subprocess.Popen(
        [*PROGRAM, *arguments], env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_for_parts(output, PARTS_BEFORE_KILL)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    kept = {part.name: pq.read_metadata(part).num_rows for part in parts(output)}
    ran = assignor(*arguments, "--format", "json")
    assert ran.returncode == 0
    assert f"replay: continuing: {sum(kept.values()):,} rows of {len(kept)} of " in ran.stderr
    assert json.loads(ran.stdout)["run"]["rows_found_done"] == sum(kept.values()) > 0
    assert contents(output) == contents(local)
    again = assignor(*arguments)
    assert "already finished" in again.stderr
    assert contents(output) == contents(local)
