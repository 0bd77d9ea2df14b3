"""Topologies of random steps, records for them, and a task that shows everything that can be seen of it.

Tests run two tasks with the same steps and records, and compare records of all topics, changelogs, stores, commits,
losses, what handlers were asked, and the order in which functions of the user were called.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st

from assignor.types import TopicPartition
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Record
from streams_runtime.dsl.streams import KStream
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.dsl.windows import TimeWindows
from streams_runtime.logs.base import NewTopic
from streams_runtime.processors.api import FailedRecord, HandlerResponse, Processor, ProcessorContext, PunctuationType
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.thread_cache import ThreadCache
from tests.streams_runtime.processors.recording_runtime import PassOn
from tests.streams_runtime.tasks.running_task import APPLICATION, EXACTLY_ONCE, IN, OTHER, RunningTask, Trouble

MANY = "many"
STEPS = (
    "map", "select_key", "flat_map", "map_values", "map_values_with_key", "flat_map_values", "filter", "filter_not",
    "peek", "for_each", "split", "merge", "to out", "to many", "process", "count", "reduce", "aggregate", "table",
    "windowed", "join", "left join", "of table", "process with a store", "process and catch",
)  # fmt: skip
TOPOLOGIES = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), min_size=1, max_size=7)
KEYS = st.none() | st.sampled_from([b"a", b"b", b"c", b"\xff"])
VALUES = st.none() | st.sampled_from([b"", b"x", b"xy", b"oops", b"long" * 30, b"\xfe"])
RECORDS = st.tuples(KEYS, VALUES, st.integers(-1, 12))
PORTIONS = st.lists(st.tuples(st.lists(RECORDS, max_size=12), st.integers(1, 6), st.booleans()), min_size=1, max_size=4)
"""Records that are written, how many are processed at a time, and whether there is a commit after it."""


@dataclass(slots=True)
class Heard:
    """What the functions of the user were called with, in order."""

    calls: list[object] = field(default_factory=list)

    def note(self, name: str, *arguments: object) -> None:
        self.calls.append((name, *arguments))
        if any(argument in ("oops", "spoo") for argument in arguments):
            raise Trouble(f"{name} does not like it")

    def mapped(self, name: str, key: Any, value: Any) -> tuple[Any, Any]:
        self.note(name, key, value)
        return (None if key == "b" else key), (None if value is None else value[::-1])

    def key(self, name: str, key: Any, value: Any) -> Any:
        self.note(name, key, value)
        return value

    def flat(self, name: str, key: Any, value: Any) -> list[tuple[Any, Any]]:
        self.note(name, key, value)
        return [] if value is None else [(key, letter) for letter in value[:2]]

    def value(self, name: str, value: Any) -> Any:
        self.note(name, value)
        return None if value == "x" else f"{value}!"

    def value_with_key(self, name: str, key: Any, value: Any) -> Any:
        self.note(name, key, value)
        return f"{key}{value}"

    def values(self, name: str, value: Any) -> list[Any]:
        self.note(name, value)
        return [value, None]

    def one_value(self, name: str, value: Any) -> list[Any]:
        self.note(name, value)
        return [value]

    def is_wanted(self, name: str, key: Any, value: Any) -> bool:
        self.note(name, key, value)
        return value is not None and len(value) % 2 == 0

    def peek(self, name: str, key: Any, value: Any) -> None:
        self.note(name, key, value)

    def reduced(self, name: str, value: Any, other: Any) -> Any:
        self.note(name, value, other)
        return None if other == "x" else f"{value}{other}"[:20]

    def nothing(self, name: str) -> Any:
        self.note(name)
        return ""

    def aggregated(self, name: str, key: Any, value: Any, aggregate: Any) -> Any:
        self.note(name, key, value)
        return None if value == "x" else f"{aggregate}{value}"[:20]


class Curious(PassOn):
    """It looks at everything that a context tells."""

    def __init__(self, heard: Heard, name: str) -> None:
        self._heard = heard
        self._name = name

    def process(self, record: Record[Any, Any]) -> None:
        context = self.context
        self._heard.note(self._name, *record, context.record_metadata, context.headers, context.current_stream_time_ms)
        context.forward(record)


class CuriousWithStore(Curious):
    """It counts keys in a store of its name, hands on what it counted, and one record more when asked to punctuate."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.state_store(self._name)
        context.schedule(3, PunctuationType.STREAM_TIME, self.punctuate)

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is not None:
            count = (self._store.get(record.key) or 0) + 1
            self._store.put(record.key, None if count == 5 else count)
            self.context.forward(record._replace(value=f"{count}"))
        super().process(record)

    def punctuate(self, time_ms: int) -> None:
        self._store.put("time", time_ms)
        self.context.forward(Record("time", "passes", time_ms))


