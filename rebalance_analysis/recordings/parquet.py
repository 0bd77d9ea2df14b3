"""Recordings in Parquet files: all rows (entry point `assignor.recordings`), or those from a given row on.

The place of a line is file:row, from 1. A file is read some hundreds of rows at a time, whatever its row groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from assignor.errors import InputError
from rebalance_analysis.reading.sources import DamagedSource, RawLine
from rebalance_analysis.recordings.columns import LINE_COLUMN, check_line_type, lines_of_batch, read_columns

ROWS_AT_ONCE = 256


def read(name: str) -> Iterator[RawLine]:
    """All rows except blank ones. Raises InputError, and DamagedSource where the readable part of the file ends."""
    return (line for line in rows_from(name, 0, name) if line.content.strip())


def count_rows(path: str) -> int:
    """Raises InputError when it is no Parquet file, or its columns are not those of recordings."""
    with _opened(path) as source:
        _columns(source, path)
        return int(source.metadata.num_rows)


def rows_from(path: str, start: int, name: str) -> Iterator[RawLine]:
    """The rows from number `start` (0-based), including blank ones. `name`: the file as places name it. Raises as
    `read`.
    """
    row = start
    with _opened(path) as source:
        columns = _columns(source, path)
        try:
            for batch in _batches(source, start, columns):
                for content in lines_of_batch(batch):
                    row += 1
                    yield RawLine(f"{name}:{row}", content)
        except (OSError, pa.ArrowException) as error:
            reason = " ".join(str(error).split())
            raise DamagedSource(f"the Parquet data is damaged: {reason}", f"{name}:{row + 1}") from None


def _columns(source: pq.ParquetFile, path: str) -> list[str]:
    """The columns to read. Raises InputError."""
    columns = read_columns(source.schema_arrow.names, path)
    if columns == [LINE_COLUMN]:
        check_line_type(source.schema_arrow.field(source.schema_arrow.names.index(LINE_COLUMN)).type, path)
    return columns


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    try:
        source = pq.ParquetFile(path, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"cannot be read as Parquet: {reason}", path) from None
    with source:
        yield source


def _batches(source: pq.ParquetFile, start: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows from number `start`, one row group at a time, so that a damaged group costs no rows of another."""
    skip = start
    for group in range(source.metadata.num_row_groups):
        rows = source.metadata.row_group(group).num_rows
        if skip >= rows:
            skip -= rows
            continue
        for batch in source.iter_batches(ROWS_AT_ONCE, [group], columns, use_threads=False):
            if skip < batch.num_rows:
                yield batch.slice(skip)
            skip = max(skip - batch.num_rows, 0)
