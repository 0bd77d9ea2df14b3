"""How fast a standby catches up from far behind, and how close it stays to an active task that writes.

The peer in catching up is an active task restored from the same changelog; the ratio is the standby's rate over its
rate. After that, a second process writes changelog records at a steady rate, while the standby reads and checkpoints as
in a stream thread; its lag is sampled every few milliseconds.
"""

import multiprocessing
import shutil
import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.table import Table

from benchmarks.applications import CHANGELOG_0, STORE, configs, create_topics, storing
from benchmarks.changelogs import fill, write_steadily
from benchmarks.handovers import percentile
from benchmarks.one_task import OneTask
from benchmarks.turns import medians, progress
from streams_runtime.configs import ProcessingGuarantee
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Log
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.tasks.state_manager import StateManager

RECORDS = 500_000
QUICK_RECORDS = 20_000
KEY_BYTES, VALUE_BYTES = 16, 100
RUNS = 3
RECORDS_A_SECOND = 10_000
STEADY_S = 10.0
QUICK_STEADY_S = 0.5
SAMPLE_INTERVAL_S = 0.005
_STANDBY, _ACTIVE = "standby task", "active task"


def run(console: Console, *, quick: bool = False) -> None:
    """Print the rate of catching up, and the lag behind a writer."""
    records = QUICK_RECORDS if quick else RECORDS
    with tempfile.TemporaryDirectory(prefix="bench-standby-") as temporary:
        directory = Path(temporary)
        application = storing(
            configs(directory, ProcessingGuarantee.EXACTLY_ONCE_V2), key_value_store(STORE, BYTES, BYTES)
        )
        log = EmbeddedLog(directory / "log")
        create_topics(log)
        size = fill(log, CHANGELOG_0, records, key_bytes=KEY_BYTES, value_bytes=VALUE_BYTES)
        seconds = medians(
            {
                _STANDBY: partial(_catch_up, application, log, records),
                _ACTIVE: partial(_restore, application, log),
            },
            1 if quick else RUNS,
            "catching up",
        )
        lags = _lags_behind_writer(application, log, directory, QUICK_STEADY_S if quick else STEADY_S)
        log.close()
    slow = percentile(lags, 95)
    table = Table(title=f"Catching up with {records:,} records, {KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values")
    for heading in ("", "records/s", "MB/s", "of the active"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, of_it in seconds.items():
        ratio = "" if name == _ACTIVE else f"{seconds[_ACTIVE] / of_it:.2f}"
        table.add_row(name, f"{records / of_it:,.0f}", f"{size / of_it / 1e6:,.1f}", ratio)
    table.caption = (
        f"then behind a writer of {RECORDS_A_SECOND:,} records/s: {statistics.median(lags):,.0f} records behind in the"
        f" median, 95th percentile {slow:,.0f} ({slow / RECORDS_A_SECOND * 1e3:,.0f} ms)"
    )
    console.print(table)


def _catch_up(application: Application, log: Log, records: int) -> float:
    state_dir = application.configs.state_dir
    with OneTask(application, log, state_dir, standby=True) as standby:
        start_s = time.perf_counter()
        while standby.reader.positions().get(CHANGELOG_0, 0) < records:
            standby.read()
        standby.task.state_manager.flush()
        seconds = time.perf_counter() - start_s
    shutil.rmtree(state_dir)
    return seconds


def _restore(application: Application, log: Log) -> float:
    state_dir = application.configs.state_dir
    with OneTask(application, log, state_dir) as active:
        start_s = time.perf_counter()
        active.restore()
        seconds = time.perf_counter() - start_s
    shutil.rmtree(state_dir)
    return seconds


def _lags_behind_writer(application: Application, log: Log, directory: Path, duration_s: float) -> list[int]:
    """Offsets that were written and not applied, every few milliseconds."""
    writer = multiprocessing.get_context("spawn").Process(
        target=_write, args=(directory / "log", RECORDS_A_SECOND, duration_s + 1.0), daemon=True
    )
    with OneTask(application, log, application.configs.state_dir, standby=True) as standby, progress() as bar:
        while standby.read():
            pass
        begin = _end(log)
        writer.start()
        while _end(log) == begin:
            standby.read()
        work = bar.add_task("following a writer", total=duration_s)
        sampler = LagSampler(standby.task.state_manager, log)
        commit_interval_s = application.configs.effective_commit_interval_ms / 1_000
        start_s = committed_s = time.monotonic()
        with sampler:
            while (now_s := time.monotonic()) - start_s < duration_s:
                standby.read()
                if now_s - committed_s >= commit_interval_s:
                    committed_s = now_s
                    standby.task.prepare_commit()
                    standby.task.post_commit(enforce_checkpoint=False)
                bar.update(work, completed=now_s - start_s)
        writer.join()
    return sampler.lags


class LagSampler:
    """A thread that looks how far behind the log a task is, while the context lasts."""

    def __init__(self, state: StateManager, log: Log) -> None:
        self.lags: list[int] = []
        self._state = state
        self._log = log
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, name="lag", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stopped.wait(SAMPLE_INTERVAL_S):
            self.lags.append(_end(self._log) - self._state.changelog_offsets()[CHANGELOG_0])


def _end(log: Log) -> int:
    return log.end_offsets([CHANGELOG_0])[CHANGELOG_0]


def _write(log_directory: Path, records_a_second: int, duration_s: float) -> None:
    """The body of the writer's process."""
    log = EmbeddedLog(log_directory)
    write_steadily(log, CHANGELOG_0, records_a_second, duration_s, key_bytes=KEY_BYTES, value_bytes=VALUE_BYTES)
    log.close()
