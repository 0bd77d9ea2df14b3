"""Inputs are cut into chunks that, read one after the other or each alone, give every line once, at its place."""

import contextlib
import gzip
import io
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from assignor.errors import InputError
from rebalance_analysis.reading.sources import DamagedSource, RawLine, find_sources, raw_lines
from rebalance_analysis.recordings import planning
from rebalance_analysis.recordings.chunk import ChunkKind, RecordingChunk, read_chunks
from rebalance_analysis.recordings.planning import check_of_inputs, identity_of_inputs, plan_recordings
from tests.spark_jobs.recordings.recordings_as_files import write_gzip, write_plain, write_value_parquet

SIZE = 3


def planned(inputs: Sequence[Path | str], spool: Path, size: int = SIZE) -> list[RecordingChunk]:
    return plan_recordings([str(each) for each in inputs], spool, Console(file=io.StringIO()), size)


def read(chunks: Sequence[RecordingChunk]) -> list[RawLine]:
    """All lines, without the line breaks that some sources keep."""
    return [RawLine(line.where, line.content.strip(b"\r\n")) for each in read_chunks(chunks) for line in each.lines]


def read_one_by_one(chunks: Sequence[RecordingChunk]) -> list[RawLine]:
    return [line for chunk in chunks for line in read([chunk])]


def as_assign_reads(path: Path) -> list[RawLine]:
    lines: list[RawLine] = []
    (source,) = find_sources([str(path)])
    with contextlib.suppress(DamagedSource):
        lines.extend(RawLine(line.where, line.content.strip(b"\r\n")) for line in raw_lines(source))
    return lines


LINES = [b'{"n":%d}' % number for number in range(10)]


@pytest.mark.parametrize("write", [write_plain, write_gzip], ids=["plain", "gzip"])
@given(
    lines=st.lists(st.sampled_from([b"", b"  ", b"\r", b'{"a":1}', b"x", "ü".encode()]), max_size=20),
    size=st.integers(1, 5),
)
def test_should_give_the_lines_that_assign_reads_when_there_are_blank_ones(
    tmp_path_factory: pytest.TempPathFactory,
    write: Callable[[Sequence[bytes], Path], Path],
    lines: list[bytes],
    size: int,
) -> None:
    directory = tmp_path_factory.mktemp("lines")
    path = write(lines, directory / "lines")
    chunks = planned([path], directory / "spool", size)
    expected = as_assign_reads(path)
    assert read(chunks) == expected
    assert read_one_by_one(chunks) == expected
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.lines for chunk in chunks] == [min(size, len(expected) - at) for at in range(0, len(expected), size)]


def test_should_cut_a_plain_file_by_bytes(tmp_path: Path) -> None:
    path = write_plain([b"a", b"", b"bb", b"c", b" ", b"d", b"e"], tmp_path / "x.jsonl")
    name = str(path)
    assert planned([path], tmp_path) == [
        RecordingChunk(0, name, name, ChunkKind.PLAIN, 0, 1, 3),
        RecordingChunk(1, name, name, ChunkKind.PLAIN, 10, 6, 2),
    ]


def test_should_read_the_last_line_when_it_has_no_line_break(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"a\nb\nc\nd")
    chunks = planned([tmp_path / "x.jsonl"], tmp_path)
    assert [line.content for line in read(chunks)] == [b"a", b"b", b"c", b"d"]


def test_should_cut_parquet_by_rows_whatever_its_row_groups(tmp_path: Path) -> None:
    path = write_value_parquet(LINES, tmp_path / "x.parquet", row_group_size=4)
    chunks = planned([path], tmp_path)
    assert [(chunk.start, chunk.readable) for chunk in chunks] == [(0, 3), (3, 3), (6, 3), (9, 1)]
    expected = [RawLine(f"{path}:{number}", line) for number, line in enumerate(LINES, 1)]
    assert read(chunks) == expected
    assert read_one_by_one(chunks) == expected
    assert read(chunks[::2]) == expected[0:3] + expected[6:9]


