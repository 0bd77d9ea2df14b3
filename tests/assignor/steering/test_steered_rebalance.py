"""Steered rebalances through the whole pipeline, from subscriptions to the bytes that members get."""

from dataclasses import replace

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.explain import explain_rebalance
from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceResult, RebalanceSnapshot
from assignor.recording import parse_recorded_rebalance, rebalance_document, rebalance_output
from assignor.task_assignors.base import ClientPlacement
from assignor.task_assignors.decisions import DecisionKind
from assignor.task_assignors.steering import NO_STEERING, Steering
from assignor.types import TaskId
from rebalance_analysis.presentation.reasons import short_reason
from rebalance_analysis.rerun import RerunRebalance, run
from tests.group_model import NOW_MS, SimulatedGroup, process_id, topology_of
from tests.known import known

A, B, C = map(process_id, (1, 2, 3))
ASSIGNORS = (
    "HighAvailabilityTaskAssignor",
    "LegacyStickyTaskAssignor",
    "FallbackPriorTaskAssignor",
    "MinimalMovementTaskAssignor",
)


def settled(
    processes: int, stateful: int, stateless: int = 0, threads: int = 1, assignor: str = ASSIGNORS[0], **configs: int
) -> SimulatedGroup:
    """A group that has come to rest, with all its standbys caught up."""
    topology, cluster = topology_of([stateful], [stateless] if stateless else [])
    group = SimulatedGroup(topology, cluster, AssignmentConfigs(**configs), assignor)  # type: ignore[arg-type]
    for number in range(1, processes + 1):
        group.add_process(number, threads)
    for _ in range(12):
        group.rebalance()
        group.restore_standbys()
    return group


def steered(group: SimulatedGroup, steering: Steering) -> tuple[RebalanceSnapshot, RebalanceResult]:
    snapshot = replace(group.snapshot(), steering=steering)
    return snapshot, assign(snapshot, NOW_MS)


def rounds_until_empty(group: SimulatedGroup, steering: Steering, of: str, at_most: int = 60) -> int:
    """Rebalances until the member `of` has nothing; the group asserts in each that nothing is owned twice."""
    thread = next(process.threads[of] for process in group.processes.values() if of in process.threads)
    for number in range(at_most):
        _, result = steered(group, steering)
        assert result.error is None
        group.receive(result.assignments)
        if result.followup_rebalance:
            continue
        if not thread.owned and not thread.standby:
            return number
        group.restore_standbys()
    raise AssertionError(f"{of} still has tasks after {at_most} rebalances")


def test_should_keep_tasks_on_a_drained_instance_until_their_next_owner_has_caught_up() -> None:
    group = settled(2, stateful=4, max_warmup_replicas=1)
    _, result = steered(group, Steering(frozenset({B})))
    clients = known(result.placement).clients
    assert clients[B] == ClientPlacement(frozenset({TaskId(0, 1), TaskId(0, 3)}), frozenset())
    assert clients[A].warm_ups == {TaskId(0, 1)}
    assert result.probing_rebalance_at_ms is not None
    texts = {each.task: each.text for each in explain_rebalance(result)}
    assert "is drained, and runs it until" in texts[TaskId(0, 1)]
    assert "warms up meanwhile" in texts[TaskId(0, 1)]
    assert "max.warmup.replicas is used up" in texts[TaskId(0, 3)]


def test_should_give_a_drained_thread_nothing_and_its_tasks_to_the_other_threads() -> None:
    group = settled(2, stateful=8, threads=2)
    drained = "app-1-StreamThread-2-consumer"
    before = {task for task, owner in group.owners().items() if owner.startswith("app-1-")}
    rounds_until_empty(group, Steering(drained_members=frozenset({drained})), drained)
    for _ in range(20):
        _, result = steered(group, Steering(drained_members=frozenset({drained})))
        group.receive(result.assignments)
        group.restore_standbys()
        if not result.followup_rebalance and result.probing_rebalance_at_ms is None:
            break
    owners = group.owners()
    left = {task for task, owner in owners.items() if owner.startswith("app-1-")}
    assert len(owners) == 8
    assert len(left) in (2, 3)
    assert left < before


def test_should_drain_a_process_all_of_whose_threads_are_drained() -> None:
    group = settled(2, stateful=4, threads=2)
    members = frozenset(f"app-2-StreamThread-{number}-consumer" for number in (1, 2))
    assert steered(group, Steering(drained_members=members))[1].assignments == (
        steered(group, Steering(frozenset({B})))[1].assignments
    )


def test_should_drain_nobody_when_everybody_is_drained_and_say_so() -> None:
    group = settled(2, stateful=4)
    _, result = steered(group, Steering(frozenset({A}), frozenset({"app-2-StreamThread-1-consumer"})))
    assert result.assignments == assign(group.snapshot(), NOW_MS).assignments
    kinds = [step.kind for step in result.decisions]
    assert kinds.count(DecisionKind.DRAIN_SET_ASIDE) == 4
    assert "every instance is drained" in next(explain_rebalance(result)).text


