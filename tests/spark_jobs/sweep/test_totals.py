"""Rows of all groups added up by combination, the front of the totals, and Kafka's defaults against it."""

from rebalance_analysis.sweep.front_tables import AlikeCombinations, alike_on_front
from rebalance_analysis.sweep.grid import Combination
from rebalance_analysis.sweep.totals import CombinationTotal
from tests.spark_jobs.sweep.sweep_rows import Came, result_of

WARM_UPS = "max.warmup.replicas"


def test_should_weigh_groups_by_their_episodes_and_keep_the_worst_skew() -> None:
    result = result_of(
        f"{WARM_UPS}=7",
        [
            Came((1_000, 2_000, 3_000), moves=8, standbys=4, skew=1, group="a"),
            Came((10_000,), moves=4, standbys=2, skew=3, group="b"),
        ],
    )

    assert result.totals == (
        CombinationTotal(
            combination=Combination(0, (7,)),
            episodes=4,
            settled=4,
            looping=0,
            rounds=0,
            time_to_stable_ms=4_000.0,
            active_moves=9,
            standby_moves=3,
            warm_ups=0,
            unowned_ms=0,
            stateful_tasks=40,
            standbys=6,
            skew=3,
        ),
    )
    assert (result.groups, result.episodes, result.settled, result.front) == (2, 4, 1, (0,))
    assert result.totals[0].moves == 12
    assert result.totals[0].standbys_per_task == 0.15


def test_should_compare_traffic_across_racks_where_it_is_known_under_every_combination() -> None:
    known = result_of(
        f"{WARM_UPS}=1..3",
        [Came((5,), cross_rack_reads=7, group="a"), Came((5,), cross_rack_reads=1, group="b"), Came((5,), group="c")],
        [Came((5,), cross_rack_reads=4, group="a"), Came((5,), group="b"), Came((5,), group="c")],
        [Came((9,), cross_rack_reads=2, group="a"), Came((9,), group="b"), Came((9,), group="c")],
    )
    unknown = result_of(f"{WARM_UPS}=1|2", Came((5,)), Came((5,)))

    assert [total.cross_rack_reads for total in known.totals] == [7, 4, 2]
    assert known.front == (1, 2)
    assert [total.cross_rack_reads for total in unknown.totals] == [None, None]
    assert unknown.front == (0, 1)


def test_should_never_put_on_the_front_what_does_not_settle_everywhere() -> None:
    result = result_of(
        f"{WARM_UPS}=1|2|3",
        Came((1, None), moves=0),
        Came((5, 5), moves=9),
        [Came((1,), group="a"), Came((None,), group="b")],
    )

    assert result.front == (1,)
    assert [total.time_to_stable_ms for total in result.totals] == [None, 5.0, None]
    assert result.settled == 1
    assert result.defaults == 1, "the second combination has Kafka's defaults"
    assert result.better_than_defaults is None


def test_should_have_no_front_when_nothing_settles() -> None:
    result = result_of(f"{WARM_UPS}=1|2", Came((None,)), Came((None,)))

    assert result.front == ()
    assert result.settled == 0
    assert result.defaults == 1, "the second combination has Kafka's defaults"
    assert result.better_than_defaults is None
    assert alike_on_front(result) == []


def test_should_order_the_front_by_time_and_want_more_standbys_but_less_of_all_else() -> None:
    result = result_of(
        f"{WARM_UPS}=11..17",
        Came((9,), moves=1),
        Came((5,), moves=3),
        Came((5,), moves=4, standbys=1),
        Came((5,), moves=4, standbys=1, skew=1),
        Came((9,), moves=2, standbys=0),
        Came((2,), moves=8, skew=2),
        Came((5,), moves=3),
    )

    assert result.front == (5, 1, 6, 2, 0)


def test_should_put_fewer_standbys_first_where_times_and_moves_are_equal() -> None:
    result = result_of(f"{WARM_UPS}=11..12", Came((5,), moves=4, standbys=1, skew=1), Came((5,), moves=4))

    assert result.front == (1, 0)


def test_should_say_who_beats_kafkas_defaults_when_they_are_not_on_the_front() -> None:
    beaten = result_of(
        f"{WARM_UPS}=1..4", Came((9,), moves=1), Came((8,), moves=5), Came((8,), moves=4), Came((7,), moves=6)
    )
    unsettled = result_of(f"{WARM_UPS}=1..3", Came((9,), moves=1), Came((None,)), Came((8,), moves=4))

    assert beaten.front == (3, 2, 0)
    assert beaten.defaults == 1, "the second combination has Kafka's defaults"
    assert beaten.better_than_defaults == 2, "as moves and time of the third combination are lower"
    assert unsettled.front == (2, 0)
    assert unsettled.defaults == 1
    assert unsettled.better_than_defaults == 2


def test_should_put_combinations_of_one_point_together() -> None:
    same = Came((3,), moves=3)
    result = result_of(
        f"{WARM_UPS}=1..4,num.standby.replicas=0|1",
        Came((5,), moves=2), Came((5,), moves=1),  # 1
        same, same,  # 2
        same, same,  # 3
        same, Came((1,), moves=9),  # 4
    )  # fmt: skip

    blocks = alike_on_front(result)

    assert blocks == [
        AlikeCombinations((7,), ((4,), (1,))),
        AlikeCombinations((2, 3), ((2,), (0, 1))),
        AlikeCombinations((4, 5), ((3,), (0, 1))),
        AlikeCombinations((6,), ((4,), (0,))),
        AlikeCombinations((1,), ((1,), (1,))),
    ]
    assert blocks[1].texts(result.grid) == ("2", "0|1")


def test_should_write_values_that_follow_each_other_as_a_range() -> None:
    same = Came((3,))
    result = result_of(f"{WARM_UPS}=1..5", same, same, same, same, same)
    with_a_gap = result_of(f"{WARM_UPS}=1..5", same, same, Came((9,)), same, same)

    assert [block.texts(result.grid) for block in alike_on_front(result)] == [("1..5",)]
    assert [block.texts(with_a_gap.grid) for block in alike_on_front(with_a_gap)] == [("1|2|4|5",)]
