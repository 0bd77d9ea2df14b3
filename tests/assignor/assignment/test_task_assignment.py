"""What the public interface hands to assignors: states, assignments, and the functions of TaskAssignmentUtils."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from assignor.assignment import (
    ApplicationState,
    AssignedTask,
    AssignedTaskType,
    KafkaStreamsAssignment,
    StickyTaskAssignor,
    default_standby_task_assignment,
)
from assignor.decisions import DecisionKind
from assignor.errors import IllegalArgumentError, IllegalStateError
from assignor.recording import parse_placement
from assignor.task_assignors.base import PlacementProblem
from assignor.types import ProcessId, TaskId
from tests.recorded import documents

Assignments = dict[ProcessId, KafkaStreamsAssignment]


@pytest.fixture(scope="module")
def problem() -> PlacementProblem:
    """Stateful and stateless tasks on three clients or more, some swapped to save traffic, with standbys before."""
    for document in documents("placements_custom.jsonl.gz"):
        state = ApplicationState(parse_placement(document))
        found = state.problem
        StickyTaskAssignor().assign(state)
        some = 4 < len(found.stateful_tasks) < len(found.tasks) and len(found.clients) >= 3
        had_standbys = any(client.previous_standby for client in found.clients.values())
        if some and had_standbys and any(step.kind is DecisionKind.RACK_MOVED for step in state.log):
            return found
    raise AssertionError("no line has all of it")


def with_configs(problem: PlacementProblem, **configs: object) -> ApplicationState:
    return ApplicationState(replace(problem, configs=replace(problem.configs, **configs)))  # type: ignore[arg-type]


def sticky(state: ApplicationState) -> Assignments:
    return {each.process_id: each for each in StickyTaskAssignor().assign(state).assignment}


def copies(assignments: Assignments, type: AssignedTaskType) -> Counter[TaskId]:
    return Counter(task.id for each in assignments.values() for task in each.tasks.values() if task.type is type)


class TestAssignments:
    def test_should_share_the_tasks_with_the_one_that_has_a_deadline(self) -> None:
        one = KafkaStreamsAssignment(ProcessId(1, 2))
        other = one.with_followup_rebalance(5)
        one.assign_task(AssignedTask.active(TaskId(0, 1)))
        assert (other.tasks, other.followup_rebalance_deadline_ms) == (one.tasks, 5)
        assert one.followup_rebalance_deadline_ms is None

    def test_should_refuse_a_time_that_java_has_not(self) -> None:
        with pytest.raises(IllegalArgumentError, match="64-bit"):
            KafkaStreamsAssignment(ProcessId(1, 2)).with_followup_rebalance(2**63)

    def test_should_refuse_two_copies_of_a_task_on_one_client(self) -> None:
        task = TaskId(0, 1)
        with pytest.raises(IllegalStateError, match="Duplicate key 0_1"):
            KafkaStreamsAssignment(ProcessId(1, 2), [AssignedTask.active(task), AssignedTask.standby(task)])


class TestStandbys:
    def test_should_give_each_stateful_task_its_standbys_and_say_where(self, problem: PlacementProblem) -> None:
        state = with_configs(problem, num_standby_replicas=2, rack_aware_assignment_strategy="none")
        assignments = sticky(with_configs(problem, rack_aware_assignment_strategy="none"))
        default_standby_task_assignment(state, assignments)
        assert copies(assignments, AssignedTaskType.STANDBY) == dict.fromkeys(problem.stateful_tasks, 2)
        assert copies(assignments, AssignedTaskType.ACTIVE) == dict.fromkeys(problem.tasks, 1)
        assert Counter(step.task for step in state.log) == dict.fromkeys(problem.stateful_tasks, 2)

    def test_should_say_how_many_found_no_host(self, problem: PlacementProblem) -> None:
        wanted = len(problem.clients) + 1
        state = with_configs(problem, num_standby_replicas=wanted)
        default_standby_task_assignment(state, sticky(with_configs(problem)))
        missing = [step for step in state.log if step.kind == "no-standby-host"]
        assert [step.detail for step in missing] == [2] * len(problem.stateful_tasks)
