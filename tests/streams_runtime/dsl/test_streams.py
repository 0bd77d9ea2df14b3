"""Operations on streams: which records come out, in which order, with which timestamps."""

import operator
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from assignor import InputError
from assignor.errors import TopologyError
from streams_runtime import (
    LONG,
    STRING,
    FixedKeyProcessor,
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    ValueTransformer,
)
from streams_runtime.dsl.stream_processors import StreamOperator, leaving_out_null_keys
from streams_runtime.dsl.windows import TimeWindows
from streams_runtime.processors.context import CurrentNode, NodeContext
from streams_runtime.serdes import StringSerde
from streams_runtime.state_stores.builders import key_value_store
from tests.streams_runtime.dsl.driven import driven
from tests.streams_runtime.processors.recording_runtime import PassOn, RecordingRuntime


def source(builder: StreamsBuilder, topic: str = "in") -> KStream[str, str]:
    return builder.stream(topic, STRING, STRING)


def out(stream: KStream[str, str], topic: str = "out") -> None:
    stream.to(topic, key_serde=STRING, value_serde=STRING)


def test_should_keep_headers_through_every_operation() -> None:
    builder = StreamsBuilder()
    x = source(builder).map(lambda k, v: (k, v)).select_key(lambda k, v: k).flat_map(lambda k, v: [(k, v)])
    x = x.map_values(str).map_values_with_key(lambda k, v: v).flat_map_values(lambda v: [v])
    x = x.flat_map_values_with_key(lambda k, v: [v]).filter(lambda k, v: True).peek(lambda k, v: None)
    counts = x.group_by_key(key_serde=STRING, value_serde=STRING).count().filter(lambda k, v: True)
    counts.map_values(lambda v: v, value_serde=LONG).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v", 1, (("trace", b"1"),))
        assert driver.create_output_topic("out", STRING, LONG).read_all() == [Record("k", 1, 1, (("trace", b"1"),))]


def test_should_peek_at_records_that_pass_and_end_with_for_each() -> None:
    builder, seen = StreamsBuilder(), []
    x = source(builder).peek(lambda k, v: seen.append(("peek", k, v)))
    x.for_each(lambda k, v: seen.append(("each", k, v)))
    with driven(builder) as run:
        run.pipe("in", ("a", "1", 1), ("b", "2", 2))
    assert seen == [("peek", "a", "1"), ("each", "a", "1"), ("peek", "b", "2"), ("each", "b", "2")]


def test_should_print_records_to_stdout_as_kafka_does(capsys: pytest.CaptureFixture[str]) -> None:
    builder = StreamsBuilder()
    x = source(builder)
    x.print()
    x.print(label="words", text=lambda k, v: f"{k}={v}", name="shown")
    with driven(builder) as run:
        run.pipe("in", ("a", "1", 1), (None, "2", 2))
    assert capsys.readouterr().out == (
        "[KSTREAM-SOURCE-0000000000]: a, 1\n[words]: a=1\n[KSTREAM-SOURCE-0000000000]: None, 2\n[words]: None=2\n"
    )
    assert "Processor: KSTREAM-PRINTER-0000000001 (stores: [])" in builder.build().describe()
    assert "Processor: shown (stores: [])" in builder.build().describe()
    with pytest.raises(TopologyError, match=r"The text of KStream\.print must be a function"):
        source(StreamsBuilder()).print(text="text")  # type: ignore[arg-type]


