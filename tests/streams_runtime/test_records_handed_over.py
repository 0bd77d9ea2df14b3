"""A record is checked where it is handed over: the handler is asked about it alone, and nothing else is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assignor.types import JAVA_LONG_MAX, TopicPartition
from streams_runtime import (
    BYTES,
    FailedRecord,
    HandlerResponse,
    NewTopic,
    Processor,
    ProcessorContext,
    Record,
    RecordProducer,
    Serdes,
    StreamsBuilder,
    StreamsRuntimeError,
    Topology,
    TopologyTestDriver,
    dead_letter,
    key_value_store,
    log_and_continue,
    open_log,
    read_topic,
)
from streams_runtime.logs.base import Log
from streams_runtime.logs.log_errors import InvalidRecord, LogError, RecordTooLarge
from streams_runtime.tasks.exception_handling import described
from tests.streams_runtime.asked import AskedHandler
from tests.streams_runtime.processors.recording_runtime import PassOn

TOO_LARGE = bytes(2_000_000)
Change = Callable[[Any], Any]
"""Takes a record."""

WRONG: dict[str, Change] = {
    "a header with text": lambda record: record._replace(headers=(("trace", "abc"),)),
    "a header with a number": lambda record: record._replace(headers=(("trace", 5),)),
    "a header whose name is bytes": lambda record: record._replace(headers=((b"trace", b"abc"),)),
    "headers as a dict": lambda record: record._replace(headers={"trace": b"abc"}),
    "a header that is too large": lambda record: record._replace(headers=(("trace", TOO_LARGE),)),
    "a value of text": lambda record: record._replace(value="text"),
    "a value that is a number": lambda record: record._replace(value=5),
    "a value that is too large": lambda record: record._replace(value=TOO_LARGE),
    "a key of text": lambda record: record._replace(key="text"),
    "a key that is a tuple": lambda record: record._replace(key=(b"a", b"b")),
    "a float as timestamp": lambda record: record._replace(timestamp_ms=record.timestamp_ms * 1.0),
    "text as timestamp": lambda record: record._replace(timestamp_ms="5"),
    "True as timestamp": lambda record: record._replace(timestamp_ms=True),
    "None as timestamp": lambda record: record._replace(timestamp_ms=None),
    "a negative timestamp": lambda record: record._replace(timestamp_ms=-1),
    "a timestamp of 65 bits": lambda record: record._replace(timestamp_ms=JAVA_LONG_MAX + 1),
    "no record": lambda record: b"value",
    "a tuple of three": lambda record: (record.key, record.value, 5),
}


def forwarding(change: Change, *, with_store: bool = False) -> Topology:
    class Forwards(PassOn):
        def process(self, record: Record[bytes, bytes]) -> None:
            self.context.forward(change(record) if record.key == b"bad" else record)  # the user's line

    topology = Topology().add_source("s", "in", key_serde=BYTES, value_serde=BYTES)
    topology.add_processor("p", Forwards, "s").add_sink("k", "out", "p", key_serde=BYTES, value_serde=BYTES)
    if with_store:
        topology.add_state_store(key_value_store("store", BYTES, BYTES), "p")
    return topology


def outcome(topology: Topology, headers: Any = ()) -> tuple[list[bytes | None], AskedHandler]:
    """The keys of what was written, in which `good 1` and `good 2` are around the record `bad`."""
    asked = AskedHandler()
    with TopologyTestDriver(topology, processing_exception_handler=asked) as driver:
        topic = driver.create_input_topic("in", BYTES, BYTES)
        at_ms = 1_795_000_000_000
        given: list[Any] = [Record(key, b"v", at_ms, headers) for key in (b"good 1", b"bad", b"good 2")]
        topic.pipe_records(given, together=True)
        written = driver.create_output_topic("out", BYTES, BYTES).read_all()
    return [record.key for record in written], asked


@pytest.mark.parametrize("headers", [(), (("h", b"1"),)], ids=["in a loop", "one by one"])
@pytest.mark.parametrize("with_store", [False, True], ids=["no store", "with a store"])
@pytest.mark.parametrize("what", WRONG)
def test_should_ask_about_a_forwarded_record_alone(what: str, with_store: bool, headers: Any) -> None:
    keys, asked = outcome(forwarding(WRONG[what], with_store=with_store), headers=headers)

    assert keys == [b"good 1", b"good 2"]
    (failed,) = asked.about
    assert (failed.metadata.offset, failed.key, failed.node in ("p", "k")) == (1, b"bad", True)
    assert "node=" + failed.node in described(failed)
    assert f"({__file__}, line " in described(failed)
    assert described(failed).endswith(", in process)")


@pytest.mark.parametrize("headers", [(), (("h", b"1"),)], ids=["in a loop", "one by one"])
@pytest.mark.parametrize(
    "change",
    [
        lambda record: tuple(record),
        lambda record: record._replace(value=bytearray(b"v")),
        lambda record: record._replace(key=memoryview(b"bad")),
        lambda record: record._replace(headers=[["a", b"1"]]),
        lambda record: record._replace(headers=None),
        lambda record: record._replace(value=None),
        lambda record: record._replace(timestamp_ms=JAVA_LONG_MAX),
    ],
)
def test_should_take_what_is_a_record_in_another_guise(change: Change, headers: Any) -> None:
    keys, asked = outcome(forwarding(change), headers=headers)

    assert keys == [b"good 1", b"bad", b"good 2"]
    assert asked.about == []


class Forgetful:
    """A user's serde that does not encode one text."""

    def serialize(self, value: str, /) -> bytes:
        return value if value == "bad" else value.encode()  # type: ignore[return-value]

    def deserialize(self, data: bytes, /) -> str:
        return data.decode()