class CatchesErrors(Curious):
    """What fails below is no reason for it to stop."""

    def process(self, record: Record[Any, Any]) -> None:
        try:
            super().process(record)
        except Trouble as error:
            self.context.forward(record._replace(value=repr(error)[:20]))
        self.context.forward(record._replace(headers=(("a", b"header"),)))


def not_liked(batch: RecordColumns[Any, Any]) -> None:
    if not {"oops", "spoo"}.isdisjoint([*batch.keys, *batch.values]):
        raise Trouble("a batch is not liked")


def mapped_rows(batch: RecordColumns[Any, Any]) -> tuple[list[Any], list[Any]]:
    not_liked(batch)
    return [None if key == "b" else key for key in batch.keys], [value and value[::-1] for value in batch.values]


def new_values(batch: RecordColumns[Any, Any]) -> list[Any]:
    not_liked(batch)
    return [None if value == "x" else f"{key}{value}" for key, value in zip(batch.keys, batch.values, strict=True)]


def wanted_rows(batch: RecordColumns[Any, Any]) -> list[bool]:
    not_liked(batch)
    return [value is not None and len(value) % 2 == 0 for value in batch.values]


def twice_or_never(batch: RecordColumns[Any, Any]) -> RecordColumns[Any, Any]:
    not_liked(batch)
    return batch.take([row for row, value in enumerate(batch.values) for _ in range(len(value or "") % 3)])


class CuriousOfBatches(Processor[Any, Any]):
    """It forwards rows one by one, as batches."""

    retries_one_by_one = True

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process_batch(self, batch: RecordColumns[Any, Any]) -> None:
        not_liked(batch)
        for row, value in enumerate(batch.values):
            self._context.forward_batch(batch.take([row]).with_values([f"{value}?"]))


def grouped(stream: KStream[Any, Any]) -> Any:
    return stream.group_by_key(key_serde=STRING, value_serde=STRING)


