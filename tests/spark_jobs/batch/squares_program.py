"""A program that runs squares and holds its chunk 5, so that a test can kill or interrupt it."""

import signal
import sys
from pathlib import Path

from rich.console import Console

from spark_engine.batch import Engine, EngineChoice
from spark_engine.batch.running import run_plan
from tests.spark_jobs.batch.squares import Squares, squares_plan

CHUNKS = 12
HELD = 5


def main(directory: str, marks: str, engine: str) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background inherits it as ignored
    plan = squares_plan(CHUNKS, work=Squares(marks=marks, held=frozenset({HELD})))
    console = Console(stderr=True)
    try:
        choice = EngineChoice(Engine(engine), "local[1]", cores=1)
        run_plan(plan, Path(directory), choice, console=console, title="squares")
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
