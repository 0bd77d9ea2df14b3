"""How fast a task's state is restored: embedded log -> ChangelogReader -> StateManager -> RocksDB.

The peer of a store writes the same batches as the restore, straight into rocksdict, in the order of the log. Its
database has the options and the column families of a store. A timestamped store has a timestamp before each value, and
so have the values of its peer. A peer reads no log, decodes no columns, and writes no offset. Both end once everything
is flushed to disk. A ratio is the median of the ratios of the turns: in each turn, every store is restored once, and
every peer writes once. The CPU is that of all threads of the process, with RocksDB's own threads.
On a machine with other load, the ratio of CPU varies less than the ratio of time.
"""

import shutil
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rocksdict import Rdict, WriteBatch

from assignor.types import TopicPartition
from benchmarks.applications import CHANGELOG_0, STORE, configs, create_topics, storing
from benchmarks.changelogs import fill
from benchmarks.one_task import OneTask
from benchmarks.turns import in_turns, load_average
from streams_runtime.configs import ProcessingGuarantee
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.logs.base import Log
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores.builders import key_value_store, timestamped_key_value_store
from streams_runtime.state_stores.rocksdb_offsets import OFFSETS
from streams_runtime.state_stores.rocksdb_options import offset_options, store_options
from streams_runtime.state_stores.state_store import StoreBuilder
from streams_runtime.state_stores.value_and_timestamp import ValuesWithTimestamps

RECORDS = 1_000_000
QUICK_RECORDS = 30_000
KEY_BYTES, VALUE_BYTES = 16, 100
RUNS = 5
PEER_OF = {
    "key-value store": "its batches, straight",
    "timestamped key-value store": "its batches with timestamps, straight",
}
MOST_RATIO = 1.1
"""The time of a restore, as a ratio to the time of the peer, is at most this."""

Columns = tuple[Sequence[bytes | None], Sequence[bytes | None]]


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float

    @classmethod
    def since(cls, start: "Cost") -> "Cost":
        return cls(time.perf_counter() - start.wall_s, time.process_time() - start.cpu_s)

    @classmethod
    def now(cls) -> "Cost":
        return cls(time.perf_counter(), time.process_time())


class BatchSizes(SilentRestoreListener):
    """How many records each batch had, of the last restore."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self.sizes = []

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        self.sizes.append(count)


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row per store, and the peer's."""
    records = QUICK_RECORDS if quick else RECORDS
    stores: dict[str, StoreBuilder] = {
        "key-value store": key_value_store(STORE, BYTES, BYTES),
        "timestamped key-value store": timestamped_key_value_store(STORE, BYTES, BYTES),
    }
    with tempfile.TemporaryDirectory(prefix="bench-restore-") as temporary:
        directory = Path(temporary)
        log = EmbeddedLog(directory / "log")
        create_topics(log)
        size = fill(log, CHANGELOG_0, records, key_bytes=KEY_BYTES, value_bytes=VALUE_BYTES)
        keys, values, timestamped = _columns(log, records)
        written = {"key-value store": (keys, values), "timestamped key-value store": (keys, timestamped)}
        sizes = BatchSizes()
        work: dict[str, Callable[[], Cost]] = {}
        for name, store in stores.items():
            work[name] = partial(_restore, log, directory, store, sizes)
            work[PEER_OF[name]] = partial(_write_straight, directory / "straight", written[name], sizes)
        costs = in_turns(work, 1 if quick else RUNS)
        log.close()
    table = Table(title=f"Restore of {records:,} records, {KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values")
    for heading in ("into", "records/s", "MB/s", "time / peer's", "CPU / peer's"):
        table.add_column(heading, justify="left" if heading == "into" else "right")
    ratios = {name: _ratios(costs[name], costs[peer]) for name, peer in PEER_OF.items()}
    for name, of_it in costs.items():
        wall_s = statistics.median(cost.wall_s for cost in of_it)
        shown = [f"{ratio:.2f}" for ratio in ratios.get(name, ())]
        table.add_row(name, f"{records / wall_s:,.0f}", f"{size / wall_s / 1e6:,.1f}", *shown)
    kept = "kept" if max(ratio.wall_s for ratio in ratios.values()) <= MOST_RATIO else "BROKEN"
    verdict = "too few records to say" if quick else kept
    table.caption = f"at most {MOST_RATIO} of the peer's time: {verdict}; {load_average()}"
    console.print(table)


def _ratios(costs: Sequence[Cost], peers: Sequence[Cost]) -> Cost:
    """The median ratio of wall time and of CPU. Costs of one turn have the same index."""
    turns = list(zip(costs, peers, strict=True))
    return Cost(
        statistics.median(own.wall_s / peer.wall_s for own, peer in turns),
        statistics.median(own.cpu_s / peer.cpu_s for own, peer in turns),
    )


def _restore(log: Log, directory: Path, store: StoreBuilder, sizes: BatchSizes) -> Cost:
    """The cost from a task with an empty store to one that could run."""
    application = storing(configs(directory, ProcessingGuarantee.EXACTLY_ONCE_V2), store)
    state_dir = directory / "state"
    try:
        with OneTask(application, log, state_dir, listener=sizes) as restoring:
            start = Cost.now()
            restoring.restore()
            return Cost.since(start)
    finally:
        shutil.rmtree(state_dir)


def _write_straight(directory: Path, columns: Columns, sizes: BatchSizes) -> Cost:
    """As fast as rocksdict takes it: no Python code runs per record."""
    batches = [
        (columns[0][start:stop], columns[1][start:stop]) for start, stop in pairwise(accumulate(sizes.sizes, initial=0))
    ]
    options = store_options()
    families = {"default": options, OFFSETS: offset_options()}
    database: Any = Rdict(str(directory), options, column_families=families)
    start = Cost.now()
    for keys, values in batches:
        batch: Any = WriteBatch(raw_mode=True)
        deque(map(batch.put, keys, values), maxlen=0)
        database.write(batch)
    database.flush()
    cost = Cost.since(start)
    database.close()
    shutil.rmtree(directory)
    return cost


def _columns(log: Log, records: int) -> tuple[list[bytes | None], list[bytes | None], list[bytes | None]]:
    """All keys and values of the changelog, and the values of a timestamped store, in memory."""
    consumer = log.consumer()
    consumer.assign([CHANGELOG_0])
    consumer.seek(CHANGELOG_0, 0)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    timestamped: list[bytes | None] = []
    while len(keys) < records:
        for batch in consumer.poll(1_000, 100_000):
            keys += batch.keys
            values += batch.values
            timestamped += ValuesWithTimestamps(batch.values, batch.timestamps_ms)
    consumer.close()
    return keys, values, timestamped
