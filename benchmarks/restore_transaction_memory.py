"""Memory of one transaction of a million changes, by `statestore.uncommitted.max.bytes`.

A stream thread (`ThreadAlone`) counts a million records of different keys, exactly-once on the embedded log, with a
commit interval of an hour, so that nothing but the setting ends the transaction early. All other configs have their
defaults. Each row is a fresh process. The growth is the peak of its resident memory over its resident memory after the
first pass. The last commit is that of the clean end, and its memory counts.

A long transaction also keeps what the producer writes at the commit: the results and the changelog records. That is no
memory of the stores. A stateless map of the same records shows it, and the count without transactional stores, which is
the base of the last column, has it, too. A transaction that ends early frees this memory as well.

The goal: after the processing of each pass, the uncommitted changes, as the stores count them, are at most the setting
and the changes of that pass, which may include a flush of the whole record cache; and the growth over the base is at
most the setting.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from os import getpid
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.applications import APPLICATION_ID, EVENTS_0, counting, create_topics, mapping
from benchmarks.changelogs import key_of, write_keys
from benchmarks.process_tree import peak_bytes
from benchmarks.restore_memory import resident_mb
from benchmarks.thread_alone import ThreadAlone
from benchmarks.turns import in_fresh_process, load_average, progress
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Log
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.state_stores.state_store import keeps_offset

CHANGES = 1_000_000
QUICK_CHANGES = 20_000
COMMIT_INTERVAL_MS = 3_600_000
NOBODY = "http://127.0.0.1:9"
_MIB = 1 << 20
_RESET_PEAK = "5"
"""Written to `clear_refs`, it resets the peak of resident memory. Source: proc(5)."""


class Setting(NamedTuple):
    """A row. `max_bytes`: of `statestore.uncommitted.max.bytes`; None where the row has no transactional stores."""

    name: str
    build: Callable[[StreamsConfig], Application]
    max_bytes: int | None


MAP = Setting("stateless map", mapping, None)
BASE = Setting("count, not transactional", counting, None)
LIMITED = tuple(Setting(f"count, {mib} MiB", counting, mib * _MIB) for mib in (16, 64))
UNLIMITED = Setting("count, no limit", counting, -1)
SETTINGS = (MAP, BASE, *LIMITED, UNLIMITED)


class Memory(NamedTuple):
    """`early_commits`: those before the end. `uncommitted_bytes`: the most before a commit. `pass_bytes`: the most by
    which they grew in one pass. `growth_mb`: of the process.
    """

    early_commits: int
    uncommitted_bytes: int
    pass_bytes: int
    growth_mb: float


class UncommittedThread(ThreadAlone):
    """Adds up the uncommitted changes of all stores before each commit."""

    most_bytes = most_of_a_pass = _before = 0

    def _process(self) -> None:
        super()._process()
        now = sum(store.uncommitted_bytes for store in self.open_stores if keeps_offset(store))
        self.most_bytes = max(self.most_bytes, now)
        self.most_of_a_pass = max(self.most_of_a_pass, now - self._before)
        self._before = now


def run(console: Console, *, quick: bool = False) -> None:
    """Print a row for each setting."""
    changes = QUICK_CHANGES if quick else CHANGES
    measured: dict[Setting, Memory] = {}
    with tempfile.TemporaryDirectory(prefix="bench-transaction-memory-") as temporary, progress() as bar:
        work = bar.add_task("memory of a transaction", total=len(SETTINGS))
        filled, own = Path(temporary) / "filled", Path(temporary) / "run"
        with closing(EmbeddedLog(filled / "log")) as log:
            create_topics(log)
            write_keys(log, EVENTS_0, map(key_of, range(changes)), b"event")
        for number, setting in enumerate((UNLIMITED,) if quick else SETTINGS):
            bar.update(work, description=f"memory: {setting.name}", completed=number)
            shutil.copytree(filled, own)
            measured[setting] = in_fresh_process(memory, setting, own, changes)
            shutil.rmtree(own)
    table = Table(title=f"One transaction of {changes:,} changes, exactly-once, embedded log")
    for heading in ("transactional stores", "early commits", "most uncommitted MB", "growth MB", "over the base MB"):
        table.add_column(heading, justify="left" if heading == "transactional stores" else "right")
    base_mb = measured[BASE].growth_mb if BASE in measured else 0.0
    for setting, each in measured.items():
        is_transactional = setting.max_bytes is not None
        over = f"{each.growth_mb - base_mb:+,.0f}" if is_transactional else ""
        uncommitted = f"{each.uncommitted_bytes / 1e6:,.1f}" if is_transactional else ""
        table.add_row(setting.name, f"{each.early_commits:,}", uncommitted, f"{each.growth_mb:,.0f}", over)
    verdict = "too few changes to say" if quick else "reached" if _is_bounded(measured, base_mb) else "MISSED"
    table.caption = f"goal: bounded by the setting: {verdict}; {load_average()}"
    console.print(table)


def memory(setting: Setting, directory: Path, changes: int) -> Memory:
    """The work of one process."""
    configs = {
        "application.id": APPLICATION_ID,
        "bootstrap.servers": f"embedded:{directory / 'log'}",
        "state.dir": str(directory / "state"),
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": COMMIT_INTERVAL_MS,
        "enable.transactional.statestores": setting.max_bytes is not None,
    }
    if setting.max_bytes is not None:
        configs["statestore.uncommitted.max.bytes"] = setting.max_bytes
    application = setting.build(StreamsConfig.from_dotted(configs))
    with closing(EmbeddedLog(directory / "log")) as log, CoordinatorClient(NOBODY) as client:
        thread = UncommittedThread(application, log, client)
        _process(thread, 1)
        idle_mb = resident_mb()
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        _process(thread, changes)
        early_commits = thread.commits
        thread.close()
        growth_mb = peak_bytes(getpid()) / 1e6 - idle_mb
        _check_committed(log, changes)
    return Memory(early_commits, thread.most_bytes, thread.most_of_a_pass, growth_mb)


def _process(thread: ThreadAlone, records: int) -> None:
    """Run the thread until it has processed so many records since its start."""
    while thread.processed_records < records:
        thread.run_pass()


def _check_committed(log: Log, records: int) -> None:
    committed = log.committed_offsets(APPLICATION_ID, [EVENTS_0])[EVENTS_0].offset
    assert committed == records, f"only {committed:,} of {records:,} records are committed"


def _is_bounded(measured: Mapping[Setting, Memory], base_mb: float) -> bool:
    return all(
        each.uncommitted_bytes <= max_bytes + each.pass_bytes and each.growth_mb <= base_mb + max_bytes / 1e6
        for (_, _, max_bytes), each in measured.items()
        if max_bytes is not None and max_bytes >= 0
    )