def test_should_print_records_to_the_end_of_a_file(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    source(builder).print(tmp_path / "printed", label="é")
    for value in ("1", "2"):
        with driven(builder) as run:
            run.pipe("in", ("a", value, 1))
            lines = (tmp_path / "printed").read_text(encoding="utf-8").splitlines()
            assert lines[-1] == f"[é]: a, {value}", "a line is in the file at once"
    assert lines == ["[é]: a, 1", "[é]: a, 2"]


class WithDefaultSerdes(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record[str, str]) -> None:
        data = self._context.key_serde.serialize(record.key) + self._context.value_serde.serialize(5)
        self._context.forward(record._replace(value=data.hex()))


def test_should_give_processors_the_default_serdes_of_the_application() -> None:
    builder = StreamsBuilder()
    out(source(builder).process(WithDefaultSerdes, name="own"))
    configs = {"default.key.serde": STRING, "default.value.serde": LONG}
    with TopologyTestDriver(builder.build(), configs) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")
        assert driver.create_output_topic("out", STRING, STRING).read_values() == ["610000000000000005"]
    with (
        pytest.raises(Exception, match=r"own needs a key serde.*or set default\.key\.serde"),
        TopologyTestDriver(builder.build()) as driver,
    ):
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")


def test_should_connect_a_processor_to_the_stores_that_were_named_when_it_was_added() -> None:
    builder, names = StreamsBuilder(), ["store"]
    builder.add_state_store(key_value_store("store", STRING, LONG))
    source(builder).process(PassOn, stores=names, name="own")
    names.clear()
    assert "Processor: own (stores: [store])" in builder.build().describe()


def test_should_take_one_name_for_the_stores_of_a_processor() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(key_value_store("store", STRING, LONG))
    source(builder).process(PassOn, stores="store", name="own")
    assert "Processor: own (stores: [store])" in builder.build().describe()


def test_should_refuse_the_builder_of_a_store_in_place_of_its_name() -> None:
    store: Any = key_value_store("store", STRING, LONG)
    calls: list[Callable[[], object]] = [
        lambda: _stream().process(PassOn, stores=[store]),
        lambda: _stream().process_values(FixedKeyProcessor, stores=[store]),
        lambda: _table().transform_values(ValueTransformer, stores=[store]),
        lambda: Topology().add_source("s", "in").add_processor("p", PassOn, "s", stores=[store]),
    ]
    for call in calls:
        with pytest.raises(TopologyError, match="`stores` takes names, not a KeyValueStoreBuilder: add the store"):
            call()


def test_should_write_to_the_partition_that_the_partitioner_names() -> None:
    builder, asked = StreamsBuilder(), []

    def first(key: str, value: str, partitions: int) -> int:
        asked.append((key, value, partitions))
        return 0

    source(builder).to("out", partitioner=first)
    with driven(builder) as run:
        run.pipe("in", ("k", "v", 1))
        assert (run.read("out"), asked) == ([("k", "v", 1)], [("k", "v", 1)])


def test_should_take_serdes_by_position_wherever_a_stream_or_table_is_read_grouped_or_written() -> None:
    builder = StreamsBuilder()
    by_value = builder.stream("in", STRING, STRING).group_by(lambda _key, value: value, STRING, STRING)
    lengths = by_value.count().group_by(lambda value, count: (str(len(value)), count), STRING, LONG)
    lengths.reduce(int.__add__, int.__sub__).to_stream().group_by_key(STRING, LONG).count().to_stream().to(
        "out", STRING, LONG
    )
    with driven(builder) as run:
        run.pipe("in", ("k", "a", 1), ("k", "b", 2), ("k", "cc", 3))
        assert run.read("out", LONG) == [("1", 1, 1), ("1", 2, 2), ("2", 1, 3)]


def test_should_go_through_the_repartition_topic_that_the_user_asked_for() -> None:
    builder = StreamsBuilder()
    out(source(builder).select_key(lambda k, v: v).repartition(name="again", partitions=3, key_serde=STRING))
    (_, second) = builder.build().group_topology("app").subtopologies
    assert [(topic.name, topic.partitions) for topic in second.repartition_source_topics] == [
        ("app-again-repartition", 3)
    ]
    with driven(builder) as run:
        run.pipe("in", ("k", "v", 9))
        assert run.read("out") == [("v", "v", 9)]


@pytest.mark.parametrize(
    "topics, reset, reason",
    [
        (("a", "b"), None, "Two source nodes are subscribed to overlapping but not equal input topics"),
        (("a",), "latest", "Can't configure different offset reset policies on the same input topic(s)"),
    ],
)
def test_should_refuse_to_read_a_topic_in_two_ways(topics: tuple[str, ...], reset: str | None, reason: str) -> None:
    builder = StreamsBuilder()
    builder.stream("a", STRING, STRING)
    builder.stream(topics, STRING, STRING, auto_offset_reset=reset)
    with pytest.raises(TopologyError) as raised:
        builder.build()
    assert str(raised.value) == f"Invalid topology: {reason}"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 250])
def test_should_refuse_a_name_that_no_topic_can_have(name: str) -> None:
    with pytest.raises(TopologyError):
        StreamsBuilder().stream("in", STRING, STRING, name=name)


