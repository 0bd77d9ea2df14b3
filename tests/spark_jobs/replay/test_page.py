"""docs/batch/replay.md names what is there: every column, and the size of a chunk."""

import re

from rebalance_analysis.replay.rebalance_rows import COMPUTE_COLUMN, SCHEMA
from spark_engine.batch.work import LINES_A_CHUNK
from tests.checkout import ROOT

PAGE = (ROOT / "docs" / "batch" / "replay.md").read_text(encoding="utf-8")


def test_should_describe_every_column_and_no_other() -> None:
    table = PAGE.partition("### Columns of rounds.parquet")[2].partition("\n\n")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    described = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert described == [name for name in SCHEMA.names if name != COMPUTE_COLUMN]


def test_should_say_how_large_a_chunk_is() -> None:
    assert f"a chunk of {LINES_A_CHUNK} lines" in PAGE
