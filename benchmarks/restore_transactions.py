"""The CPU of transactional stores (`enable.transactional.statestores`), as a ratio to the same stores without them.

A stream thread (`ThreadAlone`) runs the count, the windowed sum and the join of `jvm_runtime`, exactly-once on the
embedded log, over input that is already there. Each run is a fresh process on a copy of the same log. Runs with and
without transactional stores alternate, and the ratio of an application is the median of its pairs' ratios. The CPU is
user and system time of all threads of the process, so the work of RocksDB in the background counts. It is measured from
a task without state until all records are committed and all stores are closed.

All other configs have their defaults. In the rows without a record cache, each record changes the store.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table

from assignor.types import TaskId, TopicPartition
from benchmarks.applications import APPLICATION_ID, RESULTS
from benchmarks.jvm_runtime.cells import CACHES, COUNT, JOIN, TYPICAL_KEYS, WINDOWED_SUM, Cell
from benchmarks.jvm_runtime.input_records import (
    PARTITIONS,
    EmbeddedLogs,
    Input,
    first_timestamp_ms,
    partitions,
    topics_of,
)
from benchmarks.jvm_runtime.topologies import topology
from benchmarks.thread_alone import ThreadAlone
from benchmarks.turns import in_fresh_process, load_average, progress
from operating_system.processes import freeze_loaded_objects
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.membership.coordinator_client import CoordinatorClient

RECORDS = 1_000_000
QUICK_RECORDS = 5_000
RUNS = 5
MOST_RATIO = 1.1
APPLICATIONS = (COUNT, WINDOWED_SUM, JOIN)
TRANSACTIONAL = "enable.transactional.statestores"
NOBODY = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Compared:
    """The CPU of the runs of one application, in seconds. The runs of one turn have the same index."""

    cell: Cell
    with_transactions: Sequence[float]
    without: Sequence[float]

    @property
    def ratios(self) -> Sequence[float]:
        return [own / other for own, other in zip(self.with_transactions, self.without, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row for each application and record cache."""
    what = Input(QUICK_RECORDS if quick else RECORDS, TYPICAL_KEYS, first_timestamp_ms(time.time_ns() // 1_000_000))
    cells = [Cell(application, what.keys, cache) for cache, application in product(CACHES, APPLICATIONS)]
    if quick:
        cells = cells[:1]
    with tempfile.TemporaryDirectory(prefix="bench-transactions-") as directory:
        compared = _compare(cells, what, Path(directory), 1 if quick else RUNS)
    table = Table(
        title=f"Microseconds of CPU a record, exactly-once, {what.records:,} records, {what.keys:,} keys, embedded log"
    )
    headings = ("application", "record cache", "transactional stores", "without", "ratio", "lowest", "highest")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for each in compared:
        own, other = (
            f"{1e6 * statistics.median(seconds) / what.records:.2f}"
            for seconds in (each.with_transactions, each.without)
        )
        shown = (f"{ratio:.2f}" for ratio in (each.ratio, min(each.ratios), max(each.ratios)))
        table.add_row(each.cell.title, each.cell.cache, own, other, *shown)
    highest = max(each.ratio for each in compared)
    verdict = "too few records to say" if quick else "reached" if highest <= MOST_RATIO else "MISSED"
    table.caption = f"highest ratio {highest:.2f}, goal: at most {MOST_RATIO:.2f}: {verdict}; {load_average()}"
    console.print(table)


def _compare(cells: Sequence[Cell], what: Input, directory: Path, runs: int) -> list[Compared]:
    logs = EmbeddedLogs(directory / "input")
    seconds: dict[tuple[Cell, bool], list[float]] = {each: [] for each in product(cells, (True, False))}
    with progress() as bar:
        work = bar.add_task("transactions", total=runs * len(seconds))
        for turn in range(runs):
            for cell in cells:
                # The order alternates, so that neither side always runs on the files that the other has just written.
                for transactional in (True, False) if turn % 2 == 0 else (False, True):
                    own = directory / "run"
                    shutil.copytree(logs.with_input(what, topics_of(cell)), own)
                    seconds[cell, transactional].append(in_fresh_process(cpu_seconds, cell, own, transactional))
                    shutil.rmtree(own)
                    bar.advance(work)
    return [Compared(cell, seconds[cell, True], seconds[cell, False]) for cell in cells]


def cpu_seconds(cell: Cell, directory: Path, transactional: bool) -> float:
    """The work of one process. `directory`: a log with the input, which no other process has open."""
    topics = topics_of(cell)
    configs = StreamsConfig.from_dotted(
        {
            "application.id": APPLICATION_ID,
            "bootstrap.servers": f"embedded:{directory}",
            "state.dir": str(directory / "state"),
            "processing.guarantee": "exactly_once_v2",
            "statestore.cache.max.bytes": cell.cache_bytes,
            TRANSACTIONAL: transactional,
        }
    )
    application = Application(topology(cell.application, topics[0], topics[-1], RESULTS), configs)
    log = EmbeddedLog(directory)
    create_topics(log, application)
    inputs = [partition for topic in topics for partition in partitions(topic)]
    ends = log.end_offsets(inputs)
    freeze_loaded_objects()  # as an instance does that owns its process
    start_s = time.process_time()
    with CoordinatorClient(NOBODY) as client:
        tasks = {
            TaskId(0, number): frozenset(TopicPartition(topic, number) for topic in topics)
            for number in range(PARTITIONS)
        }
        thread = ThreadAlone(application, log, client, tasks)
        while thread.processed_records < sum(ends.values()) or not _all_committed(log, ends):
            thread.run_pass()
        thread.close()
    seconds = time.process_time() - start_s
    log.close()
    return seconds


def create_topics(log: Log, application: Application) -> None:
    """Create the output topic and the changelogs, which the group's leader would create."""
    changelogs = [
        NewTopic(store.changelog_topic, PARTITIONS, {"cleanup.policy": "compact"})
        for subtopology in application.group_topology().subtopologies
        for store in subtopology.stores
        if store.changelog_topic is not None
    ]
    log.create_topics([NewTopic(RESULTS, PARTITIONS), *changelogs])


def _all_committed(log: Log, ends: dict[TopicPartition, int]) -> bool:
    committed = log.committed_offsets(APPLICATION_ID, ends)
    return all(end == 0 or (each in committed and committed[each].offset >= end) for each, end in ends.items())
