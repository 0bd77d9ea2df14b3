"""How many records a second the log on Kafka reads and writes, beside plain loops of aiokafka on the same broker.

The broker is a real one with one node, started from its jars for this run, so a JDK and Maven are needed. Both sides
write idempotently, compressed by lz4, in batches of at most 256 KiB, and read committed records only. The ratio is our
rate over that of the plain loop.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from rich.console import Console
from rich.table import Table

from assignor.types import TopicPartition
from streams_runtime.logs.base import Log, NewTopic, OffsetAndMetadata
from streams_runtime.logs.opening import open_log
from tests.oracle.broker import Broker
from tests.oracle.jars import JarsUnavailable

RECORDS, QUICK_RECORDS = 300_000, 20_000
PARTITIONS = 4
VALUE = bytes(range(100))
COMMIT_INTERVAL_S = 0.1
SMALL_COMMITS, QUICK_SMALL_COMMITS = 200, 10
BATCH_BYTES = 256 * 1024
LINGER_MS = 20


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row per way of reading and writing; or, where no broker can be had, why."""
    with tempfile.TemporaryDirectory(prefix="bench-kafka-log-") as temporary:
        try:
            broker = Broker(Path(temporary) / "broker")
        except JarsUnavailable as reason:
            console.print(f"kafka-log needs a real broker: {reason}")
            return
        broker.start()
        try:
            measure(console, broker.bootstrap_servers, quick=quick)
        finally:
            broker.stop()


def measure(console: Console, servers: str, *, quick: bool) -> None:
    """Print the rates on a running broker, and the ratio to aiokafka's."""
    records = QUICK_RECORDS if quick else RECORDS
    table = Table(title=f"{records:,} records of {len(VALUE)} bytes, {PARTITIONS} partitions, one broker")
    for heading in ("what", "records/s", "CPU µs/record", "aiokafka records/s", "CPU µs/record", "of the peer"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for what, ours, theirs in _measured(servers, records):
        ratio = "" if theirs is None else f"{ours.records_per_s / theirs.records_per_s:.2f}"
        table.add_row(what, *_cells(ours), *(("", "") if theirs is None else _cells(theirs)), ratio)
    milliseconds = _small_commits(servers, QUICK_SMALL_COMMITS if quick else SMALL_COMMITS)
    console.print(table)
    console.print(f"one transaction of one record and one offset: {milliseconds:.1f} ms")


def _measured(servers: str, records: int) -> list[tuple[str, _Rate, _Rate | None]]:
    log = open_log(servers, {"linger.ms": str(LINGER_MS)})
    topics = [f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("plain", "atomic", "theirs")]
    log.create_topics([NewTopic(topic, PARTITIONS) for topic in topics])
    plain, atomic, theirs = topics
    _write(log, plain, records // 10)  # the broker is cold
    start = log.end_offsets(_partitions(plain))
    rows: list[tuple[str, _Rate, _Rate | None]] = [
        (
            "write",
            _rate(records, lambda: _write(log, plain, records)),
            _rate(records, lambda: _aio_write(servers, theirs, records)),
        ),
        ("write in transactions of 100 ms", _rate(records, lambda: _write_atomically(log, atomic, records)), None),
        (
            "read",
            _rate(records, lambda: _read(log, start, records)),
            _rate(records, lambda: _aio_read(servers, start, records)),
        ),
    ]
    log.close()
    return rows


class _Rate(NamedTuple):
    """`cpu_us`: microseconds of this process's CPU for each record."""

    records_per_s: float
    cpu_us: float


def _cells(rate: _Rate) -> tuple[str, str]:
    return f"{rate.records_per_s:,.0f}", f"{rate.cpu_us:.2f}"


def _rate(records: int, call: Callable[[], None]) -> _Rate:
    cpu, begun = _cpu_s(), time.perf_counter()
    call()
    took = time.perf_counter() - begun
    return _Rate(records / took, (_cpu_s() - cpu) / records * 1e6)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def _key(number: int) -> bytes:
    return b"key-%d" % (number % 10_000)


def _write(log: Log, topic: str, records: int) -> None:
    producer, partitions = log.producer(), _partitions(topic)
    for number in range(records):
        producer.send(partitions[number % PARTITIONS], _key(number), VALUE, number)
    producer.close()


def _write_atomically(log: Log, topic: str, records: int) -> None:
    producer, partitions = log.producer(topic), _partitions(topic)
    claim = log.claim(topic, partitions, topic)
    producer.begin_transaction()
    committed_at = time.monotonic()
    for number in range(records):
        producer.send(partitions[number % PARTITIONS], _key(number), VALUE, number)
        if number % 100 == 99 and time.monotonic() - committed_at > COMMIT_INTERVAL_S:
            producer.commit_transaction([(claim, {partitions[0]: OffsetAndMetadata(number)})])
            producer.begin_transaction()
            committed_at = time.monotonic()
    producer.commit_transaction([(claim, {partitions[0]: OffsetAndMetadata(records)})])
    producer.close()


def _read(log: Log, start: dict[TopicPartition, int], records: int) -> None:
    consumer = log.consumer()
    consumer.assign(start)
    for partition, offset in start.items():
        consumer.seek(partition, offset)
    given = 0
    while given < records:
        given += sum(map(len, consumer.poll(1_000, 1_000)))
    consumer.close()


def _small_commits(servers: str, commits: int) -> float:
    log = open_log(servers)
    topic = f"small-{uuid.uuid4().hex[:8]}"
    log.create_topics([NewTopic(topic, 1)])
    (partition,), producer = [TopicPartition(topic, 0)], log.producer(topic)
    claim = log.claim(topic, [partition], topic)
    begun = time.perf_counter()
    for number in range(commits):
        producer.begin_transaction()
        producer.send(partition, b"key", VALUE, number)
        producer.commit_transaction([(claim, {partition: OffsetAndMetadata(number)})])
    took = time.perf_counter() - begun
    log.close()
    return took / commits * 1_000


def _aio_write(servers: str, topic: str, records: int) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            enable_idempotence=True,
            compression_type="lz4",
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
        )
        await producer.start()
        for number in range(records):
            await producer.send(topic, VALUE, _key(number), number % PARTITIONS, number)
        await producer.stop()

    asyncio.run(write())


def _aio_read(servers: str, start: dict[TopicPartition, int], records: int) -> None:
    async def read() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed")
        await consumer.start()
        offsets = {KafkaPartition(*partition): offset for partition, offset in start.items()}
        consumer.assign(list(offsets))
        for partition, offset in offsets.items():
            consumer.seek(partition, offset)
        given = 0
        while given < records:
            batches = await consumer.getmany(timeout_ms=1_000, max_records=1_000)
            given += sum(map(len, batches.values()))
        await consumer.stop()

    asyncio.run(read())
