"""How fast a task's state is restored: embedded log -> ChangelogReader -> StateManager -> RocksDB.

The peer writes the same batches, as they were restored, straight into rocksdict with the same options: it reads no log
and decodes no columns. Both end once everything is flushed to disk. A restore must reach at least half of that rate.
"""

import shutil
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rocksdict import Rdict, WriteBatch

from assignor.types import TopicPartition
from benchmarks.applications import CHANGELOG_0, STORE, configs, create_topics, storing
from benchmarks.changelogs import fill
from benchmarks.one_task import OneTask
from benchmarks.turns import medians
from streams_runtime.configs import ProcessingGuarantee
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.logs.base import Log
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores.builders import key_value_store, timestamped_key_value_store
from streams_runtime.state_stores.rocksdb_options import store_options, write_options
from streams_runtime.state_stores.state_store import StoreBuilder

RECORDS = 1_000_000
QUICK_RECORDS = 30_000
KEY_BYTES, VALUE_BYTES = 16, 100
RUNS = 3
PEER = "straight into rocksdict"
SLOWEST_RATIO = 0.5
"""Of the peer's rate; the project promises no less."""

Columns = tuple[Sequence[bytes | None], Sequence[bytes | None]]


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
        columns = _columns(log, records)
        sizes = BatchSizes()
        seconds = medians(
            {
                **{name: partial(_restore, log, directory, store, sizes) for name, store in stores.items()},
                PEER: partial(_write_straight, directory / "straight", columns, sizes),
            },
            1 if quick else RUNS,
            "restore",
        )
        log.close()
    table = Table(title=f"Restore of {records:,} records, {KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values")
    for heading in ("into", "records/s", "MB/s", "of the peer"):
        table.add_column(heading, justify="left" if heading == "into" else "right")
    for name, of_it in seconds.items():
        ratio = "" if name == PEER else f"{seconds[PEER] / of_it:.2f}"
        table.add_row(name, f"{records / of_it:,.0f}", f"{size / of_it / 1e6:,.1f}", ratio)
    slowest = max(of_it for name, of_it in seconds.items() if name != PEER)
    kept = "kept" if seconds[PEER] / slowest >= SLOWEST_RATIO else "BROKEN"
    table.caption = f"promised are {SLOWEST_RATIO} of the peer: {'too few records to say' if quick else kept}"
    console.print(table)


def _restore(log: Log, directory: Path, store: StoreBuilder, sizes: BatchSizes) -> float:
    """Seconds from a task with an empty store to one that could run."""
    application = storing(configs(directory, ProcessingGuarantee.EXACTLY_ONCE_V2), store)
    state_dir = directory / "state"
    try:
        with OneTask(application, log, state_dir, listener=sizes) as restoring:
            start_s = time.perf_counter()
            restoring.restore()
            return time.perf_counter() - start_s
    finally:
        shutil.rmtree(state_dir)


def _write_straight(directory: Path, columns: Columns, sizes: BatchSizes) -> float:
    """Seconds. As fast as rocksdict takes it: no Python code runs per record."""
    batches = [
        (columns[0][start:stop], columns[1][start:stop]) for start, stop in pairwise(accumulate(sizes.sizes, initial=0))
    ]
    database = Rdict(str(directory), store_options())
    database.set_write_options(options := write_options())
    start_s = time.perf_counter()
    for keys, values in batches:
        batch: Any = WriteBatch(raw_mode=True)
        deque(map(batch.put, keys, values), maxlen=0)
        database.write(batch, options)
    database.flush()
    seconds = time.perf_counter() - start_s
    database.close()
    shutil.rmtree(directory)
    return seconds


def _columns(log: Log, records: int) -> Columns:
    """All keys and all values of the changelog, in memory."""
    consumer = log.consumer()
    consumer.assign([CHANGELOG_0])
    consumer.seek(CHANGELOG_0, 0)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    while len(keys) < records:
        for batch in consumer.poll(1_000, 100_000):
            keys += batch.keys
            values += batch.values
    consumer.close()
    return keys, values
