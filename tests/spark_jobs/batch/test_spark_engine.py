"""The same work on Spark executors, and what may happen to them."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path

import pytest

from spark_engine.batch import Engine
from spark_engine.batch.running import ChunksFailed
from spark_engine.batch.spark_engine import cores_of_master
from tests.processes import wait_until_gone
from tests.spark_jobs.batch.running_squares import (
    Marks,
    beside,
    contents,
    run_squares,
    start_program,
)
from tests.spark_jobs.batch.squares import Squares, squares_plan
from tests.spark_jobs.batch.squares_program import CHUNKS, HELD

TIMEOUT_S = 300.0


@pytest.fixture
def plain(chunks_in_this_process: None, tmp_path: Path) -> Path:
    """The result of no engine but the work itself."""
    run_squares(squares_plan(CHUNKS), tmp_path / "plain")
    return tmp_path / "plain"


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.usefixtures("chunks_on_this_spark")
def test_should_lose_no_row_when_an_executor_is_killed(plain: Path, tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks")
    plan = squares_plan(CHUNKS, work=Squares(str(marks.directory), held=frozenset({1, HELD})))
    talk = io.StringIO()
    running = beside(
        lambda: run_squares(plan, tmp_path / "output", engine=Engine.SPARK, master="the common one", talk=talk)
    )
    victims = {number: marks.wait_for(number) for number in (1, HELD)}
    (jvm,) = {jvm for _, jvm in victims.values()}
    os.kill(jvm, signal.SIGKILL)
    for number, (pid, _) in victims.items():
        marks.wait_for(number, but_not=pid)
    marks.let_go()
    outcome = running.result(TIMEOUT_S)
    assert (outcome.rows, outcome.rejects, outcome.chunks) == (102, 18, CHUNKS)
    assert contents(tmp_path / "output") == contents(plain)
    assert talk.getvalue().startswith("squares: starting Spark on the common one\n")


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.usefixtures("chunks_on_this_spark")
def test_should_finish_the_others_when_chunks_raise_or_kill_their_process(plain: Path, tmp_path: Path) -> None:
    bad, output = Squares(raising=frozenset({2}), killing=frozenset({7})), tmp_path / "output"
    with pytest.raises(ChunksFailed) as failed:
        run_squares(squares_plan(CHUNKS, work=bad), output, engine=Engine.SPARK, master="local[2]")
    assert str(failed.value).splitlines()[1:] == [
        "chunk 2, Numbers(number=2, first=20, lines=10): ValueError: no squares for chunk 2",
        "chunk 7, Numbers(number=7, first=70, lines=10): its process died 3 times",
    ]
    outcome = run_squares(squares_plan(CHUNKS), output)  # the engines go on with each other's
    assert (outcome.chunks_found_done, outcome.rows) == (10, 102)
    assert contents(output) == contents(plain)


@pytest.mark.spark
@pytest.mark.long
def test_should_end_spark_and_keep_parts_when_it_is_interrupted(plain: Path, tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks")
    program = start_program(tmp_path / "output", marks.directory, Engine.SPARK)
    worker, jvm = marks.wait_for(HELD)
    os.killpg(program.pid, signal.SIGINT)
    _, talk = program.communicate(timeout=TIMEOUT_S)
    assert program.returncode == 1
    assert talk.splitlines()[-1] == "squares: interrupted: 42 rows are kept; run the same command again to continue"
    wait_until_gone([worker, jvm], TIMEOUT_S)
    assert run_squares(squares_plan(CHUNKS), tmp_path / "output").chunks_found_done == HELD
    assert contents(tmp_path / "output") == contents(plain)


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
