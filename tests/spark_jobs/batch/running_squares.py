"""Runs of the squares: in this process, beside the test, or as a program of its own."""

import io
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from spark_engine.batch import Engine, EngineChoice
from spark_engine.batch.running import run_plan
from spark_engine.batch.work import Plan, RunOutcome
from tests.running_program import RunningProgram
from tests.spark_jobs.batch.squares import REJECTED_EVERY, Numbers
from tests.waiting import wait_until

TIMEOUT_S = 300.0
FILES = ("squares.parquet", "rejects.jsonl")


def run_squares(
    plan: Plan[Numbers],
    directory: Path,
    *,
    engine: Engine = Engine.LOCAL,
    master: str = "",
    cores: int = 2,
    restart: bool = False,
    talk: io.StringIO | None = None,
) -> RunOutcome:
    console = Console(file=talk or io.StringIO(), width=200)
    return run_plan(plan, directory, EngineChoice(engine, master, cores, restart), console=console, title="squares")


def beside(run: Callable[[], RunOutcome]) -> Future[RunOutcome]:
    """Started in a thread."""
    pool = ThreadPoolExecutor(1)
    started = pool.submit(run)
    pool.shutdown(wait=False)
    return started


class Marks:
    """What held chunks leave: who has got to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def wait_for(self, number: int, but_not: int = 0) -> tuple[int, int]:
        """The process that has come to this chunk, and its executor's JVM (0 without one). `but_not`: a process."""

        def came() -> list[tuple[int, int]]:
            marks = [tuple(map(int, name.split("-"))) for name in os.listdir(self.directory) if name.count("-") == 2]
            return [(pid, jvm) for marked, pid, jvm in marks if marked == number and pid != but_not]

        return wait_until(came, f"a process at chunk {number}", TIMEOUT_S)[0]

    def let_go(self) -> None:
        (self.directory / "go").touch()


def start_program(directory: Path, marks: Path, engine: Engine) -> RunningProgram:
    """`squares_program` in a process group of its own, as a shell starts it."""
    command = [sys.executable, "-m", "tests.spark_jobs.batch.squares_program", str(directory), str(marks), engine]
    return RunningProgram(command, marks.parent / "stderr", own_session=True)


def contents(directory: Path) -> list[bytes]:
    return [(directory / name).read_bytes() for name in FILES]


def expected_rows(count: int) -> list[dict[str, object]]:
    numbers = [number for number in range(count) if number % REJECTED_EVERY]
    return [{"number": number, "square": number**2, "name": f"n{number % 10}"} for number in numbers]


def rows_of(outcome: RunOutcome) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pa.Table.from_batches(outcome.batches()).to_pylist()
    return rows
