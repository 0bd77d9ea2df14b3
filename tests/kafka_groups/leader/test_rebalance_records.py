"""Led rebalances in a file: whole lines only, also after a crash; and what happens when they cannot be kept."""

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from assignor.errors import InputError
from coordinator_client.calls import CoordinatorAddress
from kafka_groups.leader.lead_settings import LeadSettings
from kafka_groups.leader.leading import _Run
from kafka_groups.leader.rebalance_records import RebalanceRecords, append, prepare
from tests.program import environment

FIRST, SECOND = {"generation_id": 1}, {"generation_id": 2}


async def test_should_append_lines_and_cut_off_one_that_a_crash_left_half_written(tmp_path: Path) -> None:
    path = tmp_path / "led.jsonl"
    await RebalanceRecords(str(path), None, print).add(FIRST)
    with path.open("ab") as file:
        file.write(b'{"generation_id": 1' + b"x" * 200_000)
    await RebalanceRecords(str(path), None, print).add(SECOND)
    assert path.read_bytes() == b'{"generation_id":1}\n{"generation_id":2}\n'


def test_should_begin_anew_when_nothing_but_half_a_line_is_there(tmp_path: Path) -> None:
    path = tmp_path / "led.jsonl"
    path.write_bytes(b'{"generat')
    append(str(path), FIRST)
    assert path.read_bytes() == b'{"generation_id":1}\n'


async def test_should_leave_the_file_to_the_one_that_leads(tmp_path: Path) -> None:
    """A standby with the same file starts while the leader is in the middle of a line, or of what it died in."""
    path = tmp_path / "led.jsonl"
    path.write_bytes(b'{"generation_id":0}\n{"generat')
    standby = RebalanceRecords(str(path), None, print)
    assert path.read_bytes() == b'{"generation_id":0}\n{"generat'
    await standby.add(FIRST)
    assert path.read_bytes() == b'{"generation_id":0}\n{"generation_id":1}\n'


def test_should_keep_nothing_of_a_line_that_does_not_fit_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "led.jsonl"
    append(str(path), FIRST)
    script = (
        "import resource, signal, sys; from kafka_groups.leader.rebalance_records import append\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n"
        "try: append(sys.argv[1], {'generation_id': 'x' * 100})\n"
        "except OSError as error: print(error.strerror)"
    )
    ran = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, env=environment())
    assert (ran.stdout, ran.stderr) == ("File too large\n", "")
    append(str(path), SECOND)
    assert path.read_bytes() == b'{"generation_id":1}\n{"generation_id":2}\n'


@pytest.mark.parametrize("name", ["led.jsonl.gz", "missing/led.jsonl"])
def test_should_refuse_a_file_that_cannot_be_appended_to(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=name):
        prepare(str(tmp_path / name))


async def test_should_say_that_a_rebalance_cannot_be_written_and_go_on(tmp_path: Path) -> None:
    reports: list[str] = []
    records = RebalanceRecords(str(tmp_path / "led.jsonl"), None, reports.append)
    (tmp_path / "led.jsonl").unlink()
    (tmp_path / "led.jsonl").mkdir()
    await records.add(FIRST)
    assert reports == [f"{tmp_path}/led.jsonl: the rebalance cannot be written: Is a directory"]


async def test_should_say_that_nobody_reads_its_output_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    reports: list[str] = []
    stdout = os.fdopen(writer, "w")
    monkeypatch.setattr("sys.stdout", stdout)
    await RebalanceRecords("-", None, reports.append).add(FIRST)
    with contextlib.suppress(BrokenPipeError):
        stdout.close()
    assert reports == ["-: the rebalance cannot be written: Broken pipe"]


async def test_should_say_that_a_coordinator_does_not_answer_and_go_on() -> None:
    reports: list[str] = []
    records = RebalanceRecords(None, CoordinatorAddress("http://127.0.0.1:1"), reports.append)

    await records.add({"group_id": "app"})
    await records.send_remaining_reports(10)
    (line,) = reports
    assert line.startswith("the rebalance is not reported: coordinator at http://127.0.0.1:1: ")


async def test_should_go_on_leading_when_the_reports_end_by_an_error() -> None:
    election, membership, leader, records = AsyncMock(has_standby=False), AsyncMock(), Mock(), AsyncMock()
    election.keep = leader.lead = asyncio.Event().wait
    records.send_reports.side_effect = ValueError("a coordinator that nobody expected")
    stopped = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, stopped.set)
    await _Run(election, membership, leader, records, LeadSettings("app", "one"), print).until(stopped)
    records.send_reports.assert_awaited_once()
    membership.leave.assert_awaited_once_with("assignor lead was stopped")
