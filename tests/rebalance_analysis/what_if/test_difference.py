"""What is different between two rounds, counted by hand."""

import json
from dataclasses import replace

import pytest

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording import RecordedPlacement
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from rebalance_analysis.rerun import RerunPlacement, run_recorded
from rebalance_analysis.what_if import Changes, difference, difference_document
from rebalance_analysis.what_if.difference import Difference, ProcessCopies, TaskDifference, copies_by_process
from tests.rebalance_analysis.what_if.groups import recorded, run_snapshot

A, B, C = (ProcessId(0, number) for number in range(3))
T0, T1, T2, STATELESS = (TaskId(0, number) for number in range(4))
END = 1_000
_ENDS = dict.fromkeys((T0, T1, T2), END)


def client(process: ProcessId, threads: int, reported: dict[TaskId, int]) -> PlacementClient:
    running = frozenset(task for task, lag in reported.items() if lag == LATEST_OFFSET)
    return PlacementClient(
        process,
        threads,
        TaskLags(reported, _ENDS),
        previous_active=running,
        previous_standby=frozenset(reported) - running,
    )


CLIENT_A = client(A, 2, {T0: LATEST_OFFSET, T1: LATEST_OFFSET})
CLIENT_B = client(B, 1, {T0: 10, T2: LATEST_OFFSET})
CLIENT_C = client(C, 4, {})


def placed_round(
    clients: list[PlacementClient], copies: dict[ProcessId, tuple[set[TaskId], set[TaskId], set[TaskId]]]
) -> RerunPlacement:
    """Process to active tasks, standbys and warm-ups."""
    tasks = (T0, T1, T2, STATELESS)
    problem = PlacementProblem(
        AssignmentConfigs(num_standby_replicas=1), tasks, (T0, T1, T2), {each.process_id: each for each in clients}
    )
    placements = {
        process: ClientPlacement(frozenset(active), frozenset(standby | warm), frozenset(warm))
        for process, (active, standby, warm) in copies.items()
    }
    needed = any(warm for _, _, warm in copies.values())
    return RerunPlacement(RecordedPlacement("p", "by hand", problem), Placement(needed, placements), ())


BEFORE = placed_round([CLIENT_A, CLIENT_B], {A: ({T0, T1}, {T2}, set()), B: ({T2, STATELESS}, {T0, T1}, set())})
AFTER = placed_round([CLIENT_B, CLIENT_C], {B: ({T0, T1, T2}, set(), set()), C: ({STATELESS}, {T1, T2}, {T0})})


def test_should_name_every_task_with_copies_elsewhere() -> None:
    found = difference(BEFORE, AFTER, restore_records_per_s=100)

    assert found.tasks == (
        TaskDifference(T0, A, B, (B,), (), (), (C,), {B: 10, C: END}),
        TaskDifference(T1, A, B, (B,), (C,), (), (), {B: END, C: END}),
        TaskDifference(T2, B, B, (A,), (C,), (), (), {B: 0, C: END}),
        TaskDifference(STATELESS, B, C, (), (), (), (), {}),
    )
    assert (found.processes_new, found.processes_gone) == ((C,), (A,))
    assert (found.tasks_new, found.tasks_gone) == ((), ())
    counted = (found.active_elsewhere, found.standbys_new, found.standbys_gone, found.warm_ups_new, found.warm_ups_gone)
    assert counted == (3, 2, 1, 1, 0)


def test_should_take_as_long_as_the_slowest_instance_with_all_its_threads() -> None:
    """B restores 1,010 records with one thread, C 3,000 with four."""
    found = difference(BEFORE, AFTER, restore_records_per_s=100)
    assert found.after.records_by_process == {B: END + 10, C: 3 * END}
    assert found.after.restore_s == pytest.approx(10.1)
    assert found.before.records_by_process == {A: END, B: END + 10}
    assert found.before.restore_s == pytest.approx(10.1)
    assert (found.before.probing_rebalance_needed, found.after.probing_rebalance_needed) == (False, True)


