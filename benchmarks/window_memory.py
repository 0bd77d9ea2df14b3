"""Memory of a process whose windows expire: an outer join of two streams, sessions, and counts that wait until their
window closes. The keys change all the time, too. So whatever is kept for an expired window or for an old key shows as
growth.

The records come at a steady rate, and their timestamps advance a minute in each second. The stream thread runs in a
process of its own, exactly-once, on the embedded log. The memory has to stay flat once the caches are full: the ratio
is the most memory in the last third of the time over that in the third before.
"""

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.table import Table

from assignor.types import TopicPartition
from benchmarks.applications import APPLICATION_ID, EVENTS, RESULTS
from benchmarks.turns import load_average, progress
from streams_runtime import (
    BYTES,
    Application,
    JoinWindows,
    LocalRun,
    NewTopic,
    ProcessingGuarantee,
    SessionWindows,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    open_log,
)

MINUTES = 10.0
QUICK_MINUTES = 0.2
RECORDS_A_SECOND = 1_000
EVENT_MS_A_SECOND = 60_000
WINDOW_MS, GAP_MS = 60_000, 20_000
KEYS_AT_A_TIME = 1_000
RECORDS_A_NEW_KEY = 20
VALUE = bytes(100)
SAMPLES = 30
MOST_GROWTH = 1.1
OTHERS = "others"
TURNS_A_SECOND = 10
_STATM = "/proc/{}/statm"


def run(console: Console, *, quick: bool = False) -> None:
    """Print the memory over the time."""
    _print(console, QUICK_MINUTES if quick else MINUTES)


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks window-memory", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long (default %(default)g)")
    _print(console, parser.parse_args(arguments).minutes)


def either(left: bytes | None, right: bytes | None) -> bytes:
    return left or right or b""


def application(directory: Path) -> Application:
    builder = StreamsBuilder()
    left, right = builder.stream(EVENTS, BYTES, BYTES), builder.stream(OTHERS, BYTES, BYTES)
    joined = left.outer_join(right, either, JoinWindows(WINDOW_MS, grace_ms=0))
    joined.to(RESULTS, key_serde=BYTES, value_serde=BYTES)
    left.group_by_key().windowed_by(SessionWindows(GAP_MS)).count().to_stream().to(RESULTS)
    counts = left.group_by_key().windowed_by(TimeWindows(WINDOW_MS)).count()
    counts.suppress(Suppressed.until_window_closes()).to_stream().to(RESULTS)
    servers, guarantee = f"embedded:{directory / 'log'}", ProcessingGuarantee.EXACTLY_ONCE_V2
    return Application(builder.build(), StreamsConfig(APPLICATION_ID, servers, directory / "state", guarantee))


def _print(console: Console, minutes: float) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-window-memory-") as temporary:
        samples = _samples(Path(temporary), 60 * minutes)
    table = Table(title=f"Memory while windows of {WINDOW_MS // 1_000} s expire, {RECORDS_A_SECOND:,} records a second")
    for heading in ("minutes", "records sent", "records read", "resident MB"):
        table.add_column(heading, justify="right")
    for passed_s, sent, read, resident in samples:
        table.add_row(f"{passed_s / 60:.1f}", f"{sent:,}", f"{read:,}", f"{resident:,.0f}")
    third = len(samples) // 3
    before, after = (max(sample[3] for sample in part) for part in (samples[third : 2 * third], samples[2 * third :]))
    verdict = "flat" if after <= MOST_GROWTH * before else "NOT FLAT"
    table.caption = f"{before:,.0f} MB, then {after:,.0f} MB, ratio {after / before:.2f}: {verdict}; {load_average()}"
    console.print(table)


def _samples(directory: Path, duration_s: float) -> list[tuple[float, int, int, float]]:
    """Seconds, records that were sent, input records that the application has committed, and megabytes."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    samples: list[tuple[float, int, int, float]] = []
    with closing(open_log(f"embedded:{directory / 'log'}")) as log, progress() as bar:
        log.create_topics([NewTopic(name, 1) for name in (EVENTS, OTHERS, RESULTS)])
        inputs = [TopicPartition(EVENTS, 0), TopicPartition(OTHERS, 0)]
        process = spawning.Process(target=_stream, args=(directory, theirs))
        process.start()
        ours.recv()
        work = bar.add_task("streaming", total=SAMPLES)
        chance, sent, started_s = random.Random(7), 0, time.monotonic()
        first_ms = time.time_ns() // 1_000_000 - int(duration_s * EVENT_MS_A_SECOND)
        with closing(log.producer()) as producer:
            while len(samples) < SAMPLES:
                time.sleep(1 / TURNS_A_SECOND)
                passed_s = time.monotonic() - started_s
                while sent < passed_s * RECORDS_A_SECOND:
                    key = (sent // RECORDS_A_NEW_KEY + chance.randrange(KEYS_AT_A_TIME)).to_bytes(8, "big")
                    timestamp_ms = first_ms + sent * EVENT_MS_A_SECOND // RECORDS_A_SECOND
                    producer.send(inputs[sent % 2], key, VALUE, timestamp_ms)
                    sent += 1
                producer.flush()
                assert process.is_alive(), "the process with the stream thread has ended"
                if passed_s >= duration_s * (len(samples) + 1) / SAMPLES:
                    read = sum(each.offset for each in log.committed_offsets(APPLICATION_ID, inputs).values())
                    pages = int(Path(_STATM.format(process.pid)).read_text().split()[1])
                    samples.append((passed_s, sent, read, pages * os.sysconf("SC_PAGE_SIZE") / 1e6))
                    bar.update(work, completed=len(samples))
        ours.close()
        process.join()
    return samples


def _stream(directory: Path, parent: Connection) -> None:
    """The body of the process. Sends None when it runs, and ends when the parent has closed the connection."""
    with LocalRun(application(directory)):
        parent.send(None)
        parent.poll(None)
