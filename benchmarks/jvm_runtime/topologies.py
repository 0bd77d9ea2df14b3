"""The applications in Python, as a user writes them. `Instance.java` has the same ones in Java."""

import struct
from collections.abc import Callable, Mapping

from benchmarks.jvm_runtime.cells import (
    COUNT,
    FOREIGN_KEY_JOIN,
    GLOBAL_JOIN,
    JOIN,
    MAP,
    PROCESSOR,
    ROWS_A_KEY,
    SESSIONS,
    STREAM_JOIN,
    SUPPRESS,
    WINDOWED_SUM,
)
from streams_runtime import (
    BYTES,
    LONG,
    JoinWindows,
    Processor,
    ProcessorContext,
    Record,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    key_value_store,
)

EVENTS, TABLE, OTHERS = "events", "table", "others"
STORE = "store"
WINDOW_MS = 60_000
GAP_MS = 10_000
JOIN_WINDOW_MS = 1_000
_NUMBER = struct.Struct(">q")
_HALF = 50


def topology(application: str, events: str, beside: str, output: str) -> Topology:
    """`events`, `beside`, `output`: topics. Only joins read `beside`: the rows of a table, or the other stream."""
    builder = StreamsBuilder()
    _BUILDERS[application](builder, events, beside, output)
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


def row_joined(row: bytes, event: bytes) -> bytes:
    return joined(event, row)


def key_of_row(key: bytes, _row: bytes) -> bytes:
    """Several rows have the same key in the other table."""
    return (int.from_bytes(key, "big") // ROWS_A_KEY).to_bytes(len(key), "big")


def partition_of_number(key: bytes, _value: object, partitions: int) -> int:
    """The partition to which `input_records` writes this key."""
    return int.from_bytes(key, "big") % partitions


def same_key(key: bytes, _value: bytes) -> bytes:
    return key


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


def _stream_join(builder: StreamsBuilder, events: str, others: str, output: str) -> None:
    left, right = builder.stream(events, BYTES, BYTES), builder.stream(others, BYTES, BYTES)
    left.join(right, joined, JoinWindows(JOIN_WINDOW_MS, grace_ms=0)).to(output, key_serde=BYTES, value_serde=BYTES)


def _sessions(builder: StreamsBuilder, events: str, _table: str, output: str) -> None:
    sessions = builder.stream(events, BYTES, BYTES).group_by_key().windowed_by(SessionWindows(GAP_MS))
    sessions.count(store=STORE).to_stream().to(output)


def _suppress(builder: StreamsBuilder, events: str, _table: str, output: str) -> None:
    windows = builder.stream(events, BYTES, BYTES).group_by_key().windowed_by(TimeWindows(WINDOW_MS))
    windows.count(store=STORE).suppress(Suppressed.until_window_closes()).to_stream().to(output)


def _foreign_key_join(builder: StreamsBuilder, events: str, table: str, output: str) -> None:
    """Each event changes a row of the right table, which changes ten rows of the result."""
    rows, by_key = builder.table(table, BYTES, BYTES, store="rows"), builder.table(events, BYTES, BYTES, store=STORE)
    results = rows.foreign_key_join(by_key, key_of_row, row_joined, other_partitioner=partition_of_number)
    results.to_stream().to(output, key_serde=BYTES, value_serde=BYTES)


def _global_join(builder: StreamsBuilder, events: str, table: str, output: str) -> None:
    everywhere = builder.global_table(table, BYTES, BYTES, store=STORE)
    results = builder.stream(events, BYTES, BYTES).join(everywhere, joined, key_selector=same_key)
    results.to(output, key_serde=BYTES, value_serde=BYTES)


_BUILDERS: Mapping[str, Callable[[StreamsBuilder, str, str, str], None]] = {
    MAP: _map,
    COUNT: _count,
    WINDOWED_SUM: _windowed_sum,
    JOIN: _join,
    PROCESSOR: _processor,
    STREAM_JOIN: _stream_join,
    SESSIONS: _sessions,
    SUPPRESS: _suppress,
    FOREIGN_KEY_JOIN: _foreign_key_join,
    GLOBAL_JOIN: _global_join,
}
