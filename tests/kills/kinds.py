"""The stateful kinds of the DSL, all in one application. `killed_kinds.py` kills its instances.

The inputs have one right answer, whatever happens to the instances:
- All records are written before the first instance starts, and two inputs of a kind share no timestamp. So a task
  always takes the record with the lowest timestamp next.
- Records are out of order, but never by more than a window waits for them. As in Kafka, an operator forgets its stream
  time when its task moves, so which records are late depends on the moment of the move.
- The last records are far in the future, so that each window closes.
- The inner foreign-key join has no tombstones. As in Kafka, it may keep the result of a deleted row whose partner
  changes at the same time (`streams_runtime.dsl.foreign_key_join`).
"""

import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from streams_runtime.common.records import Record
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.dsl.streams import KStream, KTable
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.dsl.suppression import Suppressed
from streams_runtime.dsl.windows import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from streams_runtime.local_run.topology_test_driver import TopologyTestDriver
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.processors.api import FixedKeyProcessor, ProcessorContext
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.key_value import KeyValueStore
from streams_runtime.state_stores.state_store import Windowed

PARTITIONS = 2
GRACE_MS = 500
OUTPUT = "output"
_KEYS, _STEP_MS, _DISORDER_MS, _LONG_MS = 4, 20, 60, 60_000
_ALIGNED_MS = 600_000
"""The first timestamp is a multiple of this time, so that a seed has the same windows at any time of the day."""

_CLOSING = "~"
"""The first letter of the keys of the last records, which close all windows. Their results are left out."""

_MODULUS = 999_983


class Answer(Enum):
    """The part of a kind's output that equals the output of a run without faults.

    CHANGES: the records of each key, in their order. RECORDS: all records, in any order. LATEST: the last record of
    each key. VALUES: the last value of each key. The timestamps of a foreign-key join depend on which of its tasks is
    faster, and those of other tables on which changes a record cache merges.
    """

    CHANGES = "the records of each key"
    RECORDS = "all records"
    LATEST = "the last record of each key"
    VALUES = "the last value of each key"


class InputRecord(NamedTuple):
    topic: str
    partition: int
    key: str
    value: str | None
    timestamp_ms: int


Result = tuple[str, str | None, int]
"""The key, the value and the timestamp of a record in an output topic."""


class Inputs:
    """What the function that builds a kind reads. `persistent`: its stores are in RocksDB."""

    def __init__(self, builder: StreamsBuilder, prefix: str, kind: str, *, persistent: bool) -> None:
        self.builder = builder
        self.kind = kind
        self._prefix = prefix
        self._persistent = persistent

    def topic(self, side: str) -> str:
        return topic(self._prefix, self.kind, side)

    def stream(self, side: str) -> KStream[str, str]:
        return self.builder.stream(self.topic(side), STRING, STRING)

    def store(self, side: str = "result", **settings: Any) -> Materialized:
        return Materialized(f"{self.kind}-{side}", persistent=self._persistent, **settings)

    def table(self, side: str) -> KTable[str, str]:
        return self.builder.table(self.topic(side), STRING, STRING, store=self.store(side))


@dataclass(frozen=True, slots=True)
class Kind:
    """`sides`: its input topics. `tables`: the sides with tombstones. `answer`: without a record cache, `cached`: with
    one. `crosses`: its records go to another partition than those of its input. `rows`: the sides that have one record
    a key, which is there before the others.
    """

    build: Callable[[Inputs], KStream[str, str]]
    sides: Sequence[str] = ("left",)
    tables: Sequence[str] = ()
    answer: Answer = Answer.CHANGES
    cached: Answer | None = None
    crosses: bool = False
    rows: Sequence[str] = ()


def topic(prefix: str, kind: str, side: str) -> str:
    return f"{prefix}-{kind}-{side}"