NO_BYTES = pytest.mark.parametrize(
    "serde", [BYTES, Forgetful(), Serdes(lambda text: text, bytes)], ids=["BYTES", "a serde", "functions"]
)
GIVE: dict[bool, Callable[[bytes], Any]] = {
    True: lambda key: "bad" if key == b"bad" else "good",
    False: lambda key: "bad" if key == b"bad" else b"good",
}


@NO_BYTES
@pytest.mark.parametrize("how", ["map", "map_batches"])
@pytest.mark.parametrize("part", ["key", "value"])
def test_should_name_the_sink_whose_serde_gives_no_bytes(part: str, how: str, serde: Any) -> None:
    give = GIVE[isinstance(serde, Forgetful)]

    def both(key: bytes) -> tuple[Any, Any]:
        return (give(key), b"v") if part == "key" else (b"k", give(key))

    builder = StreamsBuilder()
    stream: Any = builder.stream("in", BYTES, BYTES)
    if how == "map":
        stream = stream.map(lambda key, _: both(key), name="made")
    else:
        stream = stream.map_batches(
            lambda batch: tuple(zip(*map(both, batch.keys), strict=True)), retries_one_by_one=False, name="made"
        )
    serdes = (serde, BYTES) if part == "key" else (BYTES, serde)
    stream.to("out", key_serde=serdes[0], value_serde=serdes[1], name="written")
    keys, asked = outcome(builder.build())

    assert len(keys) == 2
    assert [(failed.metadata.offset, failed.key, failed.node) for failed in asked.about] == [(1, b"bad", "written")]
    assert "sink written cannot write to topic out: the serdes do not fit the record" in str(asked.about[0].error)
    assert "bytes are needed, not str" in str(asked.about[0].error)


