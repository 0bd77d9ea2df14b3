"""What a sweep prints, and the document it leaves."""

import io
import json
import re

from rich.console import Console

from rebalance_analysis.sweep.front_tables import front_document, front_table, full_table
from rebalance_analysis.sweep.totals import SweepResult
from tests.spark_jobs.sweep.sweep_rows import Came, result_of

GRID = "max.warmup.replicas=1..4,num.standby.replicas=0|1"


def printed(result: SweepResult) -> list[list[str]]:
    """The cells of every line of the table below its headings, and the note. All of it fits a terminal."""
    written = io.StringIO()
    Console(width=80, file=written).print(front_table(result))
    lines = [line.strip() for line in written.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    return [re.split(" {2,}", line) for line in lines if line[:1].isdigit() or line[:1] == "*"]


def beaten_defaults() -> SweepResult:
    with_standby = Came((62_500, 61_500), moves=1_010, standbys=20, skew=1)
    return result_of(
        GRID,
        Came((300_000, 300_000), moves=8), Came((None, 1), moves=8),
        Came((500, 600), moves=90, skew=2), with_standby,
        Came((500, 600), moves=70, skew=2), with_standby,
        Came((500, 600), moves=70, skew=2), with_standby,
    )  # fmt: skip


def test_should_print_the_front_with_kafkas_defaults_and_who_beats_them() -> None:
    assert printed(beaten_defaults()) == [
        ["1", "3|4", "0", "550 ms", "70", "0.00", "2"],
        ["2", "2..4", "1", "1 min 2 s", "1,010", "1.00", "1"],
        ["3", "1", "0", "5 min", "8", "0.00", "0"],
        ["*", "2", "0", "550 ms", "90", "0.00", "2"],
        ["* Kafka's defaults, beaten by line 1"],
    ]


def test_should_mark_kafkas_defaults_on_the_front() -> None:
    result = result_of("max.warmup.replicas=1|2|3", Came((5,)), Came((1,)), Came((1,)))

    assert printed(result) == [["* 1", "2|3", "1 ms", "0", "0.00", "0"], ["* Kafka's defaults"]]


def test_should_leave_out_the_end_that_all_names_of_assignors_have() -> None:
    grid = "assignor=HighAvailabilityTaskAssignor|LegacyStickyTaskAssignor|my.module:Own"
    result = result_of(grid, Came((7,)), Came((5,)), Came((5,)))

    assert [line[1] for line in printed(result)[:2]] == ["LegacySticky|my.module:Own", "HighAvailability"]


def test_should_say_how_often_kafkas_defaults_do_not_settle() -> None:
    result = result_of("max.warmup.replicas=1|2", Came((5, 5)), Came((None, 5)))

    assert printed(result)[1:] == [
        ["*", "2", "1 of 2 settle", "0", "0.00", "0"],
        ["* Kafka's defaults, beaten by line 1"],
    ]


def test_should_print_all_combinations_with_all_measures_when_asked_for_more() -> None:
    written = io.StringIO()
    slow = Came((90_000,), moves=8, rounds=7, unowned_ms=61_000)
    result = result_of("max.warmup.replicas=1|2", slow, Came((None,), moves=4))
    Console(width=200, file=written).print(full_table(result))
    title, *_, first, second = written.getvalue().splitlines()

    assert title == "All of 2 combinations over 1 episode of 1 group"
    assert re.split(" {2,}", first) == ["front", "1", "1 min 30 s", "7", "6", "2", "0", "1 min 1 s", "0.00", "0"]
    assert re.split(" {2,}", second.strip()) == ["2", "0 of 1 settle", "0", "3", "1", "0", "0 ms", "0.00", "0"]


def test_should_have_a_column_for_a_measure_of_ones_own() -> None:
    """The mean over all episodes of all groups; none when it could not be taken of a group."""
    both = [Came((1, 1, 1), measured=(1.0, 2.0, 3.0), group="a"), Came((1,), measured=(4.0,), group="b")]
    only_one = [Came((1, 1, 1), measured=(1.0, 2.0, 3.0), group="a"), Came((1,), group="b")]
    result = result_of("max.warmup.replicas=1|2", both, only_one, own_measures=("weighing:busiest_thread",))
    written = io.StringIO()
    Console(width=200, file=written).print(full_table(result))

    assert [total.own_measures for total in result.totals] == [(2.5,), (None,)]
    assert [line.split()[-1] for line in written.getvalue().splitlines()[-4:]] == ["busiest", "thread", "2.50", "-"]
    first = json.loads(json.dumps(front_document(result)))["front"][0]
    assert first["weighing:busiest_thread"] == 2.5


def test_should_write_every_combination_of_the_front_into_the_document() -> None:
    result = beaten_defaults()
    document = json.loads(json.dumps(front_document(result)))

    assert [(entry["max.warmup.replicas"], entry["num.standby.replicas"]) for entry in document["front"]] == [
        (3, 0), (4, 0), (2, 1), (3, 1), (4, 1), (1, 0),
    ]  # fmt: skip
    assert document["front"][0] == {
        "combination": 4,
        "max.warmup.replicas": 3,
        "num.standby.replicas": 0,
        "time_to_stable_ms": 550.0,
        "moves": 70,
        "standbys": 0,
        "skew": 2,
        "cross_rack_reads": None,
        "episodes": 2,
        "settled": 2,
        "looping": 0,
        "rounds": 0,
        "active_moves": 53,
        "standby_moves": 17,
        "warm_ups": 0,
        "unowned_ms": 0,
        "stateful_tasks": 20,
    }
    assert {key: document[key] for key in ("groups", "episodes", "combinations", "settled", "grid")} == {
        "groups": 1,
        "episodes": 2,
        "combinations": 8,
        "settled": 7,
        "grid": {"max.warmup.replicas": [1, 2, 3, 4], "num.standby.replicas": [0, 1]},
    }
    assert document["kafkas_defaults"]["combination"] == 2
    assert document["kafkas_defaults_on_front"] is False
    assert document["kafkas_defaults_beaten_by"]["combination"] == 4
