"""Both engines, and what may happen to their workers, to their executors and to their driver."""

import io
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_engine.batch import Engine, running
from spark_engine.batch.local_engine import LocalProcesses
from spark_engine.batch.spark_engine import cores_of_master
from spark_engine.batch.work import ChunksFailed, EngineFailed, PartsNotSeen
from spark_engine.batch.worker import Job
from tests.known import known
from tests.processes import wait_until_gone
from tests.spark_jobs.batch.running_squares import (
    Marks,
    beside,
    contents,
    expected_rows,
    rows_of,
    run_squares,
    start_program,
)
from tests.spark_jobs.batch.squares import Numbers, Squares, squares_plan
from tests.spark_jobs.batch.squares_program import CHUNKS, HELD

TIMEOUT_S = 300.0
ON_SPARK = pytest.param(Engine.SPARK, marks=[pytest.mark.spark, pytest.mark.long])


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of one process that nothing happened to."""
    directory = tmp_path_factory.mktemp("one") / "output"
    run_squares(squares_plan(CHUNKS), directory, cores=1)
    return directory


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    """Spark is the common session."""
    chosen: Engine = request.param
    if chosen is Engine.SPARK:
        request.getfixturevalue("chunks_on_this_spark")
    return chosen


def test_should_give_rows_and_rejects_in_order_and_compute_times_apart(one_process: Path, tmp_path: Path) -> None:
    outcome = run_squares(squares_plan(CHUNKS), tmp_path, cores=2)
    assert (outcome.rows, outcome.rejects, outcome.chunks_found_done) == (102, 18, 0)
    assert rows_of(outcome) == expected_rows(120)
    assert [json.loads(line) for line in outcome.rejects_file.read_text().splitlines()] == [
        {"where": f"numbers:{n}", "kind": "unusable", "reason": "a multiple of seven", "line": str(n)}
        for n in range(0, 120, 7)
    ]
    timings = pq.read_table(known(outcome.timings_file)).to_pydict()
    assert list(timings) == ["number", "compute_ms"]
    assert timings["number"] == [row["number"] for row in expected_rows(120)]
    assert contents(tmp_path) == contents(one_process)
    names = {"plan.json", "squares.parquet", "rejects.jsonl", "timings.parquet", ".lock"}
    assert set(os.listdir(tmp_path)) == names


@pytest.mark.parametrize("engine", [pytest.param(Engine.LOCAL, marks=pytest.mark.long), ON_SPARK], indirect=True)
def test_should_lose_no_row_when_a_process_is_killed(engine: Engine, one_process: Path, tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks")
    plan = squares_plan(CHUNKS, work=Squares(str(marks.directory), held=frozenset({HELD})))
    started = beside(lambda: run_squares(plan, tmp_path / "output", engine=engine, master="local[2]"))
    worker, jvm = marks.wait_for(HELD)
    os.kill(jvm or worker, signal.SIGKILL)
    marks.wait_for(HELD, but_not=worker)
    marks.let_go()
    outcome = started.result(TIMEOUT_S)
    assert (outcome.rows, outcome.rejects) == (102, 18)
    assert contents(tmp_path / "output") == contents(one_process)


@pytest.mark.parametrize("engine", [Engine.LOCAL, ON_SPARK], indirect=True)
def test_should_finish_the_others_when_chunks_raise_or_kill(engine: Engine, one_process: Path, tmp_path: Path) -> None:
    bad = Squares(raising=frozenset({2}), killing=frozenset({7}))
    with pytest.raises(ChunksFailed) as failed:
        run_squares(squares_plan(CHUNKS, work=bad), tmp_path, engine=engine, master="local[2]")
    first, *lines = str(failed.value).splitlines()
    assert first.startswith(
        "2 of 12 chunks failed; 86 rows of the others are kept, and the same command retries the rest"
    )
    assert lines == [
        "chunk 2, Numbers(number=2, first=20, lines=10): ValueError: no squares for chunk 2",
        "chunk 7, Numbers(number=7, first=70, lines=10): its process died 3 times",
    ]
    talk = io.StringIO()
    outcome = run_squares(squares_plan(CHUNKS), tmp_path, talk=talk)  # the engines go on with each other's
    assert (outcome.chunks_found_done, outcome.rows_found_done) == (10, 86)
    assert "continuing: 86 rows of 10 of 12 chunks are done" in talk.getvalue()
    assert contents(tmp_path) == contents(one_process)


@pytest.mark.long
@pytest.mark.parametrize("engine", [Engine.LOCAL, pytest.param(Engine.SPARK, marks=pytest.mark.spark)])
def test_should_keep_parts_and_say_how_to_go_on_when_stopped(engine: Engine, one_process: Path, tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks")
    program = start_program(tmp_path / "output", marks.directory, engine)
    worker, jvm = marks.wait_for(HELD)
    assert program.interrupt() == 1  # also the workers, as a terminal does
    last = program.log.splitlines()[-1]
    assert last == "squares: interrupted: 42 rows are kept; run the same command again to continue"
    assert "Traceback" not in program.log
    wait_until_gone([worker, jvm] if jvm else [worker], TIMEOUT_S)
    assert run_squares(squares_plan(CHUNKS), tmp_path / "output").chunks_found_done == HELD
    assert contents(tmp_path / "output") == contents(one_process)


class Unreadable(Squares):
    def __reduce__(self) -> tuple[object, ...]:
        return int, ("not a number",)


def test_should_say_why_when_no_process_can_read_the_work(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match=r"^a worker process failed: ValueError: invalid literal for int"):
        run_squares(squares_plan(2, work=Unreadable()), tmp_path)


def test_should_say_so_when_the_driver_sees_no_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(job: Job[Numbers], spans: list[list[Numbers]], processes: int) -> LocalProcesses:
        return LocalProcesses(replace(job, parts=str(tmp_path / "on another machine")), spans, processes)

    monkeypatch.setattr(running, "LocalProcesses", elsewhere)
    with pytest.raises(
        PartsNotSeen, match=r"3 of 3 chunks .* put the output directory on storage that the driver and all executors"
    ):
        run_squares(squares_plan(3), tmp_path / "output")


def test_should_stop_when_everything_fails(tmp_path: Path) -> None:
    bad = Squares(raising=frozenset(range(200)))
    with pytest.raises(ChunksFailed, match=r"chunks failed and \d+ were not tried; 0 rows[\s\S]*\.\.\. and \d+ more"):
        run_squares(squares_plan(200, work=bad), tmp_path)


@pytest.mark.long
def test_should_go_on_when_the_driver_was_killed(one_process: Path, tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks")
    program = start_program(tmp_path / "output", marks.directory, Engine.LOCAL)
    worker, _ = marks.wait_for(HELD)
    program.process.kill()
    program.process.wait(TIMEOUT_S)
    wait_until_gone([worker], TIMEOUT_S)
    outcome = run_squares(squares_plan(CHUNKS), tmp_path / "output")
    assert (outcome.chunks_found_done, outcome.rows) == (HELD, 102)
    assert contents(tmp_path / "output") == contents(one_process)


@pytest.mark.parametrize(
    "master,cores",
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,4]", 3),
        ("local[*]", os.cpu_count()),
        ("local-cluster[2,3,1024]", 6),
        ("spark://host:7077", None),
    ],
)
def test_should_know_the_cores_of_a_master_that_says_so(master: str, cores: int | None) -> None:
    assert cores_of_master(master) == cores