def test_should_not_count_a_standby_new_that_only_changed_its_role() -> None:
    swapped = placed_round([CLIENT_A, CLIENT_B], {A: ({T1}, {T0, T2}, set()), B: ({T0, T2, STATELESS}, {T1}, set())})
    found = difference(BEFORE, swapped)
    assert found.tasks == (TaskDifference(T0, A, B, (B,), (A,), (), (), {A: 0, B: 10}),)
    assert (found.active_elsewhere, found.standbys_new, found.standbys_gone) == (1, 0, 0)


def test_should_not_guess_records_when_a_lag_is_not_known() -> None:
    unknown = client(C, 4, {T0: UNKNOWN_OFFSET_SUM})
    found = difference(BEFORE, placed_round([CLIENT_B, unknown], dict(_copies(AFTER))))
    assert (found.after.records_by_process, found.after.restore_s) == (None, None)
    assert found.tasks[0].records == {B: 10, C: None}


def _copies(ran: RerunPlacement) -> list[tuple[ProcessId, tuple[set[TaskId], set[TaskId], set[TaskId]]]]:
    return [
        (process, (set(each.active), set(each.standby - each.warm_ups), set(each.warm_ups)))
        for process, each in ran.placement.clients.items()
    ]


def test_should_find_no_difference_between_a_round_and_itself() -> None:
    ran = run_snapshot("wcflow.8", Changes())
    found = difference(ran, ran)
    assert found == Difference(found.before, found.before, 100_000.0)
    assert found.before.error is None


def test_should_say_why_a_round_placed_nothing() -> None:
    line = recorded("wcflow.8")
    broken = replace(line.snapshot, cluster=replace(line.snapshot.cluster, topics={}))
    ended = run_recorded(replace(line, snapshot=broken))
    refused = run_recorded(replace(line, snapshot=replace(line.snapshot, failures=frozenset({"describe_topics"}))))
    ran = run_snapshot("wcflow.8", Changes())
    found = difference(ran, ended)
    assert (found.after.error, found.after.measures, found.tasks) == ("INCOMPLETE_SOURCE_TOPIC_METADATA", None, ())
    assert difference(refused, ran).before.error == (
        "StreamsException: Could not create topic wcflow-by-word-repartition. "
        "(the brokers refused to describe it, and what they answered is not in the input)"
    )


def test_should_name_tasks_that_are_there_on_one_side_only() -> None:
    more = run_snapshot("wcflow.8", Changes(partitions={"wcflow-users": 7}))
    ran = run_snapshot("wcflow.8", Changes())
    assert difference(ran, more).tasks_new == (TaskId(1, 6),)
    assert difference(more, ran).tasks_gone == (TaskId(1, 6),)
    (new,) = [each for each in difference(ran, more).tasks if each.task == TaskId(1, 6)]
    assert new.active_from is None
    assert new.active_to is not None
    assert not new.active_is_elsewhere


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_should_refuse_a_rate_that_is_none(rate: float) -> None:
    with pytest.raises(InputError, match="restore_records_per_s: must be a number above 0"):
        difference(BEFORE, AFTER, restore_records_per_s=rate)


def test_should_be_a_document_with_every_task() -> None:
    document = json.loads(json.dumps(difference_document(difference(BEFORE, AFTER, restore_records_per_s=100))))
    assert document["tasks"][0] == {
        "task": "0_0",
        "active": {"from": str(A), "to": str(B)},
        "standby": {"gone": [str(B)], "new": []},
        "warm_up": {"gone": [], "new": [str(C)]},
        "records_to_restore": {str(B): 10, str(C): END},
    }
    assert len(document["tasks"]) == 4
    assert (document["active_elsewhere"], document["standbys_new"], document["warm_ups_new"]) == (3, 2, 1)
    assert (document["processes_new"], document["processes_gone"]) == ([str(C)], [str(A)])
    after = document["after"]
    assert (after["measures"]["active_started"], after["restore_s"]) == (3, 10.1)
    assert after["records_by_process"] == {str(B): END + 10, str(C): 3 * END}


def test_should_count_the_copies_of_each_process_by_what_it_had() -> None:
    assert copies_by_process(AFTER.recorded.problem, AFTER.placement) == (
        ProcessCopies(B, 1, active_kept=1, active_moved_in=2, standby_kept=0, standby_new=0, warm_ups=0),
        ProcessCopies(C, 4, active_kept=0, active_moved_in=1, standby_kept=0, standby_new=2, warm_ups=1),
    )
