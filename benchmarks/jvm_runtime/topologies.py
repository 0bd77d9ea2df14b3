"""The applications in Python, as a user writes them. `Instance.java` has the same ones in Java."""

import struct
from collections.abc import Callable, Mapping

from benchmarks.jvm_runtime.cells import COUNT, JOIN, MAP, PROCESSOR, WINDOWED_SUM
from streams_runtime import (
    BYTES,
    LONG,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    TimeWindows,
    Topology,
    key_value_store,
)

EVENTS, TABLE = "events", "table"
STORE = "store"
WINDOW_MS = 60_000
_NUMBER = struct.Struct(">q")
_HALF = 50


def topology(application: str, events: str, table: str, output: str) -> Topology:
    """`events`, `table`, `output`: topics. Only the join reads the table."""
    builder = StreamsBuilder()
    _BUILDERS[application](builder, events, table, output)
    return builder.build()


def mapped(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    return key, value.upper()


def joined(value: bytes, of_table: bytes) -> bytes:
    """Half of each, so that the result is as long as the value."""
    return value[:_HALF] + of_table[_HALF:]


def added(_key: bytes, value: bytes, so_far: int) -> int:
    """Adds the number in the first eight bytes of the value."""
    number: int = _NUMBER.unpack_from(value)[0]
    return so_far + number


class CountingProcessor(Processor[bytes, bytes]):
    """A get, a put and a forward for each record."""

    def init(self, context: ProcessorContext) -> None:
        self._forward = context.forward
        self._store = context.state_store(STORE)

    def process(self, record: Record[bytes, bytes]) -> None:
        count = (self._store.get(record.key) or 0) + 1
        self._store.put(record.key, count)
        self._forward(Record(record.key, count, record.timestamp_ms, record.headers))


def _map(builder: StreamsBuilder, events: str, _table: str, output: str) -> None:
    builder.stream(events, BYTES, BYTES).map(mapped).to(output, key_serde=BYTES, value_serde=BYTES)


def _count(builder: StreamsBuilder, events: str, _table: str, output: str) -> None:
    counts = builder.stream(events, BYTES, BYTES).group_by_key().count(store=STORE)
    counts.to_stream().to(output, key_serde=BYTES, value_serde=LONG)


def _windowed_sum(builder: StreamsBuilder, events: str, _table: str, output: str) -> None:
    windows = builder.stream(events, BYTES, BYTES).group_by_key().windowed_by(TimeWindows(WINDOW_MS))
    sums = windows.aggregate(int, added, value_serde=LONG, store=STORE)
    sums.to_stream().to(output)


def _join(builder: StreamsBuilder, events: str, table: str, output: str) -> None:
    of_keys = builder.table(table, BYTES, BYTES, store=STORE)
    builder.stream(events, BYTES, BYTES).join(of_keys, joined).to(output, key_serde=BYTES, value_serde=BYTES)


def _processor(builder: StreamsBuilder, events: str, _table: str, output: str) -> None:
    builder.add_state_store(key_value_store(STORE, BYTES, LONG))
    counted = builder.stream(events, BYTES, BYTES).process(CountingProcessor, stores=[STORE])
    counted.to(output, key_serde=BYTES, value_serde=LONG)


_BUILDERS: Mapping[str, Callable[[StreamsBuilder, str, str, str], None]] = {
    MAP: _map,
    COUNT: _count,
    WINDOWED_SUM: _windowed_sum,
    JOIN: _join,
    PROCESSOR: _processor,
}