def test_should_refuse_operations_once_the_topology_is_built() -> None:
    builder = StreamsBuilder()
    x = source(builder)
    x.to("out")
    assert builder.build() is builder.build()
    with pytest.raises(TopologyError, match="it is built already"):
        x.to("another")


def test_should_refuse_streams_and_tables_of_another_builder() -> None:
    stream, other = source(StreamsBuilder()), StreamsBuilder()
    with pytest.raises(TopologyError, match="come from different builders"):
        stream.merge(source(other))
    with pytest.raises(TopologyError, match="come from different builders"):
        stream.join(other.table("table", STRING, STRING), lambda v, t: v)


def test_should_count_records_that_an_operator_drops_without_an_input_record(caplog: pytest.LogCaptureFixture) -> None:
    """As in a punctuator."""
    runtime = RecordingRuntime(record_metadata=None)
    context = NodeContext("table", frozenset(), CurrentNode())
    context.open(runtime)
    received: list[tuple[Any, ...]] = []
    receiver = StreamOperator(leaving_out_null_keys).connect(lambda *record: received.append(record), context)
    for key in (None, "a", None):
        receiver(key, "v", 1, ())
    assert runtime.losses.dropped_records == 2
    assert received == [("a", "v", 1, ())]
    unknown_place = "Skipping record due to null key. Topic, partition, and offset not known."
    assert [record.getMessage() for record in caplog.records] == [unknown_place] * 2


def test_should_refuse_a_stream_of_no_topic() -> None:
    with pytest.raises(TopologyError, match="at least one topic"):
        StreamsBuilder().stream([], STRING, STRING)


def test_should_read_a_topic_once_that_is_named_twice() -> None:
    """Kafka's `StreamsBuilder` takes it, and its `Topology.addSource` does not."""
    builder = StreamsBuilder()
    out(builder.stream(["in", "other", "in"], STRING, STRING).merge(builder.stream(["other", "in"], STRING, STRING)))
    with driven(builder) as run:
        run.pipe("in", ("k", "v", 1))
        assert run.read("out") == [("k", "v", 1)]
    with pytest.raises(TopologyError, match="Topic in has already been registered by another source"):
        Topology().add_source("source", ["in", "in"])


def _stream() -> KStream[str, str]:
    return source(StreamsBuilder())


def _table() -> KTable[str, str]:
    return StreamsBuilder().table("in", STRING, STRING)


def _grouped() -> Any:
    return _stream().group_by_key()


