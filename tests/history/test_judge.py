"""A run's directory is judged at any time: what is whole in it is read, and the report says what was found."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from assignor.errors import InputError
from spark_jobs.ownership.executor_identity import ExecutorIdentity
from spark_jobs.ownership.ownership_log import OwnershipListener
from tests.history.__main__ import main
from tests.history.calls import OWNERSHIP, Call, FaultLine, TasksLine, read_history, write_run
from tests.history.histories import EXACT, GROUP, SETTINGS, heartbeat, valid_lines
from tests.history.recorder import Recorder

COUNTS = {GROUP: EXACT}


def written(directory: Path, *more: Call | TasksLine | FaultLine) -> Path:
    """The directory of a run with these lines besides valid ones."""
    recorder = Recorder(directory, "all")
    for line in (*valid_lines(), *more):
        recorder.write(line)
    recorder.close()
    write_run(directory, SETTINGS, COUNTS)
    return directory


def judged(directory: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with mock.patch.object(sys, "argv", ["history", "judge", str(directory)]):
        code = main()
    return code, capsys.readouterr().out


def test_should_read_what_was_written(tmp_path: Path) -> None:
    fault = FaultLine("member killed", "p0", 1, 2)
    read = read_history(written(tmp_path, fault))

    assert len(read.calls) + len(read.tasks) == len(valid_lines())
    assert [(each.fault, each.target) for each in read.faults] == [("member killed", "p0")]
    assert read.counts == COUNTS
    assert read.calls[0].where == "all.jsonl:1"


def test_should_read_what_is_known_of_groups_on_spark(tmp_path: Path) -> None:
    OwnershipListener(tmp_path / OWNERSHIP / GROUP, "p0", "t0", ExecutorIdentity("1", 7))
    write_run(tmp_path, {**SETTINGS, "deaths": {9: 5.0}}, {GROUP: replace(EXACT, at_least_once=True)})
    read = read_history(tmp_path)

    assert [line.instance for line in read.ownership[GROUP]] == ["p0"]
    assert (read.deaths, read.counts[GROUP].at_least_once) == ({9: 5.0}, True)


def test_should_pass_over_the_half_line_of_a_killed_process(tmp_path: Path) -> None:
    written(tmp_path)
    with (tmp_path / "all.jsonl").open("a") as file:
        file.write('{"kind":"call","client":"p0"')

    assert len(read_history(tmp_path).calls) + len(read_history(tmp_path).tasks) == len(valid_lines())


@pytest.mark.parametrize("line", ["{}", "no JSON", json.dumps({"kind": "call", "client": "p0"})])
def test_should_name_a_line_that_is_none(tmp_path: Path, line: str) -> None:
    written(tmp_path)
    (tmp_path / "other.jsonl").write_text(line + "\n")

    with pytest.raises(InputError, match=r"other\.jsonl:1"):
        read_history(tmp_path)


def test_should_end_with_0_and_keep_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = judged(written(tmp_path), capsys)

    assert code == 0
    assert report.splitlines()[-1] == "The history is valid."
    assert (tmp_path / "report.txt").read_text() == report


def test_should_end_with_1_and_show_the_contradiction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = judged(written(tmp_path, heartbeat("p0", "a", 300, 2)), capsys)

    assert code == 1
    assert "Broken: the generation never goes back, in group words." in report
    lines = report.splitlines()
    assert any("[0.220 s to 0.225 s] p0 heartbeat" in line and "'generation_id': 3" in line for line in lines)
    assert any("[0.300 s to 0.305 s] p0 heartbeat" in line and "'generation_id': 2" in line for line in lines)
