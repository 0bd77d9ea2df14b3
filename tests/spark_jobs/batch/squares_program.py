"""A program that runs squares until its chunk 5 is held: to be killed, or interrupted."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from spark_jobs.batch.engine import Engine
from spark_jobs.batch.running import run_plan
from tests.spark_jobs.batch.squares import Squares, squares_plan

CHUNKS = 12
HELD = 5


def main(directory: str, marks: str, engine: str) -> int:
    plan = squares_plan(CHUNKS, work=Squares(marks=marks, held=frozenset({HELD})))
    console = Console(stderr=True)
    try:
        run_plan(
            plan, Path(directory), engine=Engine(engine), master="local[1]", cores=1, console=console, title="squares"
        )
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