def _groups() -> Any:
    return _table().group_by(lambda k, v: (v, k))


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("mapper of KStream.map", lambda no: _stream().map(no)),
        ("mapper of KStream.flat_map", lambda no: _stream().flat_map(no)),
        ("selector of KStream.select_key", lambda no: _stream().select_key(no)),
        ("mapper of KStream.map_values", lambda no: _stream().map_values(no)),
        ("mapper of KStream.map_values_with_key", lambda no: _stream().map_values_with_key(no)),
        ("mapper of KStream.flat_map_values", lambda no: _stream().flat_map_values(no)),
        ("mapper of KStream.flat_map_values_with_key", lambda no: _stream().flat_map_values_with_key(no)),
        ("predicate of KStream.filter", lambda no: _stream().filter(no)),
        ("predicate of KStream.filter_not", lambda no: _stream().filter_not(no)),
        ("function of KStream.map_batches", lambda no: _stream().map_batches(no)),
        ("function of KStream.map_values_batches", lambda no: _stream().map_values_batches(no)),
        ("function of KStream.filter_batches", lambda no: _stream().filter_batches(no)),
        ("action of KStream.peek", lambda no: _stream().peek(no)),
        ("action of KStream.for_each", lambda no: _stream().for_each(no)),
        ("predicate of BranchedKStream.branch", lambda no: _stream().split().branch(no)),
        ("selector of KStream.group_by", lambda no: _stream().group_by(no)),
        ("supplier of KTable.transform_values", lambda no: _table().transform_values(no)),
        ("joiner of KStream.join", lambda no: _stream().join(_table(), no)),
        ("joiner of KStream.left_join", lambda no: _stream().left_join(_table(), no)),
        ("initializer of KGroupedStream.aggregate", lambda no: _grouped().aggregate(no, max, value_serde=LONG)),
        ("aggregator of KGroupedStream.aggregate", lambda no: _grouped().aggregate(int, no, value_serde=LONG)),
        ("reducer of KGroupedStream.reduce", lambda no: _grouped().reduce(no)),
        (
            "aggregator of TimeWindowedKStream.aggregate",
            lambda no: _grouped().windowed_by(TimeWindows(5)).aggregate(int, no, value_serde=LONG),
        ),
        ("reducer of TimeWindowedKStream.reduce", lambda no: _grouped().windowed_by(TimeWindows(5)).reduce(no)),
        ("predicate of KTable.filter", lambda no: _table().filter(no)),
        ("predicate of KTable.filter_not", lambda no: _table().filter_not(no)),
        ("mapper of KTable.map_values", lambda no: _table().map_values(no)),
        ("mapper of KTable.map_values_with_key", lambda no: _table().map_values_with_key(no)),
        ("selector of KTable.group_by", lambda no: _table().group_by(no)),
        ("joiner of KTable.join", lambda no: _table().join(_table(), no)),
        ("joiner of KTable.left_join", lambda no: _table().left_join(_table(), no)),
        ("adder of KGroupedTable.aggregate", lambda no: _groups().aggregate(int, no, max, value_serde=LONG)),
        ("subtractor of KGroupedTable.aggregate", lambda no: _groups().aggregate(int, max, no, value_serde=LONG)),
        ("adder of KGroupedTable.reduce", lambda no: _groups().reduce(no, max)),
        ("subtractor of KGroupedTable.reduce", lambda no: _groups().reduce(max, no)),
    ],
)
@pytest.mark.parametrize("nothing", [None, "upper"])
def test_should_refuse_what_is_no_function(operation: str, call: Callable[[Any], object], nothing: object) -> None:
    """It would fail with the first record only."""
    with pytest.raises(TopologyError) as refused:
        call(nothing)
    assert str(refused.value) == f"Invalid topology: The {operation} must be a function, not {nothing!r}."


def _of_one(given: Any) -> Any:
    return given


def _of_two(one: Any, other: Any) -> Any:
    return one, other


@pytest.mark.parametrize(
    ("call", "wrong", "operation", "arguments"),
    [
        (lambda no: _stream().map_values(no), _of_two, "mapper of KStream.map_values", "value"),
        (lambda no: _stream().flat_map_values(no), _of_two, "mapper of KStream.flat_map_values", "value"),
        (lambda no: _stream().map(no), _of_one, "mapper of KStream.map", "key, value"),
        (lambda no: _stream().group_by(no), _of_one, "selector of KStream.group_by", "key, value"),
        (lambda no: _stream().split().branch(no), _of_one, "predicate of BranchedKStream.branch", "key, value"),
        (lambda no: _stream().join(_table(), no), _of_one, "joiner of KStream.join", "value, other value"),
        (
            lambda no: _stream().join(_table(), no, with_key=True),
            _of_two,
            "joiner of KStream.join",
            "key, value, other value",
        ),
        (lambda no: _table().join(_table(), no), _of_one, "joiner of KTable.join", "value, other value"),
        (lambda no: _table().filter(no), _of_one, "predicate of KTable.filter", "key, value"),
        (lambda no: _table().map_values(no), _of_two, "mapper of KTable.map_values", "value"),
        (lambda no: _table().group_by(no), _of_one, "selector of KTable.group_by", "key, value"),
        (lambda no: _grouped().reduce(no), _of_one, "reducer of KGroupedStream.reduce", "old result, value"),
        (
            lambda no: _grouped().aggregate(int, no, value_serde=LONG),
            _of_two,
            "aggregator of KGroupedStream.aggregate",
            "key, value, old aggregate",
        ),
        (
            lambda no: _grouped().aggregate(no, max, value_serde=LONG),
            _of_one,
            "initializer of KGroupedStream.aggregate",
            "",
        ),
        (
            lambda no: _groups().aggregate(int, max, no, value_serde=LONG),
            _of_two,
            "subtractor of KGroupedTable.aggregate",
            "key, value, old aggregate",
        ),
        (lambda no: _groups().reduce(max, no), _of_one, "subtractor of KGroupedTable.reduce", "old result, value"),
    ],
)
def test_should_refuse_a_function_that_cannot_be_called_with_the_arguments(
    call: Callable[[Any], object], wrong: Callable[..., Any], operation: str, arguments: str
) -> None:
    """Kafka overloads `mapValues` and the joins, so an argument too many is an easy mistake."""
    with pytest.raises(TopologyError) as refused:
        call(wrong)
    assert f"The {operation} must be a function of ({arguments}), not of (" in str(refused.value)


