"""`replayed` on DataFrames: text, JSON text columns, and what Spark itself makes of recordings in JSON."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from rebalance_analysis.reading.own_assignors import OwnAssignors
from rebalance_analysis.reading.sources import RawLine
from rebalance_analysis.replay.dataframe import replayed
from rebalance_analysis.replay.rebalance_rows import SCHEMA
from rebalance_analysis.replay.replay_work import ReplayWork
from rebalance_analysis.what_if.changes import Changes
from tests.checkout import VECTORS
from tests.docs.pages import blocks
from tests.docs.python_blocks import run
from tests.program import assignor
from tests.recorded import RECORDINGS
from tests.spark_jobs.recordings.recordings_as_files import lines_of, write_plain

pytestmark = [pytest.mark.spark, pytest.mark.long]
FILES = [str(VECTORS / name) for name in RECORDINGS]
NOT_THE_SAME = ("input", "line", "compute_ms")
REJECT = ("reject_kind", "reject", "reject_line")


def by_id(df: DataFrame) -> dict[str, dict[str, Any]]:
    return {
        row["id"]: {name: value for name, value in row.asDict().items() if name not in (*NOT_THE_SAME, *REJECT)}
        for row in df.collect()
    }


def expected() -> dict[str, dict[str, Any]]:
    """What the command's own work gives, by id."""
    rows: dict[str, dict[str, Any]] = {}
    for line in lines_of(*RECORDINGS):
        row = ReplayWork(OwnAssignors("/")).line(RawLine("", line))
        assert isinstance(row, dict)
        values = {name: row.get(name) for name in SCHEMA.names if name not in NOT_THE_SAME}
        loads = values["thread_loads"]
        rows[str(row["id"])] = {**values, "thread_loads": list(loads) if isinstance(loads, tuple) else loads}
    return rows


def test_should_give_the_rows_of_the_command_for_lines_of_text(spark: SparkSession) -> None:
    rebalances = replayed(spark.read.text(FILES))
    assert rebalances.columns == [*(name for name in SCHEMA.names if name not in NOT_THE_SAME[:2]), *REJECT]
    assert by_id(rebalances) == expected()
    renamed = spark.read.text(FILES).withColumnRenamed("value", "a line")
    assert replayed(renamed, "a line").where("equal").count() == 67


def test_should_do_what_replay_md_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = [block for block in blocks("docs/batch/replay.md") if block.language == "python"]
    directory = tmp_path / "recordings"
    directory.mkdir()
    shutil.copy(FILES[0], directory)

    run([replace(shown, code=shown.code.replace("recordings/", f"{directory}/"))], tmp_path, {"spark": spark})

    line = "+---+----------+"
    assert capsys.readouterr().out.split() == [line, "|", "id|difference|", line, line]  # none differs


def test_should_give_the_same_rows_for_recordings_that_spark_has_read(spark: SparkSession, tmp_path: Path) -> None:
    nested = spark.read.json(FILES)
    assert dict(nested.dtypes)["input"].startswith("struct<")
    assert by_id(replayed(nested)) == expected()
    nested.coalesce(1).write.parquet(str(tmp_path / "nested"))
    ran = assignor(
        "replay", str(tmp_path / "nested"), "--output", str(tmp_path / "out"), "--engine", "local", "--cores", "1"
    )
    assert ran.returncode == 0
    rows = pq.read_table(tmp_path / "out" / "rounds.parquet").to_pylist()
    assert {
        row["id"]: {name: value for name, value in row.items() if name not in NOT_THE_SAME} for row in rows
    } == expected()


def test_should_give_rejects_as_rows_and_nothing_for_blank_lines(spark: SparkSession, tmp_path: Path) -> None:
    other = b'{"format": "other"}'
    lines = [b"{", b"", lines_of("recordings/smoke.jsonl.gz")[0], b"  ", other]
    path = write_plain(lines, tmp_path / "x.jsonl")
    unusable, good, unread = (row.asDict() for row in replayed(spark.read.text(str(path)).coalesce(1)).collect())
    assert {name: value for name, value in unusable.items() if value is not None} == {
        "reject_kind": "unusable",
        "reject": "is not a line of JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "reject_line": "{",
    }
    assert (good["id"], good["equal"], *(good[name] for name in REJECT)) == ("smoke.1", True, None, None, None)
    assert (unread["reject_kind"], unread["reject_line"]) == ("unusable", other.decode())


def test_should_run_the_rebalances_with_changes(spark: SparkSession) -> None:
    rebalances = replayed(spark.read.text(FILES[0]), changes=Changes(configs={"num.standby.replicas": 0}))
    assert {(row["standby_coverage"], row["standby_moved"]) for row in rebalances.collect()} == {(None, 0)}
