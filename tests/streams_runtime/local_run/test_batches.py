"""Batches in a `TopologyTestDriver`: what makes one, what ends it, and how nodes say that they run."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime import (
    LONG,
    STRING,
    Materialized,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordColumns,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    key_value_store,
)
from tests.examples import share

Columns = RecordColumns[Any, Any]


def same(batch: Columns) -> Any:
    return batch.values


class Ticking(Processor[Any, Any]):
    """Hands on what it gets, and the time at every fifth millisecond of stream time."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        context.schedule(5, PunctuationType.STREAM_TIME, self._tick)

    def process(self, record: Record[Any, Any]) -> None:
        self._context.forward(record)

    def _tick(self, time_ms: int) -> None:
        self._context.forward(Record("tick", time_ms, time_ms))


class Noting:
    """A batch function that keeps the sizes of its batches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, batch: Columns) -> Any:
        self.sizes.append(len(batch))
        return batch.numpy_values("int64") * 2


def ticking(function: Callable[[Columns], Any]) -> Topology:
    builder = StreamsBuilder()
    doubled = builder.stream("in", STRING, LONG).map_values_batches(function)
    doubled.process(Ticking).to("out", key_serde=STRING, value_serde=LONG)
    return builder.build()


def driven(topology: Topology, records: list[Record[Any, Any]], *, together: bool) -> list[Record[Any, Any]]:
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", STRING, LONG).pipe_records(records, together=together)
        return driver.create_output_topic("out", STRING, LONG).read_all()


@share(0.3)
@given(st.lists(st.integers(0, 30), max_size=20))
def test_should_end_a_batch_where_stream_time_makes_a_punctuator_run(times_ms: list[int]) -> None:
    records: list[Record[Any, Any]] = [Record("k", number, at_ms) for number, at_ms in enumerate(times_ms)]

    assert driven(ticking(Noting()), records, together=True) == driven(ticking(Noting()), records, together=False)


def test_should_make_one_batch_of_what_nothing_comes_between() -> None:
    function = Noting()
    driven(ticking(function), [Record("k", 1, at_ms) for at_ms in (7, 8, 9, 10, 11, 8, 12, 15, 16)], together=True)

    assert function.sizes == [1, 3, 4, 1]  # it runs at 7, which is the first, at 10 and at 15


def test_should_give_records_with_headers_alone_and_keep_the_headers() -> None:
    function = Noting()
    builder = StreamsBuilder()
    builder.stream("in", STRING, LONG).map_values_batches(function).to("out", key_serde=STRING, value_serde=LONG)
    records: list[Record[Any, Any]] = [Record("k", number, 1, (("h", b"1"),)) for number in range(3)]

    assert [each.headers for each in driven(builder.build(), records, together=True)] == [(("h", b"1"),)] * 3
    assert function.sizes == [1, 1, 1]


def test_should_give_a_batch_the_timestamps_that_an_extractor_makes() -> None:
    function = Noting()
    topology = Topology().add_source(
        "source", "in", key_serde=STRING, value_serde=LONG, timestamp_extractor=lambda record, _: record.value
    )
    topology.add_processor("batches", lambda: AsBatches(function), "source")
    topology.add_sink("sink", "out", "batches", key_serde=STRING, value_serde=LONG)

    seen = driven(topology, [Record("k", 5, 1), Record("k", 6, 1)], together=True)
    assert [each.timestamp_ms for each in seen] == [5, 6]
    assert function.sizes == [2]


class AsBatches(Processor[Any, Any]):
    def __init__(self, function: Callable[[Columns], Any] = same) -> None:
        self._function = function

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process_batch(self, batch: Columns) -> None:
        self._context.forward_batch(batch.with_values(self._function(batch)))


def test_should_go_through_arrow_and_other_numbers_of_rows_and_repartition() -> None:
    def by_arrow(batch: Columns) -> Columns:
        table = batch.arrow()
        doubled = pa.concat_tables([pa.Table.from_batches([table])] * 2)
        return RecordColumns.from_arrow(doubled.set_column(0, "key", pa.array(["x", "y"] * len(batch))))

    builder = StreamsBuilder()
    rows: Any = builder.stream("in", STRING, LONG).map_batches(by_arrow)
    counts = rows.group_by_key(key_serde=STRING, value_serde=LONG).count(store=Materialized(caching=False))
    counts.to_stream().to("out", key_serde=STRING, value_serde=LONG)
    seen = driven(builder.build(), [Record("k", number, number) for number in range(3)], together=True)

    assert [(key, value) for key, value, *_ in seen] == [("x", 1), ("y", 1), ("x", 2), ("y", 2), ("x", 3), ("y", 3)]
    assert [each.timestamp_ms for each in seen] == [0, 1, 2, 1, 2, 2]  # a count keeps the highest of its key


def test_should_be_one_more_topology_that_can_be_pickled() -> None:
    topology = pickle.loads(pickle.dumps(ticking(same)))

    assert [each.value for each in driven(topology, [Record("k", 1, 1)] * 2, together=True)] == [1, 1, 1]


def test_should_filter_by_columns() -> None:
    builder = StreamsBuilder()
    even = builder.stream("in", STRING, LONG).filter_batches(lambda batch: np.array(batch.values) % 2 == 0)
    even.to("out", key_serde=STRING, value_serde=LONG)
    seen = driven(builder.build(), [Record("k", number, number) for number in range(5)], together=True)

    assert [(each.value, each.timestamp_ms) for each in seen] == [(0, 0), (2, 2), (4, 4)]


def runs_of(builder: StreamsBuilder | Topology) -> dict[str, str]:
    topology = builder.build() if isinstance(builder, StreamsBuilder) else builder
    described = topology.describe()
    with TopologyTestDriver(topology) as driver:
        runs = driver.node_runs()
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")
        assert driver.node_runs() == runs
    assert topology.describe() == described
    return {name: str(run) for name, run in runs.items()}


def test_should_say_how_nodes_run() -> None:
    builder = StreamsBuilder()
    stream = (
        builder.stream("in", STRING, STRING).map_values(str.upper, name="map").map_values_batches(same, name="batch")
    )
    stream.filter(lambda _key, _value: True, name="filter").to("out", key_serde=STRING, value_serde=STRING, name="sink")
    stream.process(Ticking, name="own").map_values_batches(same, name="below").for_each(print, name="end")

    assert runs_of(builder) == {
        "map": "once a record",
        "batch": "once a batch",
        "filter": "once a record",
        "sink": "once a record",
        "own": "once a record",
        "below": "once a record: it is below own, a processor that takes one record at a time",
        "end": "once a record",
    }


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (
            lambda stream: stream.process(AsBatches, stores=["seen"], name="a").map_values_batches(same, name="node"),
            "it is below a, which has a state store",
        ),
        (
            lambda stream: (
                stream.to("out"),
                stream.map_values_batches(same, name="node").to("out", value_serde=STRING, name="s"),
            ),
            "s below it uses topic out, and so does KSTREAM-SINK-0000000001",
        ),
        (
            lambda stream: stream.merge(stream.map_values_batches(same, name="node"), name="m").for_each(print),
            "m below it gets records from beside it, too",
        ),
        (
            lambda stream: stream.merge(stream.map_values(str), name="m").map_values_batches(same, name="node"),
            "m gets the same records in more than one way",
        ),
        (
            lambda stream: (
                stream.process(AsBatches, stores=["seen"], name="node"),
                stream.process(Ticking, stores=["seen"], name="b"),
            ),
            "it uses store seen, and so does b",
        ),
    ],
)
def test_should_say_why_a_node_gets_no_batches(build: Callable[[Any], object], why: str) -> None:
    builder = StreamsBuilder()
    if "store" in why:
        builder.add_state_store(key_value_store("seen", STRING, STRING))
    build(builder.stream("in", STRING, STRING))

    assert runs_of(builder)["node"] == f"once a record: {why}"


def test_should_say_that_a_node_below_a_timestamp_extractor_runs_once_a_batch() -> None:
    topology = Topology().add_source(
        "source", "in", key_serde=STRING, value_serde=STRING, timestamp_extractor=lambda *_: 1
    )
    topology.add_processor("a", AsBatches, "source").add_processor("b", Ticking, "a")

    assert runs_of(topology) == {"a": "once a batch", "b": "once a record"}