def test_should_take_every_function_that_can_be_called_with_the_arguments() -> None:
    def of_any(*given: Any, **named: Any) -> Any:
        return given

    @wraps(_of_two)
    def of_one_by_a_wrapper(given: Any) -> Any:
        return _of_two(given, given)

    mapper: Any
    for mapper in (str.upper, str.split, str, len, partial(_of_two, 1), of_any, of_one_by_a_wrapper, Upper()):
        _stream().map_values(mapper)
    for reducer in (int.__add__, max, of_any, _of_two, operator.add):
        _grouped().reduce(reducer)


class Upper:
    def __call__(self, text: str) -> str:
        return text.upper()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _stream().merge(None), "KStream.merge takes a KStream, not a NoneType"),  # type: ignore[arg-type]
        (lambda: _table().join(_stream(), max), "KTable.join takes a KTable, not a KStream"),  # type: ignore[arg-type]
        (lambda: _table().left_join(None, max), "KTable.left_join takes a KTable, not a NoneType"),  # type: ignore[arg-type]
        (lambda: _grouped().windowed_by(5), "KGroupedStream.windowed_by takes a TimeWindows or Unlim"),
    ],
)
def test_should_refuse_what_an_operation_cannot_work_with(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        call()


@pytest.mark.parametrize("wrong", [None, 5, "", object()])
def test_should_refuse_what_is_no_name_of_a_topic(wrong: Any) -> None:
    builder = StreamsBuilder()
    calls: list[tuple[str, Callable[[], object]]] = [
        ("StreamsBuilder.stream", lambda: builder.stream(wrong)),
        ("StreamsBuilder.stream", lambda: builder.stream(["in", wrong])),
        ("StreamsBuilder.table", lambda: builder.table(wrong)),
        ("KStream.to", lambda: _stream().to(wrong)),
        ("Source s", lambda: Topology().add_source("s", wrong)),
        ("Sink k", lambda: Topology().add_source("s", "in").add_sink("k", wrong, "s")),
    ]
    for owner, call in calls:
        with pytest.raises(TopologyError) as refused:
            call()
        assert str(refused.value) == f"Invalid topology: A topic of {owner} must be a name, not {wrong!r}."


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (StringSerde, r"must be an object, not the class StringSerde: make one, as in StringSerde\(\)"),
        (5, r"must have (serialize|deserialize|serialize and deserialize), and 5 has not"),
        ("string", "and 'string' has not"),
        (str, r"must have (serialize|deserialize|serialize and deserialize), and <class 'str'> has not"),
    ],
)
def test_should_refuse_what_is_no_serde(wrong: Any, fault: str) -> None:
    sink = StreamsBuilder()
    source(sink).to("out", value_serde=wrong)
    read = StreamsBuilder()
    read.stream("in", STRING, wrong).for_each(max)
    counted = StreamsBuilder()
    source(counted).group_by_key().aggregate(str, max, value_serde=wrong)
    for build in (sink.build, read.build, counted.build, lambda: key_value_store("x", wrong, STRING)):
        with pytest.raises((TopologyError, InputError), match=fault):
            build()


def test_should_refuse_a_store_that_is_no_builder() -> None:
    wrong: Any
    for wrong in (None, "store", key_value_store):
        with pytest.raises(TopologyError, match="A state store is added by its builder"):
            Topology().add_state_store(wrong)


def test_should_refuse_functions_of_sources_and_sinks_that_are_none() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING, timestamp_extractor=7)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="timestamp_extractor of Source KSTREAM-SOURCE-0000000000 must be a fun"):
        builder.build()
    builder = StreamsBuilder()
    source(builder).to("out", partitioner="hash")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="partitioner of Sink KSTREAM-SINK-0000000001 must be a function"):
        builder.build()
    builder = StreamsBuilder()
    source(builder).process(None)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="supplier of Processor KSTREAM-PROCESSOR-0000000001 must be a class"):
        builder.build()
