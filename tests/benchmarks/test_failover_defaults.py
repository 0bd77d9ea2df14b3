"""What failover-defaults measures, how it counts, and that it measures README's application."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import readme_application as readme
from benchmarks.failover_defaults import KAFKA_STREAMS, PARTS, PEER_WAYS, WAYS, HowOften, lives, slowest
from benchmarks.failover_results import DRAINED, KILLED_JVM, KILLED_WORKER, STOPPED, MeasuredEnd, MeasuredEnds, tables
from benchmarks.handovers import Handover
from benchmarks.readme_group import TASKS
from streams_runtime.application import load_application


def test_should_measure_the_application_of_the_readme_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{readme.MODULE}.py").write_text(readme.module_text("embedded:/elsewhere"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, readme.MODULE, raising=False)  # that of another test

    application = load_application(f"{readme.MODULE}:{readme.NAME}")

    assert application.id == readme.APPLICATION_ID
    assert application.configs.bootstrap_servers == "embedded:/elsewhere"
    assert application.configs.session_timeout_ms == 45_000
    assert application.configs.assignment == {"num.standby.replicas": 1}
    assert [bool(each.stores) for each in application.group_topology().subtopologies] == [False, True]


def test_should_run_the_commands_of_the_readme() -> None:
    command = readme.workers_command("http://coordinator", Path("state"), Path("ownership"))

    assert command[3:12] == [
        "workers", "run", "my_module:app", "--master", "local-cluster[3,1,1024]",
        "--instances", str(readme.INSTANCES), "--threads", str(readme.THREADS),
    ]  # fmt: skip
    assert readme.coordinator_settings("broker:9092") == {"cluster.bootstrap.servers": "broker:9092"}


def test_should_count_an_end_by_its_slowest_task() -> None:
    found = {"0_1": Handover(100, 20, 0, 10, 0), "1_1": Handover(100, 20, 30, 5, 7)}

    assert slowest("kafka", STOPPED, found) == MeasuredEnd("kafka", STOPPED, 155, "1_1", 100, 20, 30, 5, 7)


def test_should_measure_what_earlier_runs_left_out(tmp_path: Path) -> None:
    results = MeasuredEnds(tmp_path / "results.jsonl")
    plan = HowOften(PARTS["both"], ends=2, drains=1)
    for way in (KILLED_JVM, KILLED_WORKER, STOPPED, KILLED_JVM):
        results.add(MeasuredEnd("kafka", way, 100))

    assert results.missing("kafka", plan.times("kafka")) == [KILLED_WORKER, STOPPED, DRAINED]
    assert len(results.missing("embedded", plan.times("embedded"))) == 2 * len(WAYS) + 1
    assert HowOften(PARTS["all"], peer_ends=3).times(KAFKA_STREAMS) == dict.fromkeys(PEER_WAYS, 3)


def test_should_end_each_life_of_the_application_by_its_drain() -> None:
    ends = [KILLED_JVM, KILLED_WORKER, STOPPED, KILLED_JVM]

    assert lives([*ends, DRAINED, DRAINED]) == [
        [KILLED_JVM, STOPPED, DRAINED],
        [KILLED_WORKER, KILLED_JVM, DRAINED],
    ]
    assert lives(ends) == [ends]
    assert lives([DRAINED]) == [[DRAINED]]


def test_should_print_median_and_percentile_beside_the_goal() -> None:
    results = [
        MeasuredEnd("embedded", KILLED_WORKER, float(ms), "1_0", 200, ms - 230, 20, 10, 3) for ms in range(301, 321)
    ]
    results.append(MeasuredEnd("embedded", DRAINED, 250, spark_ended_ms=1_900))
    console = Console(file=io.StringIO(), width=160)

    for table in tables(results):
        console.print(table)

    assert isinstance(console.file, io.StringIO)
    printed = [[cell.strip() for cell in line.strip("│").split("│")] for line in console.file.getvalue().splitlines()]
    steps = ["200", "80", "20", "10"]
    assert [KILLED_WORKER, "20", *steps, "310", "319", "320", "500 / 1,000"] in printed
    assert [DRAINED, "1", "", "", "", "", "250", "250", "250", "- / 2,000"] in printed
    assert "1,900 ms (median)" in console.file.getvalue()


def test_should_know_how_many_tasks_the_application_has() -> None:
    assert len((readme.STATELESS, readme.STATEFUL)) * readme.PARTITIONS == TASKS
