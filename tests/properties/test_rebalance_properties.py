"""What holds for whole rebalances of any group, through bytes, over histories of joins, deaths and catching up.

Each round of the model asserts that nothing is handed out before it is revoked, that no partition has two owners and no
process two copies; here stands what must hold besides.
"""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assignor.clients.client_metadata import group_metadata
from assignor.configs import AssignmentConfigs
from assignor.explain import ActiveOutcome, explain_rebalance
from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceResult
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import Role
from tests.examples import share
from tests.group_model import NOW_MS, SimulatedGroup, decode, next_rebalance, topology_of
from tests.known import known

ASSIGNORS = ("HighAvailabilityTaskAssignor", "LegacyStickyTaskAssignor", "FallbackPriorTaskAssignor")


@st.composite
def groups(draw: st.DrawFn, assignors: tuple[str, ...] = ASSIGNORS) -> SimulatedGroup:
    partitions = st.integers(1, 7)
    topology, cluster = topology_of(
        draw(st.lists(partitions, min_size=1, max_size=3)), draw(st.lists(partitions, max_size=2))
    )
    configs = AssignmentConfigs(
        num_standby_replicas=draw(st.integers(0, 3)),
        max_warmup_replicas=draw(st.integers(1, 4)),
        acceptable_recovery_lag=draw(st.sampled_from([0, 10_000])),
    )
    group = SimulatedGroup(topology, cluster, configs, draw(st.sampled_from(assignors)))
    for number in draw(st.lists(st.integers(-50, 50), min_size=1, max_size=5, unique=True)):
        group.add_process(number, threads=draw(st.integers(1, 3)))
    return group


events = st.lists(st.tuples(st.sampled_from(["join", "die", "restore", "nothing"]), st.integers(51, 99)), max_size=6)


def apply(group: SimulatedGroup, event: str, number: int) -> None:
    if event == "join":
        group.add_process(number * 1000 + len(group.processes), threads=1 + number % 3)
    elif event == "die" and len(group.processes) > 1:
        group.remove_process(sorted(group.processes)[number % len(group.processes)])
    elif event == "restore":
        group.restore_standbys()


def rounds(group: SimulatedGroup, history: list[tuple[str, int]]) -> Iterator[RebalanceResult]:
    """Yields the rebalance of the new group, and the one after each event."""
    yield group.rebalance()
    for event, number in history:
        apply(group, event, number)
        yield group.rebalance()


@given(groups(), events)
def test_should_keep_every_round_of_a_history_safe(group: SimulatedGroup, history: list[tuple[str, int]]) -> None:
    for result in rounds(group, history):
        assert set(group.owners()) <= set(group.tasks)
        held_back = {
            decision.task for decision in result.decisions if decision.kind is DecisionKind.WAITING_FOR_REVOCATION
        }
        assert set(group.owners()) == set(group.tasks) - held_back, "every task runs, or waits to be revoked"
        assert result.followup_rebalance == bool(held_back)


@given(groups(("HighAvailabilityTaskAssignor",)), events)
def test_should_run_every_task_exactly_once_when_stable(group: SimulatedGroup, history: list[tuple[str, int]]) -> None:
    """The others are left out: FallbackPrior asks for another round every time, and LegacySticky, as in Kafka, may hand
    two tasks to and fro for ever when there are standbys (the owner that gave one up has become its standby).
    """
    list(rounds(group, history))
    group.restore_standbys()
    group.rebalance_until_stable(at_most=rounds_to_move_every_copy(group) + 3)
    assert sorted(group.owners()) == sorted(group.tasks)
    wanted = min(group.configs.num_standby_replicas, len(group.processes) - 1)
    assert {task: len(group.standbys().get(task, ())) for task in group.stateful_tasks} == dict.fromkeys(
        group.stateful_tasks, wanted
    )


