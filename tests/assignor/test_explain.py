"""Why every task is where it is."""

import json

import pytest

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.explain import (
    ActiveOutcome,
    ClientLag,
    Copy,
    Explanation,
    explain_placement,
    explain_rebalance,
    explanation_document,
)
from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceResult
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.types import LATEST_OFFSET, ProcessId, Role, TaskId
from tests.group_model import LOG_END, NOW_MS, SimulatedGroup, process_id, topology_of

A, B = process_id(1), process_id(2)
TASKS = [TaskId(0, number) for number in range(4)]
ON_A, ON_B = "app-1-StreamThread-1-consumer", "app-2-StreamThread-1-consumer"


def joined(max_warmup_replicas: int = 1) -> tuple[SimulatedGroup, RebalanceResult]:
    """Process A ran all four tasks, and B has just joined with empty disks."""
    topology, cluster = topology_of([4])
    group = SimulatedGroup(topology, cluster, AssignmentConfigs(max_warmup_replicas=max_warmup_replicas))
    group.add_process(1)
    first = assign(group.snapshot(), NOW_MS)
    assert {each.outcome for each in explain_rebalance(first)} == {ActiveOutcome.STARTED}
    group.receive(first.assignments)
    group.add_process(2)
    return group, assign(group.snapshot(), NOW_MS)


def of(result: RebalanceResult) -> dict[TaskId, Explanation]:
    return {explanation.task: explanation for explanation in explain_rebalance(result)}


def test_should_tell_kept_from_warming_up_from_waiting_for_a_warm_up() -> None:
    _, result = joined()
    explained = of(result)
    assert {task: each.outcome for task, each in explained.items()} == {
        TASKS[0]: ActiveOutcome.KEPT,
        TASKS[1]: ActiveOutcome.WARM_UP,
        TASKS[2]: ActiveOutcome.KEPT,
        TASKS[3]: ActiveOutcome.WARM_UP_BUDGET_SPENT,
    }
    warming = explained[TASKS[1]]
    assert warming.copies == (Copy(Role.ACTIVE, A, ON_A), Copy(Role.WARM_UP, B, ON_B))
    assert (warming.previous, warming.target) == ((A,), B)
    assert warming.caught_up == (ClientLag(A, LATEST_OFFSET),)
    assert [step.kind for step in warming.steps if step.consumer is None] == [
        DecisionKind.TARGET,
        DecisionKind.MOVED_TO_CAUGHT_UP,
        DecisionKind.WARM_UP,
    ]
    assert f"lag {LOG_END}" in warming.text


def test_should_tell_a_task_that_waits_for_revocation_and_then_one_that_moved() -> None:
    group, _ = joined(max_warmup_replicas=2)
    group.rebalance()
    group.restore_standbys()
    waiting = of(group.rebalance())[TASKS[1]]
    assert waiting.outcome is ActiveOutcome.WAITING_FOR_REVOCATION
    assert Copy(Role.ACTIVE, B, ON_B, held_back=True) in waiting.copies
    assert waiting.caught_up == (ClientLag(A, LATEST_OFFSET), ClientLag(B, 0))
    assert "not handed out yet" in waiting.text
    assert f"{ON_B} waits until {ON_A} gives it up" in waiting.text
    assert of(group.rebalance())[TASKS[1]].outcome is ActiveOutcome.STARTED, "A gave it up, so nobody had it running"
    assert group.owners()[TASKS[1]] == ON_B


def test_should_explain_one_task_as_it_does_among_all() -> None:
    _, result = joined()
    for task, explanation in of(result).items():
        assert list(explain_rebalance(result, task)) == [explanation]
    assert list(explain_rebalance(result, TaskId(9, 9))) == []


def test_should_explain_nothing_for_a_round_that_placed_no_task() -> None:
    assert list(explain_rebalance(RebalanceResult())) == []


def test_should_write_an_explanation_as_json() -> None:
    _, result = joined()
    written = json.loads(json.dumps(explanation_document(of(result)[TASKS[1]])))
    assert written["task"] == "0_1"
    assert written["outcome"] == "warm-up"
    assert written["copies"][1] == {"role": "warm-up", "process": str(B), "consumer": ON_B, "held_back": False}
    assert written["caught_up"] == [{"process": str(A), "lag": LATEST_OFFSET}]
    assert written["steps"][0] == {"kind": "target", "role": "active", "process": str(B)}


@pytest.mark.parametrize("kind", list(DecisionKind))
def test_should_have_words_for_every_kind_of_decision(kind: DecisionKind) -> None:
    lags = TaskLags({TASKS[0]: 5})
    clients = {each: PlacementClient(each, 1, lags) for each in (A, B)}
    problem = PlacementProblem(AssignmentConfigs(), (TASKS[0],), (TASKS[0],), clients)
    placement = Placement(False, {A: ClientPlacement(frozenset(TASKS[:1]), frozenset())})
    decision = Decision(kind, TASKS[0], Role.ACTIVE, A, B, "consumer", "another", 3)
    (explanation,) = explain_placement(problem, placement, [decision])
    words = explanation.text.partition(" – ")[2]
    assert words
    assert "None" not in words
    assert "{" not in words


def test_should_call_a_process_by_its_first_digits_only_where_that_is_enough() -> None:
    alike, other = ProcessId(1 << 32, 1), ProcessId(1 << 32, 2)
    unlike = ProcessId(5 << 32, 1)
    clients = {each: PlacementClient(each, 1, TaskLags({})) for each in (alike, other, unlike)}
    problem = PlacementProblem(AssignmentConfigs(), tuple(TASKS[:2]), (), clients)
    placement = Placement(
        False,
        {
            alike: ClientPlacement(frozenset([TASKS[0]]), frozenset()),
            unlike: ClientPlacement(frozenset([TASKS[1]]), frozenset()),
        },
    )
    texts = [explanation.text for explanation in explain_placement(problem, placement, [])]
    assert texts == [f"0_0 started: active on {alike}", "0_1 started: active on 00000005"]
