"""The same changes on a placement problem."""

import json
from dataclasses import replace

import pytest

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.java.hash_codes import process_hash
from assignor.java.order import hash_set_order
from assignor.recording import RecordedPlacement, parse_recorded_placement
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.topology.group_topology import GroupTopology
from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from rebalance_analysis.rerun import RerunPlacement, run_recorded
from rebalance_analysis.what_if import AddedInstances, Changes, changed
from rebalance_analysis.what_if.changed_rebalance import changed_document
from tests.rebalance_analysis.what_if.groups import recorded_placement

A, B = ProcessId(0, 1), ProcessId(0, 2)
T0, T1 = TaskId(0, 0), TaskId(0, 1)
CLIENT_A = PlacementClient(A, 2, TaskLags({T0: LATEST_OFFSET, T1: 5}), ("a-1", "a-2"), frozenset({T0}), frozenset({T1}))
CLIENT_B = PlacementClient(B, 1, TaskLags({T0: 100, T1: 90}), ("b-1",), tags={"zone": "b"})
LINE = RecordedPlacement(
    "p",
    "HighAvailabilityTaskAssignor",
    PlacementProblem(AssignmentConfigs(), (T0, T1), (T0, T1), {A: CLIENT_A, B: CLIENT_B}),
)


def clients(changes: Changes) -> dict[ProcessId, PlacementClient]:
    return dict(changed(LINE, changes).problem.clients)


def test_should_be_the_same_problem_when_nothing_is_asked() -> None:
    assert changed(LINE, Changes()) == LINE


def test_should_change_configs_and_assignor() -> None:
    after = changed(LINE, Changes(assignor="FallbackPriorTaskAssignor", configs={"max.warmup.replicas": "4"}))
    assert after.assignor == "FallbackPriorTaskAssignor"
    assert after.problem.configs == AssignmentConfigs(max_warmup_replicas=4)


def test_should_remove_by_member_and_by_id() -> None:
    assert clients(Changes(remove=("a-2",))) == {B: CLIENT_B}
    assert clients(Changes(remove=(str(B),))) == {A: CLIENT_A}
    with pytest.raises(InputError, match="remove: no instance would be left"):
        clients(Changes(remove=("a-1", "b-1")))


def test_should_give_and_take_threads() -> None:
    after = clients(Changes(threads={"a-1": 1, "b-1": 3}))
    assert (after[A].capacity, after[A].consumers) == (1, ("a-1",))
    assert (after[B].capacity, after[B].consumers[0], len(set(after[B].consumers))) == (3, "b-1", 3)


def test_should_put_tags_over_those_that_are_there() -> None:
    after = clients(Changes(tags={"*": {"host": "x"}, "a-1": {"zone": "a"}}))
    assert {process: client.tags for process, client in after.items()} == {
        A: {"host": "x", "zone": "a"},
        B: {"zone": "b", "host": "x"},
    }


def test_should_have_everything_before_them_when_instances_are_new() -> None:
    added = changed(LINE, Changes(add_instances=(AddedInstances(2, 3, {"zone": "c"}),)))
    new = [client for process, client in added.problem.clients.items() if process not in (A, B)]
    assert len(new) == 2
    for client in new:
        assert (client.capacity, len(client.consumers), client.tags) == (3, 3, {"zone": "c"})
        assert client.lags == TaskLags({T0: 100, T1: 90})
        assert not client.previous_active | client.previous_standby
    ran = run_recorded(added)
    assert isinstance(ran, RerunPlacement)
    for client in new:
        assert (
            changed(added, Changes(remove=(str(client.process_id),))).problem.clients.keys()
            < added.problem.clients.keys()
        )
    names = tuple(str(client.process_id) for client in new)
    assert changed(added, Changes(remove=names)) == LINE


def test_should_put_new_instances_on_the_racks_with_the_fewest() -> None:
    on_racks = {A: replace(CLIENT_A, rack="a"), B: replace(CLIENT_B, rack="b")}
    line = replace(LINE, problem=replace(LINE.problem, clients=on_racks))
    one_rack = changed(line, Changes(add_instances=(AddedInstances(2), AddedInstances(1)), remove=("a-1",)))
    assert [client.rack for client in one_rack.problem.clients.values()] == ["b", "b", "b", "b"]
    no_rack = changed(LINE, Changes(add_instances=(AddedInstances(1),)))
    assert [client.rack for client in no_rack.problem.clients.values()] == [None, None, None]
    kept = changed(line, Changes(add_instances=(AddedInstances(3),)))
    new = [client.rack for process, client in kept.problem.clients.items() if process not in (A, B)]
    assert sorted(map(str, new)) == ["a", "a", "b"]


def test_should_need_racks_of_partitions_for_a_rack_aware_strategy() -> None:
    with pytest.raises(InputError, match=r"configs: rack.aware.assignment.strategy needs task_partitions, .* not have"):
        changed(LINE, Changes(configs={"rack.aware.assignment.strategy": "min_traffic"}))


def test_should_write_the_racks_of_partitions_that_it_has() -> None:
    line = recorded_placement("r-602-79.1", "placements_rack.jsonl.gz")
    changes = Changes(configs={"rack.aware.assignment.strategy": "balance_subtopology"})
    asked = changed(line, changes)
    again = parse_recorded_placement(json.loads(json.dumps(changed_document(asked, changes))))
    assert again.problem.racks == line.problem.racks is not None
    assert run_recorded(again).output() == run_recorded(asked).output()


def test_should_stand_where_the_leaders_hash_map_has_them() -> None:
    """The sticky assignor breaks ties by the order of the clients."""
    line = recorded_placement("v-101-1.4")
    assert list(line.problem.clients) == hash_set_order(line.problem.clients, process_hash)
    added = changed(line, Changes(add_instances=(AddedInstances(5),)))
    assert list(added.problem.clients) == hash_set_order(added.problem.clients, process_hash)


def test_should_set_lags_of_what_is_held_and_not_running() -> None:
    after = clients(Changes(lags={"*": 7}))
    assert after[A].lags == TaskLags({T0: LATEST_OFFSET, T1: 7})
    assert after[B] == CLIENT_B
    named = clients(Changes(lags={"b-1/0_0": 3}))
    assert named[B].lags == TaskLags({T0: 3, T1: 90})
    assert named[B].previous_standby == {T0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Changes(partitions={"t": 3}), "partitions: a placement problem has no topics"),
        (Changes(topology=GroupTopology(())), "topology: a placement problem has no topics"),
        (Changes(lags={"7_7": 3}), "lags: 7_7 is not a stateful task of this rebalance; there are 0_0, 0_1"),
        (Changes(remove=("c",)), "remove: no instance is called 'c'; there are .*1 .a-1., .*2 .b-1."),
    ],
)
def test_should_say_what_cannot_be_met(changes: Changes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        clients(changes)
