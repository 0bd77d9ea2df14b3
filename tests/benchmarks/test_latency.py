"""What latency measures, against which goals, and what its last line says."""

import sys
from pathlib import Path

import pytest

from benchmarks import readme_application as readme
from benchmarks.latency import running
from benchmarks.latency.measuring import Cell, Place, Run, application
from benchmarks.latency.results import Latency, latency_of
from streams_runtime.configs import StreamsConfig
from tests.benchmarks.printing import printed_by

AT_LEAST, EXACTLY = "at_least_once", "exactly_once_v2"


def latency(cell: Cell, high_ms: float) -> Latency:
    return Latency(cell, high_ms / 2, high_ms, 2 * high_ms, 0, cell.rate)


def test_should_count_every_record_but_those_that_have_not_come() -> None:
    cell = Cell("embedded", AT_LEAST, 0, 100, killed=False)
    assert latency_of(cell, Run([number / 1_000 for number in range(1, 101)], 3, 99.5)) == Latency(
        cell, 50, 99, 100, 3, 99.5
    )
    assert latency_of(cell, Run([], 5, 99.5)).of_goal == float("inf")


def test_should_measure_applications_with_the_default_configs_and_the_one_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place("embedded:/a/log", "http://coordinator", "latency-0", tmp_path)
    made = application(Cell("embedded", EXACTLY, 2, 100, killed=False), place)
    chosen = {"application.id": "latency-0", "bootstrap.servers": "embedded:/a/log", "processing.guarantee": EXACTLY}
    assert made.configs == StreamsConfig.from_dotted({**chosen, "state.dir": made.configs.state_dir})
    assert len(made.group_topology().subtopologies) == 3

    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, readme.MODULE, raising=False)  # that of another test
    (tmp_path / f"{readme.MODULE}.py").write_text(readme.module_text("embedded:/a/log"), encoding="utf-8")
    shown = application(Cell("embedded", EXACTLY, 1, 100, killed=False, readme=True), place)
    assert (shown.id, shown.configs.num_stream_threads) == (readme.APPLICATION_ID, readme.THREADS)
    assert shown.configs.bootstrap_servers == "embedded:/a/log"


@pytest.mark.long
def test_should_print_how_long_records_take() -> None:
    text = printed_by(lambda console: running.run(console, quick=True))
    assert "│ embedded │ at_least_once │    1 │       100 │" in text
    assert " goals reached; worst: embedded, at_least_once, 1 hop, 100 records/s: 99th " in text
