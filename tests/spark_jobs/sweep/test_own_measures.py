"""Measures that a user adds to a sweep: what they see, and what is said of one that is wrong."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from assignor.assignment import ApplicationState
from assignor.errors import InputError
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.legacy_sticky import LegacyStickyTaskAssignor
from assignor.types import ProcessId, TaskId
from rebalance_analysis.sweep.own_measures import OwnMeasures
from tests.assignor.task_assignors.test_sticky import client, problem

HERE = "tests.spark_jobs.sweep.test_own_measures"
NUMBER = 3

Active = Mapping[ProcessId, frozenset[TaskId]]


def moves(application_state: ApplicationState, active: Active) -> int:
    clients = application_state.kafka_streams_states()
    return sum(len(tasks - set(clients[process].previous_active_tasks)) for process, tasks in active.items())


def processes(application_state: ApplicationState, active: Active) -> float:
    return float(len(active))


def raises(application_state: ApplicationState, active: Active) -> float:
    raise KeyError("disk")


def says_text(application_state: ApplicationState, active: Active) -> str:
    return "much"


def measured(*names: str) -> tuple[float, ...]:
    asked = problem("0_0 0_1", client(1, "0_0 0_1"), client(2))
    own = OwnMeasures(tuple(f"{HERE}:{name}" for name in names))
    own.check()
    return own(asked, LegacyStickyTaskAssignor().assign(asked, DecisionLog()))


def test_should_measure_where_tasks_were_and_where_they_are() -> None:
    assert measured("moves", "processes") == (1.0, 2.0)


def test_should_find_a_module_where_the_command_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    (tmp_path / "only_here_measured.py").write_text("def nothing(state, active):\n    return 0\n")
    OwnMeasures(("only_here_measured:nothing",), str(tmp_path)).check()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "module .* has no 'missing'"),
        ("NUMBER", "is not a function"),
        ("raises", "raised KeyError: 'disk'"),
        ("says_text", "returned str instead of a number"),
    ],
)
def test_should_say_what_is_wrong_with_a_measure(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measured(name)


@pytest.mark.parametrize("names", [("no_such_module:f",), ("busiest",), ("",)])
def test_should_refuse_a_name_that_leads_nowhere(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"there is no module|importing '' failed"):
        OwnMeasures(names).check()


def test_should_refuse_a_measure_that_is_named_twice() -> None:
    with pytest.raises(InputError, match="twice"):
        measured("moves", "moves")
