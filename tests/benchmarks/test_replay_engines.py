"""Replays by processes and by Spark give the same rows and are measured; a lost or doubled row would be seen."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import replay_engines
from benchmarks.process_tree import PeakMemory
from benchmarks.replay_engines import QUICK_REBALANCES, Replayed, compared_rows
from tests.benchmarks.printing import printed_by


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.soak
def test_should_print_rates_of_both_engines_and_what_became_of_the_rows() -> None:
    text = printed_by(lambda console: replay_engines.run(console, quick=True))
    rows = {cells[0]: cells[1:] for line in text.splitlines() if len(cells := _cells(line)) > 1}
    usable = f"{QUICK_REBALANCES - QUICK_REBALANCES // 1_000:,}"
    assert rows["rows"] == [usable] * 3
    local, spark, _ = (float(cell.replace(",", "")) for cell in rows["rows/s"])
    assert [float(ratio) for ratio in rows["ratio to 2 processes"][:2]] == pytest.approx([1, spark / local], abs=0.02)
    assert all(0 < float(megabytes) < 1_000 for megabytes in rows["peak MB, driver"])
    assert rows["peak MB, executor's JVM"][0] == "-"
    assert re.search(r"executor killed after \d of 8 chunks: 0 rows lost,\s0 doubled", text)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_should_see_rows_that_are_lost_and_rows_that_are_doubled(tmp_path: Path) -> None:
    expected, found = (_replayed(tmp_path / name, lines) for name, lines in (("a", [1, 2, 3]), ("b", [1, 1, 1, 3])))
    assert compared_rows(expected, found) == (1, 2)
    assert compared_rows(expected, expected) == (0, 0)


def _replayed(directory: Path, lines: list[int]) -> Replayed:
    directory.mkdir()
    pq.write_table(pa.table({"input": ["rounds.jsonl"] * len(lines), "line": lines}), directory / "rounds.parquet")
    return Replayed(directory, len(lines), 0, 1.0, 0.0, PeakMemory(0))
