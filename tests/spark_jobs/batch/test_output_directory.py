"""Which directories a run takes, goes on with, and refuses."""

import io
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from assignor.errors import InputError
from spark_engine.batch.output_directory import open_directory
from spark_engine.batch.parts import ROWS_A_GROUP
from spark_engine.batch.work import ChunkOutput, ChunksFailed, PartDamaged
from tests.spark_jobs.batch.running_squares import contents, expected_rows, rows_of, run_squares
from tests.spark_jobs.batch.squares import SCHEMA, Numbers, Squares, squares_plan

CHUNKS = 3

pytestmark = pytest.mark.usefixtures("chunks_in_this_process")


@pytest.fixture
def finished(tmp_path_factory: pytest.TempPathFactory, chunks_in_this_process: None) -> Path:
    directory = tmp_path_factory.mktemp("finished") / "output"
    run_squares(squares_plan(CHUNKS), directory, cores=1)
    return directory


def unfinished(directory: Path) -> Path:
    """One chunk is missing; gives the directory of the parts."""
    with pytest.raises(ChunksFailed):
        run_squares(squares_plan(CHUNKS, work=Squares(raising=frozenset({2}))), directory, cores=1)
    (parts,) = (directory / "parts").iterdir()
    return parts


def test_should_run_nothing_when_the_run_is_finished(finished: Path) -> None:
    before, talk = contents(finished), io.StringIO()
    left = finished / "parts" / "left-by-a-crash"
    left.mkdir(parents=True)
    outcome = run_squares(squares_plan(CHUNKS, work=Squares(raising=frozenset(range(CHUNKS)))), finished, talk=talk)
    assert talk.getvalue() == "squares: already finished: 25 rows, 5 rejects; nothing to run\n"
    assert (outcome.finished_before, outcome.rows, outcome.rejects, outcome.seconds) == (True, 25, 5, 0.0)
    assert outcome.chunks_found_done == CHUNKS
    assert rows_of(outcome) == expected_rows(30)
    assert contents(finished) == before
    assert not left.exists()


