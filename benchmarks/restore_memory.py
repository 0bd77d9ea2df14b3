"""Memory of a process that restores ten million records. It has to stay flat once everything is warm.

RocksDB's memtables and caches have one budget for the whole process, and the changelog reader holds one poll at a time,
so only filling these budgets may show as growth. The restore runs in a process of its own. The peer is that process
after its warm-up; the ratio is its largest memory over that one.
"""

import multiprocessing
import os
import resource
import sys
import tempfile
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.table import Table

from assignor.types import TopicPartition
from benchmarks.applications import CHANGELOG_0, STORE, configs, create_topics, storing
from benchmarks.changelogs import fill
from benchmarks.one_task import OneTask
from benchmarks.turns import progress
from streams_runtime.configs import ProcessingGuarantee
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores.builders import key_value_store

RECORDS = 10_000_000
QUICK_RECORDS = 50_000
KEY_BYTES, VALUE_BYTES = 8, 50
SAMPLES = 10
WARM_UP_SAMPLES = 2
ALLOWED_GROWTH_MB = 100
_STATM = Path("/proc/self/statm")

Sample = tuple[int, float]
"""Records restored, and megabytes that the process has in memory then."""


class MemorySampler(SilentRestoreListener):
    """Sends a sample before the first record, and then after every `interval` records."""

    def __init__(self, interval: int, samples: Connection) -> None:
        self._interval = interval
        self._samples = samples
        self._restored = 0
        self._next = interval

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self._samples.send((0, resident_mb()))

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        self._restored += count
        if self._restored >= self._next:
            self._next += self._interval
            self._samples.send((self._restored, resident_mb()))


def run(console: Console, *, quick: bool = False) -> None:
    """Print the memory after each tenth of the records."""
    records = QUICK_RECORDS if quick else RECORDS
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as temporary:
        directory = Path(temporary)
        log = EmbeddedLog(directory / "log")
        create_topics(log)
        fill(log, CHANGELOG_0, records, key_bytes=KEY_BYTES, value_bytes=VALUE_BYTES)
        log.close()
        samples = _samples(directory, records)
    table = Table(title=f"Memory while {records:,} records of {KEY_BYTES} + {VALUE_BYTES} bytes are restored")
    for heading in ("records restored", "resident MB", "more than before"):
        table.add_column(heading, justify="right")
    table.add_row("0", f"{samples[0][1]:,.0f}", "")
    for (_, before_mb), (restored, now_mb) in pairwise(samples):
        table.add_row(f"{restored:,}", f"{now_mb:,.0f}", f"{now_mb - before_mb:+,.0f}")
    growth_mb = max(now_mb for _, now_mb in samples[WARM_UP_SAMPLES:]) - samples[WARM_UP_SAMPLES][1]
    verdict = "flat" if growth_mb <= ALLOWED_GROWTH_MB else "NOT FLAT"
    table.caption = (
        f"most growth after the first {samples[WARM_UP_SAMPLES][0]:,}: {growth_mb:,.0f} MB"
        f" (up to {ALLOWED_GROWTH_MB} is flat), ratio {1 + growth_mb / samples[WARM_UP_SAMPLES][1]:.2f}: {verdict}"
    )
    console.print(table)


def resident_mb() -> float:
    """The memory of this process, or its peak where the system tells no more."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def _samples(directory: Path, records: int) -> list[Sample]:
    spawning = multiprocessing.get_context("spawn")
    receiver, sender = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_restore, args=(directory, records // SAMPLES, sender))
    process.start()
    sender.close()
    samples: list[Sample] = []
    with progress() as bar:
        work = bar.add_task("restoring", total=records)
        try:
            while True:
                samples.append(receiver.recv())
                bar.update(work, completed=samples[-1][0])
        except EOFError:
            process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"the process that restores ended with {process.exitcode}")
    return samples


def _restore(directory: Path, interval: int, samples: Connection) -> None:
    """The body of the process. What it sends last ends with it."""
    application = storing(configs(directory, ProcessingGuarantee.EXACTLY_ONCE_V2), key_value_store(STORE, BYTES, BYTES))
    log = EmbeddedLog(directory / "log")
    with OneTask(application, log, directory / "state", listener=MemorySampler(interval, samples)) as restoring:
        restoring.restore()
    log.close()
