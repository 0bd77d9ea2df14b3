"""Replays rebalances in a Spark program. The input is a DataFrame of recorded rebalances. The output is a DataFrame
with a result row for each rebalance.

    from rebalance_analysis.replay.dataframe import replayed

    rebalances = replayed(spark.read.text("s3://…/rebalances/"))
    rebalances.where("equal = false").select("id", "difference").show()

The result rows have the columns of `assignor replay` except `input` and `line`, because a DataFrame has no line
numbers. If a rebalance could not be run, the column `reject` of its row has the reason. This project must be installed
on the executors, or be sent to them by `spark.sparkContext.addPyFile(write_code_archive(directory))`. A session of
`spark_engine.session` sends the project automatically.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from rebalance_analysis.reading.own_assignors import OwnAssignors
from rebalance_analysis.reading.sources import RawLine
from rebalance_analysis.recordings.parquet import FORMAT_COLUMN, LINE_COLUMN, lines_of_batch, read_columns
from rebalance_analysis.replay.rebalance_rows import SCHEMA, storable
from rebalance_analysis.replay.replay_work import NO_CHANGES, ReplayWork
from rebalance_analysis.what_if.changes import Changes
from spark_engine.batch.work import LINES_A_CHUNK, Reject

REJECT_COLUMNS = ("reject_kind", "reject", "reject_line")
_PLACE_COLUMNS = frozenset({"input", "line"})
_ROWS = pa.schema(
    [
        *(pa.field(field.name, field.type) for field in SCHEMA if field.name not in _PLACE_COLUMNS),
        *(pa.field(name, pa.string()) for name in REJECT_COLUMNS),
    ]
)


def replayed(df: DataFrame, column: str = LINE_COLUMN, *, changes: Changes = NO_CHANGES) -> DataFrame:
    """Returns a DataFrame with a result row for each rebalance of `df`, by `mapInArrow`. A blank line gets no result
    row.

    `df`: the recordings. Recordings are lines of JSON in one text column (`spark.read.text`), or have a column for each
    field of rebalance/1 or placement/1 (`rebalance_analysis.recordings.parquet`). `column`: the name of the text
    column. The result has the columns of docs/batch/replay.md. The result also has the columns `reject_kind` ("refused"
    or "unusable"), `reject` (the reason) and `reject_line`. For a rebalance that was run, the three reject columns are
    null. Raises InputError if `df` does not have the columns of recordings.
    """
    if FORMAT_COLUMN not in df.columns and column in df.columns:
        lines = df.select(df[f"`{column}`"].alias(LINE_COLUMN))
    else:
        lines = df.select(*(f"`{name}`" for name in read_columns(df.columns, "the DataFrame")))
    work = ReplayWork(OwnAssignors(os.getcwd()), changes)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _rows(work, batches)

    return lines.mapInArrow(run, from_arrow_schema(_ROWS))


def _rows(work: ReplayWork, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (_row(work, content) for batch in batches for content in lines_of_batch(batch) if content.strip())
    while some := list(islice(rows, LINES_A_CHUNK)):
        yield pa.RecordBatch.from_pylist(some, _ROWS)


def _row(work: ReplayWork, content: bytes) -> dict[str, object]:
    row = work.line(RawLine("", content))
    if isinstance(row, Reject):
        row = dict(zip(REJECT_COLUMNS, (row.kind, row.reason, row.line), strict=True))
    return {name: storable(row.get(name)) for name in _ROWS.names}
