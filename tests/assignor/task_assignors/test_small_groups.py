"""The rules of task assignors, one small group each: the cases are in `small_groups/`, one file for each assignor.

`clients`: numbered from 1, which is also their order; `running`: the tasks with the lag of a running task; `lags`: the
lags of other tasks (all others: 100,000); `active` and `standby`: the previous tasks. `held`: the copies of each client
after the rebalance, `*` for any tasks. `decisions`: all decisions about a task, in order; `...` stands for any others.
"""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import ClientPlacement, PlacementClient
from assignor.task_assignors.decisions import Decision, DecisionLog
from assignor.task_assignors.registry import task_assignor_named
from assignor.types import LATEST_OFFSET
from tests.assignor.task_assignors.high_availability_cases import client, problem, tasks

CASES = [
    pytest.param(path.stem, case, id=f"{path.stem} {name}")
    for path in sorted((Path(__file__).parent / "small_groups").glob("*.toml"))
    for name, case in tomllib.loads(path.read_text(encoding="utf-8")).items()
]


def client_of(number: int, case: dict[str, Any]) -> PlacementClient:
    lags = dict.fromkeys(case.get("running", "").split(), LATEST_OFFSET) | case.get("lags", {})
    active, standby = (frozenset(tasks(case.get(name, ""))) for name in ("active", "standby"))
    made = client(number, lags, case.get("threads", 1), case.get("tags"))
    return replace(made, previous_active=active, previous_standby=standby)


def held_by(placed: ClientPlacement) -> str:
    copies = {"": placed.active, "standby ": placed.standby - placed.warm_ups, "warm-up ": placed.warm_ups}
    return "; ".join(f"{role}{' '.join(map(str, sorted(held)))}" for role, held in copies.items() if held)


def text_of(step: Decision) -> str:
    process, other = step.process, step.other
    where = "" if process is None else f" on {process.low}"
    more = {"other": other and other.low, "consumer": step.consumer, "detail": step.detail}
    rest = "".join(f", {name} {value}" for name, value in more.items() if value is not None)
    return f"{step.kind} {step.role}{where}{rest}"


def pattern(text: str) -> str:
    return re.escape(text).replace(r"\*", ".+").replace(re.escape("..."), "(.+\n)*.*").replace("\\\n", "\n")


@pytest.mark.parametrize(("assignor", "case"), CASES)
def test_should_place_as_described(assignor: str, case: dict[str, Any]) -> None:
    configs = AssignmentConfigs.from_dotted(case.get("configs", {}))
    clients = [client_of(number, each) for number, each in enumerate(case["clients"], start=1)]
    log = DecisionLog()
    placement = task_assignor_named(assignor).assign(
        problem(configs, clients, case["tasks"], case.get("stateless", "")), log
    )

    held = [held_by(placed) for _, placed in sorted(placement.clients.items())]
    assert re.fullmatch(pattern("\n".join(case["held"])), "\n".join(held)), held
    assert placement.probing_rebalance_needed == case.get("probing", placement.probing_rebalance_needed)
    for task, expected in case.get("decisions", {}).items():
        steps = [text_of(step) for step in log if str(step.task) == task]
        assert re.fullmatch(pattern("\n".join(expected)), "\n".join(steps)), steps
