"""Reads recordings from Parquet files. `read` reads all rows, for the entry point `assignor.recordings`. `rows_from`
begins at a given row.

The position of a line has the form file:row. The first row has number 1. A file is read in batches of `ROWS_AT_ONCE`
rows, so a large row group does not need much memory.

A table can have one text column `value` with lines of JSON. A table can also have a column for each field of
rebalance/1 or placement/1. Objects and lists are stored as JSON text or in nested types. Spark converts JSON to these
nested types: struct, map, list. In a nested type, null means that the field is absent. Spark leaves out fields that are
empty in every row. This module adds these empty fields again. Binary values become base64 text, as in JSON Lines
recordings.
"""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from assignor.errors import InputError
from rebalance_analysis.reading.sources import DamagedSource, RawLine

ROWS_AT_ONCE = 256


def read(name: str) -> Iterator[RawLine]:
    """Yields all rows of a file except blank rows. Raises InputError for a file that is not a recording. If a part of
    the file cannot be read, raises DamagedSource at this part.
    """
    return (line for line in rows_from(name, 0, name) if line.content.strip())


def count_rows(path: str) -> int:
    """Returns the number of rows of a file. Raises InputError if the file is not a Parquet file, or does not have the
    columns of recordings.
    """
    with _opened(path) as source:
        _columns(source, path)
        return int(source.metadata.num_rows)


def rows_from(path: str, start: int, name: str) -> Iterator[RawLine]:
    """Yields the rows of a file, including blank rows. `start`: the number of the row at which to begin; the first row
    is row 0. `name`: the file name that messages about a row show. Raises InputError for a file that is not a
    recording. If a part of the file cannot be read, raises DamagedSource at this part.
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
    """Returns the columns to read from a file. Raises InputError if the file does not have the columns of
    recordings.
    """
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
    """Yields the rows from row `start` on. Reads one row group at a time. So a damaged row group does not affect the
    rows of earlier row groups.
    """
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


LINE_COLUMN = "value"
FORMAT_COLUMN = "format"
SCALARS = ("format", "id", "group_id", "generation_id", "now_ms", "source", "note", "led_by", "interrupted", "assignor")
_OBJECTS = ("input", "output", "configs", "clients", "meta", "task_partitions", "changelog_partitions")
OBJECTS = (*_OBJECTS, "partition_racks", "tasks", "stateful")
"""Fields whose values are objects or lists. A column of objects or lists may also contain JSON text."""

_NULL = "null"
_EMPTY = "empty"
_REQUIRED = {
    "input": {
        "configs": _EMPTY,
        "existing_internal_topics": _EMPTY,
        "committed_offsets": _EMPTY,
        "members": _EMPTY,
        "changelog_end_offsets": _NULL,
        "leader_process_id": _NULL,
    },
    "input.cluster": {"topics": _EMPTY},
    "output": {
        "assignments": _EMPTY,
        "internal_topics": _EMPTY,
        "clients": _EMPTY,
        "probing_rebalance_at_ms": _NULL,
        "error": _NULL,
    },
}
"""Fields that a JSON line must have, but that may be missing in a row of nested types. A field is missing if it is
null, or if it is an object that was empty in every row.
"""
_OF_PLACEMENTS = frozenset({"probing_rebalance_needed", "clients"})
_OF_REBALANCES = frozenset({"assignments", "internal_topics", "probing_rebalance_at_ms", "error"})

Convert = Callable[[object], object]


def read_columns(names: Sequence[str], where: str | None = None) -> list[str]:
    """Returns the columns to read from a table. `names`: the names of all columns of the table. Raises InputError if
    the names are not the columns of recordings.
    """
    if FORMAT_COLUMN not in names:
        if LINE_COLUMN in names:
            return [LINE_COLUMN]
        raise InputError(
            f"has no column {FORMAT_COLUMN!r} (fields as columns) and no column {LINE_COLUMN!r} (lines of JSON); "
            f"it has {', '.join(names) or 'none'}",
            where,
        )
    unknown = [name for name in names if name not in SCALARS and name not in OBJECTS]
    if unknown:
        raise InputError(
            f"column {unknown[0]!r} is no field of rebalance/1 or placement/1; leave it out or rename it; "
            f"known are {', '.join((*SCALARS, *OBJECTS))}",
            where,
        )
    return list(names)


def lines_of_batch(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yields a line of JSON for each row. If the column `value` is null, the line is blank. Raises InputError for a
    column `value` that is not text.
    """
    if FORMAT_COLUMN not in batch.schema.names:
        yield from _value_lines(batch.column(batch.schema.get_field_index(LINE_COLUMN)))
        return
    columns = [
        (name, batch.column(index).to_pylist(), _converter(batch.schema.field(index).type, name))
        for index, name in enumerate(batch.schema.names)
    ]
    for row in range(batch.num_rows):
        members = (_member(name, values[row], convert) for name, values, convert in columns)
        yield f"{{{','.join(member for member in members if member)}}}".encode("utf-8", "surrogatepass")