def test_should_refuse_a_directory_of_another_run_and_run_it_anew_on_restart(tmp_path: Path) -> None:
    unfinished(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    other = replace(squares_plan(CHUNKS + 1, name="others"), rows_name="fours")
    message = (
        f'{tmp_path}: holds another run, which differs in inputs (was "squares", now "others"), chunks (was 3, now 4), '
        'rows_name (was "squares", now "fours"); choose another --output, or discard that run with --restart'
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        run_squares(other, tmp_path)
    outcome = run_squares(other, tmp_path, restart=True)
    assert (outcome.rows, outcome.chunks_found_done, outcome.rows_file.name) == (34, 0, "fours.parquet")
    again = run_squares(squares_plan(CHUNKS), tmp_path, restart=True)
    assert rows_of(again) == expected_rows(30)
    assert set(os.listdir(tmp_path)) == {
        ".lock", "plan.json", "squares.parquet", "rejects.jsonl", "timings.parquet", "notes.txt"
    }  # fmt: skip


def test_should_throw_away_what_the_command_added_with_the_run(tmp_path: Path) -> None:
    run_squares(replace(squares_plan(1), beside=("summary.json", "../outside.json")), tmp_path / "out")
    for file in ("out/summary.json", "out/notes.json", "outside.json"):
        (tmp_path / file).write_text("{}")
    with open_directory(tmp_path / "out", squares_plan(2), restart=True):
        assert [file for file in ("summary.json", "notes.json") if (tmp_path / "out" / file).exists()] == ["notes.json"]
    assert (tmp_path / "outside.json").exists()


def test_should_not_merge_what_the_check_of_the_plan_refuses(tmp_path: Path) -> None:
    def refuse() -> None:
        raise InputError("was changed")

    with pytest.raises(InputError, match="was changed"):
        run_squares(replace(squares_plan(1), check=refuse), tmp_path)
    assert not (tmp_path / "squares.parquet").exists()
    assert run_squares(squares_plan(1), tmp_path).chunks_found_done == 1


@pytest.mark.parametrize("restart", [False, True])
def test_should_not_touch_files_of_something_else(restart: bool, tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("somebody's")
    (tmp_path / "plan.json").write_text('{"format": "a plan of somebody"}')
    with pytest.raises(InputError, match=r"has files of another program \(plan\.json, rows\.parquet\); choose another"):
        run_squares(squares_plan(1), tmp_path, restart=restart)
    assert sorted(os.listdir(tmp_path)) == ["plan.json", "rows.parquet"]


def test_should_refuse_what_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="is not a directory; choose another --output"):
            run_squares(squares_plan(1), place)
    with pytest.raises(InputError, match=r"cannot be used: .*; choose another --output"):
        run_squares(squares_plan(1), Path("/proc/output"))


def test_should_not_take_a_url_for_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"s3:/bucket/out: is a URL; name a directory"):
        run_squares(squares_plan(1), Path("s3://bucket/out"))
    assert os.listdir(tmp_path) == []
    (tmp_path / "run:1").mkdir()
    assert run_squares(squares_plan(1), Path("run:1")).rows == 8


def test_should_refuse_a_directory_that_another_run_works_in(tmp_path: Path) -> None:
    with open_directory(tmp_path, squares_plan(1), restart=False):
        message = rf"another run \(process {os.getpid()}\) works in it; wait for it, or choose another --output"
        with pytest.raises(InputError, match=message):
            run_squares(squares_plan(1), tmp_path)
    assert run_squares(squares_plan(1), tmp_path).rows == 8


def test_should_say_so_when_a_result_was_removed(tmp_path: Path) -> None:
    run_squares(squares_plan(1), tmp_path)
    (tmp_path / "squares.parquet").unlink()
    with pytest.raises(
        InputError, match=r"the run is finished, but squares\.parquet is missing; --restart runs it again"
    ):
        run_squares(squares_plan(1), tmp_path)


def test_should_make_a_part_again_when_it_is_damaged(finished: Path, tmp_path: Path) -> None:
    parts = unfinished(tmp_path)
    part = parts / "00000000-8-2.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    (parts / "00000001.rejects.jsonl").unlink()
    for message in (r"00000001\.rejects\.jsonl is incomplete", r"00000000-8-2\.parquet could not be read"):
        with pytest.raises(PartDamaged, match=message):
            run_squares(squares_plan(CHUNKS), tmp_path)
    outcome = run_squares(squares_plan(CHUNKS), tmp_path)
    assert outcome.chunks_found_done == CHUNKS - 1
    assert contents(tmp_path) == contents(finished)


def test_should_have_complete_files_when_there_is_nothing_to_run(tmp_path: Path) -> None:
    outcome = run_squares(squares_plan(0), tmp_path)
    assert (outcome.rows, list(outcome.batches())) == (0, [])
    assert contents(tmp_path)[1] == b""


def test_should_write_row_groups_of_one_size_whatever_the_chunks_are(tmp_path: Path) -> None:
    lines = 42_000
    for chunks in (3, 60):
        run_squares(squares_plan(chunks, lines // chunks), tmp_path / str(chunks))
    assert contents(tmp_path / "3") == contents(tmp_path / "60")
    metadata = pa.parquet.ParquetFile(tmp_path / "3" / "squares.parquet").metadata
    groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert groups == [ROWS_A_GROUP, ROWS_A_GROUP, 36_000 - 2 * ROWS_A_GROUP]


class OutputsGone(Squares):
    def run(self, chunks: Iterator[Numbers]) -> Iterator[ChunkOutput]:
        yield from list(super().run(chunks))[:-1]


class OtherColumns(Squares):
    def run(self, chunks: Iterator[Numbers]) -> Iterator[ChunkOutput]:
        for output in super().run(chunks):
            yield ChunkOutput(output.rows.select(SCHEMA.names[:2]), output.rejects)


@pytest.mark.parametrize(
    "work,message",
    [(OutputsGone(), "the work gave no output for it"), (OtherColumns(), "the work gave columns number")],
)
def test_should_name_the_chunk_when_the_work_breaks_its_word(work: Squares, message: str, tmp_path: Path) -> None:
    with pytest.raises(ChunksFailed, match=rf"chunk \d, Numbers\(.*\): ValueError: {message}"):
        run_squares(squares_plan(2, work=work), tmp_path, cores=1)
