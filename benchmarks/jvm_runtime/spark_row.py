"""The keyed count on two Spark executors: our instances, beside Spark's own ways to keep state.

All three run on `local-cluster` with two executors of one core each and read the same records: ours from the embedded
log, Spark's from Parquet files, of which a micro-batch takes two. Spark keeps its state in RocksDB, as ours does. The
clock starts after a part of the records, when the executors are warm. The CPU is that of the executors with their
Python workers; that of everything, with driver and coordinator, stands beside it. The final counts have to be equal.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.jvm_leader.tables import Page
from benchmarks.jvm_runtime.cells import TYPICAL_KEYS
from benchmarks.jvm_runtime.input_records import PARTITIONS, Input, InputRecord, topic_of_events, write
from benchmarks.jvm_runtime.outputs import OutputRecord, Outputs, check_equal, outputs_of, read_records
from benchmarks.process_tree import executors
from benchmarks.processor_time import processor_s
from streams_runtime import LONG, NewTopic, open_log
from tests.checkout import ROOT

OURS, IN_PANDAS, GROUP_BY = "ours", "transformWithStateInPandas", "groupBy.count"
WAYS = (OURS, IN_PANDAS, GROUP_BY)
OUTPUT = "output"
EXECUTORS = 2
FILES_A_BATCH = EXECUTORS
BATCHES = 10
LEAD_IN_BATCHES = 3
_LONGEST_END_S = 60.0
_END_OF_WORDS = 3_000


@dataclass(frozen=True, slots=True)
class CountOnSpark:
    """`executors_s`, `all_s`: CPU seconds of the executors, and with driver and coordinator."""

    records: int
    wall_s: float
    executors_s: float
    all_s: float

    @property
    def cpu_us(self) -> float:
        """Microseconds of the executors for each record."""
        return self.executors_s / self.records * 1e6

    @property
    def all_us(self) -> float:
        return self.all_s / self.records * 1e6

    def since(self, begun: CountOnSpark) -> CountOnSpark:
        return CountOnSpark(
            self.records - begun.records,
            self.wall_s - begun.wall_s,
            self.executors_s - begun.executors_s,
            self.all_s - begun.all_s,
        )


def measure_on_spark(what: Input, directory: Path, say: Callable[[str], None]) -> dict[str, CountOnSpark]:
    """By way. Raises AssertionError when the counts differ or a driver fails."""
    assert what.keys == TYPICAL_KEYS
    records_a_file = what.records // (BATCHES * FILES_A_BATCH)
    batch_records = records_a_file * FILES_A_BATCH
    what = replace(what, records=batch_records * BATCHES)  # every file is as long as the others
    files = directory / "parquet"
    _write_files(what, files, records_a_file)
    log = directory / "log"
    with closing(open_log(f"embedded:{log}")) as opened:
        write(opened, what, [topic_of_events(TYPICAL_KEYS)])
        opened.create_topics([NewTopic(OUTPUT, PARTITIONS)])
    found, outputs = {}, {}
    for way in WAYS:
        say(f"keyed count on Spark: {way}")
        own = directory / way
        own.mkdir()
        source = f"embedded:{log}" if way == OURS else str(files)
        found[way] = _measured(way, source, own, what.records, batch_records)
        outputs[way] = _counts_in_log(f"embedded:{log}") if way == OURS else _counts_in_files(own / OUTPUT)
    check_equal("keyed count on Spark", outputs, every_record=False)
    return found


def spark_page(found: Mapping[str, CountOnSpark]) -> Page:
    rows = [
        (
            way,
            f"{each.cpu_us:.2f}",
            f"{each.all_us:.2f}",
            f"{each.records / each.wall_s:,.0f}",
            "" if way == OURS else f"{found[OURS].cpu_us / each.cpu_us:.2f}",
        )
        for way, each in found.items()
    ]
    headings = ("way", "CPU µs/record of executors", "with driver and coordinator", "records/s", "ours / theirs")
    return Page("the keyed count on two Spark executors", headings, rows)


def _write_files(what: Input, directory: Path, records_a_file: int) -> None:
    directory.mkdir()
    for number, records in enumerate(_chunks(what.events(), records_a_file)):
        columns = {"key": [each.key for each in records], "value": [each.value for each in records]}
        table = pa.table(columns, schema=pa.schema([("key", pa.binary()), ("value", pa.binary())]))
        pq.write_table(table, directory / f"{number:04d}.parquet")


def _chunks(records: Iterator[InputRecord], size: int) -> Iterator[Sequence[InputRecord]]:
    while chunk := list(islice(records, size)):
        yield chunk


def _measured(way: str, source: str, directory: Path, records: int, batch_records: int) -> CountOnSpark:
    """In a driver of its own, which has ended on return."""
    command = [sys.executable, "-m", "benchmarks.jvm_runtime.spark_driver", way, source, str(directory)]
    with (
        tempfile.TemporaryFile() as words,
        subprocess.Popen(  # noqa: S603
            [*command, str(records), str(batch_records)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            cwd=ROOT,
        ) as driver,
    ):
        assert driver.stdout is not None
        begun = ended = None
        for line in driver.stdout:
            done = int(line.split()[1])
            if begun is None and done >= LEAD_IN_BATCHES * batch_records:
                begun = _now(driver.pid, done)
            if done >= records:
                ended = _now(driver.pid, done)
                break
        try:
            driver.communicate(timeout=_LONGEST_END_S)
        except subprocess.TimeoutExpired:
            driver.kill()
        words.seek(0)
        said = words.read().decode(errors="replace")[-_END_OF_WORDS:]
        assert begun is not None, f"{way} did not begin: {said}"
        assert ended is not None, f"{way} did not end: {said}"
    return ended.since(begun)


def _now(driver: int, records: int) -> CountOnSpark:
    return CountOnSpark(records, time.perf_counter(), processor_s(*executors(driver)), processor_s(driver))


def _counts_in_log(servers: str) -> Outputs:
    with closing(open_log(servers)) as log:
        records = (record._replace(timestamp_ms=0) for record in read_records(log, OUTPUT))
        return outputs_of(records, every_record=False)


def _counts_in_files(directory: Path) -> Outputs:
    """A later micro-batch has the newer count."""

    def records() -> Iterator[OutputRecord]:
        for batch in sorted(directory.iterdir(), key=lambda each: int(each.name)):
            columns = pq.read_table(batch).to_pydict()
            for key, count in zip(columns["key"], columns["count"], strict=True):
                yield OutputRecord(key, LONG.serialize(count), 0)

    return outputs_of(records(), every_record=False)