def pair(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def nothing() -> str:
    return "7"


def mixed(_key: object, value: str, old: str) -> str:
    """Depends on the order of the values, and stays short."""
    return str((int(old) * 31 + int(value)) % _MODULUS)


def mixed_other(key: object, value: str, old: str) -> str:
    return mixed(key, f"1{value}", old)


def added(_key: object, value: str, old: str) -> str:
    return str(int(old) + int(value))


def subtracted(_key: object, value: str, old: str) -> str:
    return str(int(old) - int(value))


def as_text(_key: object, count: int) -> str:
    return str(count)


def flat_key(window: Windowed[str], _value: object) -> str:
    return f"{window.key}@{window.start_ms}-{window.end_ms}"


def chosen_key(_key: str, value: str) -> str:
    return f"k{int(value) % _KEYS}"


def grouped_by_value(key: str, value: str) -> tuple[str, str]:
    return chosen_key(key, value), value


JOINED = JoinWindows(80, 60, grace_ms=GRACE_MS)
TUMBLING = TimeWindows(150, grace_ms=GRACE_MS)
HOPPING = TimeWindows(200, 100, grace_ms=GRACE_MS)
SESSIONS = SessionWindows(50, grace_ms=GRACE_MS)


def stream_join(inputs: Inputs) -> KStream[str, str]:
    return inputs.stream("left").join(inputs.stream("right"), pair, JOINED, store=inputs.store())


def stream_left_join(inputs: Inputs) -> KStream[str, str]:
    return inputs.stream("left").left_join(inputs.stream("right"), pair, JOINED, store=inputs.store())


def stream_outer_join(inputs: Inputs) -> KStream[str, str]:
    return inputs.stream("left").outer_join(inputs.stream("right"), pair, JOINED, store=inputs.store())


def windowed(inputs: Inputs) -> KStream[str, str]:
    table = inputs.stream("left").group_by_key().windowed_by(HOPPING)
    return table.aggregate(nothing, mixed, value_serde=STRING, store=inputs.store()).to_stream(flat_key)


def sessions(inputs: Inputs) -> KStream[str, str]:
    grouped = inputs.stream("left").group_by_key().windowed_by(SESSIONS)
    return grouped.aggregate(nothing, mixed, mixed, value_serde=STRING, store=inputs.store()).to_stream(flat_key)


def sliding(inputs: Inputs) -> KStream[str, str]:
    grouped = inputs.stream("left").group_by_key().windowed_by(SlidingWindows(100, grace_ms=GRACE_MS))
    return grouped.aggregate(nothing, mixed, value_serde=STRING, store=inputs.store()).to_stream(flat_key)


def unlimited(inputs: Inputs) -> KStream[str, str]:
    grouped = inputs.stream("left").group_by_key().windowed_by(UnlimitedWindows())
    return grouped.aggregate(nothing, mixed, value_serde=STRING, store=inputs.store()).to_stream(flat_key)


def suppress_window(inputs: Inputs) -> KStream[str, str]:
    grouped = inputs.stream("left").group_by_key().windowed_by(TUMBLING)
    table = grouped.aggregate(nothing, mixed, value_serde=STRING, store=inputs.store())
    return table.suppress(Suppressed.until_window_closes()).to_stream(flat_key)


def suppress_sessions(inputs: Inputs) -> KStream[str, str]:
    grouped = inputs.stream("left").group_by_key().windowed_by(SESSIONS)
    table = grouped.aggregate(nothing, mixed, mixed, value_serde=STRING, store=inputs.store())
    return table.suppress(Suppressed.until_window_closes()).to_stream(flat_key)


def suppress_time(inputs: Inputs) -> KStream[str, str]:
    table = inputs.stream("left").group_by_key().aggregate(nothing, mixed, value_serde=STRING, store=inputs.store())
    return table.suppress(Suppressed.until_time_limit(2 * _DISORDER_MS)).to_stream()


def emit_window(inputs: Inputs) -> KStream[str, str]:
    """The store keeps windows until the last records, which jump far ahead, have forwarded them."""
    grouped = inputs.stream("left").group_by_key().windowed_by(TUMBLING).emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
    store = inputs.store(retention_ms=_LONG_MS)
    return grouped.aggregate(nothing, mixed, value_serde=STRING, store=store).to_stream(flat_key)


def emit_sessions(inputs: Inputs) -> KStream[str, str]:
    grouped = inputs.stream("left").group_by_key().windowed_by(SESSIONS).emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
    store = inputs.store(retention_ms=_LONG_MS)
    return grouped.aggregate(nothing, mixed, mixed, value_serde=STRING, store=store).to_stream(flat_key)


def foreign_key_join(inputs: Inputs) -> KStream[str, str]:
    table = inputs.table("left")
    return table.foreign_key_join(
        inputs.table("right"), chosen_key, pair, value_serde=STRING, store=inputs.store()
    ).to_stream()


def foreign_key_left_join(inputs: Inputs) -> KStream[str, str]:
    table = inputs.table("left")
    return table.foreign_key_left_join(
        inputs.table("right"), chosen_key, pair, value_serde=STRING, store=inputs.store()
    ).to_stream()


def table_outer_join(inputs: Inputs) -> KStream[str, str]:
    return (
        inputs.table("left")
        .outer_join(inputs.table("right"), pair, value_serde=STRING, store=inputs.store())
        .to_stream()
    )


def grouped_table(inputs: Inputs) -> KStream[str, str]:
    grouped = inputs.table("left").group_by(grouped_by_value, key_serde=STRING, value_serde=STRING)
    table = grouped.aggregate(nothing, added, subtracted, value_serde=STRING, store=inputs.store())
    return table.to_stream()


def cogroup(inputs: Inputs) -> KStream[str, str]:
    left, right = inputs.stream("left").group_by_key(), inputs.stream("right").group_by_key()
    both = left.cogroup(mixed).cogroup(right, mixed_other).windowed_by(TUMBLING)
    return both.aggregate(nothing, value_serde=STRING, store=inputs.store()).to_stream(flat_key)


def cogroup_sessions(inputs: Inputs) -> KStream[str, str]:
    left, right = inputs.stream("left").group_by_key(), inputs.stream("right").group_by_key()
    both = left.cogroup(mixed).cogroup(right, mixed_other).windowed_by(SESSIONS)
    return both.aggregate(nothing, mixed, value_serde=STRING, store=inputs.store()).to_stream(flat_key)


def versioned_join(inputs: Inputs) -> KStream[str, str]:
    store = Materialized(f"{inputs.kind}-right", history_retention_ms=_LONG_MS)
    table = inputs.builder.table(inputs.topic("right"), STRING, STRING, store=store)
    return inputs.stream("left").left_join(table, pair, grace_ms=2 * _DISORDER_MS)


def global_join(inputs: Inputs) -> KStream[str, str]:
    table = inputs.builder.global_table(inputs.topic("rows"), STRING, STRING, store=inputs.store("rows"))
    return inputs.stream("left").left_join(table, pair, key_selector=chosen_key)


class Mixing(FixedKeyProcessor[str, str]):
    """Forwards the mix of all values of the key, which its store has."""

    def init(self, context: ProcessorContext) -> None:
        self._forward = context.forward
        self._mixes: KeyValueStore[str, str] = context.state_store(PROCESS_VALUES_STORE)

    def process(self, record: Record[str, str]) -> None:
        mix = mixed(record.key, record.value, self._mixes.get(record.key) or nothing())
        self._mixes.put(record.key, mix)
        self._forward(record._replace(value=mix))


PROCESS_VALUES_STORE = "process-values-result"


def process_values(inputs: Inputs) -> KStream[str, str]:
    persistent = inputs.store().persistent
    inputs.builder.add_state_store(key_value_store(PROCESS_VALUES_STORE, STRING, STRING, persistent=persistent))
    return inputs.stream("left").process_values(Mixing, stores=[PROCESS_VALUES_STORE])


_BOTH = ("left", "right")
_LATEST, _RECORDS = Answer.LATEST, Answer.RECORDS

KINDS: Mapping[str, Kind] = {
    "stream-join": Kind(stream_join, _BOTH),
    "stream-left-join": Kind(stream_left_join, _BOTH, answer=_RECORDS),
    "stream-outer-join": Kind(stream_outer_join, _BOTH, answer=_RECORDS),
    "windowed": Kind(windowed, cached=_LATEST),
    "sessions": Kind(sessions, cached=_LATEST),
    "sliding": Kind(sliding, cached=_LATEST),
    "unlimited": Kind(unlimited, cached=_LATEST),
    "suppress-window": Kind(suppress_window),
    "suppress-sessions": Kind(suppress_sessions),
    "suppress-time": Kind(suppress_time, cached=_LATEST),
    "emit-window": Kind(emit_window),
    "emit-sessions": Kind(emit_sessions),
    "foreign-key-join": Kind(foreign_key_join, _BOTH, answer=Answer.VALUES, crosses=True),
    "foreign-key-left-join": Kind(foreign_key_left_join, _BOTH, _BOTH, answer=Answer.VALUES, crosses=True),
    "table-outer-join": Kind(table_outer_join, _BOTH, _BOTH, cached=Answer.VALUES),
    "grouped-table": Kind(grouped_table, tables=("left",), answer=_LATEST, cached=Answer.VALUES, crosses=True),
    "cogroup": Kind(cogroup, _BOTH, cached=_LATEST),
    "cogroup-sessions": Kind(cogroup_sessions, _BOTH, cached=_LATEST),
    "versioned-join": Kind(versioned_join, _BOTH, ("right",)),
    "global-join": Kind(global_join, ("left", "rows"), rows=("rows",)),
    "process-values": Kind(process_values),
}


def topology_of(
    prefix: str, kinds: Iterable[str], pace: Callable[[object, object], object], *, persistent: bool
) -> Topology:
    """`prefix`: of the topics. `pace`: called with each result."""
    builder = StreamsBuilder()
    for name in kinds:
        results = KINDS[name].build(Inputs(builder, prefix, name, persistent=persistent))
        results.peek(pace).to(topic(prefix, name, OUTPUT), key_serde=STRING, value_serde=STRING)
    return builder.build()


def drawn_records(prefix: str, name: str, count: int, chance: random.Random) -> dict[str, list[InputRecord]]:
    """By the side of a kind, its records in the order in which they are written. `count`: of each side. Timestamps are
    near the present time, because a log deletes records of changelogs of windows by their age.
    """
    first_ms = time.time_ns() // 1_000_000 // _ALIGNED_MS * _ALIGNED_MS
    kind, keys = KINDS[name], [f"k{number}" for number in range(_KEYS)]
    drawn: dict[str, list[InputRecord]] = {}
    for parity, side in enumerate(kind.sides):
        if side in kind.rows:
            entries: list[tuple[str, str | None, int]] = [
                (key, str(chance.randrange(_MODULUS)), first_ms) for key in keys[1:]
            ]
        else:
            entries = [
                (
                    chance.choice(keys),
                    None if side in kind.tables and chance.random() < 0.2 else str(chance.randrange(_MODULUS)),
                    first_ms + number * _STEP_MS + chance.randrange(0, _DISORDER_MS, 2) + parity,
                )
                for number in range(count)
            ]
            last_ms = first_ms + count * _STEP_MS + _LONG_MS // 2 + parity
            entries += [(key, "0", last_ms) for key in _CLOSING_KEYS]
        drawn[side] = [
            InputRecord(topic(prefix, name, side), partition_of(key.encode(), PARTITIONS), key, value, timestamp_ms)
            for key, value, timestamp_ms in entries
        ]
    return drawn


def is_closing(key: str) -> bool:
    """The record results from one that only closes windows."""
    return key.startswith(_CLOSING)


def _closing_key(partition: int) -> str:
    keys = (f"{_CLOSING}{number}" for number in itertools.count())
    return next(key for key in keys if partition_of(key.encode(), PARTITIONS) == partition)


_CLOSING_KEYS = [_closing_key(partition) for partition in range(PARTITIONS)]


def results_without_faults(prefix: str, name: str, records: Mapping[str, Sequence[InputRecord]]) -> list[Result]:
    """The results of a kind in a test driver, without a record cache. Each partition has a driver of its own, as it has
    a task of its own.
    """
    kind = KINDS[name]
    results: list[Result] = []
    for partitions in [range(PARTITIONS)] if kind.crosses else [[number] for number in range(PARTITIONS)]:
        rows = [record for side in kind.rows for record in records[side]]
        others = [
            [each for each in records[side] if each.partition in partitions]
            for side in kind.sides
            if side not in kind.rows
        ]
        topology = topology_of(prefix, [name], nothing_at_all, persistent=False)
        with TopologyTestDriver(topology, {"statestore.cache.max.bytes": 0}) as driver:
            for record in [*rows, *in_order_of_processing(others)]:
                value = None if record.value is None else record.value.encode()
                driver.pipe_raw(record.topic, record.key.encode(), value, record.timestamp_ms)
            output = driver.create_output_topic(topic(prefix, name, OUTPUT), STRING, STRING)
            results += [(str(record.key), record.value, record.timestamp_ms) for record in output.read_all()]
    return results


def nothing_at_all(_key: object, _value: object) -> None: ...


def in_order_of_processing(inputs: Iterable[Sequence[InputRecord]]) -> Iterator[InputRecord]:
    """A task always takes the partition whose next record has the lowest timestamp."""
    waiting = [deque(each) for each in inputs]
    while waiting := [each for each in waiting if each]:
        yield min(waiting, key=lambda each: each[0].timestamp_ms).popleft()


def compared(results: Iterable[Result], answer: Answer) -> Mapping[object, object]:
    """The part of the results that has to be equal."""
    counted = [each for each in results if not is_closing(each[0])]
    if answer is Answer.RECORDS:
        return Counter(counted)
    changes: dict[object, list[tuple[str | None, int]]] = {}
    for key, value, timestamp_ms in counted:
        changes.setdefault(key, []).append((value, timestamp_ms))
    if answer is Answer.CHANGES:
        return changes
    latest = {key: values[-1] for key, values in changes.items() if values[-1][0] is not None}
    return latest if answer is Answer.LATEST else {key: value for key, (value, _) in latest.items()}
