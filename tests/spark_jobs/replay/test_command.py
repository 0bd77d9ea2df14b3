"""`assignor replay` on processes of this machine: every kind of input, the files it leaves, exit codes, messages."""

import asyncio
import gzip
import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from coordinator_api.store.repository import Recording
from rebalance_analysis.replay.rebalance_rows import COMPUTE_COLUMN, SCHEMA
from tests.coordinator_api.store.databases import open_repository
from tests.program import SMOKE, assignor, smoke
from tests.spark_jobs.recordings.recordings_as_files import (
    as_bytes,
    lines_of,
    write_gzip,
    write_nested_parquet,
    write_plain,
    write_text_parquet,
    write_value_parquet,
)

LOCAL = ("--engine", "local", "--cores", "1")
LINES = lines_of("recordings/smoke.jsonl.gz")
PLACES = ("input", "line")

pytestmark = pytest.mark.usefixtures("chunks_in_this_process")


def rows_of(output: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(output / "rounds.parquet").to_pylist()
    return rows


def rejects_of(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "rejects.jsonl").read_text().splitlines()]


def fill_database(directory: Path, lines: Sequence[bytes]) -> str:
    """A real one, written by the coordinator's own repository; gives its URL."""

    async def write() -> None:
        async with open_repository(directory, 100) as repository:
            sequence = 0
            for line in lines:
                generation_id = json.loads(line)["generation_id"]
                kept = Recording(generation_id, generation_id * 1_000, "{}", gzip.compress(line))
                sequence, _ = await repository.append("the group", sequence, [f"record {generation_id}"], kept, epoch=0)

    asyncio.run(write())
    return f"sqlite:///{directory / 'store.sqlite3'}"


