"""The benchmark beside Kafka Streams prints what it promises, and its sums and comparisons are right."""

from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.jvm_runtime.cells import QUICK
from benchmarks.jvm_runtime.contenders import EMBEDDED
from benchmarks.jvm_runtime.input_records import PARTITIONS, SPAN_MS, VALUE_BYTES, Input, first_timestamp_ms
from benchmarks.jvm_runtime.outputs import OutputRecord, check_equal, outputs_of
from benchmarks.jvm_runtime.running import run_with_options
from tests.benchmarks.printing import printed_by

A, B = OutputRecord(b"a", b"1", 10), OutputRecord(b"b", b"1", 20)
A_AGAIN = OutputRecord(b"a", b"2", 30)


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
    table = list(what.table(keys=30))
    assert {record.key for record in table} == {event.key for event in events}
    assert max(record.timestamp_ms for record in table) < times[0]
    assert {(r.key, r.partition) for r in table} == {(e.key, e.partition) for e in events}, "so that they can be joined"


def test_should_call_results_equal_whatever_the_order_of_keys_and_however_often_a_cache_sent_them() -> None:
    all_of_them = outputs_of([A, B, A_AGAIN], every_record=False)
    with_a_cache = outputs_of([B, A_AGAIN], every_record=False)
    assert (all_of_them.written, with_a_cache.written) == (3, 2)
    assert check_equal("cell", {"one": all_of_them, "other": with_a_cache}, every_record=False).compared == 2


@pytest.mark.parametrize(
    "other", [[A, A_AGAIN], [A, B, B], [A, B, A_AGAIN._replace(timestamp_ms=31)], [A, B, OutputRecord(b"a", b"3", 30)]]
)
def test_should_name_whose_results_differ(other: list[OutputRecord]) -> None:
    found = {
        "ours": outputs_of([A, B, A_AGAIN], every_record=True),
        "theirs": outputs_of(other, every_record=True),
    }
    with pytest.raises(AssertionError, match=r"count: the results of theirs .* are not those of ours"):
        check_equal("count", found, every_record=True)


@pytest.mark.long
def test_should_print_our_figures_without_a_broker(tmp_path: Path) -> None:
    markdown = tmp_path / "table.md"
    # 4,000 records are processed in 10 ms: a busy machine may look for the first time when all of them are
    options = ["--quick", "--application", "count", "--records", "60000", "--contender", EMBEDDED]
    options += ["--markdown", str(markdown)]
    lines = printed_by(lambda console: run_with_options(console, options)).splitlines()
    assert lines[-1] == "no Kafka Streams beside ours, no ratio"
    cells = [line.strip("│").split("│") for line in lines if line.startswith("│keyed count│")]
    assert [[cell.strip() for cell in row[1:3]] for row in cells] == [["1,000", "0"]] * 2
    cpu_us, thread_us = map(float, cells[0][3:5])
    assert cpu_us >= thread_us > 0
    assert "| keyed count | 1,000 | 0 | " in markdown.read_text()


@pytest.mark.kafka
@pytest.mark.java
def test_should_print_ratios_to_kafka_streams_whose_results_are_equal(oracle_jars: str) -> None:
    lines = printed_by(lambda console: BENCHMARKS["jvm-runtime"](console, quick=True)).splitlines()
    table = [line for line in lines if line.startswith("│") and "│1,000│" in line]
    assert len(table) == 2 * len(QUICK.cells())
    assert lines[-1].startswith("worst ratio ")
    assert float(lines[-1].split()[-1]) > 0
