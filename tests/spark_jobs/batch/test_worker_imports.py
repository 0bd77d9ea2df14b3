"""What a process loads that runs chunks."""

import subprocess
import sys

import pytest

from tests.checkout import ROOT

OF_WORKERS = (
    "rebalance_analysis.reading.lines",
    "spark_engine.batch.worker",
    "rebalance_analysis.recordings.chunk",
    "rebalance_analysis.replay.replay_work",
    "rebalance_analysis.sweep.sweep_work",
)
WITH_ENGINES = (*OF_WORKERS, "spark_engine.batch.local_engine", "spark_engine.batch.spark_engine")
COMMAND_LINE = ("typer", "click", "rich", "assignor_cli.app")


@pytest.mark.parametrize("modules", [OF_WORKERS, WITH_ENGINES], ids=["work", "engines"])
def test_should_load_no_command_line_where_chunks_are_run(modules: tuple[str, ...]) -> None:
    code = f"import sys, {', '.join(modules)}; print([name for name in {COMMAND_LINE!r} if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert loaded == "[]\n"