def rounds_to_move_every_copy(group: SimulatedGroup) -> int:
    """Each round moves max.warmup.replicas copies, and no copy moves twice; Kafka's own test has no standbys."""
    copies = len(group.stateful_tasks) * (1 + group.configs.num_standby_replicas)
    return -(-copies // group.configs.max_warmup_replicas)


@share(0.6)
@given(groups(), events)
def test_should_spread_tasks_over_the_threads_of_a_process(
    group: SimulatedGroup, history: list[tuple[str, int]]
) -> None:
    """Before anything is held back, no thread of a process has two copies more than another."""
    for result in rounds(group, history):
        loads = copies_by_thread(group, result)
        for process in group.processes.values():
            of_process = [loads.get(name, 0) for name in process.threads]
            assert max(of_process) - min(of_process) <= 1


def copies_by_thread(group: SimulatedGroup, result: RebalanceResult) -> dict[str, int]:
    loads: dict[str, int] = {}
    for decision in result.decisions:
        if decision.kind in (DecisionKind.THREAD_BALANCED, DecisionKind.THREAD_PREVIOUS_OWNER):
            consumer = known(decision.consumer)
            loads[consumer] = loads.get(consumer, 0) + 1
    return loads


@share(0.6)
@given(groups(), events)
def test_should_depend_on_the_order_of_members_only_through_javas_hash_map(
    group: SimulatedGroup, history: list[tuple[str, int]]
) -> None:
    list(rounds(group, history))
    snapshot = group.snapshot()
    backwards = replace(snapshot, members=dict(reversed(list(snapshot.members.items()))))
    ours = group_metadata({name: each.subscription for name, each in snapshot.members.items()}, None)
    theirs = group_metadata({name: each.subscription for name, each in backwards.members.items()}, None)
    same_walk = list(ours.clients) == list(theirs.clients) and ours == theirs
    result, mirrored = assign(snapshot, NOW_MS), assign(backwards, NOW_MS)
    assert list(mirrored.assignments) == list(backwards.members), "answers come in the order of the members"
    if same_walk:
        assert dict(mirrored.assignments) == dict(result.assignments)


@share(0.6)
@given(groups(), events)
def test_should_explain_every_copy_of_every_task(group: SimulatedGroup, history: list[tuple[str, int]]) -> None:
    *_, result = rounds(group, history)
    explanations = list(explain_rebalance(result))
    assert [explanation.task for explanation in explanations] == sorted(group.tasks)
    for explanation in explanations:
        owner = next(copy for copy in explanation.copies if copy.role is Role.ACTIVE)
        assert (group.owners().get(explanation.task) is None) == owner.held_back
        assert owner.held_back == (explanation.outcome is ActiveOutcome.WAITING_FOR_REVOCATION)
        assert owner.held_back or group.owners()[explanation.task] == owner.consumer
        assert all(copy.consumer is not None for copy in explanation.copies)
        assert "\n" not in explanation.text


@share(0.6)
@given(groups(("HighAvailabilityTaskAssignor",)), events)
def test_should_tell_the_probing_deadline_to_one_member_of_the_leaders_process(
    group: SimulatedGroup, history: list[tuple[str, int]]
) -> None:
    group.rebalance()
    for event, number in history:
        apply(group, event, number)
        snapshot = group.snapshot()
        result = assign(snapshot, NOW_MS)
        told = {name: at_ms for name, raw in result.assignments.items() if (at_ms := next_rebalance(raw))}
        assert len(told) <= 1
        assert list(told.values()) == (
            [] if result.probing_rebalance_at_ms is None else [result.probing_rebalance_at_ms]
        )
        assert set(told) <= set(group.processes[known(snapshot.leader_process_id)].threads)
        group.receive(result.assignments)


@share(0.4)
@given(groups(("HighAvailabilityTaskAssignor",)), events)
def test_should_keep_the_probing_deadline_to_itself_when_the_leader_is_out_of_process(
    group: SimulatedGroup, history: list[tuple[str, int]]
) -> None:
    group.leader_in_group = False
    group.rebalance()
    for event, number in history:
        apply(group, event, number)
        snapshot = group.snapshot()
        result = assign(snapshot, NOW_MS)
        assert all(not next_rebalance(raw) for raw in result.assignments.values())
        assert (result.probing_rebalance_at_ms is not None) == known(result.placement).probing_rebalance_needed
        group.receive(result.assignments)


@share(0.6)
@given(groups(), events)
def test_should_put_every_endpoint_into_the_host_maps(group: SimulatedGroup, history: list[tuple[str, int]]) -> None:
    *_, result = rounds(group, history)
    endpoints = sorted(str(process.endpoint) for process in group.processes.values())
    placement = known(result.placement)
    for raw in result.assignments.values():
        info = decode(raw)[1]
        assert sorted(map(str, info.partitions_by_host)) == endpoints
        assert sorted(map(str, info.standby_partitions_by_host)) == endpoints
    active = {process: len(client.active) for process, client in placement.clients.items()}
    assert sum(active.values()) == len(group.tasks)
    assert set(active) == set(group.processes)
