"""Merges all parts into the result's files, in the order of the chunks.

Rule: the bytes depend on the rows alone. Row groups have one size, whatever the chunks; there is one compression, and
the files have no times and no names of writers. Compute times differ from run to run, so they have a file of their own.
This needs the memory of one row group and one part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_engine.batch.output_directory import COMPUTE_MS, Finished, OutputDirectory
from spark_engine.batch.parts import Part, read_rejects, read_rows
from spark_engine.batch.work import ChunkT, Plan

ROWS_A_GROUP = 16_384


def merge(output: OutputDirectory, plan: Plan[ChunkT], parts: Sequence[Part]) -> Finished:
    """Write the files of `output`. `parts`: in order. Raises PartDamaged, OSError."""
    schema = plan.work.schema
    rows_schema = pa.schema([field for field in schema if field.name != COMPUTE_MS], schema.metadata)
    with output.replacing(output.rejects_file) as temporary, temporary.open("wb") as target:
        for part in parts:
            target.writelines(read_rejects(output.parts, part))
    if output.timings_file is not None:
        timings_schema = pa.schema([schema.field(name) for name in (*plan.timing_columns, COMPUTE_MS)])
        with output.replacing(output.timings_file) as temporary:
            _write(temporary, timings_schema, _tables(output, parts))
    with output.replacing(output.rows_file) as temporary:
        _write(temporary, rows_schema, _tables(output, parts))
    return Finished(sum(part.rows for part in parts), sum(part.rejects for part in parts))


def _tables(output: OutputDirectory, parts: Iterable[Part]) -> Iterator[pa.Table]:
    return (read_rows(output.parts, part) for part in parts if part.rows)


def _write(file: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(table.select(schema.names).cast(schema) for table in tables):
            writer.write_table(group, row_group_size=ROWS_A_GROUP)


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of `ROWS_A_GROUP` rows, each contiguous, the last one shorter."""
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        while rows >= ROWS_A_GROUP:
            together = pa.concat_tables(held)
            yield _in_one_piece(together.slice(0, ROWS_A_GROUP))
            rows -= ROWS_A_GROUP
            held = [together.slice(ROWS_A_GROUP)]
    if rows:
        yield _in_one_piece(pa.concat_tables(held))


def _in_one_piece(table: pa.Table) -> pa.Table:
    return table.unify_dictionaries().combine_chunks()