# By name, the operations that make one stream of a stream, a function of the user and the name of the step.
_OPERATIONS: dict[str, Callable[[Any, Heard, str], Any]] = {
    "map": lambda stream, heard, name: stream.map(partial(heard.mapped, name)),
    "select_key": lambda stream, heard, name: stream.select_key(partial(heard.key, name)),
    "flat_map": lambda stream, heard, name: stream.flat_map(partial(heard.flat, name)),
    "map_values": lambda stream, heard, name: stream.map_values(partial(heard.value, name)),
    "map_values_with_key": lambda stream, heard, name: stream.map_values_with_key(partial(heard.value_with_key, name)),
    "filter": lambda stream, heard, name: stream.filter(partial(heard.is_wanted, name)),
    "filter_not": lambda stream, heard, name: stream.filter_not(partial(heard.is_wanted, name)),
    "peek": lambda stream, heard, name: stream.peek(partial(heard.peek, name)),
    "process": lambda stream, heard, name: stream.process(partial(Curious, heard, name)),
    "process and catch": lambda stream, heard, name: stream.process(partial(CatchesErrors, heard, name)),
    "map_batches": lambda stream, heard, name: stream.map_batches(mapped_rows),
    "map_values_batches": lambda stream, heard, name: stream.map_values_batches(new_values),
    "filter_batches": lambda stream, heard, name: stream.filter_batches(wanted_rows),
    "other number of rows": lambda stream, heard, name: stream.map_batches(twice_or_never),
    "process_batch": lambda stream, heard, name: stream.process(CuriousOfBatches),
    "count": lambda stream, heard, name: grouped(stream).count(store=name).to_stream().map_values(str),
    "reduce": lambda stream, heard, name: grouped(stream).reduce(partial(heard.reduced, name), store=name).to_stream(),
    "aggregate": lambda stream, heard, name: (
        grouped(stream)
        .aggregate(partial(heard.nothing, name), partial(heard.aggregated, name), value_serde=STRING, store=name)
        .to_stream()
    ),
    "table": lambda stream, heard, name: (
        grouped(stream)
        .reduce(partial(heard.reduced, name), store=name)
        .filter(partial(heard.is_wanted, name))
        .to_stream()
    ),
}


def topology_of(steps: list[tuple[str, int]], heard: Heard) -> Topology:
    """Each step goes on from one of the streams so far; its number says from which."""
    builder = StreamsBuilder()
    streams: list[KStream[Any, Any]] = [builder.stream("in", STRING, STRING)]
    reads_table = any(step in ("join", "left join", "of table") for step, _ in steps)
    other = builder.table("other", STRING, STRING, store="other") if reads_table else None
    for number, (step, which) in enumerate(steps):
        stream, name = streams[which % len(streams)], f"{step}-{number}".replace(" ", "-")
        match step:
            case "flat_map_values":
                function = heard.values if number < 8 else heard.one_value
                streams.append(stream.flat_map_values(partial(function, name)))
            case "for_each":
                stream.for_each(partial(heard.peek, name))
            case "split":
                split = stream.split(name=f"split-{number}-").branch(partial(heard.is_wanted, name), name="even")
                streams += split.default_branch(name="rest").values()
            case "merge":
                streams.append(stream.merge(streams[-1]))
            case "to out" | "to many":
                stream.to("out" if step == "to out" else MANY, key_serde=STRING, value_serde=STRING)
            case "process with a store":
                builder.add_state_store(key_value_store(name, STRING, LONG))
                streams.append(stream.process(partial(CuriousWithStore, heard, name), stores=[name]))
            case "windowed":
                window = grouped(stream).windowed_by(TimeWindows(4, 2 + 2 * (which % 2), 3))
                table = (
                    window.count(store=name) if which < 2 else window.reduce(partial(heard.reduced, name), store=name)
                )
                streams.append(table.to_stream().map(lambda key, value: (key.key, f"{key.start_ms}:{value}")))
            case "join" if other is not None:
                streams.append(stream.join(other, partial(heard.reduced, name)))
            case "left join" if other is not None:
                streams.append(stream.left_join(other, partial(heard.reduced, name)))
            case "of table" if other is not None:
                streams.append(other.to_stream())
            case _:
                streams.append(_OPERATIONS[step](stream, heard, name))
    return builder.build()


