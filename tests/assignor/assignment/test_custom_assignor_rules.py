"""What the pipeline does with the answer of an assignor of the public interface: Kafka's rules (KIP-924)."""

from dataclasses import replace

import pytest

from assignor.assignment import (
    AssignedTask,
    AssignmentError,
    CustomTaskAssignor,
    KafkaStreamsAssignment,
    StickyTaskAssignor,
    TaskAssignment,
)
from assignor.assignment.application_state import ApplicationState
from assignor.errors import InputError, StreamsError
from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceResult, RebalanceSnapshot
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.recording import parse_rebalance
from assignor.task_assignors.registry import task_assignor_named
from assignor.task_assignors.steering import Steering
from assignor.types import JAVA_LONG_MAX, ProcessId, TaskId
from rebalance_analysis.rerun import run
from tests.assignor.assignment import own_custom_assignors as own
from tests.assignor.assignment.own_custom_assignors import Change, Changed
from tests.recorded import document

NOW_MS = 1_000_000
OWN = "tests.assignor.assignment.own_custom_assignors"


@pytest.fixture(scope="module")
def snapshot() -> RebalanceSnapshot:
    """Two clients of two threads each, and tasks with and without state."""
    return parse_rebalance(document("recordings/smoke.jsonl.gz", "smoke.4"))


def decided(snapshot: RebalanceSnapshot, assignor: CustomTaskAssignor) -> RebalanceResult:
    return assign(snapshot, NOW_MS, assignor.in_pipeline("own:Own"))


def next_rebalances_ms(result: RebalanceResult) -> dict[str, int]:
    decoded = {name: decode_assignment(raw).user_data or b"" for name, raw in result.assignments.items()}
    return {name: decode_assignment_info(raw).next_rebalance_ms for name, raw in decoded.items()}


def active_twice(answer: list[KafkaStreamsAssignment], state: ApplicationState) -> None:
    answer[1].assign_task(AssignedTask.active(next(iter(answer[0].tasks))))


def unknown_task(answer: list[KafkaStreamsAssignment], state: ApplicationState) -> None:
    answer[0].assign_task(AssignedTask.standby(own.NO_TASK))


def standby_of_a_stateless_task(answer: list[KafkaStreamsAssignment], state: ApplicationState) -> None:
    stateless = next(task.id for task in state.all_tasks.values() if not task.is_stateful)
    answer[1].assign_task(AssignedTask.standby(stateless))


def missing_process(answer: list[KafkaStreamsAssignment], state: ApplicationState) -> None:
    answer.pop()


def unknown_process(answer: list[KafkaStreamsAssignment], state: ApplicationState) -> None:
    answer.append(KafkaStreamsAssignment(own.NOBODY))


@pytest.mark.parametrize(
    ("change", "error", "told_of_assignments"),
    [
        (active_twice, AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, True),
        (standby_of_a_stateless_task, AssignmentError.INVALID_STANDBY_TASK, True),
        (missing_process, AssignmentError.MISSING_PROCESS_ID, True),
        (unknown_process, AssignmentError.UNKNOWN_PROCESS_ID, False),
        (unknown_task, AssignmentError.UNKNOWN_TASK_ID, False),
    ],
)
def test_should_fail_with_kafkas_name_after_the_assignor_has_heard_of_it(
    stateless_too: RebalanceSnapshot, change: Change, error: AssignmentError, told_of_assignments: bool
) -> None:
    assignor = Changed(change)
    result = decided(stateless_too, assignor)
    assert isinstance(result.error, StreamsError)
    kind = "an error" if told_of_assignments else "a fatal error"
    assert str(result.error) == f"Task assignment with own:Own returned {kind}: {error}"
    members = len(stateless_too.members)
    assert assignor.heard == [(members if told_of_assignments else 0, members, error)]
    assert not result.assignments


@pytest.fixture(scope="module")
def stateless_too(snapshot: RebalanceSnapshot) -> RebalanceSnapshot:
    """The same group, whose stores of the last subtopology are gone."""
    *others, last = snapshot.topology.subtopologies
    topology = replace(snapshot.topology, subtopologies=(*others, replace(last, stores=())))
    return replace(snapshot, topology=topology)


def test_should_tell_the_assignor_that_all_is_well(snapshot: RebalanceSnapshot) -> None:
    assignor = Changed(lambda answer, state: None)
    assert decided(snapshot, assignor).error is None
    assert assignor.heard == [(len(snapshot.members), len(snapshot.members), AssignmentError.NONE)]


