"""Recordings in Parquet give the rebalances that their JSON lines give, in every form that a table of them may have."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assignor.errors import InputError
from assignor.recording import RecordedPlacement, RecordedRebalance, document_of_line
from rebalance_analysis.reading.sources import find_sources, raw_lines
from rebalance_analysis.recordings.parquet import lines_of_batch, read, read_columns
from rebalance_analysis.rerun import parse_recorded
from tests.recorded import RECORDINGS, documents
from tests.spark_jobs.recordings.recordings_as_files import (
    SMOKE,
    as_bytes,
    lines_of,
    table_of,
    write_nested_parquet,
    write_text_parquet,
    write_value_parquet,
)

LINES = lines_of(SMOKE)
WRITERS = [write_value_parquet, write_text_parquet, write_nested_parquet]


def parsed(line: bytes) -> RecordedRebalance | RecordedPlacement:
    """No created topics in any row of nested types is as if they had not been recorded, for want of their column."""
    recorded = parse_recorded(document_of_line(line))
    if isinstance(recorded, RecordedPlacement) or recorded.output is None or recorded.output.created_topics:
        return recorded
    return replace(recorded, output=replace(recorded.output, created_topics=None))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return [json.loads(line) for batch in table.to_batches() for line in lines_of_batch(batch)]


@pytest.mark.parametrize("write", WRITERS, ids=["value", "text", "nested"])
@pytest.mark.parametrize("name", [*RECORDINGS, "placements.jsonl.gz", "placements_sticky.jsonl.gz"])
def test_should_read_what_json_has(tmp_path: Path, name: str, write: Callable[[Sequence[bytes], Path], Path]) -> None:
    # in one struct, every client of every placement is a field: few lines are enough
    lines = lines_of(name)[:40]
    path = write(lines, tmp_path / "x.parquet")
    found = list(read(str(path)))
    assert [line.where for line in found] == [f"{path}:{number}" for number in range(1, len(lines) + 1)]
    assert [parsed(line.content) for line in found] == [parsed(line) for line in lines]


def test_should_be_found_by_the_commands_that_read_recordings(tmp_path: Path) -> None:
    path = write_value_parquet(LINES, tmp_path / "named-by-nobody")
    (source,) = find_sources([str(path)])
    assert [line.content for line in raw_lines(source)] == LINES


def test_should_leave_out_rows_without_a_line_when_reading_all(tmp_path: Path) -> None:
    path = write_value_parquet([b"{}", None, b" ", b"[]"], tmp_path / "x.parquet")
    assert [(line.where, line.content) for line in read(str(path))] == [(f"{path}:1", b"{}"), (f"{path}:4", b"[]")]


def test_should_keep_json_text_as_it_was_written() -> None:
    table = table_of([{"format": "placement/1", "configs": '{ "a": 1.50 }', "tasks": '["0_0",\n "0_1"]'}])
    assert list(lines_of_batch(table.to_batches()[0])) == [
        b'{"format":"placement/1","configs":{ "a": 1.50 },"tasks":["0_0",  "0_1"]}'.replace(b"  ", b"  ")
    ]


def test_should_leave_text_that_is_no_json_to_the_reader_of_the_line() -> None:
    (line,) = lines_of_batch(table_of([{"format": "rebalance/1", "input": '{}, "note": "x"'}]).to_batches()[0])
    assert json.loads(line) == {"format": "rebalance/1", "input": '{}, "note": "x"'}


def test_should_take_null_for_absent_but_where_a_field_has_to_be_there() -> None:
    row = {
        "format": "rebalance/1",
        "note": None,
        "input": {
            "changelog_end_offsets": None,
            "leader_process_id": None,
            "failures": None,
            "cluster": {"brokers": [{"id": 1, "rack": None}]},
            "committed_offsets": {"t": [5, None], "u": None},
        },
        "output": {"error": None, "probing_rebalance_at_ms": None, "created_topics": None, "followup_rebalance": True},
    }
    other = {"format": "rebalance/1", "note": "n", "input": {"failures": ["x"], "changelog_end_offsets": {"c": [1]}}}
    assert rows_of(table_of([row, other]))[0] == {
        "format": "rebalance/1",
        "input": {
            "changelog_end_offsets": None,
            "leader_process_id": None,
            "cluster": {"brokers": [{"id": 1}], "topics": {}},
            "committed_offsets": {"t": [5, None]},
            "configs": {},
            "existing_internal_topics": {},
            "members": {},
        },
        "output": {
            "error": None,
            "probing_rebalance_at_ms": None,
            "followup_rebalance": True,
            "assignments": {},
            "internal_topics": {},
        },
    }


def test_should_take_end_offsets_that_no_row_has_for_empty_ones() -> None:
    (found,) = rows_of(table_of([{"format": "rebalance/1", "input": {"application_id": "a"}}]))
    assert found["input"]["changelog_end_offsets"] == {}


def test_should_read_maps_in_their_order_and_bytes_as_base64() -> None:
    member = pa.struct([("client_id", pa.string()), ("subscription", pa.binary())])
    kind = pa.struct(
        [("members", pa.map_(pa.string(), member)), ("committed_offsets", pa.map_(pa.string(), pa.int64()))]
    )
    value = {"members": [("z", {"client_id": None, "subscription": b"\x00\xff"}), ("a", None)], "committed_offsets": []}
    table = pa.table({"format": ["rebalance/1"], "input": pa.array([value], kind)})
    (found,) = rows_of(table)
    assert list(found["input"]["members"].items()) == [
        ("z", {"subscription": base64.b64encode(b"\x00\xff").decode()}),
        ("a", None),
    ]
    assert found["input"]["committed_offsets"] == {}


def test_should_read_whole_numbers_that_a_table_keeps_otherwise() -> None:
    table = pa.table(
        {
            "format": pa.array(["rebalance/1"] * 2).dictionary_encode(),
            "generation_id": pa.array([3.0, None], pa.float64()),
            "now_ms": pa.array([Decimal("1700000000000"), Decimal("7")], pa.decimal128(20, 0)),
        }
    )
    assert rows_of(table) == [
        {"format": "rebalance/1", "generation_id": 3, "now_ms": 1700000000000},
        {"format": "rebalance/1", "now_ms": 7},
    ]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_should_read_lines_of_every_type_of_text(kind: pa.DataType) -> None:
    text: list[str | bytes] = [b"{}", b"[]"] if kind == pa.binary() else ["{}", "[]"]
    column = pa.array(text, kind) if not pa.types.is_dictionary(kind) else pa.array(text).dictionary_encode()
    assert list(lines_of_batch(pa.record_batch({"value": column}))) == [b"{}", b"[]"]


def test_should_name_the_column_that_is_not_known() -> None:
    assert read_columns(["value", "extra"]) == ["value"]
    assert read_columns(["format", "input"]) == ["format", "input"]
    with pytest.raises(InputError, match=r"x: has no column 'format' .* and no column 'value' .*; it has a, b"):
        read_columns(["a", "b"], "x")
    with pytest.raises(InputError, match="column 'ouput' is no field of rebalance/1 or placement/1"):
        read_columns(["format", "ouput"])
    with pytest.raises(InputError, match="column 'value' must be text with a line of JSON, not int64"):
        list(lines_of_batch(pa.record_batch({"value": [1]})))


def test_should_read_a_row_group_that_is_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    lines = [as_bytes({"n": number}) for number in range(1000)]
    path = write_value_parquet(lines, tmp_path / "x.parquet", row_group_size=700)
    assert pq.ParquetFile(path).num_row_groups == 2
    assert [line.content for line in read(str(path))] == lines


def test_should_read_all_recordings_of_one_table_when_they_are_of_different_groups(tmp_path: Path) -> None:
    lines = lines_of(*RECORDINGS)
    path = write_nested_parquet(lines, tmp_path / "x.parquet")
    expected = [document["id"] for name in RECORDINGS for document in documents(name)]
    assert [parse_recorded(document_of_line(line.content)).id for line in read(str(path))] == expected
