"""Every benchmark of the runtime runs through at its smallest size, and prints the figures that it promises."""

import io
import re

import pytest
from rich.console import Console

from benchmarks import (
    batches,
    failover,
    failover_defaults,
    idle,
    kills,
    processing_rate,
    promotion,
    restore_memory,
    restore_rate,
    standby_rate,
)
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.failover_results import DRAINED
from benchmarks.minimal_movement import MOVES, READS


def printed(name: str) -> str:
    console = Console(file=io.StringIO(), width=160)
    BENCHMARKS[name](console, quick=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows(text: str) -> dict[str, list[float]]:
    """By the words that a row begins with, its numbers."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            numbers = [float(cell.replace(",", "")) for cell in cells if re.fullmatch(r"[+-]?[\d,.]+", cell)]
            found[" ".join(cell for cell in cells if re.search("[a-zA-Z]", cell))] = numbers
    return found


def test_should_print_what_a_recorded_rebalance_takes_and_where_the_time_goes() -> None:
    found = rows(printed("replay"))
    assert "threads2.jsonl.gz" in found
    total = [sum(column) for column in zip(*(found[name] for name in found if name != "all"), strict=True)]
    rebalances, rate, milliseconds, *parts = found["all"]
    assert rebalances == total[0] > 60
    assert milliseconds == pytest.approx(sum(parts), abs=0.02)
    assert rate == pytest.approx(1000 / milliseconds, rel=0.02)


def test_should_print_how_much_less_moves_beside_kafkas_assignor() -> None:
    text = printed("minimal-movement")
    (shares,) = re.findall(rf"{MOVES} +│ +│ +([\d.]+)% / ([\d.]+)% / ([\d.]+)% ", text)
    least, median, most = map(float, shares)
    assert 0 < least <= median <= most <= 10
    (reads,) = re.findall(rf"{READS} +│(.*)│", text)
    kafkas, without, with_racks = (float(column.split("/")[1]) for column in reads.split("│"))
    assert kafkas <= with_racks < without


def test_should_print_what_a_batch_function_costs_beside_one_that_is_called_with_each_record() -> None:
    found = rows(printed("batches"))
    assert list(found) == [f"{work.name} {what}" for work in batches.WORK for what in ("processing", "the thread")]
    for each, batched, ratio in found.values():
        assert ratio == pytest.approx(batched / each, abs=0.05)


def test_should_print_restore_rates_beside_writing_straight_into_rocksdict() -> None:
    found = rows(printed("restore-rate"))
    assert list(found) == ["key-value store", "timestamped key-value store", restore_rate.PEER]
    (rate, _, ratio), (peer_rate, _) = found["key-value store"], found[restore_rate.PEER]
    assert ratio == pytest.approx(rate / peer_rate, abs=0.01)


def test_should_print_the_memory_of_a_restore_as_it_goes_on() -> None:
    text = printed("restore-memory")
    samples = [line for line in text.splitlines() if line.startswith("│")]
    assert len(samples) > restore_memory.WARM_UP_SAMPLES
    assert f"{restore_memory.QUICK_RECORDS:,}" in samples[-1]
    assert re.search(r"most growth after the first [\d,]+: -?\d+ MB", text)


def test_should_print_what_an_idle_instance_costs_beside_its_budget() -> None:
    text = printed("idle")
    (cpu,) = re.findall(rf"CPU, % of one core +│ +([\d.]+) │ +{idle.MOST_CPU_PERCENT:g} │", text)
    (memory,) = re.findall(rf"resident memory, MB +│ +([\d.]+) │ +{idle.MOST_MB:g} │ reached", text)
    assert float(cpu) >= 0
    assert float(memory) > 10


def test_should_print_how_fast_a_standby_catches_up_and_how_close_it_stays() -> None:
    text = printed("standby-rate")
    found = rows(text)
    assert list(found) == ["standby task", "active task"]
    assert found["standby task"][2] == pytest.approx(found["standby task"][0] / found["active task"][0], abs=0.01)
    behind = rf"behind a writer of {standby_rate.RECORDS_A_SECOND:,} records/s: [\d,]+ records"
    assert re.search(behind, " ".join(text.split())), "a line may be wrapped anywhere"


def test_should_print_processing_rates_beside_plain_loops_for_both_guarantees() -> None:
    found = rows(printed("processing-rate"))
    assert list(found) == [
        f"{guarantee} {application} {peer}"
        for guarantee in ("at_least_once", "exactly_once_v2")
        for application, peer in processing_rate.PEERS
    ]
    assert all(ratio == pytest.approx(ours / theirs, abs=0.01) for ours, theirs, ratio in found.values())


@pytest.mark.long
def test_should_print_how_long_tasks_stand_still_when_their_instance_ends() -> None:
    found = rows(printed("failover"))
    assert list(found) == list(failover.WAYS)
    for times, *steps, total, slow, longest, _records, _ratio in found.values():
        assert times == failover.QUICK_ENDS
        assert sum(steps) == pytest.approx(total, abs=3)
        assert slow == longest == total
    assert found["SIGKILL"][1] >= 300, "nobody can know before most of the session timeout has passed"


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
    probing, simulated, real = found.values()
    assert list(found) == [
        f"{promotion.KAFKAS} simulated",
        f"{promotion.PROMOTED} simulated",
        f"{promotion.REAL} real",
    ]
    assert probing[0] == pytest.approx(600, abs=1), "one probing rebalance, at Kafka's default"
    for seconds, _, sooner in (simulated, real):
        assert 1 <= seconds < 60, "the state is restored in one second"
        assert sooner == pytest.approx(probing[0] / seconds, rel=0.05)


@pytest.mark.spark
@pytest.mark.long
def test_should_print_how_long_the_readmes_application_stands_still_by_default() -> None:
    text = printed("failover-defaults")
    found = rows(text)
    assert list(found) == [*failover_defaults.WAYS, DRAINED]
    for way in failover_defaults.WAYS:
        times, *steps, median, slow, longest = found[way]
        assert times == 1
        assert sum(steps) == pytest.approx(median, abs=3)
        assert slow == longest == median
    assert re.search(r"until the program on Spark has ended, [\d,]+ ms", text)


def test_should_name_the_benchmarks_when_one_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["restore-rat"])
    assert (
        "there is no benchmark restore-rat; choose from replay, replay-engines, jvm-leader, minimal-movement, "
        in capsys.readouterr().err
    )
