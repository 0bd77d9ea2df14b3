"""Forecasts: what Kafka's groups are known to do, how they end, and how long tasks are without an owner."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import DecodeError, InputError
from assignor.pipeline.snapshot import Member
from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.recording import RecordedPlacement, RecordedRebalance
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from rebalance_analysis.simulate import ForecastModel, forecast
from rebalance_analysis.simulate.model import HIGHEST_RATE, End, Forecast, ForecastTrigger, Loop
from rebalance_analysis.simulate.placement_leader import MAX_THREADS
from tests.group_model import LOG_END, SimulatedGroup, member, process_id, topology_of
from tests.known import known
from tests.rebalance_analysis.simulate.recorded_groups import (
    A,
    B,
    C,
    as_placement,
    grown_by_one,
    problem_of,
    recorded_round,
    settled_group,
    with_assignor,
)

Recorded = RecordedRebalance | RecordedPlacement
HOUR_MS = 3_600_000
T0, T1 = TaskId(0, 0), TaskId(0, 1)


def unchanged(recorded: RecordedRebalance) -> Recorded:
    return recorded


BOTH_FORMATS = pytest.mark.parametrize("as_format", [unchanged, as_placement], ids=["rebalance/1", "placement/1"])
AsFormat = Callable[[RecordedRebalance], Recorded]


def at_and_trigger(forecast: Forecast) -> list[tuple[int, str]]:
    return [(each.at_ms, each.trigger.value) for each in forecast.rebalances]


@BOTH_FORMATS
def test_should_take_kafkas_hours_and_moves_when_ten_clients_become_eleven(as_format: AsFormat) -> None:
    ahead = forecast(as_format(grown_by_one(clients=10, tasks=100)))

    assert ahead.end is End.STABLE
    assert 40 <= ahead.probing_rounds <= 50
    assert 85 <= ahead.active_moves <= 96
    assert 6.5 * HOUR_MS <= known(ahead.stable_after_ms) <= 8.5 * HOUR_MS
    assert ahead.final is not None
    assert (ahead.final.skew, ahead.final.warm_ups) == (1, 0)
    assert ahead.warm_ups == ahead.active_moves, "every task warms up before it moves"
    assert ahead.unowned_ms == ahead.active_moves * 500, "and then is without owner for one follow-up round"


def test_should_tell_the_same_history_in_both_formats_when_threads_do_not_matter() -> None:
    recorded = grown_by_one(clients=3, tasks=20)

    ours, alone = forecast(recorded), forecast(as_placement(recorded))

    assert [each.moved for each in ours.rebalances] == [each.moved for each in alone.rebalances]
    assert at_and_trigger(ours) == at_and_trigger(alone)
    assert replace(ours, rebalances=()) == replace(alone, rebalances=())


def test_should_be_over_at_once_when_the_group_is_settled() -> None:
    recorded = recorded_round(settled_group(3, 9).snapshot())

    ahead = forecast(recorded)

    assert at_and_trigger(ahead) == [(0, "recorded")]
    assert (ahead.end, ahead.stable_after_ms, ahead.restored_after_ms) == (End.STABLE, 0, 500)
    assert (ahead.active_moves, ahead.standby_moves, ahead.warm_ups, ahead.unowned_ms) == (0, 0, 0, 0)
    assert dict(ahead.owners).keys() == {TaskId(0, number) for number in range(9)}


def test_should_hand_over_in_a_follow_up_and_look_again_at_the_probing_interval() -> None:
    recorded = grown_by_one(clients=1, tasks=2, configs=AssignmentConfigs(probing_rebalance_interval_ms=60_000))

    ahead = forecast(recorded, ForecastModel(rebalance_ms=200))

    assert at_and_trigger(ahead) == [(0, "recorded"), (60_000, "probing"), (60_200, "follow-up")]
    first, second, third = ahead.rebalances
    assert (first.moved, first.warming_up, first.followup, first.probing_at_ms) == ((), (T1,), False, 60_000)
    assert (second.moved, second.warming_up, second.followup, second.unowned) == ((T1,), (), True, 0)
    assert (third.moved, third.followup, third.probing_at_ms, third.unowned) == ((), False, None, 1)
    assert (ahead.unowned_ms, ahead.unowned_longest_task) == (200, T1)


def test_should_wait_for_the_round_to_end_when_it_takes_longer_than_the_probing_interval() -> None:
    recorded = grown_by_one(clients=1, tasks=2, configs=AssignmentConfigs(probing_rebalance_interval_ms=60_000))

    ahead = forecast(recorded, ForecastModel(rebalance_ms=90_000))

    # the second round is due before the warm-up of the first one has begun
    assert [at for at, _ in at_and_trigger(ahead)] == [0, 90_000, 180_000, 270_000]


def test_should_take_longer_when_standbys_are_read_slowly() -> None:
    recorded = grown_by_one(clients=1, tasks=2, configs=AssignmentConfigs(acceptable_recovery_lag=0))
    per_round = LOG_END / 600 / 3

    ahead = forecast(recorded, ForecastModel(standby_records_per_s=per_round))

    assert [each.trigger for each in ahead.rebalances] == [
        ForecastTrigger.RECORDED,
        *[ForecastTrigger.PROBING] * 4,
        ForecastTrigger.FOLLOW_UP,
    ]
    records = [each.measures.records_to_restore for each in ahead.rebalances[:4]]
    assert records == [100_000, 66_695, 33_362, 29], "the first round's assignments arrive 500 ms late"
    assert ahead.warm_ups == 1, "one warm-up, however many rounds it takes"


def test_should_go_in_circles_when_the_sticky_assignor_hands_tasks_to_and_fro() -> None:
    topology, cluster = topology_of([6, 4])
    configs = AssignmentConfigs(num_standby_replicas=1)
    group = SimulatedGroup(topology, cluster, configs, "LegacyStickyTaskAssignor")
    for number, threads in enumerate((2, 1, 2, 3), start=1):
        group.add_process(number, threads)
    group.rebalance()
    group.rebalance()
    group.remove_process(process_id(1))

    ahead = forecast(recorded_round(group.snapshot()))

    to_and_fro = (TaskId(0, 1), TaskId(0, 2), TaskId(1, 1), TaskId(1, 2))
    assert (ahead.end, ahead.loop) == (End.LOOP, Loop(12, 2, to_and_fro))
    assert (ahead.stable_after_ms, ahead.restored_after_ms, len(ahead.rebalances)) == (None, None, 13)
    assert {each.trigger for each in ahead.rebalances[11:]} == {ForecastTrigger.FOLLOW_UP}


@BOTH_FORMATS
def test_should_call_a_round_that_repeats_itself_a_loop_of_length_one(as_format: AsFormat) -> None:
    recorded = with_assignor(recorded_round(settled_group(2, 4).snapshot()), "FallbackPriorTaskAssignor")

    ahead = forecast(as_format(recorded))

    assert (ahead.end, ahead.loop, len(ahead.rebalances)) == (End.LOOP, Loop(1, 1, ()), 1)
    assert ahead.rebalances[0].probing_at_ms == 600_000


def test_should_find_a_loop_when_changelogs_grow_too() -> None:
    recorded = with_assignor(recorded_round(settled_group(2, 4).snapshot()), "FallbackPriorTaskAssignor")

    ahead = forecast(recorded, ForecastModel(appended_records_per_s=10))

    assert (ahead.end, ahead.loop) == (End.LOOP, Loop(1, 1, ()))


@pytest.mark.parametrize("kind", [unchanged, as_placement])
def test_should_forecast_changelogs_beyond_what_java_can_count(kind: AsFormat) -> None:
    model = ForecastModel(standby_records_per_s=HIGHEST_RATE, appended_records_per_s=HIGHEST_RATE)

    ahead = forecast(kind(grown_by_one(clients=1, tasks=4)), model, max_rounds=40)

    assert ahead.error is None
    assert ahead.rebalances[-1].at_ms > 10_000_000, "long enough for more records than a long of Java counts"


def test_should_never_settle_when_warm_ups_fall_behind() -> None:
    recorded = grown_by_one(clients=1, tasks=4)

    ahead = forecast(recorded, ForecastModel(standby_records_per_s=1000, appended_records_per_s=2000), max_rounds=12)

    assert (ahead.end, len(ahead.rebalances), ahead.loop) == (End.OUT_OF_ROUNDS, 12, None)
    assert ahead.behind == ahead.rebalances[-1].warming_up == (T1, TaskId(0, 3))


def test_should_say_that_standbys_never_catch_up_when_the_group_is_stable_all_the_same() -> None:
    configs = AssignmentConfigs(num_standby_replicas=1)
    recorded = recorded_round(settled_group(2, 2, configs=configs).snapshot())
    model = ForecastModel(standby_records_per_s=100, appended_records_per_s=200)

    assert (forecast(recorded).restored_after_ms, forecast(recorded).behind) == (500, ())
    ahead = forecast(recorded, model)

    assert (ahead.end, ahead.restored_after_ms, ahead.behind) == (End.STABLE, None, (T0, T1))


def test_should_count_the_session_timeout_when_the_owner_is_gone() -> None:
    group = settled_group(2, 2)
    group.remove_process(process_id(1))

    ahead = forecast(recorded_round(group.snapshot()), ForecastModel(restore_records_per_s=50_000))

    restored_in_ms = LOG_END // 50
    assert (ahead.unowned_longest_task, ahead.unowned_longest_ms) == (T0, 45_000 + 500 + restored_in_ms)
    assert ahead.unowned_ms == ahead.unowned_longest_ms
    assert (ahead.restored_after_ms, ahead.rebalances[0].unowned) == (500 + restored_in_ms, 1)


def test_should_not_count_it_when_the_recorded_round_is_a_follow_up() -> None:
    group = settled_group(1, 2)
    group.add_process(2)
    group.rebalance()
    group.restore_standbys()
    group.rebalance()

    ahead = forecast(recorded_round(group.snapshot()))

    assert (ahead.unowned_ms, ahead.unowned_longest_task) == (500, T1)


def test_should_count_from_the_first_round_when_the_group_is_only_starting() -> None:
    topology, cluster = topology_of([2], [2])
    group = SimulatedGroup(topology, cluster)
    group.add_process(1)

    ahead = forecast(recorded_round(group.snapshot()), ForecastModel(restore_records_per_s=LOG_END))

    # the stateless ones wait for the round only, the first stateful one restores for a second, the other one for two
    assert (ahead.unowned_ms, ahead.unowned_longest_task) == (500 + 500 + 1500 + 2500, T1)
    assert ahead.restored_after_ms == 2500


def test_should_know_the_topics_that_the_first_round_creates() -> None:
    topology, cluster = topology_of([4])
    group = SimulatedGroup(topology, cluster)
    group.add_process(1)
    snapshot = replace(group.snapshot(), existing_internal_topics={}, changelog_end_offsets={})

    ahead = forecast(
        recorded_round(replace(snapshot, assignor="FallbackPriorTaskAssignor")), ForecastModel(appended_records_per_s=1)
    )

    # a round that had to create them again would have no end offsets to be behind of
    assert (ahead.error, len(ahead.rebalances)) == (None, 2)
    assert (ahead.end, ahead.loop) == (End.LOOP, Loop(2, 1, ()))


@BOTH_FORMATS
def test_should_draw_the_speed_of_every_process_from_the_seed(as_format: AsFormat) -> None:
    group = settled_group(2, 6)
    group.remove_process(process_id(1))
    recorded = as_format(recorded_round(group.snapshot()))

    def restored(seed: int, jitter: float = 0.5) -> int | None:
        return forecast(recorded, ForecastModel(jitter=jitter, seed=seed)).restored_after_ms

    assert restored(1) == restored(1)
    assert len({restored(seed) for seed in range(5)}) == 5
    assert restored(1, jitter=0) == restored(2, jitter=0) == 500 + 3 * 1000
    for seed in range(20):
        assert 500 + 3 * 1000 / 1.5 <= (restored(seed) or 0) <= 500 + 3 * 1000 / 0.5


def test_should_forget_closed_state_after_the_clean_up_delay() -> None:
    # A has the task, B a better copy of nothing: once B's state is gone it is as far behind as C
    lags = {A: {T0: LATEST_OFFSET, T1: LATEST_OFFSET}, B: {T0: 500, T1: 20_000}, C: {T0: 20_000, T1: 20_000}}
    configs = AssignmentConfigs(probing_rebalance_interval_ms=60_000)
    asked: list[PlacementProblem] = []

    class Watching:
        name = "Watching"

        def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
            asked.append(problem)
            held = {A: frozenset({T0, T1}), B: frozenset[TaskId](), C: frozenset[TaskId]()}
            return _placement(held, probing=True)

    recorded = replace(problem_of(configs, 2, lags), assignor="some:Assignor")
    forecast(recorded, ForecastModel(state_cleanup_delay_ms=90_000), load_own=lambda _: Watching(), max_rounds=9)

    assert [problem.clients[B].lags.lag_for(T0) for problem in asked] == [500, 500, 20_000, 20_000]
    assert [T0 in problem.clients[B].previous_standby for problem in asked] == [False, True, False, False]


def test_should_end_with_the_error_when_a_later_round_fails() -> None:
    class FailsLater:
        name = "FailsLater"
        rounds = 0

        def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
            self.rounds += 1
            if self.rounds > 1:
                raise RuntimeError("no idea")
            return _placement({A: frozenset({T0})}, probing=True)

    assignor = FailsLater()
    recorded = replace(problem_of(AssignmentConfigs(), 1, {A: {T0: LATEST_OFFSET}}), assignor="some:Assignor")

    ahead = forecast(recorded, load_own=lambda _: assignor)

    assert (ahead.end, len(ahead.rebalances)) == (End.ERROR, 1)
    assert ahead.error == "assignor: some:Assignor raised RuntimeError: no idea"


@pytest.mark.parametrize(
    "subscription, error, message",
    [
        (b"\x00", DecodeError, r"subscription of member b: ConsumerProtocolSubscription: version .* at byte 0"),
        (
            encode_subscription(Subscription((), (12).to_bytes(4, "big") * 2)),
            InputError,
            r"input.members\['b'\].subscription: has version 12, which is not known here",
        ),
    ],
)
def test_should_name_a_member_that_no_model_fits(subscription: bytes, error: type[Exception], message: str) -> None:
    snapshot = settled_group(1, 1).snapshot()
    members = {**snapshot.members, "b": Member(subscription)}

    with pytest.raises(error, match=message):
        forecast(recorded_round(replace(snapshot, members=members)))


def test_should_refuse_a_model_that_is_out_of_bounds() -> None:
    with pytest.raises(InputError) as error:
        forecast(problem_of(AssignmentConfigs(), 1, {A: {T0: 0}}), ForecastModel(standby_records_per_s=float("nan")))

    assert error.value.where == "standby_records_per_s"


def test_should_refuse_more_threads_than_can_be_measured() -> None:
    recorded = problem_of(AssignmentConfigs(), 1, {A: {T0: 0}})
    huge = replace(recorded.problem.clients[A], capacity=MAX_THREADS + 1)

    with pytest.raises(InputError, match="clients: have more than 1,000,000 stream threads"):
        forecast(replace(recorded, problem=replace(recorded.problem, clients={A: huge})))


def test_should_rejoin_at_once_when_all_members_can_speak_a_higher_version() -> None:
    snapshot = settled_group(1, 2).snapshot()
    old = member(process_id(1), offset_sums={T0: LATEST_OFFSET, T1: LATEST_OFFSET}, version=9)
    recorded = recorded_round(replace(snapshot, members={"old": old}))

    ahead = forecast(recorded)

    assert at_and_trigger(ahead) == [(0, "recorded"), (500, "follow-up")]
    assert (ahead.end, ahead.unowned_ms) == (End.STABLE, 0)


def test_should_keep_the_restore_going_when_a_round_comes_between() -> None:
    configs = AssignmentConfigs(probing_rebalance_interval_ms=60_000)
    problem = problem_of(configs, 2, {A: {T0: LATEST_OFFSET, T1: 90_000}})

    ahead = forecast(replace(problem, assignor="FallbackPriorTaskAssignor"), ForecastModel(restore_records_per_s=1000))

    assert at_and_trigger(ahead) == [(0, "recorded"), (60_000, "probing"), (120_000, "probing")]
    assert [each.unowned for each in ahead.rebalances] == [1, 1, 0]
    assert [each.measures.records_to_restore for each in ahead.rebalances] == [90_000, 30_500, 0]
    assert (ahead.unowned_longest_task, ahead.unowned_longest_ms) == (T1, 45_000 + 500 + 90_000)


def _placement(active: Mapping[ProcessId, frozenset[TaskId]], probing: bool) -> Placement:
    return Placement(probing, {process: ClientPlacement(tasks, frozenset()) for process, tasks in active.items()})