def test_should_number_the_chunks_of_all_inputs_in_order(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    write_gzip(LINES[:4], tmp_path / "in" / "b.jsonl.gz")
    write_value_parquet(LINES[4:6], tmp_path / "in" / "deep" / "c.parquet")
    write_plain(LINES[6:], tmp_path / "in" / "a.jsonl")
    chunks = planned([tmp_path / "in"], tmp_path / "spool")
    assert [(chunk.number, Path(chunk.source).name, chunk.lines) for chunk in chunks] == [
        (0, "a.jsonl", 3),
        (1, "a.jsonl", 1),
        (2, "b.jsonl.gz", 3),
        (3, "b.jsonl.gz", 1),
        (4, "c.parquet", 2),
    ]
    assert [line.content for line in read(chunks)] == [*LINES[6:], *LINES[:4], *LINES[4:6]]


def test_should_read_relative_names_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plain(LINES, tmp_path / "x.jsonl")
    monkeypatch.chdir(tmp_path)
    chunks = planned(["x.jsonl"], tmp_path / "spool")
    monkeypatch.chdir("/")
    assert read(chunks)[9] == RawLine("x.jsonl:10", LINES[9])


def test_should_read_gzip_on_when_chunks_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gzip(LINES, tmp_path / "x.jsonl.gz")
    chunks = planned([path], tmp_path)
    opened: list[object] = []
    real_open = gzip.open

    def counted(file: io.BufferedReader) -> object:
        opened.append(file)
        return real_open(file)

    monkeypatch.setattr(gzip, "open", counted)
    assert [line.content for line in read([chunks[0], chunks[2], chunks[3]])] == [*LINES[:3], *LINES[6:]]
    assert len(opened) == 1
    read([chunks[1], chunks[0]])
    assert len(opened) == 3


@pytest.mark.parametrize("cut", [40, 200, 230])
def test_should_keep_what_comes_before_the_damage_when_gzip_is_damaged(tmp_path: Path, cut: int) -> None:
    lines = [os.urandom(20).hex().encode() for _ in range(20)]
    whole = gzip.compress(b"".join(line + b"\n" for line in lines))
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(whole[:cut])
    chunks = planned([path], tmp_path)
    expected = as_assign_reads(path)
    assert read(chunks) == expected
    assert read_one_by_one(chunks) == expected
    assert sum(chunk.lines for chunk in chunks) == len(expected) + 1
    damages = [each.damage for each in read_chunks(chunks)]
    assert damages[:-1] == [None] * (len(chunks) - 1)
    assert str(damages[-1]) == (
        f"{path}:{len(expected) + 1}: the gzip data is damaged: "
        "Compressed file ended before the end-of-stream marker was reached"
    )


def test_should_say_where_the_good_rows_end_when_parquet_is_damaged(tmp_path: Path) -> None:
    path = write_value_parquet([os.urandom(600).hex().encode() for _ in range(12)], tmp_path / "x.parquet", 3)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle - 400 : middle + 400] = bytes(800)
    path.write_bytes(content)
    chunks = planned([path], tmp_path)
    found = list(read_chunks(chunks))
    assert len(found[0].lines) == 3
    damaged = [str(each.damage) for each in found if each.damage is not None]
    assert damaged
    assert all(re.match(rf"{path}:\d+: the Parquet data is damaged: \S", text) for text in damaged)


def test_should_spool_stdin_with_the_places_of_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"a":1}\n\n{"b":2}\r\n{"c":3}\n{"d":4}'
    stdin = io.TextIOWrapper(io.BytesIO(content))
    monkeypatch.setattr("sys.stdin", stdin)
    chunks = planned(["-"], tmp_path / "spool")
    assert [(chunk.source, chunk.kind, chunk.lines) for chunk in chunks] == [
        ("stdin", ChunkKind.SPOOLED, 3),
        ("stdin", ChunkKind.SPOOLED, 1),
    ]
    expected = [
        RawLine("stdin:1", b'{"a":1}'),
        RawLine("stdin:3", b'{"b":2}'),
        RawLine("stdin:4", b'{"c":3}'),
        RawLine("stdin:5", b'{"d":4}'),
    ]
    assert read(chunks) == expected
    assert read_one_by_one(chunks) == expected


