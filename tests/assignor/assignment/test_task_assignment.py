"""What the public interface hands to assignors: states, assignments, and the functions of TaskAssignmentUtils."""

from collections import Counter
from dataclasses import replace

import pytest

from assignor.assignment import (
    ApplicationState,
    AssignedTask,
    AssignedTaskType,
    KafkaStreamsAssignment,
    RackAwareOptimizationParams,
    StickyTaskAssignor,
    default_standby_task_assignment,
    identity_assignment,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
)
from assignor.errors import IllegalArgumentError, IllegalStateError
from assignor.recording import parse_placement
from assignor.task_assignors.base import PlacementProblem
from assignor.task_assignors.decisions import DecisionKind
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


def test_should_keep_tasks_in_the_order_of_a_hash_map_that_was_larger_before() -> None:
    """Kafka 4.3.1 printed both orders. A table of Java never shrinks, so it has the tasks in other buckets."""
    tasks = [AssignedTask.active(TaskId(number % 3, number // 3)) for number in range(40)]
    kept = tasks[::5]
    shrunk, small = (KafkaStreamsAssignment(ProcessId(0, number)) for number in range(2))
    for task in tasks:
        shrunk.assign_task(task)
    for task in tasks:
        if task not in kept:
            shrunk.remove_task(task)
    for task in kept:
        small.assign_task(task)
    assert [str(task) for task in shrunk.tasks] == ["2_1", "0_10", "1_8", "2_6", "0_0", "2_11", "0_5", "1_3"]
    assert [str(task) for task in small.tasks] == ["2_1", "0_10", "2_11", "1_8", "0_5", "2_6", "1_3", "0_0"]


class TestStates:
    def test_should_order_the_stateful_tasks_of_a_consumer_by_lag(self, problem: PlacementProblem) -> None:
        process, client = next(iter(problem.clients.items()))
        reported = (*problem.tasks, TaskId(99, 0))
        changed = {**problem.clients, process: replace(client, reported_tasks={"c": reported})}
        state = ApplicationState(replace(problem, clients=changed)).kafka_streams_states(True)[process]
        by_lag = state.prev_tasks_by_lag("c")
        assert set(by_lag) == set(problem.stateful_tasks)
        assert [state.lag_for(task) for task in by_lag] == sorted(state.lag_for(task) for task in by_lag)
        assert state.prev_tasks_by_lag("nobody") == ()

    def test_should_tell_a_store_from_a_changelog(self, problem: PlacementProblem) -> None:
        with_stores = replace(problem, store_names={task.subtopology: frozenset({"s"}) for task in problem.tasks})
        for task, info in ApplicationState(with_stores).all_tasks.items():
            assert (info.is_stateful, info.has_changelog) == (True, task in problem.stateful_tasks)

    def test_should_say_of_each_partition_what_it_is_for(self, problem: PlacementProblem) -> None:
        assert problem.racks is not None
        first, second = problem.stateful_tasks[:2]
        changelogs = {**problem.racks.changelog_partitions, first: problem.racks.task_partitions[first]}
        state = ApplicationState(replace(problem, racks=replace(problem.racks, changelog_partitions=changelogs)))
        kinds = {
            task: {(each.is_source, each.is_changelog) for each in state.all_tasks[task].topic_partitions}
            for task in (first, second)
        }
        assert kinds == {first: {(True, True)}, second: {(True, False), (False, True)}}


class TestAssignments:
    def test_should_keep_what_there_was(self, problem: PlacementProblem) -> None:
        assignments = identity_assignment(ApplicationState(problem))
        for process, client in problem.clients.items():
            tasks = assignments[process].tasks.values()
            assert {task.id for task in tasks if task.type is AssignedTaskType.ACTIVE} == client.previous_active
            assert {task.id for task in tasks if task.type is AssignedTaskType.STANDBY} == client.previous_standby

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

    def test_should_prefer_clients_with_another_tag(self, problem: PlacementProblem) -> None:
        zones = {process: f"zone-{number % 2}" for number, process in enumerate(problem.clients)}
        tagged = replace(
            problem,
            clients={
                process: replace(client, tags={"zone": zones[process]}) for process, client in problem.clients.items()
            },
        )
        assignments = sticky(with_configs(tagged))
        state = with_configs(tagged, num_standby_replicas=1, rack_aware_assignment_tags=("zone",))
        default_standby_task_assignment(state, assignments)
        for task in problem.stateful_tasks:
            holders = [process for process, each in assignments.items() if task in each.tasks]
            assert sorted(zones[process] for process in holders) == ["zone-0", "zone-1"]


class TestRacks:
    def test_should_place_step_by_step_what_the_sticky_assignor_places(self, problem: PlacementProblem) -> None:
        """Its flow is Kafka's own order of steps, which the vectors prove; the functions have to take the same."""
        expected = sticky(ApplicationState(problem))
        assignments = sticky(with_configs(problem, rack_aware_assignment_strategy="none"))
        params = RackAwareOptimizationParams(ApplicationState(problem))
        optimize_rack_aware_active_tasks(params.for_stateful_tasks(), assignments)
        stateless = params.for_stateless_tasks().with_traffic_cost(1).with_non_overlap_cost(0)
        optimize_rack_aware_active_tasks(stateless, assignments)
        assert {process: dict(each.tasks) for process, each in assignments.items()} == {
            process: dict(each.tasks) for process, each in expected.items()
        }

    def test_should_swap_standbys_and_keep_their_number(self, problem: PlacementProblem) -> None:
        for strategy in ("min_traffic", "balance_subtopology"):
            configs = {"num_standby_replicas": 1, "rack_aware_traffic_cost": 10, "rack_aware_non_overlap_cost": 1}
            state = with_configs(problem, rack_aware_assignment_strategy=strategy, **configs)
            assignments = sticky(with_configs(problem, rack_aware_assignment_strategy="none"))
            default_standby_task_assignment(state, assignments)
            before = foreign_changelogs(state, assignments)
            counts = {process: len(each.tasks) for process, each in assignments.items()}
            optimize_rack_aware_standby_tasks(RackAwareOptimizationParams(state), assignments)
            assert foreign_changelogs(state, assignments) < before
            assert {process: len(each.tasks) for process, each in assignments.items()} == counts
            assert copies(assignments, AssignedTaskType.STANDBY) == dict.fromkeys(problem.stateful_tasks, 1)

    def test_should_not_optimize_a_task_that_nobody_runs_or_two_run(self, problem: PlacementProblem) -> None:
        params = RackAwareOptimizationParams(ApplicationState(problem)).for_stateful_tasks()
        task = min(problem.stateful_tasks)
        with pytest.raises(IllegalArgumentError, match=f"Task {task} not assigned to any client"):
            optimize_rack_aware_active_tasks(params, {})
        twice = {
            process: KafkaStreamsAssignment(process, [AssignedTask.active(task)]) for process in [*problem.clients][:2]
        }
        with pytest.raises(IllegalArgumentError, match=f"Task {task} assigned to multiple clients"):
            optimize_rack_aware_active_tasks(params, twice)


def foreign_changelogs(state: ApplicationState, assignments: Assignments) -> int:
    """Changelog partitions that standbys read across racks."""
    return sum(
        each.is_changelog and client.rack_id not in (each.rack_ids or ())
        for process, client in state.kafka_streams_states().items()
        for task in assignments[process].tasks.values()
        if task.type is AssignedTaskType.STANDBY
        for each in state.all_tasks[task.id].topic_partitions
    )