@NO_BYTES
@pytest.mark.parametrize("cache_bytes", [0, 1_000_000])
@pytest.mark.parametrize("part", ["key", "value"])
def test_should_store_nothing_that_its_changelog_cannot_take(part: str, cache_bytes: int, serde: Any) -> None:
    give = GIVE[isinstance(serde, Forgetful)]

    class Puts(Processor[bytes, bytes]):
        def init(self, context: ProcessorContext) -> None:
            self.store = context.state_store("store")

        def process(self, record: Record[bytes, bytes]) -> None:
            key = give(record.key)
            self.store.put(*((key, b"v") if part == "key" else (b"k-" + record.key, key)))

    serdes = (serde, BYTES) if part == "key" else (BYTES, serde)
    builder = key_value_store("store", *serdes, persistent=False, caching=cache_bytes > 0)
    topology = Topology().add_source("s", "in", key_serde=BYTES, value_serde=BYTES).add_processor("p", Puts, "s")
    topology.add_state_store(builder, "p")
    asked = AskedHandler()
    configs = {"statestore.cache.max.bytes": cache_bytes}
    with TopologyTestDriver(topology, configs, processing_exception_handler=asked) as driver:
        topic = driver.create_input_topic("in", BYTES, BYTES)
        topic.pipe_key_values([(b"good 1", b""), (b"bad", b""), (b"good 2", b"")], together=True)
        stored = driver.get_key_value_store("store").approximate_num_entries()
    assert stored == (1 if part == "key" else 2)
    assert [(failed.metadata.offset, failed.node) for failed in asked.about] == [(1, "p")]
    assert ", in process)" in described(asked.about[0])


@NO_BYTES
@pytest.mark.parametrize("cache_bytes", [0, 1_000_000])
def test_should_ask_about_a_key_that_a_table_cannot_have(cache_bytes: int, serde: Any) -> None:
    """The grouping writes a repartition topic first, whose sink refuses the key."""
    give = GIVE[isinstance(serde, Forgetful)]
    builder = StreamsBuilder()
    grouped = builder.stream("in", BYTES, BYTES).group_by(lambda key, _: give(key), key_serde=serde, value_serde=BYTES)
    grouped.count(store="counts")
    asked = AskedHandler()
    configs = {"statestore.cache.max.bytes": cache_bytes}
    with TopologyTestDriver(builder.build(), configs, processing_exception_handler=asked) as driver:
        topic = driver.create_input_topic("in", BYTES, BYTES)
        topic.pipe_key_values([(b"good 1", b""), (b"bad", b""), (b"good 2", b"")], together=True)
        assert [value.value for _, value in driver.get_key_value_store("counts").all()] == [2]
    assert [failed.metadata.offset for failed in asked.about] == [1]


@pytest.mark.parametrize("wrong", [5.0, True, -1, JAVA_LONG_MAX + 1, None, "5"])
def test_should_ask_about_a_row_of_a_batch_whose_timestamp_no_record_can_have(wrong: Any) -> None:
    """The function gets one record after the other then, and fails for one of them."""
    builder = StreamsBuilder()
    stream = builder.stream("in", BYTES, BYTES).map_batches(
        lambda batch: batch.with_timestamps_ms([wrong if key == b"bad" else 5 for key in batch.keys]), name="timed"
    )
    stream.to("out", key_serde=BYTES, value_serde=BYTES)
    keys, asked = outcome(builder.build())

    assert keys == [b"good 1", b"good 2"]
    assert [(failed.metadata.offset, failed.key, failed.node) for failed in asked.about] == [(1, b"bad", "timed")]


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [Silent(), ValueError("\ud800 is half of a character")])
@pytest.mark.parametrize("response", [HandlerResponse.CONTINUE, HandlerResponse.DEAD_LETTER])
def test_should_not_fail_by_the_text_of_an_error(error: Exception, response: HandlerResponse) -> None:
    def fails(key: bytes, _: bytes) -> bool:
        if key == b"bad":
            raise error
        return True

    def handler(failed: FailedRecord) -> HandlerResponse:
        (log_and_continue if response is HandlerResponse.CONTINUE else dead_letter)(failed)
        return response

    builder = StreamsBuilder()
    builder.stream("in", BYTES, BYTES).filter(fails).to("out", key_serde=BYTES, value_serde=BYTES)
    configs = {"errors.dead.letter.queue.topic.name": "dead"}
    with TopologyTestDriver(builder.build(), configs, processing_exception_handler=handler) as driver:
        topic = driver.create_input_topic("in", BYTES, BYTES)
        topic.pipe_key_values([(b"good", b""), (b"bad", b""), (b"good", b"")], together=True)
        assert len(driver.create_output_topic("out", BYTES, BYTES).read_all()) == 2


