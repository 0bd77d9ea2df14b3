"""What a function costs that takes a batch of records as columns, beside one that is called with each record.

One stream thread works through a topic in memory: source, function, sink. Each pair of functions computes the same, one
in Python for a value, one with numpy for all values of a batch, and both results have to be equal. Figures are CPU of
the thread: of all that it does, from an empty task to the last committed record, and of processing alone, which is
reading bytes, the function, and handing its results to the producer. The rest is the log's.
"""

import math
import operator
import random
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.applications import APPLICATION_ID, EVENTS, EVENTS_0, RESULTS, RESULTS_0, configs, create_topics
from benchmarks.thread_alone import ThreadAlone
from benchmarks.turns import in_turns
from streams_runtime import BYTES, DOUBLE, KStream, RecordColumns, Serde, StreamsBuilder
from streams_runtime.configs import ProcessingGuarantee
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Log
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.membership.coordinator_client import CoordinatorClient

RECORDS = 200_000
QUICK_RECORDS = 20_000
RUNS = 5
NOBODY = "http://127.0.0.1:9"

Stream = KStream[bytes, Any]
Columns = RecordColumns[bytes, Any]
_FEATURES = 20
_WEIGHTS = [0.1 * (number - 10) for number in range(_FEATURES)]
_WEIGHTS_ARRAY = np.array(_WEIGHTS)
_unpack = struct.Struct(f">{_FEATURES}d").unpack


@dataclass(frozen=True)
class Work:
    """`value`: makes one. `each`: of a value, `batch`: of a batch, both to doubles."""

    name: str
    serde: Serde[Any]
    value: Callable[[random.Random], Any]
    each: Callable[[Any], float]
    batch: Callable[[Columns], Any]


def double(chance: random.Random) -> float:
    return chance.uniform(0, 1_000)


def features(chance: random.Random) -> bytes:
    return struct.pack(f">{_FEATURES}d", *[chance.random() for _ in range(_FEATURES)])


def gross(value: float) -> float:
    return value * 1.19


def gross_of_batch(batch: Columns) -> Any:
    return batch.numpy_values() * 1.19


def likelihood(value: float) -> float:
    """A logistic model of three terms."""
    return 1 / (1 + math.exp(-(0.3 * math.log1p(value) + 0.2 * math.sqrt(value) - 0.01 * value)))


def likelihood_of_batch(batch: Columns) -> Any:
    values = batch.numpy_values()
    return 1 / (1 + np.exp(-(0.3 * np.log1p(values) + 0.2 * np.sqrt(values) - 0.01 * values)))


def score(value: bytes) -> float:
    return float(sum(map(operator.mul, _unpack(value), _WEIGHTS)))


def score_of_batch(batch: Columns) -> Any:
    return np.frombuffer(b"".join(batch.values), ">f8").reshape(len(batch), _FEATURES) @ _WEIGHTS_ARRAY


WORK = (
    Work("value * 1.19", DOUBLE, double, gross, gross_of_batch),
    Work("a logistic model of a double", DOUBLE, double, likelihood, likelihood_of_batch),
    Work(f"a linear model of {_FEATURES} features", BYTES, features, score, score_of_batch),
)

_EACH, _BATCHED = "map_values", "map_values_batches"


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row per function."""
    records = QUICK_RECORDS if quick else RECORDS
    table = Table(title=f"Microseconds of CPU a record, {records:,} records")
    for heading in ("function", "of what", _EACH, _BATCHED, "ratio"):
        table.add_column(heading, justify="left" if heading in ("function", "of what") else "right")
    with CoordinatorClient(NOBODY) as client:
        for work in WORK:
            measured = _measured(work, records, client, 1 if quick else RUNS)
            for what, index in (("processing", 0), ("the thread", 1)):
                each, batched = (1e6 * measured[contender][index] / records for contender in (_EACH, _BATCHED))
                table.add_row(work.name, what, f"{each:.2f}", f"{batched:.2f}", f"{batched / each:.2f}")
    console.print(table)


def _measured(work: Work, records: int, client: CoordinatorClient, runs: int) -> dict[str, tuple[float, float]]:
    """Of each contender the least that its runs took, for processing and in all: what else runs only adds to it."""
    chance = random.Random(records)
    values = [work.value(chance) for _ in range(records)]
    expected = [work.each(value) for value in values]
    written = [work.serde.serialize(value) for value in values]
    contenders: dict[str, Callable[[Stream], Stream]] = {
        _EACH: lambda stream: stream.map_values(work.each),
        _BATCHED: lambda stream: stream.map_values_batches(work.batch),
    }
    runners = {
        name: partial(_seconds, change, work.serde, written, expected, client) for name, change in contenders.items()
    }
    return {
        name: (min(processing for processing, _ in answers), min(whole for _, whole in answers))
        for name, answers in in_turns(runners, runs).items()
    }


class TimedThread(ThreadAlone):
    """`processing_s`: seconds of CPU in its tasks."""

    processing_s = 0.0

    def _process(self) -> None:
        start_s = time.thread_time()
        super()._process()
        self.processing_s += time.thread_time() - start_s


def _seconds(
    change: Callable[[Stream], Stream],
    serde: Serde[Any],
    values: list[bytes],
    expected: list[float],
    client: CoordinatorClient,
) -> tuple[float, float]:
    """For processing and in all, for one run on a log of its own."""
    log = InMemoryLog()
    create_topics(log)
    producer = log.producer()
    for number, value in enumerate(values):
        producer.send(EVENTS_0, b"%d" % (number % 1_000), value, number)
    producer.close()
    builder = StreamsBuilder()
    change(builder.stream(EVENTS, BYTES, serde)).to(RESULTS, key_serde=BYTES, value_serde=DOUBLE)
    with tempfile.TemporaryDirectory(prefix="bench-batches-") as directory:
        settings = configs(Path(directory), ProcessingGuarantee.AT_LEAST_ONCE)
        thread = TimedThread(Application(builder.build(), settings), log, client)
        start_s = time.thread_time()
        while _committed(log) < len(values):
            thread.run_pass()
        seconds = time.thread_time() - start_s
        thread.close()
    _check(log, expected)
    return thread.processing_s, seconds


def _committed(log: Log) -> int:
    found = log.committed_offsets(APPLICATION_ID, [EVENTS_0]).get(EVENTS_0)
    return 0 if found is None else found.offset


def _check(log: Log, expected: list[float]) -> None:
    """numpy and `math` may differ in the last bit."""
    consumer = log.consumer()
    consumer.assign([RESULTS_0])
    consumer.seek(RESULTS_0, 0)
    results: list[float] = []
    while batches := consumer.poll(0, 1_000):
        results += [DOUBLE.deserialize(value) for batch in batches for value in batch.values if value is not None]
    assert len(results) == len(expected)
    assert all(map(partial(math.isclose, abs_tol=1e-9), results, expected))
