"""The benchmark beside Kafka Streams prints what it promises, and its sums and comparisons are right."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.__main__ import BENCHMARKS
from benchmarks.jvm_runtime.cells import CACHES, COUNT, JOIN, KEYS, MAP, NO_CACHE, PROCESSOR, QUICK, Cell, Choice
from benchmarks.jvm_runtime.contenders import EMBEDDED, EMBEDDED_2_INSTANCES, JVM, KAFKA
from benchmarks.jvm_runtime.goals import goals
from benchmarks.jvm_runtime.input_records import PARTITIONS, SPAN_MS, VALUE_BYTES, Input, first_timestamp_ms
from benchmarks.jvm_runtime.measuring import MeasuredCell, typical
from benchmarks.jvm_runtime.outputs import OutputRecord, check_equal, outputs_of
from benchmarks.jvm_runtime.programs import RunFigures
from benchmarks.jvm_runtime.results import MeasuredCells
from benchmarks.jvm_runtime.running import run_with_options
from benchmarks.jvm_runtime.spark_row import GROUP_BY, IN_PANDAS, OURS, CountOnSpark
from benchmarks.jvm_runtime.tables import pages, ratios

COUNTED = Cell(COUNT, 10_000, NO_CACHE)
A, B = OutputRecord(b"a", b"1", 10), OutputRecord(b"b", b"1", 20)
A_AGAIN = OutputRecord(b"a", b"2", 30)


def figures(cpu_us: float, *, rate: float = 100_000, records: int = 1_000) -> RunFigures:
    seconds = cpu_us * records / 1e6
    return RunFigures(records, records / rate, seconds, seconds / 2)


def measured(cell: Cell, cpu_us: Mapping[str, float], rates: Mapping[str, float] | None = None) -> MeasuredCell:
    rate = rates or {}
    runs = {name: [figures(each, rate=rate.get(name, 100_000))] for name, each in cpu_us.items()}
    return MeasuredCell(cell, runs, {}, 10_000)


def on_spark(cpu_us: float) -> CountOnSpark:
    return CountOnSpark(records=1_000, wall_s=1, executors_s=cpu_us / 1_000, all_s=cpu_us / 500)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_should_measure_each_store_with_both_caches_and_the_map_which_has_none_once() -> None:
    cells = Choice().cells()
    assert len(cells) == len({cell.name for cell in cells})
    assert [cell.name for cell in cells if cell.compares_threads] == [
        "keyed count, threads, 10,000 keys, record cache 0"
    ]
    cells = [cell for cell in cells if not cell.compares_threads]
    for keys in KEYS:
        assert [cell.cache for cell in cells if (cell.application, cell.keys) == (COUNT, keys)] == list(CACHES)
        assert [cell.cache for cell in cells if (cell.application, cell.keys) == (MAP, keys)] == [NO_CACHE]
    assert [cell.keys for cell in cells if cell.application == PROCESSOR] == [10_000]


def test_should_write_the_same_records_each_time_in_the_order_of_their_timestamps() -> None:
    what = Input(records=500, keys=30, first_ms=first_timestamp_ms(1_700_000_123_456))
    events = list(what.events())
    times = [event.timestamp_ms for event in events]
    assert events == list(what.events())
    assert times == sorted(times)
    assert times[0] % 60_000 == 0
    assert times[0] + SPAN_MS * 499 // 500 == times[-1] < 1_700_000_123_456
    assert {len(event.value) for event in events} == {VALUE_BYTES}
    assert {event.partition for event in events} == set(range(PARTITIONS))
    table = list(what.table())
    assert {record.key for record in table} == {event.key for event in events}
    assert max(record.timestamp_ms for record in table) < times[0]
    assert {(r.key, r.partition) for r in table} == {(e.key, e.partition) for e in events}, "so that they can be joined"


def test_should_call_results_equal_whatever_the_order_of_keys_and_however_often_a_cache_sent_them() -> None:
    all_of_them = outputs_of([A, B, A_AGAIN], every_record=False)
    with_a_cache = outputs_of([B, A_AGAIN], every_record=False)
    assert (all_of_them.written, with_a_cache.written) == (3, 2)
    assert check_equal("cell", {"one": all_of_them, "other": with_a_cache}, every_record=False).compared == 2


@pytest.mark.parametrize(
    "other",
    [[A, A_AGAIN], [A, B, B], [A, B, A_AGAIN._replace(timestamp_ms=31)], [A, B, OutputRecord(b"a", b"3", 30)]],
)
def test_should_name_whose_results_differ(other: list[OutputRecord]) -> None:
    found = {
        "ours": outputs_of([A, B, A_AGAIN], every_record=True),
        "theirs": outputs_of(other, every_record=True),
    }
    with pytest.raises(AssertionError, match=r"count: the results of theirs .* are not those of ours"):
        check_equal("count", found, every_record=True)


def test_should_take_the_run_with_the_median_cpu() -> None:
    assert typical([figures(5), figures(9), figures(6)]) == figures(6)


def test_should_divide_our_cpu_by_that_of_kafka_streams_where_both_were_measured() -> None:
    cells = [
        measured(COUNTED, {EMBEDDED: 6, KAFKA: 9, JVM: 6}),
        measured(Cell(JOIN, 1_000, "default"), {EMBEDDED: 5}),
        measured(Cell(PROCESSOR, 10_000, NO_CACHE), {EMBEDDED: 50, JVM: 5}),
    ]
    assert {str(each): pytest.approx(each.value) for each in ratios(cells)} == {
        "keyed count, 10,000 keys, record cache 0; ours, embedded log": 1.0,
        "keyed count, 10,000 keys, record cache 0; ours, Kafka": 1.5,
    }
    (cpu, _) = pages(cells)
    assert cpu.rows[0][3:] == ["6.00", "3.00", "9.00", "4.50", "6.00", "3.00", "1.00", "1.50", "10,000"]
    assert cpu.rows[1][3:] == ["5.00", "2.50", "-", "-", "-", "-", "-", "-", "-"]


def test_should_say_of_each_goal_whether_it_was_reached() -> None:
    cpu_us = {EMBEDDED: 6.0, EMBEDDED_2_INSTANCES: 6.0, KAFKA: 7.5, JVM: 8.0}
    found = goals(
        [
            measured(COUNTED, cpu_us, {EMBEDDED: 100_000, EMBEDDED_2_INSTANCES: 195_000}),
            measured(Cell(JOIN, 1_000, "default"), {EMBEDDED: 9, JVM: 8}),
            measured(Cell(PROCESSOR, 10_000, NO_CACHE), {EMBEDDED: 5, KAFKA: 5.5}),
        ],
        {OURS: on_spark(5), IN_PANDAS: on_spark(40), GROUP_BY: on_spark(5)},
    )
    said = {each.goal.partition(", ")[0]: (each.measured, each.reached) for each in found if each.reached is not None}
    assert said == {
        "keyed count: at most 1.0 x Kafka Streams": ("worst 0.94 x; 2 of 2 reached", True),
        "stream-table join: at most 1.0 x Kafka Streams": ("worst 1.12 x; 0 of 1 reached", False),
        "processor with a store: at most 6 µs a record": ("worst 5.50 µs", True),
        "2 instances": ("worst 1.95 x", True),
        "on Kafka: at most 1 µs a record more than on the embedded log": ("worst +1.50 µs", False),
        "keyed count on Spark: at most 0.1 x transformWithStateInPandas": ("0.12 x", False),
        "keyed count on Spark: at most 1.0 x groupBy.count": ("1.00 x", True),
    }


def test_should_go_on_from_a_file_of_results(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    cell = measured(COUNTED, {EMBEDDED: 6, JVM: 6})
    MeasuredCells(file).add(cell)
    again = MeasuredCells(file)
    assert again.of(COUNTED, [EMBEDDED, JVM]) == cell
    assert again.of(COUNTED, [EMBEDDED, KAFKA]) is None
    assert again.spark() == {}
    again.add_spark({OURS: on_spark(5)})
    assert MeasuredCells(file).spark() == {OURS: on_spark(5)}


@pytest.mark.long
def test_should_print_our_figures_without_a_broker(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=160)
    markdown = tmp_path / "table.md"
    # 4,000 records are processed in 10 ms: a busy machine may look for the first time when all of them are
    options = ["--quick", "--application", "count", "--records", "60000", "--contender", EMBEDDED]
    run_with_options(console, [*options, "--markdown", str(markdown)])
    lines = text_of(console).splitlines()
    assert lines[-1] == "no Kafka Streams beside ours, no ratio"
    cells = [line.strip("│").split("│") for line in lines if line.startswith("│keyed count│")]
    assert [[cell.strip() for cell in row[1:3]] for row in cells] == [["1,000", "0"]] * 2
    cpu_us, thread_us = map(float, cells[0][3:5])
    assert cpu_us >= thread_us > 0
    assert "| keyed count | 1,000 | 0 | " in markdown.read_text()


@pytest.mark.kafka
@pytest.mark.java
def test_should_print_ratios_to_kafka_streams_whose_results_are_equal(oracle_jars: str) -> None:
    console = Console(file=io.StringIO(), width=160)
    BENCHMARKS["jvm-runtime"](console, quick=True)
    lines = text_of(console).splitlines()
    table = [line for line in lines if line.startswith("│") and "│1,000│" in line]
    assert len(table) == 2 * len(QUICK.cells())
    assert lines[-1].startswith("worst ratio ")
    assert float(lines[-1].split()[-1]) > 0