def _first_task(answer: list[KafkaStreamsAssignment]) -> AssignedTask:
    return next(iter(answer[0].tasks.values()))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("AnswersNonsense", f"{OWN}:AnswersNonsense returned dict instead of a TaskAssignment"),
        ("AnswersNonsenseWithin", "returned str instead of a KafkaStreamsAssignment in its TaskAssignment"),
        ("RaisesWhenItHears", "on_assignment_computed raised ZeroDivisionError: nobody to hear it"),
    ],
)
def test_should_name_the_class_when_it_answers_nonsense_or_raises(name: str, message: str) -> None:
    line = document("recordings/smoke.jsonl.gz", "smoke.4")
    line["input"]["assignor"] = f"{OWN}:{name}"
    with pytest.raises(InputError, match=message):
        run(line, task_assignor_named)


def test_should_refuse_a_class_without_assign() -> None:
    with pytest.raises(InputError, match="cannot be made without arguments: TypeError: Can't instantiate abstract"):
        task_assignor_named(f"{OWN}:HasNoAssign")


class TestFollowupDeadlines:
    def test_should_keep_the_first_itself_when_the_leader_is_out_of_process(self, snapshot: RebalanceSnapshot) -> None:
        outside = replace(snapshot, leader_process_id=None)
        result = decided(outside, _Deadlines({0: 7_000, 1: 5_000}))
        assert (result.probing_rebalance_at_ms, result.followup_rebalance) == (5_000, False)
        assert set(next_rebalances_ms(result).values()) == {JAVA_LONG_MAX}
        assert decided(outside, _Deadlines({1: 0})).followup_rebalance


class _Deadlines(CustomTaskAssignor):
    """Keeps what there was. `deadlines_ms`: by place among the sorted processes."""

    def __init__(self, deadlines_ms: dict[int, int]) -> None:
        self._deadlines_ms = deadlines_ms

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        answer = sorted(StickyTaskAssignor(True).assign(application_state).assignment, key=lambda each: each.process_id)
        plain = [KafkaStreamsAssignment(each.process_id, each.tasks.values()) for each in answer]
        for place, deadline_ms in self._deadlines_ms.items():
            plain[place] = plain[place].with_followup_rebalance(deadline_ms)
        return TaskAssignment(plain)


class TestSteering:
    def test_should_keep_its_own_check_and_deadlines_while_an_instance_is_away(
        self, snapshot: RebalanceSnapshot
    ) -> None:
        first = _processes(snapshot)[0]
        result = decided(
            replace(snapshot, steering=Steering(away_processes=frozenset({first}))), _Deadlines({1: 5_000})
        )
        assert (result.error, result.probing_rebalance_at_ms) == (None, 5_000)

    def test_should_drain_although_nobody_runs_a_task(self, snapshot: RebalanceSnapshot) -> None:
        first = _processes(snapshot)[0]
        steering = Steering(drained_processes=frozenset({first}))
        result = decided(
            replace(snapshot, steering=steering),
            Changed(lambda answer, state: answer[0].remove_task(_first_task(answer))),
        )
        assert result.error is None

    def test_should_fail_as_without_steering_when_the_answer_is_wrong(self, snapshot: RebalanceSnapshot) -> None:
        first = _processes(snapshot)[0]
        for steering in (
            Steering(away_processes=frozenset({first})),
            Steering(drained_processes=frozenset({first})),
        ):
            result = decided(replace(snapshot, steering=steering), Changed(unknown_task))
            assert "UNKNOWN_TASK_ID" in str(result.error)


def _processes(snapshot: RebalanceSnapshot) -> list[ProcessId]:
    result = decided(snapshot, own.EverythingOnTheFirst())
    assert result.problem is not None
    return sorted(result.problem.clients)


def test_should_place_without_lags_and_not_by_the_fallback(snapshot: RebalanceSnapshot) -> None:
    seen: list[dict[TaskId, int]] = []

    def look(answer: list[KafkaStreamsAssignment], state: ApplicationState) -> None:
        clients = state.kafka_streams_states(compute_task_lags=True).values()
        seen.extend(client.stateful_tasks_to_lag_sums() for client in clients)

    result = decided(replace(snapshot, changelog_end_offsets=None), Changed(look))
    assert result.error is None
    assert result.probing_rebalance_at_ms is None
    assert seen
    assert {lag for lags in seen for lag in lags.values()} <= {-3, -2}
