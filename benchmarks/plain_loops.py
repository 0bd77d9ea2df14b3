"""The peers of a stream thread: Python loops on the same log that do only what has to be done.

They consume as a thread does and commit at the same intervals, in transactions under exactly-once. One loop maps. The
other counts, with a get and a put of rocksdict for each record, and writes the changelog too if asked.
"""

import struct
import time
from collections.abc import Callable
from pathlib import Path

from rocksdict import Rdict

from benchmarks.applications import CHANGELOG_0, EVENTS_0, RESULTS_0, mapped
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Log, OffsetAndMetadata, Producer, RecordBatch
from streams_runtime.state_stores.rocksdb_options import store_options

_COUNT = struct.Struct(">q")

OnBatch = Callable[[RecordBatch], None]


def map_loop(log: Log, configs: StreamsConfig, records: int) -> None:
    """source -> map -> sink, until so many records are committed."""
    producer = log.producer("plain" if configs.exactly_once else None)
    send = producer.send

    def on_batch(batch: RecordBatch) -> None:
        for key, value, timestamp_ms in zip(batch.keys, batch.values, batch.timestamps_ms, strict=True):
            assert key is not None
            assert value is not None
            new_key, new_value = mapped(key, value)
            send(RESULTS_0, new_key, new_value, timestamp_ms)

    _consume(log, configs, records, producer, on_batch)


def count_loop(log: Log, configs: StreamsConfig, records: int, directory: Path, *, with_changelog: bool) -> None:
    """source -> count -> sink, until so many records are committed."""
    producer = log.producer("plain" if configs.exactly_once else None)
    send = producer.send
    database = Rdict(str(directory), store_options())
    get, put = database.get, database.put
    pack, unpack = _COUNT.pack, _COUNT.unpack

    def on_batch(batch: RecordBatch) -> None:
        for key, timestamp_ms in zip(batch.keys, batch.timestamps_ms, strict=True):
            assert key is not None
            before = get(key)
            count = pack(1 if before is None else unpack(before)[0] + 1)
            put(key, count)
            if with_changelog:
                send(CHANGELOG_0, key, count, timestamp_ms)
            send(RESULTS_0, key, count, timestamp_ms)

    _consume(log, configs, records, producer, on_batch)
    database.close()


def _consume(log: Log, configs: StreamsConfig, records: int, producer: Producer, on_batch: OnBatch) -> None:
    interval_s = configs.effective_commit_interval_ms / 1_000
    claim = log.claim(configs.application_id, [EVENTS_0])
    consumer = log.consumer()
    consumer.assign([EVENTS_0])
    consumer.seek(EVENTS_0, 0)
    if configs.exactly_once:
        producer.begin_transaction()
    committed, committed_s = 0, time.monotonic()
    while committed < records:
        for batch in consumer.poll(0, configs.max_poll_records):
            on_batch(batch)
        position = consumer.position(EVENTS_0) or 0
        if position >= records or time.monotonic() - committed_s >= interval_s:
            offsets = [(claim, {EVENTS_0: OffsetAndMetadata(position)})]
            if configs.exactly_once:
                producer.commit_transaction(offsets)
                producer.begin_transaction()
            else:
                producer.commit_offsets(offsets)
            committed, committed_s = position, time.monotonic()
    producer.close()
    consumer.close()