def check_line_type(kind: pa.DataType, where: str | None = None) -> None:
    """Checks the type of the column `value`. Raises InputError if the column is neither text nor binary."""
    if not (_is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise InputError(f"column {LINE_COLUMN!r} must be text with a line of JSON, not {kind}", where)


def _value_lines(column: pa.Array) -> Iterator[bytes]:
    check_line_type(column.type)
    for value in column.to_pylist():
        line = b"" if value is None else value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        yield line.strip(b"\r\n").replace(b"\n", b" ")


def _member(name: str, value: object, convert: Convert) -> str:
    """Returns the text `"name":value` for a field of a row; empty if the row does not have the field."""
    if value is None:
        return ""
    if name in OBJECTS and isinstance(value, str | bytes):
        return f'"{name}":{_json_text(value)}'
    return f'"{name}":{json.dumps(convert(value), ensure_ascii=False, default=str)}'


def _json_text(value: str | bytes) -> str:
    """Returns the value of a column of JSON text. Text that is not JSON becomes a JSON string, and the parser of the
    line then refuses this string.
    """
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text)
    return text.replace("\n", " ").replace("\r", " ")


def _converter(kind: pa.DataType, path: str) -> Convert:
    """Returns a function that converts a value of the Arrow type `kind` to a JSON value."""
    types = pa.types
    if types.is_struct(kind):
        return _struct_converter(kind, path)
    if types.is_map(kind):
        of_item = _converter(kind.item_type, f"{path}.*")
        return lambda value: {str(key): of_item(item) for key, item in _sequence(value)}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        of_element = _converter(kind.value_type, f"{path}[]")
        return lambda value: None if value is None else [of_element(item) for item in _sequence(value)]
    if types.is_dictionary(kind):
        return _converter(kind.value_type, path)
    return _scalar


def _struct_converter(kind: pa.DataType, path: str) -> Convert:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    of_fields = [(field.name, _converter(field.type, f"{path}.{field.name}")) for field in fields]
    names = {field.name for field in fields}
    missing = _missing(path, names)

    def convert(value: object) -> object:
        if not isinstance(value, dict):
            return None
        document = {name: of_field(value[name]) for name, of_field in of_fields if value.get(name) is not None}
        for name, empty in missing:
            document.setdefault(name, {} if empty else None)
        return document

    return convert


def _missing(path: str, names: set[str]) -> list[tuple[str, bool]]:
    """Returns the fields that have to be added to a row. The second value of a field is True if the field becomes an
    empty object, and False if it becomes null. If no row has the field `changelog_end_offsets`, the field was an empty
    object in every row. A null would mean that the request for end offsets failed.
    """
    required = _REQUIRED.get(path, {})
    if path == "output":
        others = _OF_REBALANCES if "probing_rebalance_needed" in names else _OF_PLACEMENTS
        required = {name: how for name, how in required.items() if name not in others}
    return [
        (name, how == _EMPTY or (name == "changelog_end_offsets" and name not in names))
        for name, how in required.items()
    ]


def _scalar(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float | Decimal) and value == value and value % 1 == 0:
        return int(value)  # pandas stores a column of whole numbers as floats if it has nulls
    return float(value) if isinstance(value, Decimal) else value


def _sequence(value: object) -> Sequence[tuple[object, object]]:
    assert isinstance(value, list)
    return value


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or (types.is_dictionary(kind) and _is_text(kind.value_type))
    )
