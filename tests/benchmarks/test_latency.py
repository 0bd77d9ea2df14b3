"""What latency measures, against which goals, and what its last line says."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import readme_application as readme
from benchmarks.__main__ import main
from benchmarks.latency import running
from benchmarks.latency.measuring import Cell, Place, Run, application
from benchmarks.latency.results import Latency, latency_of, markdown, show, verdict
from streams_runtime.configs import StreamsConfig

AT_LEAST, EXACTLY = "at_least_once", "exactly_once_v2"


def latency(cell: Cell, high_ms: float) -> Latency:
    return Latency(cell, high_ms / 2, high_ms, 2 * high_ms, 0, cell.rate)


def test_should_have_a_goal_for_each_passage_through_a_task_unless_an_instance_is_killed() -> None:
    assert [Cell("embedded", AT_LEAST, hops, 100, killed=False).goal_ms for hops in (0, 1, 2)] == [50, 100, 150]
    assert [Cell("kafka", EXACTLY, hops, 100, killed=False).goal_ms for hops in (0, 1, 2)] == [120, 240, 360]
    assert Cell("kafka", EXACTLY, 1, 100, killed=True).goal_ms is None


def test_should_count_every_record_but_those_that_have_not_come() -> None:
    cell = Cell("embedded", AT_LEAST, 0, 100, killed=False)
    assert latency_of(cell, Run([number / 1_000 for number in range(1, 101)], 3, 99.5)) == Latency(
        cell, 50, 99, 100, 3, 99.5
    )
    assert latency_of(cell, Run([], 5, 99.5)).of_goal == float("inf")


def test_should_name_the_worst_against_its_goal_in_the_last_line() -> None:
    slow = latency(Cell("kafka", EXACTLY, 1, 10_000, killed=False), 300)
    worst = latency(Cell("embedded", AT_LEAST, 0, 50_000, killed=False), 75)
    killed = latency(Cell("embedded", AT_LEAST, 2, 100, killed=True), 5_000)
    good = latency(Cell("embedded", AT_LEAST, 2, 100, killed=False), 40)
    console = Console(file=io.StringIO(), width=160)
    show(console, [slow, worst, killed, good])

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[-1] == (
        "1 of 3 goals reached; worst: embedded, at_least_once, 0 hops, 50,000 records/s: "
        "99th 75 ms, 1.50 x its goal of 50 ms"
    )
    assert verdict([killed]) == "no cell without a kill was measured, and only those have a goal"


def test_should_write_the_tables_of_the_results_page() -> None:
    cells = [Cell("embedded", AT_LEAST, 0, rate, killed=False) for rate in (100, 10_000)]
    killed = Cell("kafka", EXACTLY, 2, 100, killed=True)
    shown = Cell("kafka", EXACTLY, 1, 100, killed=False, readme=True)

    assert markdown([*(latency(cell, 40) for cell in cells), latency(killed, 3_000), latency(shown, 200)]) == (
        "| log | guarantee | repartition topics | 100 records/s | 10,000 | goal of the 99th |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| embedded | `at_least_once` | 0 | 20 / 40 | 20 / 40 | 50 |\n\n"
        "| log | guarantee | repartition topics | 100 records/s |\n"
        "| --- | --- | --- | --- |\n"
        "| kafka | `exactly_once_v2` | 2 | 1,500 / 3,000 / 6,000 |\n\n"
        "kafka, README's application, 100 records/s: 100 / 200 ms\n\n"
        "3 of 3 goals reached; worst: kafka, README's application, 100 records/s: "
        "99th 200 ms, 0.83 x its goal of 240 ms\n"
    )


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


def test_should_measure_the_part_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[Cell], str | None, float]] = []

    def remember(cells: list[Cell], broker: str | None, seconds: float, _console: Console) -> list[Latency]:
        asked.append((cells, broker, seconds))
        return []

    monkeypatch.setattr(running, "measured", remember)
    main(["latency", "--log", "kafka", "--kafka", "broker:9092", "--rates", "100,200", "--hops", "1", "--seconds", "3"])
    main(["latency", "--readme", "--log", "embedded", "--kill", "no"])

    kafka = [
        Cell("kafka", guarantee, 1, rate, killed=killed)
        for guarantee in (AT_LEAST, EXACTLY)
        for rate in (100, 200)
        for killed in (False, True)
    ]
    assert asked == [
        (kafka, "broker:9092", 3.0),
        ([Cell("embedded", EXACTLY, 1, 100, killed=False, readme=True)], None, running.SECONDS),
    ]


@pytest.mark.long
def test_should_print_how_long_records_take() -> None:
    console = Console(file=io.StringIO(), width=160)
    running.run(console, quick=True)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "│ embedded │ at_least_once │    1 │       100 │" in text
    assert " goals reached; worst: embedded, at_least_once, 1 hop, 100 records/s: 99th " in text
