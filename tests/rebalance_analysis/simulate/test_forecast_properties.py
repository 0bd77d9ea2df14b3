"""What holds for forecasts of any group: the same again, in step with another model of members, settled for good."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.configs import AssignmentConfigs
from assignor.types import JAVA_INT_MAX, TaskId
from rebalance_analysis.simulate import ForecastModel, forecast, forecast_document
from rebalance_analysis.simulate.group_members import Decided
from rebalance_analysis.simulate.model import End
from rebalance_analysis.simulate.rebalance_leader import RebalanceLeader
from tests.examples import share
from tests.group_model import SimulatedGroup, process_id, topology_of
from tests.known import known
from tests.rebalance_analysis.simulate.recorded_groups import as_placement, recorded_round

FEW = share(0.25)


@st.composite
def disturbed_groups(draw: st.DrawFn) -> SimulatedGroup:
    """A group that had two rounds, and then lost an instance or got one."""
    stateful = draw(st.lists(st.integers(1, 8), min_size=1, max_size=2))
    topology, cluster = topology_of(stateful, draw(st.lists(st.integers(1, 4), max_size=1)))
    configs = AssignmentConfigs(
        num_standby_replicas=draw(st.integers(0, 2)), max_warmup_replicas=draw(st.integers(1, 3))
    )
    group = SimulatedGroup(topology, cluster, configs, leader_in_group=draw(st.booleans()))
    threads = draw(st.lists(st.integers(1, 3), min_size=2, max_size=5))
    for number, count in enumerate(threads, start=1):
        group.add_process(number, count)
    group.rebalance()
    group.restore_standbys()
    group.rebalance()
    if draw(st.booleans()):
        group.add_process(len(threads) + 1, draw(st.integers(1, 3)))
    else:
        group.remove_process(process_id(draw(st.integers(1, len(threads)))))
    return group


@given(group=disturbed_groups(), jitter=st.floats(0, 1), seed=st.integers(), appended=st.sampled_from([0, 100]))
@FEW
def test_should_be_the_same_again(group: SimulatedGroup, jitter: float, seed: int, appended: int) -> None:
    recorded = recorded_round(group.snapshot())
    model = ForecastModel(jitter=jitter, seed=seed, appended_records_per_s=appended)

    for each in (recorded, as_placement(recorded)):
        once = forecast(each, model, max_rounds=60)
        again = forecast(each, model, max_rounds=60)
        assert once == again
        assert forecast_document(once, model) == forecast_document(again, model)


@given(group=disturbed_groups())
@FEW
def test_should_keep_step_with_the_model_that_checks_what_members_may_be_told(group: SimulatedGroup) -> None:
    """There all is restored at once, standbys are caught up when the next probing round comes, and state stays."""
    model = ForecastModel(
        restore_records_per_s=1e12, standby_records_per_s=20_000, rebalance_ms=1, state_cleanup_delay_ms=JAVA_INT_MAX
    )

    ahead = forecast(recorded_round(group.snapshot()), model)

    probing_rounds = group.rebalance_until_stable(at_most=100)
    assert (ahead.end, ahead.probing_rounds - 1) == (End.STABLE, probing_rounds)
    owners = dict(ahead.owners)
    for owner, process in group.processes.items():
        for thread in process.threads.values():
            assert {owners[task] for task in thread.owned} <= {owner}


@given(group=disturbed_groups())
@FEW
def test_should_move_nothing_in_one_more_round_when_stable(group: SimulatedGroup) -> None:
    """LegacySticky is left out: asked again about a settled group, it may exchange tasks, as Kafka's does."""
    model = ForecastModel()
    recorded = recorded_round(group.snapshot())
    leader = RebalanceLeader(recorded, model, None, recorded)
    decided, members = leader.recorded_rebalance()
    now_ms = 0
    for _ in range(100):
        members.hand_out(decided.handed_out, now_ms + model.rebalance_ms)
        if not decided.rejoin and decided.probing_at_ms is None:
            break
        now_ms = now_ms + model.rebalance_ms if decided.rejoin else (decided.probing_at_ms or 0)
        decided = leader.next_rebalance(members, now_ms)
    else:
        pytest.fail("not stable after 100 rounds")

    later = leader.next_rebalance(members, now_ms + 60_000)

    assert forecast(recorded, model).stable_after_ms == now_ms
    assert _owners(later) == _owners(decided)
    assert (later.held_back, later.rejoin, later.probing_at_ms) == (frozenset(), False, None)


@given(group=disturbed_groups(), appended=st.sampled_from([0, 50]))
@FEW
def test_should_add_up(group: SimulatedGroup, appended: int) -> None:
    recorded = recorded_round(group.snapshot())

    ahead = forecast(recorded, ForecastModel(appended_records_per_s=appended), max_rounds=200)

    times = [each.at_ms for each in ahead.rebalances]
    assert times == sorted(times)
    assert [each.number for each in ahead.rebalances] == list(range(1, len(ahead.rebalances) + 1))
    assert ahead.active_moves == sum(len(each.moved) for each in ahead.rebalances)
    assert 0 <= ahead.unowned_longest_ms <= ahead.unowned_ms
    assert {task for task, _ in ahead.owners} == set(group.tasks)
    assert ahead.end is End.STABLE
    assert known(ahead.restored_after_ms) >= known(ahead.stable_after_ms)


def _owners(decided: Decided) -> dict[TaskId, object]:
    return {task: process for process, placed in decided.placement.clients.items() for task in placed.active}
