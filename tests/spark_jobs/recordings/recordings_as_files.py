"""Recorded lines as files of every form that is read."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.recorded import documents

OBJECTS = ("input", "output", "configs", "tasks", "stateful", "clients", "meta")
SMOKE = "recordings/smoke.jsonl.gz"


def lines_of(*names: str) -> list[bytes]:
    """The lines of vectors, as JSON without spaces."""
    return [as_bytes(document) for name in names for document in documents(name)]


def as_bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def write_plain(lines: Sequence[bytes], path: Path) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def write_gzip(lines: Sequence[bytes], path: Path) -> Path:
    path.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0))
    return path


def write_value_parquet(lines: Sequence[bytes | None], path: Path, row_group_size: int = 1000) -> Path:
    """One column of JSON lines."""
    texts = [None if line is None else line.decode() for line in lines]
    pq.write_table(pa.table({"value": pa.array(texts, pa.string())}), path, row_group_size=row_group_size)
    return path


def write_text_parquet(lines: Sequence[bytes], path: Path) -> Path:
    """The fields as columns, objects and lists as JSON text."""
    rows = []
    for line in lines:
        document = json.loads(line)
        rows.append({name: json.dumps(value) if name in OBJECTS else value for name, value in document.items()})
    pq.write_table(table_of(rows), path)
    return path


def write_nested_parquet(lines: Sequence[bytes], path: Path) -> Path:
    """The fields as columns of nested types, as Spark makes them: every object a struct with the names of all rows."""
    pq.write_table(table_of([json.loads(line) for line in lines]), path)
    return path


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """As Spark does, an object that is empty in every row is left out."""
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        kind = _without_empty(pa.infer_type(values))
        if kind is not None:
            columns[name] = pa.array(values, kind)
    return pa.table(columns)


def _without_empty(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_list(kind):
        element = _without_empty(kind.value_type)
        return None if element is None else pa.list_(element)
    if not pa.types.is_struct(kind):
        return kind
    fields = [(field.name, _without_empty(field.type)) for field in kind]
    kept = [(name, of_field) for name, of_field in fields if of_field is not None]
    return pa.struct(kept) if kept else None