def test_should_give_the_same_rows_whatever_the_lines_come_from(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    files = [
        write_plain(LINES, inputs / "a.jsonl"),
        write_gzip(LINES, inputs / "b.jsonl.gz"),
        write_value_parquet(LINES, inputs / "c.parquet"),
        write_text_parquet(LINES, inputs / "d.parquet"),
        write_nested_parquet(LINES, inputs / "e.parquet"),
    ]
    url = fill_database(tmp_path, LINES)
    output = tmp_path / "out"
    ran = assignor("replay", str(inputs), url, "-", "--output", str(output), *LOCAL, stdin=b"\n".join(LINES))
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (0, f"rebalances: {output / 'rounds.parquet'}")
    names = [*(str(file) for file in files), f"{url}:the group", "stdin"]
    found = rows_of(output)
    assert [(row["input"], row["line"]) for row in found] == [
        (name, number) for name in names for number in range(1, len(LINES) + 1)
    ]
    assert all(row["compared"] and row["equal"] and row["bytes_equal"] for row in found)
    rebalances = [{key: value for key, value in row.items() if key not in PLACES} for row in found]
    assert rebalances == rebalances[: len(LINES)] * len(names)
    assert [row["id"] for row in rebalances[: len(LINES)]] == ["smoke.1", "smoke.2", "smoke.3", "smoke.4"]


def test_should_leave_rebalances_times_rejects_and_a_summary(tmp_path: Path) -> None:
    lines = [*LINES[:2], b"{", as_bytes({**smoke(3), "output": None}), b'{"format": "other"}']
    path = write_plain(lines, tmp_path / "x.jsonl")
    output = tmp_path / "out"
    ran = assignor("replay", str(path), "--output", str(output), *LOCAL, "--format", "json")
    assert ran.returncode == 2
    document = json.loads(ran.stdout)
    assert document == json.loads((output / "summary.json").read_text())
    counts = {name: document[name] for name in ("total", "compared", "nothing_recorded", "refused", "unusable")}
    assert counts == {"total": 5, "compared": 2, "nothing_recorded": 1, "refused": 0, "unusable": 2}
    assert pq.read_schema(output / "rounds.parquet").names == [name for name in SCHEMA.names if name != COMPUTE_COLUMN]
    times = pq.read_table(output / "timings.parquet").to_pylist()
    assert [(row["input"], row["line"], row["id"]) for row in times] == [
        (str(path), 1, "smoke.1"),
        (str(path), 2, "smoke.2"),
        (str(path), 4, "smoke.3"),
    ]
    assert all(row["compute_ms"] > 0 for row in times)
    unusable, other = rejects_of(output)
    assert unusable == {
        "where": f"{path}:3",
        "kind": "unusable",
        "reason": "is not a line of JSON: Expecting property name enclosed in double quotes: line 2 column 1 (char 2)",
        "line": "{",
    }
    assert (other["where"], other["kind"], other["line"]) == (f"{path}:5", "unusable", lines[4].decode())
    assert sorted(file.name for file in output.iterdir() if not file.name.startswith(".")) == [
        "plan.json",
        "rejects.jsonl",
        "rounds.parquet",
        "summary.json",
        "timings.parquet",
    ]


def test_should_run_what_was_mended_when_rejects_are_given_back(tmp_path: Path) -> None:
    broken = smoke(2)
    broken["input"]["members"] = 7
    path = write_plain([LINES[0], as_bytes(broken)], tmp_path / "x.jsonl")
    assert assignor("replay", str(path), "--output", str(tmp_path / "1"), *LOCAL).returncode == 2
    (reject,) = rejects_of(tmp_path / "1")
    mended = json.loads(reject["line"])
    mended["input"]["members"] = smoke(2)["input"]["members"]
    again = assignor("replay", "-", "--output", str(tmp_path / "2"), *LOCAL, stdin=as_bytes(mended))
    assert again.returncode == 0
    assert [(row["id"], row["equal"]) for row in rows_of(tmp_path / "2")] == [("smoke.2", True)]


def test_should_exit_with_one_when_a_rebalance_differs(tmp_path: Path) -> None:
    wrong = smoke(3)
    wrong["output"]["followup_rebalance"] = not wrong["output"]["followup_rebalance"]
    path = write_plain([as_bytes(wrong)], tmp_path / "x.jsonl")
    ran = assignor("replay", str(path), "--output", str(tmp_path / "1"), *LOCAL)
    assert ran.returncode == 1
    assert f"difference: {path}:1 smoke.3: followup_rebalance is " in ran.stdout
    (row,) = rows_of(tmp_path / "1")
    assert (row["equal"], row["bytes_equal"]) == (False, False)
    assert row["difference"].startswith("followup_rebalance is ")


def test_should_show_recorded_beside_now_and_exit_with_zero_when_there_are_changes(tmp_path: Path) -> None:
    output = tmp_path / "out"
    ran = assignor("replay", SMOKE, "--output", str(output), *LOCAL, "--set", "num.standby.replicas=0")
    assert ran.returncode == 0
    assert "As recorded, and now" in ran.stdout
    assert "difference" not in ran.stdout
    document = json.loads((output / "summary.json").read_text())
    assert document["changes"] == {"configs": {"num.standby.replicas": "0"}}
    assert document["recorded_and_now"]["recorded"]["standby_moved"] > 0
    assert document["recorded_and_now"]["now"]["standby_moved"] == 0
    assert [row["standby_coverage"] for row in rows_of(output)] == [None] * 4
    other = assignor("replay", SMOKE, "--output", str(output), *LOCAL)
    assert other.returncode == 2
    assert "holds another run, which differs in changes" in other.stderr


def test_should_name_a_file_in_text_when_its_name_is_none(tmp_path: Path) -> None:
    path = tmp_path / "caf\udce9 ü.jsonl"
    write_plain([LINES[0], b"{"], path)
    output = tmp_path / "out"
    ran = assignor("replay", str(path), "--output", str(output), *LOCAL, "--format", "json")
    named = f"{tmp_path}/caf\\udce9 ü.jsonl"
    assert (ran.returncode, [each["input"] for each in json.loads(ran.stdout)["inputs"]]) == (2, [named])
    assert [row["input"] for row in rows_of(output)] == [named]
    assert [reject["where"] for reject in rejects_of(output)] == [f"{named}:2"]


def test_should_say_in_one_line_what_is_wrong_with_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = str(tmp_path / "out")
    for arguments, said in (
        (["/nowhere.jsonl"], "error: /nowhere.jsonl: cannot be opened: No such file or directory"),
        (["-"], "error: -: there is no line to run again"),
        ([SMOKE, "--set", "num.standby=1"], "error: --set: "),
        ([SMOKE, "--assignor", "no_such_module:Mine"], "error: "),
    ):
        ran = assignor("replay", *arguments, "--output", out, *LOCAL)
        assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1), ran.stderr
        assert ran.stderr.startswith(said)
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyspark" else real(name, *more)
    )
    ran = assignor("replay", SMOKE, "--output", out)
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: --engine: spark is not installed: pip install 'assignor[spark]', or say --engine local\n",
    )
    assert not (tmp_path / "out").exists()


def test_should_go_on_when_the_output_lies_among_the_recordings(tmp_path: Path) -> None:
    write_plain(LINES[:2], tmp_path / "a.jsonl")
    order = ("replay", str(tmp_path), "--output", str(tmp_path / "out"), *LOCAL)
    for said in ("", "already finished: 2 rows"):
        ran = assignor(*order)
        assert (ran.returncode, said in ran.stderr) == (0, True)
    assert [row["input"] for row in rows_of(tmp_path / "out")] == [str(tmp_path / "a.jsonl")] * 2


def test_should_start_without_arrow_and_spark_when_another_command_runs() -> None:
    code = "import sys; from assignor_cli.app import build_app; build_app(); print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'rebalance_analysis.batch_commands.replay'" in modules
    assert "'pyarrow'" not in modules
    assert "'pyspark'" not in modules