def test_should_keep_what_runs_and_place_only_what_nobody_runs() -> None:
    group = settled(3, stateful=6, stateless=3, num_standby_replicas=1)
    group.add_process(4)
    group.remove_process(A)
    owned = group.owners()
    _, result = steered(group, Steering(keeps_owned=True))
    clients = known(result.placement).clients
    owners = {task: process for process, client in clients.items() for task in client.active}
    assert len(owners) == 9
    assert {task: owners[task] for task in owned} == {
        task: process_id(int(name.split("-")[1])) for task, name in owned.items()
    }
    assert result.probing_rebalance_at_ms is None
    kept = {step.task for step in result.decisions if step.kind is DecisionKind.KEPT_OWNED}
    assert kept == set(owned)
    had = {process: client.previous_standby for process, client in known(result.problem).clients.items()}
    assert any(had.values())
    assert {process: client.standby for process, client in clients.items()} == {
        process: tasks - clients[process].active for process, tasks in had.items()
    }


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_should_give_the_tasks_of_a_dead_instance_to_those_who_are_there(assignor: str) -> None:
    group = settled(3, stateful=6, stateless=3, assignor=assignor, num_standby_replicas=1)
    group.remove_process(A)
    had = {task for task, owner in group.owners().items() if owner.startswith("app-2-")}

    plain = known(steered(group, NO_STEERING)[1].placement).clients
    result = steered(group, Steering(away_processes=frozenset({B})))[1]

    clients = known(result.placement).clients
    new = plain[B].active - had
    assert new, "as a static member of Kafka"
    assert clients[B].active == had
    assert clients[C].active == (plain[B].active | plain[C].active) - had
    passed_over = {step.task for step in result.decisions if step.kind is DecisionKind.AWAY_PASSED_OVER}
    assert passed_over == new
    for each in explain_rebalance(result):
        if each.task in passed_over:
            assert "is away and gets nothing new: active" in each.text
            short = known(short_reason(each, known(result.problem), str))
            assert short.template.endswith(f"runs it, because {B} is away")


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_should_drain_an_instance_past_one_that_is_away(assignor: str) -> None:
    """What A runs goes to C: B gets nothing new, and gives nothing up. A is empty once that has been restored."""
    group = settled(3, stateful=6, stateless=3, assignor=assignor)
    had = {task for task, owner in group.owners().items() if owner.startswith("app-2-")}
    steering = Steering(frozenset({A}), away_processes=frozenset({B}))

    for _ in range(12):
        result = steered(group, steering)[1]
        assert known(result.placement).clients[B].active == had
        group.receive(result.assignments)
        group.restore_standbys()

    clients = known(result.placement).clients
    assert (len(clients[A].active), len(clients[C].active)) == (0, 9 - len(had))


def test_should_leave_an_instance_that_is_away_what_it_had_when_another_one_joins() -> None:
    group = settled(2, stateful=6, num_standby_replicas=1)
    had = {task for task, owner in group.owners().items() if owner.startswith("app-2-")}
    group.add_process(3, 1)
    kept = set()

    for _ in range(6):
        result = steered(group, Steering(away_processes=frozenset({B})))[1]
        assert known(result.placement).clients[B].active == had
        kept |= {step.task for step in result.decisions if step.kind is DecisionKind.AWAY_KEEPS}
        group.receive(result.assignments)
        group.restore_standbys()

    assert kept, "C has caught up on some of them"
    for each in explain_rebalance(result):
        if each.task in kept & {step.task for step in result.decisions if step.kind is DecisionKind.AWAY_KEEPS}:
            assert "is away, and what it had waits for it" in each.text
            short = known(short_reason(each, known(result.problem), str))
            assert short.template.endswith(f"but it waits for {B}, which is away")


def test_should_record_and_replay_a_steered_rebalance_to_the_same_bytes() -> None:
    group = settled(3, stateful=6)
    steering = Steering(frozenset({B}), frozenset({"app-1-StreamThread-1-consumer"}), True, frozenset({C}))
    snapshot, result = steered(group, steering)
    line = rebalance_document(
        id="g-1", group_id="g", generation_id=1, now_ms=NOW_MS, source="coordinator", snapshot=snapshot, result=result
    )
    assert line["input"]["steering"] == {  # type: ignore[index]
        "drained_processes": [str(B)],
        "drained_members": ["app-1-StreamThread-1-consumer"],
        "keeps_owned": True,
        "away_processes": [str(C)],
    }
    assert parse_recorded_rebalance(line).snapshot == snapshot
    again = run(line)
    assert isinstance(again, RerunRebalance)
    assert again.output() == rebalance_output(result)
    assert not known(again.comparison()).differences


def test_should_leave_steering_out_of_a_recording_without_any() -> None:
    snapshot = settled(1, stateful=1).snapshot()
    line = rebalance_document(
        id="g-1", group_id="g", generation_id=1, now_ms=NOW_MS, source="coordinator", snapshot=snapshot
    )
    assert "steering" not in line["input"]  # type: ignore[operator]
    assert parse_recorded_rebalance(line).snapshot.steering == NO_STEERING


def test_should_name_the_field_of_steering_that_cannot_be_read() -> None:
    line = rebalance_document(
        id="g-1",
        group_id="g",
        generation_id=1,
        now_ms=NOW_MS,
        source="coordinator",
        snapshot=replace(settled(1, stateful=1).snapshot(), steering=Steering(frozenset({B}))),
    )
    line["input"]["steering"]["drained_processes"] = ["B"]  # type: ignore[index]
    with pytest.raises(InputError, match=r"steering\.drained_processes\[0\]"):
        parse_recorded_rebalance(line)
