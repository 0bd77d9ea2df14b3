"""Led rounds in a file: whole lines only, also after a crash; and what happens when they cannot be kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assignor.errors import InputError
from streams_runtime.leader.round_records import RoundRecords, prepare

FIRST, SECOND = {"generation_id": 1}, {"generation_id": 2}


def test_should_append_lines_and_cut_off_one_that_a_crash_left_half_written(tmp_path: Path) -> None:
    path = tmp_path / "led.jsonl"
    asyncio.run(RoundRecords(str(path), None, print).add(FIRST))
    with path.open("ab") as file:
        file.write(b'{"generation_id": 1' + b"x" * 200_000)
    asyncio.run(RoundRecords(str(path), None, print).add(SECOND))
    assert path.read_bytes() == b'{"generation_id":1}\n{"generation_id":2}\n'


def test_should_begin_anew_when_nothing_but_half_a_line_is_there(tmp_path: Path) -> None:
    path = tmp_path / "led.jsonl"
    path.write_bytes(b'{"generat')
    prepare(str(path))
    assert path.read_bytes() == b""


@pytest.mark.parametrize("name", ["led.jsonl.gz", "missing/led.jsonl"])
def test_should_refuse_a_file_that_cannot_be_appended_to(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=name):
        prepare(str(tmp_path / name))


def test_should_say_that_a_round_cannot_be_written_and_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    records = RoundRecords(str(tmp_path / "led.jsonl"), None, said.append)
    (tmp_path / "led.jsonl").unlink()
    (tmp_path / "led.jsonl").mkdir()
    asyncio.run(records.add(FIRST))
    assert said == [f"{tmp_path}/led.jsonl: the round cannot be written: Is a directory"]


def test_should_say_that_a_coordinator_does_not_answer_and_go_on() -> None:
    said: list[str] = []
    records = RoundRecords(None, ("http://127.0.0.1:1", None), said.append)

    async def report() -> None:
        await records.add({"group_id": "app"})
        await records.report_rest(10)

    asyncio.run(report())
    (line,) = said
    assert line.startswith("the round is not reported: coordinator at http://127.0.0.1:1: ")