class Watched:
    """One task, and all that can be seen of it."""

    def __init__(self, directory: Path, steps: list[tuple[str, int]], *, exactly_once: bool, cache_bytes: int) -> None:
        self.heard = Heard()
        self.failures: list[object] = []
        self.one = one = RunningTask(
            directory,
            topology_of(steps, self.heard),
            EXACTLY_ONCE if exactly_once else {},
            processing_handler=self.handle,
            deserialization_handler=self.handle,
            cache=ThreadCache(cache_bytes) if cache_bytes else None,
        )
        topics = {*one.graph.sink_topics, *one.graph.sources} - {"in", "other", "out"}
        changelogs = {changelog for changelog in one.graph.store_changelogs.values() if changelog is not None}
        one.log.create_topics([NewTopic(topic, 3) for topic in sorted(topics)])
        one.log.create_topics([NewTopic(topic, 1, {"cleanup.policy": "compact"}) for topic in sorted(changelogs)])
        self.partitions = [TopicPartition("out", 0)]
        self.partitions += [TopicPartition(topic, number) for topic in sorted(topics) for number in range(3)]
        self.partitions += [TopicPartition(topic, 0) for topic in sorted(changelogs)]
        one.start()

    def handle(self, failed: FailedRecord) -> HandlerResponse:
        self.failures.append(
            (failed.metadata, failed.node, failed.key, failed.value, failed.timestamp_ms, repr(failed.error))
        )
        return HandlerResponse.CONTINUE

    def take(
        self,
        records: list[tuple[bytes | None, bytes | None, int]],
        turns: Iterable[int],
        *,
        commits: bool,
        one_by_one: bool = False,
    ) -> tuple[list[tuple[int, bool]], object, object]:
        """`turns`: how many records to process at a time, for as long as there are some. `one_by_one`: in runs of one
        record. For each turn how many were processed and whether a punctuation fired; then what was committed, if
        `commits`, and what is.
        """
        one = self.one
        portions = {IN: records}
        if OTHER in one.inputs:
            portions = {IN: records[::2], OTHER: records[1::2]}
        for partition, portion in portions.items():
            if portion:
                one.log.write(partition, *[(key, value, max(0, at_ms)) for key, value, at_ms in portion])
        for batch in one.consumer.poll(0, 1_000):  # no log of ours takes a negative timestamp, but a broker may
            if batch.partition in portions:  # else it is from the task itself
                batch = replace(batch, timestamps_ms=[at_ms for _, _, at_ms in portions[batch.partition]])
            one.task.add_records(batch)
        taken = []
        for most in turns:
            processed = sum(one.process(1) for _ in range(most)) if one_by_one else one.process(most)
            if not processed:
                break
            taken.append((processed, one.task.maybe_punctuate_stream_time()))
        return taken, dict(one.commit()) if commits else None, one.committed()

    def close(self) -> None:
        """While the directory is there: else RocksDB tries for seconds to write its memtables into it."""
        self.one.task.suspend()
        self.one.task.close_dirty()

    def entries(self) -> dict[str, list[object]]:
        stores: dict[str, Any] = dict(self.one.task.stores)
        return {
            name: list(store.fetch_all(0, 100) if hasattr(store, "fetch_all") else store.all())
            for name, store in stores.items()
        }

    def seen(self) -> dict[str, object]:
        one = self.one
        stores = self.entries()
        one.commit()
        return {
            "heard": self.heard.calls,
            "failures": self.failures,
            "stores before the commit": stores,
            "stores": self.entries(),
            "records": {str(partition): one.log.read(partition) for partition in self.partitions},
            "committed": one.log.log.committed_offsets(APPLICATION, [IN, OTHER]),
            "dropped": one.task.runtime.losses.dropped_records,
            "stream time": one.task.runtime.stream_time_ms,
            "checkpointed": one.task.changelog_offsets(),
        }


Portion = tuple[list[tuple[bytes | None, bytes | None, int]], int, bool]


@contextmanager
def watched_tasks(
    steps: list[tuple[str, int]], *, exactly_once: bool, cache_bytes: int
) -> Iterator[Callable[[], Watched]]:
    """A function that starts one more of the same task. All are closed in the end."""
    with TemporaryDirectory() as directory, ExitStack() as tasks:
        numbers = count()

        def watched() -> Watched:
            own = Path(directory, f"{next(numbers)}")
            return tasks.enter_context(closing(Watched(own, steps, exactly_once=exactly_once, cache_bytes=cache_bytes)))

        yield watched
