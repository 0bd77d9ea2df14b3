"""The numbers of one round, on placements small enough to count by hand, and on Kafka's own."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem, RackInformation
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId, TopicPartition
from rebalance_analysis.measures import (
    RebalanceMeasures,
    measure,
    moves_owned,
    places_ownerless,
    recorded_placement,
    records_to_restore_by_process,
)
from rebalance_analysis.rerun import RerunRebalance, run
from tests.known import known
from tests.recorded import documents

A, B, C = (ProcessId(0, number) for number in range(3))
TASKS = tuple(TaskId(0, number) for number in range(4))
T0, T1, T2, STATELESS = TASKS
END = 1_000


def client(
    process: ProcessId,
    *,
    threads: int = 1,
    active: tuple[TaskId, ...] = (),
    lags: Mapping[TaskId, int] | None = None,
    tags: Mapping[str, str] | None = None,
    rack: str | None = None,
) -> PlacementClient:
    reported = {**dict.fromkeys([task for task in active if task != STATELESS], LATEST_OFFSET), **(lags or {})}
    return PlacementClient(
        process,
        threads,
        TaskLags(reported, dict.fromkeys((T0, T1, T2), END)),
        previous_active=frozenset(active),
        previous_standby=frozenset(lags or ()),
        tags=tags or {},
        rack=rack,
    )


def problem(*clients: PlacementClient, standbys: int = 1, tags: tuple[str, ...] = ()) -> PlacementProblem:
    configs = AssignmentConfigs(num_standby_replicas=standbys, rack_aware_assignment_tags=tags)
    return PlacementProblem(configs, TASKS, (T0, T1, T2), {each.process_id: each for each in clients})


def placed(**of: tuple[set[TaskId], set[TaskId], set[TaskId]]) -> Placement:
    """Letter of the process to active, standby and warm-up tasks."""
    processes = {"A": A, "B": B, "C": C}
    return Placement(
        False,
        {
            processes[name]: ClientPlacement(frozenset(active), frozenset(standby | warm), frozenset(warm))
            for name, (active, standby, warm) in of.items()
        },
    )


def test_should_count_what_moved_what_started_and_what_has_to_be_restored() -> None:
    before = problem(
        client(A, active=(T0, T1, STATELESS)), client(B, threads=2, lags={T0: 40}), client(C, lags={T2: 300})
    )
    after = placed(A=({T1}, set(), set()), B=({T0, STATELESS}, {T1}, set()), C=({T2}, {T1}, {T0}))

    assert measure(before, after) == RebalanceMeasures(
        tasks=4,
        stateful_tasks=3,
        clients=3,
        threads=4,
        active_moved=2,  # T0 and the stateless one, from A to B
        active_started=1,  # T2
        standby_moved=2,  # T1 on B and on C
        warm_ups=1,
        records_to_restore=40 + END + 300 + END + END,
        thread_loads=(1, 1, 2, 3),
        skew=2,
        active_skew=0,
        standby_coverage=2 / 3,
        rack_spread=None,
    )
    assert records_to_restore_by_process(before, after) == {A: 0, B: 40 + END, C: 300 + END + END}


def test_should_not_call_it_a_move_when_a_task_stays_or_a_standby_was_there() -> None:
    before = problem(client(A, active=(T0, T1)), client(B, active=(T2, STATELESS), lags={T0: 0}))
    after = placed(A=({T0, T1}, {T2}, set()), B=({T2, STATELESS}, {T0}, set()))

    found = measure(before, after)

    assert (found.active_moved, found.active_started, found.standby_moved, found.warm_ups) == (0, 0, 1, 0)
    assert found.records_to_restore == END


def test_should_not_guess_the_records_to_restore_when_a_lag_is_not_known() -> None:
    before = problem(client(A, active=(T0, T1, T2, STATELESS)), client(B, lags={T1: UNKNOWN_OFFSET_SUM}))
    after = placed(A=(set(TASKS), set(), set()), B=(set(), {T1}, set()))

    assert measure(before, after).records_to_restore is None
    assert records_to_restore_by_process(before, after) is None


def test_should_have_no_coverage_when_no_standbys_are_wanted() -> None:
    before = problem(client(A), standbys=0)

    assert measure(before, placed(A=(set(TASKS), set(), set()))).standby_coverage is None


@pytest.mark.parametrize(
    ("racks", "spread"),
    [(("x", "y", "z"), 1.0), (("x", "x", "y"), 0.75), (("x", "x", "x"), 1.0), (("x", "y", None), None)],
)
def test_should_say_over_how_many_racks_copies_lie(racks: tuple[str | None, ...], spread: float | None) -> None:
    before = problem(*(client(process, rack=rack) for process, rack in zip((A, B, C), racks, strict=True)))
    after = placed(A=({T0}, {T1}, set()), B=({T1}, {T0}, set()), C=({T2, STATELESS}, set(), set()))
    apart = placed(A=({T0}, set(), set()), B=({T1}, {T0}, set()), C=({T2, STATELESS}, {T1}, set()))

    both = [measure(before, each).rack_spread for each in (after, apart)]

    # in the second placement T0 lies on A and B, T1 on B and C
    expected = {1.0: [1.0, 1.0], 0.75: [0.5, 0.75], None: [None, None]}[spread]
    assert both == expected


def test_should_take_the_configured_client_tags_for_racks() -> None:
    before = problem(client(A, tags={"zone": "a"}), client(B, tags={"zone": "b"}), tags=("zone",))
    after = placed(A=(set(TASKS), set(), set()), B=(set(), {T0, T1}, set()))

    assert measure(before, after).rack_spread == 1.0


def test_should_read_back_from_recorded_bytes_what_kafka_had_placed() -> None:
    """Of every stable round: what the bytes say is what our placement says, less the name of warm-ups."""
    compared = 0
    for document in documents("recordings/threads2.jsonl.gz"):
        ran = run(document)
        assert isinstance(ran, RerunRebalance)
        result, output = ran.result, ran.recorded.output
        if result.problem is None or result.placement is None or result.followup_rebalance:
            continue
        read = recorded_placement(result.problem, known(output).assignments)
        assert {process: (each.active, each.standby) for process, each in known(read).clients.items()} == {
            process: (each.active, each.standby) for process, each in result.placement.clients.items()
        }
        compared += 1
    assert compared >= 5


def test_should_not_read_a_placement_of_members_that_are_not_in_the_round() -> None:
    assert recorded_placement(problem(client(A)), {"somebody": b""}) is None


ON_A_AND_B = (
    client(A, active=(T0, T1), lags={T2: 0}),
    client(B, active=(T2,), lags={T0: 0, T1: 500}),
    client(C, lags={T0: 400}),
)


@pytest.mark.parametrize(
    ("to", "moves", "places"),
    [
        (placed(A=({T0, T1}, {T2}, set()), B=({T2}, {T0, T1}, set()), C=(set(), set(), set())), False, False),
        (placed(A=({T0, T1, STATELESS}, {T2}, set()), B=({T2}, {T0, T1}, set()), C=(set(), set(), set())), False, True),
        (placed(A=({T0}, {T2}, set()), B=({T2}, {T0}, set()), C=({T1}, set(), set())), True, False),
        # the standby of T1 goes from B to C
        (placed(A=({T0, T1}, {T2}, set()), B=({T2}, {T0}, set()), C=(set(), {T1}, set())), True, False),
        # C warms up, and nobody loses anything
        (placed(A=({T0, T1}, {T2}, set()), B=({T2}, {T0, T1}, set()), C=(set(), {T2}, {T2})), False, False),
    ],
)
def test_should_tell_a_move_from_a_place_for_what_nobody_runs(to: Placement, moves: bool, places: bool) -> None:
    asked = problem(*ON_A_AND_B)
    assert (moves_owned(asked, to), places_ownerless(asked, to)) == (moves, places)


def test_should_not_take_state_that_lies_on_disk_for_a_standby() -> None:
    asked = problem(client(A, active=(T0,)), client(B, lags={T0: 5}), client(C, lags={T0: 900}), standbys=1)
    assert not moves_owned(asked, placed(A=({T0}, set(), set()), B=(set(), {T0}, set()), C=(set(), set(), set())))


def test_should_count_the_partitions_that_are_read_across_racks() -> None:
    before = problem(client(A, rack="x"), client(B, rack="y"), standbys=1)
    sources = {task: (TopicPartition("in", number),) for number, task in enumerate(TASKS)}
    changelogs = {T0: (TopicPartition("log", 0), TopicPartition("log", 1))}
    racks = {
        "in": (frozenset("xy"), frozenset("x"), frozenset("y"), frozenset("z")),
        "log": (frozenset("x"), frozenset("xy")),
    }
    known = replace(before, racks=RackInformation(sources, changelogs, racks))
    after = placed(A=({T0, T1}, set(), set()), B=({T2, STATELESS}, {T0, T1}, {T1}))

    assert measure(before, after).cross_rack_reads is None
    assert measure(known, after).cross_rack_reads == 2  # the stateless task's partition, and one of the standby of T0
    without_standbys = replace(known, configs=replace(known.configs, num_standby_replicas=0))
    assert measure(without_standbys, after).cross_rack_reads == 1
    broken = RackInformation(sources, changelogs, {"in": (*racks["in"][:3], frozenset([None])), "log": racks["log"]})
    assert measure(replace(known, racks=broken), after).cross_rack_reads is None
