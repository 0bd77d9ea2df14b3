"""How many records a second one stream thread processes, beside plain Python loops on the same embedded log.

What runs is all of a stream thread's work (`ThreadWork`: poll, restore, process, punctuate, commit) with the DSL's own
processors, but without a group; from an empty task to the last committed record.
"""

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.applications import APPLICATION_ID, EVENTS_0, configs, counting, create_topics, mapping
from benchmarks.plain_loops import count_loop, map_loop
from benchmarks.thread_alone import ThreadAlone
from benchmarks.turns import medians
from streams_runtime.configs import ProcessingGuarantee, StreamsConfig
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Log
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.membership.coordinator_client import CoordinatorClient

RECORDS = 200_000
QUICK_RECORDS = 10_000
DIFFERENT_KEYS = 10_000
VALUE_BYTES = 100
RUNS = 3
NOBODY = "http://127.0.0.1:9"

Contender = Callable[[Log, StreamsConfig, int], None]

_MAP, _COUNT = "stateless map", "count store"
_LOOP, _WITH_STORE, _WITH_CHANGELOG = "loop", "loop, get and put", "loop, get, put and changelog"
PEERS = ((_MAP, _LOOP), (_COUNT, _WITH_STORE), (_COUNT, _WITH_CHANGELOG))


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row per guarantee, application and peer."""
    records = QUICK_RECORDS if quick else RECORDS
    table = Table(title=f"One stream thread, {records:,} records of {VALUE_BYTES} bytes, {DIFFERENT_KEYS:,} keys")
    for heading in ("guarantee", "application", "records/s", "peer", "records/s", "of the peer"):
        table.add_column(heading, justify="right" if heading in ("records/s", "of the peer") else "left")
    with tempfile.TemporaryDirectory(prefix="bench-processing-") as temporary:
        directory = Path(temporary)
        _write_events(directory / "events" / "log", records)
        for guarantee in ProcessingGuarantee:
            with CoordinatorClient(NOBODY) as client:
                rates = _rates(directory, guarantee, records, 1 if quick else RUNS, client)
            for application, peer in PEERS:
                ours, theirs = rates[application], rates[peer]
                ratio = f"{ours / theirs:.2f}"
                table.add_row(guarantee.value, application, f"{ours:,.0f}", peer, f"{theirs:,.0f}", ratio)
    console.print(table)


def _rates(
    directory: Path, guarantee: ProcessingGuarantee, records: int, runs: int, client: CoordinatorClient
) -> dict[str, float]:
    contenders: dict[str, Contender] = {
        _MAP: partial(_thread, mapping, client),
        _LOOP: map_loop,
        _COUNT: partial(_thread, counting, client),
        _WITH_STORE: partial(_count_loop, with_changelog=False),
        _WITH_CHANGELOG: partial(_count_loop, with_changelog=True),
    }
    runners = {
        name: partial(_seconds, contender, directory, guarantee, records) for name, contender in contenders.items()
    }
    return {name: records / seconds for name, seconds in medians(runners, runs, guarantee.value).items()}


def _seconds(contender: Contender, directory: Path, guarantee: ProcessingGuarantee, records: int) -> float:
    """Of one run, on a log that has nothing but the events."""
    its_own = directory / "run"
    shutil.copytree(directory / "events", its_own)
    log = EmbeddedLog(its_own / "log")
    start_s = time.perf_counter()
    contender(log, configs(its_own, guarantee), records)
    seconds = time.perf_counter() - start_s
    log.close()
    shutil.rmtree(its_own)
    return seconds


def _thread(
    application: Callable[[StreamsConfig], Application],
    client: CoordinatorClient,
    log: Log,
    settings: StreamsConfig,
    records: int,
) -> None:
    thread = ThreadAlone(application(settings), log, client)
    committed = 0
    while committed < records:
        thread.run_pass()
        found = log.committed_offsets(APPLICATION_ID, [EVENTS_0]).get(EVENTS_0)
        committed = 0 if found is None else found.offset
    thread.close()


def _count_loop(log: Log, settings: StreamsConfig, records: int, *, with_changelog: bool) -> None:
    count_loop(log, settings, records, settings.state_dir, with_changelog=with_changelog)


def _write_events(log_directory: Path, records: int) -> None:
    chance = random.Random(records)
    log = EmbeddedLog(log_directory)
    create_topics(log)
    producer = log.producer()
    for number in range(records):
        key = chance.randrange(DIFFERENT_KEYS).to_bytes(8, "big")
        producer.send(EVENTS_0, key, chance.randbytes(VALUE_BYTES), 1_700_000_000_000 + number)
    producer.close()
    log.close()