# --- producers


@pytest.fixture(params=["memory", "embedded"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    opened = open_log(f"embedded:{tmp_path}" if request.param == "embedded" else f"memory:{tmp_path.name}")
    opened.create_topics([NewTopic("out", 1)])
    yield opened
    opened.close()


SENT: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "a header with text": (b"k", b"v", {"headers": (("trace", "abc"),)}),
    "headers as a dict": (b"k", b"v", {"headers": {"trace": b"abc"}}),
    "text as value": (b"k", "text", {}),
    "a number as value": (b"k", 5, {}),
    "text as key": ("text", b"v", {}),
    "a float as timestamp": (b"k", b"v", {"timestamp_ms": 1_795_000_000_000.0}),
    "True as timestamp": (b"k", b"v", {"timestamp_ms": True}),
    "a negative timestamp": (b"k", b"v", {"timestamp_ms": -1}),
    "a timestamp of 65 bits": (b"k", b"v", {"timestamp_ms": JAVA_LONG_MAX + 1}),
    "a float as partition": (b"k", b"v", {"partition": 0.0}),
    "text as partition": (b"k", b"v", {"partition": "0"}),
    "no such partition": (b"k", b"v", {"partition": 1}),
    "a value that is too large": (b"k", TOO_LARGE, {}),
}


@pytest.mark.parametrize("what", SENT)
def test_should_refuse_a_record_at_once_and_keep_those_before_it(log: Log, what: str) -> None:
    key, value, more = SENT[what]
    producer = RecordProducer(log, BYTES, BYTES)
    for _ in range(100):
        producer.send("out", b"k", b"good")
    with pytest.raises((LogError, StreamsRuntimeError)):
        producer.send("out", key, value, **more)
    producer.flush()
    producer.send("out", b"k", b"last")
    producer.close()
    written = [record.value for record in read_topic(log, "out", BYTES, BYTES)]
    assert written == [b"good"] * 100 + [b"last"]


@pytest.mark.parametrize("what", [name for name in SENT if "partition" not in name])
def test_should_refuse_a_record_in_a_transaction_and_commit_the_others(log: Log, what: str) -> None:
    key, value, more = SENT[what]
    producer = log.producer("writer")
    producer.begin_transaction()
    out = TopicPartition("out", 0)
    producer.send(out, b"k", b"good", 5)
    with pytest.raises((InvalidRecord, RecordTooLarge), match="record for out-0 has "):
        producer.send(out, key, value, more.get("timestamp_ms", 5), more.get("headers", ()))
    producer.send(out, b"k", b"last", 5)
    producer.commit_transaction()
    producer.close()
    assert [record.value for record in read_topic(log, "out", BYTES, BYTES)] == [b"good", b"last"]


def test_should_show_the_line_that_handed_the_record_on_in_the_dead_letter() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", BYTES, BYTES).process(_ToText)
    stream.to("out", key_serde=BYTES, value_serde=BYTES)
    configs = {"errors.dead.letter.queue.topic.name": "dead"}
    with TopologyTestDriver(builder.build(), configs, processing_exception_handler=dead_letter) as driver:
        driver.create_input_topic("in", BYTES, BYTES).pipe_input(b"bad", b"v")
        ((_, _, _, headers),) = driver.create_output_topic("dead", BYTES, BYTES).read_all()
    trace = (dict(headers)["__streams.errors.stacktrace"] or b"").decode()
    assert f'File "{__file__}"' in trace
    assert "self.context.forward(record._replace(value=" in trace
    assert "test_should_show_the_line" not in trace


class _ToText(PassOn):
    def process(self, record: Record[bytes, bytes]) -> None:
        self.context.forward(record._replace(value="text"))  # type: ignore[arg-type]
