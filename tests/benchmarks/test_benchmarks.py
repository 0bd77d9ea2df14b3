"""Every benchmark of the runtime runs through at its smallest size, and prints the figures that it promises."""

import re

import pytest

from benchmarks import (
    batches,
    failover,
    failover_defaults,
    idle,
    kills,
    processing_rate,
    promotion,
    restore_kill,
    restore_memory,
    restore_rate,
    restore_transaction_memory,
    standby_rate,
)
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.failover_results import DRAINED
from benchmarks.minimal_movement import MOVES, READS
from tests.benchmarks.printing import printed_by, rows


def printed(name: str) -> str:
    return printed_by(lambda console: BENCHMARKS[name](console, quick=True))


@pytest.mark.parametrize(
    "name, names, pattern",
    [
        ("batches", [f"{work.name} {what}" for work in batches.WORK for what in ("processing", "the thread")], ""),
        ("restore-rate", [name for pair in restore_rate.PEER_OF.items() for name in pair], ""),
        (
            "restore-memory",
            None,
            rf"│ *{restore_memory.QUICK_RECORDS:,} .* most growth after the first [\d,]+: -?\d+ MB",
        ),
        pytest.param(
            "restore-kill",
            [restore_kill.EMPTY, f"{restore_kill.KILLED} 1"],
            "; 0 keys miscounted",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "heartbeat-flow", None, r"of a process, 10 tasks │ +\d+ │ +\d+ │ +[\d.]+ │", marks=pytest.mark.long
        ),
        ("window-memory", None, r" MB, then [\d,]+ MB, ratio [\d.]+: "),
        ("restore-transactions", ["keyed count default"], r"highest ratio [\d.]+, goal: at most 1\.10"),
        ("restore-transaction-memory", [restore_transaction_memory.UNLIMITED.name], "goal: bounded by the setting"),
        (
            "standby-rate",
            ["standby task", "active task"],
            rf"behind a writer of {standby_rate.RECORDS_A_SECOND:,} records/s: [\d,]+ records",
        ),
        (
            "processing-rate",
            [
                f"{guarantee} {application} {peer}"
                for guarantee in ("at_least_once", "exactly_once_v2")
                for application, peer in processing_rate.PEERS
            ],
            "",
        ),
        (
            "idle",
            None,
            rf"CPU, % of one core +│ +[\d.]+ │ +{idle.MOST_CPU_PERCENT:g} │"
            rf".*resident memory, MB +│ +[\d.]+ │ +{idle.MOST_MB:g} │ reached",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and re.fullmatch(r"[a-z-]+", value) else "",
)
def test_should_print_its_rows(name: str, names: list[str] | None, pattern: str) -> None:
    text = printed(name)
    assert names is None or list(rows(text)) == names
    assert re.search(pattern, " ".join(text.split())), "a line may be wrapped anywhere"


def test_should_print_what_a_recorded_rebalance_takes_and_where_the_time_goes() -> None:
    found = rows(printed("replay"))
    assert "threads2.jsonl.gz" in found
    total = [sum(column) for column in zip(*(found[name] for name in found if name != "all"), strict=True)]
    rebalances, _rate, milliseconds, *parts = found["all"]
    assert rebalances == total[0] > 60
    assert milliseconds == pytest.approx(sum(parts), abs=0.02)


def test_should_print_how_much_less_moves_beside_kafkas_assignor() -> None:
    text = printed("minimal-movement")
    (shares,) = re.findall(rf"{MOVES} +│ +│ +([\d.]+)% / ([\d.]+)% / ([\d.]+)% ", text)
    least, median, most = map(float, shares)
    assert 0 < least <= median <= most <= 10
    (reads,) = re.findall(rf"{READS} +│(.*)│", text)
    kafkas, without, with_racks = (float(column.split("/")[1]) for column in reads.split("│"))
    assert kafkas <= with_racks < without


@pytest.mark.long
def test_should_print_how_long_tasks_stand_still_when_their_instance_ends() -> None:
    assert_ends(printed("failover"), failover.WAYS, failover.QUICK_ENDS, more=2)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.soak
def test_should_print_how_long_the_readmes_application_stands_still_by_default() -> None:
    """Only before a release: test_first_hour.py and test_spark_cluster.py kill executors, too."""
    text = printed("failover-defaults")
    assert_ends(text, [*failover_defaults.WAYS, DRAINED], 1)
    assert re.search(r"until the program on Spark has ended, [\d,]+ ms", text)


def assert_ends(text: str, ways: object, ends: int, more: int = 0) -> None:
    """The steps of each way add up to its time. `more`: the number of columns behind the times."""
    found = rows(text)
    assert list(found) == list(ways)  # type: ignore[call-overload]
    found.pop(DRAINED, None)
    for times, *steps, total, slow, longest in (row[: len(row) - more] for row in found.values()):
        assert times == ends
        assert sum(steps) == pytest.approx(total, abs=3)
        assert slow == longest == total


@pytest.mark.long
def test_should_print_how_long_tasks_stand_still_when_processes_are_killed_also_during_rebalances() -> None:
    text = printed("kills")
    found = rows(text)
    (times, measured, *milliseconds, late) = found["all"]
    assert times == kills.QUICK_KILLS
    assert measured + found["without a ready standby"][1] >= kills.QUICK_KILLS - 1, "a rebalance may leave one no task"
    assert 0 < milliseconds[0] <= milliseconds[-1]
    assert late <= measured
    assert found[kills.WHILE_STABLE][0] + found[kills.IN_REBALANCE][0] == times
    assert ", 0 keys miscounted; goal: " in " ".join(text.split())


@pytest.mark.long
def test_should_print_how_much_sooner_a_group_is_balanced_when_caught_up_warm_ups_are_promoted() -> None:
    found = rows(printed("promotion"))
    probing, *promoted = found.values()
    assert list(found) == [
        f"{promotion.KAFKAS} simulated",
        f"{promotion.PROMOTED} simulated",
        f"{promotion.REAL} real",
    ]
    assert probing[0] == pytest.approx(600, abs=1), "one probing rebalance, at Kafka's default"
    assert all(1 <= seconds < 60 for seconds, *_ in promoted), "the state is restored in one second"


def test_should_name_the_benchmarks_when_one_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["restore-rat"])
    assert (
        "there is no benchmark restore-rat; choose from replay, replay-engines, jvm-leader, minimal-movement, "
        in capsys.readouterr().err
    )
