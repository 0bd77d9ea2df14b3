"""What failover-defaults measures, how it counts, and that it measures README's application."""

import sys
from pathlib import Path

import pytest

from benchmarks import readme_application as readme
from benchmarks.failover_defaults import slowest
from benchmarks.failover_results import STOPPED, MeasuredEnd
from benchmarks.handovers import Handover
from streams_runtime.instance.application import load_application


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