def test_should_spool_a_pipe_that_can_be_read_only_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_plain, args=(LINES, pipe))
    writer.start()
    chunks = planned([pipe], tmp_path / "spool")
    writer.join()
    assert read(chunks) == [RawLine(f"{pipe}:{number}", line) for number, line in enumerate(LINES, 1)]


def test_should_keep_the_identity_when_lines_are_piped_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(content: bytes, spool: str) -> list[dict[str, object]]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        return identity_of_inputs(planned(["-"], tmp_path / spool))

    assert identity(b"a\nb\n", "1") == identity(b"a\nb\n", "2")
    assert identity(b"a\nb\n", "1") != identity(b"a\nc\n", "2")


def test_should_tell_another_identity_when_a_file_was_touched(tmp_path: Path) -> None:
    path = write_plain(LINES, tmp_path / "x.jsonl")
    before = identity_of_inputs(planned([path], tmp_path))
    assert before == identity_of_inputs(planned([path], tmp_path))
    os.utime(path, ns=(1, 1))
    after = identity_of_inputs(planned([path], tmp_path))
    assert after == [{**before[0], "mtime_ns": 1}]
    assert before[0]["size"] == path.stat().st_size


def test_should_refuse_to_read_when_a_file_became_shorter(tmp_path: Path) -> None:
    path = write_plain(LINES, tmp_path / "x.jsonl")
    chunks = planned([path], tmp_path)
    path.write_bytes(b"a\n")
    with pytest.raises(InputError, match=r"x\.jsonl: has fewer lines than when it was scanned"):
        read(chunks)


def test_should_refuse_what_is_not_there_or_no_table_of_recordings(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.jsonl: cannot be opened: No such file or directory"):
        planned([tmp_path / "missing.jsonl"], tmp_path)
    (tmp_path / "short.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"short\.parquet: cannot be read as Parquet: "):
        planned([tmp_path / "short.parquet"], tmp_path)


def test_should_refuse_a_column_of_other_values_before_anything_runs(tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet: column 'value' must be text with a line of JSON, not int64"):
        planned([tmp_path / "x.parquet"], tmp_path)


def test_should_name_a_chunk_by_its_lines(tmp_path: Path) -> None:
    path = write_plain(LINES[:5], tmp_path / "x.jsonl")
    assert [str(chunk) for chunk in planned([path], tmp_path)] == [
        f"{path}, 3 lines from line 1 on",
        f"{path}, 2 lines from line 4 on",
    ]


def test_should_notice_a_file_that_is_written_anew_and_allow_one_that_grows_or_goes(tmp_path: Path) -> None:
    path = write_plain(LINES, tmp_path / "x.jsonl")
    chunks = planned([path], tmp_path)

    def said_of(change: Callable[[], object]) -> str | None:
        check = check_of_inputs(chunks)
        change()
        with contextlib.suppress(InputError):
            check()
            return None
        with pytest.raises(InputError) as refused:
            check()
        return str(refused.value)

    def add() -> None:
        with path.open("ab") as stream:
            stream.write(b"more")

    def replace() -> None:
        os.replace(write_plain([*LINES, *LINES], tmp_path / "other"), path)

    changes = (lambda: None, add, lambda: os.utime(path, ns=(1, 1)), lambda: os.truncate(path, 3), replace, path.unlink)
    refusal = f"{path}: was changed while it was read; run again with --restart"
    assert [said_of(change) for change in changes] == [None, None, refusal, refusal, refusal, None]


@pytest.mark.parametrize("write", [write_plain, write_gzip], ids=["plain", "gzip"])
def test_should_end_a_chunk_early_when_its_lines_are_long(
    tmp_path: Path, write: Callable[[Sequence[bytes], Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "BYTES_A_CHUNK", 20)
    path = write([b"a" * 9, b"b" * 9, b"c" * 9, b"d" * 50, b"e", b"f" * 10, b"g", b"h", b"i", b"j"], tmp_path / "x")
    chunks = planned([path], tmp_path)
    assert [(chunk.first_line, chunk.readable) for chunk in chunks] == [(1, 2), (3, 1), (4, 1), (5, 3), (8, 3)]
    assert read(chunks) == read_one_by_one(chunks) == as_assign_reads(path)
