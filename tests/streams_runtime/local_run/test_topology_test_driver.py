"""The driver runs real tasks: repartition topics, stores, punctuations, commits; no server and no thread."""

import threading
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import InputError
from streams_runtime.common.errors import ProcessingFailed, SerdeMismatch, StreamsRuntimeError
from streams_runtime.common.records import Record
from streams_runtime.configs import StreamsConfig
from streams_runtime.dsl.streams import KStream
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.local_run.topology_test_driver import TopologyTestDriver
from streams_runtime.processors.api import ProcessorContext, PunctuationType
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import BYTES, LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.key_value import KeyValueStore
from tests.streams_runtime.processors.recording_runtime import PassOn


class Split(PassOn):
    def process(self, record: Record[Any, str]) -> None:
        for word in record.value.split():
            self.context.forward(record._replace(key=word, value=word))


class Count(PassOn):
    store: KeyValueStore[str, int]

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store = context.state_store("counts")

    def process(self, record: Record[str, Any]) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record._replace(value=count))


def word_count(*, persistent: bool = True) -> Topology:
    topology = Topology().add_source("lines", "text", key_serde=STRING, value_serde=STRING)
    topology.add_processor("split", Split, "lines").add_repartition_topic("words")
    topology.add_sink("to-words", "words", "split", key_serde=STRING, value_serde=STRING)
    topology.add_source("words", "words", key_serde=STRING, value_serde=STRING)
    topology.add_state_store(key_value_store("counts", STRING, LONG, persistent=persistent))
    topology.add_processor("count", Count, "words", stores=["counts"])
    return topology.add_sink("to-counts", "word-counts", "count", key_serde=STRING, value_serde=LONG)


EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}


@pytest.mark.parametrize("configs", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("persistent", [True, False], ids=["rocksdb", "in-memory"])
def test_should_run_records_through_repartition_topics_by_itself(configs: dict[str, object], persistent: bool) -> None:
    with TopologyTestDriver(word_count(persistent=persistent), configs) as driver:
        lines = driver.create_input_topic("text", STRING, STRING, start_timestamp_ms=10, auto_advance_ms=5)
        counts = driver.create_output_topic("word-counts", STRING, LONG)

        lines.pipe_input(None, "to be or not")
        first = counts.read_all()
        lines.pipe_input("key", "to be", 100, (("h", b"1"),))

        assert first == [Record("to", 1, 10), Record("be", 1, 10), Record("or", 1, 10), Record("not", 1, 10)]
        assert counts.read_all() == [Record("to", 2, 100, (("h", b"1"),)), Record("be", 2, 100, (("h", b"1"),))]
        assert dict(driver.get_key_value_store("counts").all()) == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_should_need_neither_threads_nor_files_that_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(threading.enumerate())
    driver = TopologyTestDriver(word_count())
    driver.create_input_topic("text", STRING, STRING).pipe_input(None, "a")
    inside = list(tmp_path.iterdir())
    started = set(threading.enumerate()) - before

    driver.close()
    driver.close()

    assert len(inside) == 1
    assert started == set()
    assert list(tmp_path.iterdir()) == []


class WallClockTicking(PassOn):
    """Forwards the time every 10 ms."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, time_ms: int) -> None:
        self.context.forward(Record("wall_clock_time", time_ms, time_ms))


def test_should_process_what_a_punctuation_sends_to_a_repartition_topic() -> None:
    topology = Topology().add_source("in", "a").add_processor("tick", WallClockTicking, "in")
    topology.add_repartition_topic("r").add_sink("out", "r", "tick", key_serde=STRING, value_serde=LONG)
    topology.add_source("again", "r").add_sink("end", "ticks", "again")

    with TopologyTestDriver(topology, initial_wall_clock_ms=0) as driver:
        driver.advance_wall_clock_time(10)

        assert driver.create_output_topic("ticks", STRING, LONG).read_record() == Record("wall_clock_time", 10, 10)


class Refusing(PassOn):
    def process(self, record: Record[Any, Any]) -> None:
        if record.value == b"bad":
            raise ValueError("cannot use it")
        self.context.forward(record)


def test_should_raise_with_task_place_and_node_what_would_end_a_thread() -> None:
    driver = TopologyTestDriver(
        Topology().add_source("in", "a").add_processor("refuse", Refusing, "in").add_sink("out", "b", "refuse")
    )
    topic = driver.create_input_topic("a", BYTES, BYTES)
    topic.pipe_input(b"k", b"good", 1)

    with pytest.raises(ProcessingFailed) as caught:
        topic.pipe_input(b"k", b"bad", 2)
    with pytest.raises(StreamsRuntimeError, match="the driver's topology has failed"):
        topic.pipe_input(b"k", b"good", 3)
    driver.close()

    for part in ("0_0", "refuse", "a", "1"):
        assert part in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_should_let_stores_be_read_and_filled_from_the_test() -> None:
    with TopologyTestDriver(word_count(), EXACTLY_ONCE) as driver:
        driver.get_key_value_store("counts").put("a", 41)
        driver.create_input_topic("text", STRING, STRING).pipe_input(None, "a")

        assert driver.create_output_topic("word-counts", STRING, LONG).read_key_value() == ("a", 42)
        assert list(driver.get_all_state_stores()) == ["counts"]


def test_should_say_what_there_is_when_a_name_is_not_known() -> None:
    with TopologyTestDriver(word_count(), {"application.id": "wc"}) as driver:
        known = "text, wc-counts-changelog, wc-words, word-counts"
        with pytest.raises(StreamsRuntimeError, match="does not read topic word-counts; it reads text, wc-words"):
            driver.create_input_topic("word-counts", BYTES, BYTES)
        with pytest.raises(StreamsRuntimeError, match=f"there is no topic words; there are {known}"):
            driver.create_output_topic("words", BYTES, BYTES)
        with pytest.raises(StreamsRuntimeError, match="there is no state store count; there are counts"):
            driver.get_state_store("count")
        with pytest.raises(StreamsRuntimeError, match="state store counts is not a window store"):
            driver.get_window_store("counts")


def test_should_take_records_out_of_an_output_topic_as_it_is_read() -> None:
    with TopologyTestDriver(Topology().add_source("in", "a").add_sink("out", "b", "in")) as driver:
        driver.create_input_topic("a", BYTES, BYTES).pipe_key_values(
            [(b"1", b"x"), (b"2", None), (b"1", b"y"), (b"3", b"z")]
        )
        output = driver.create_output_topic("b", BYTES, BYTES)

        assert output.size() == 4
        assert output.read_value() == b"x"
        assert output.read_key_value() == (b"2", None)
        assert output.read_key_values_to_map() == {b"1": b"y", b"3": b"z"}
        assert output.is_empty()
        with pytest.raises(StreamsRuntimeError, match="topic b has no more records"):
            output.read_record()
        assert driver.create_output_topic("b", BYTES, BYTES).size() == 4


def test_should_stamp_records_with_the_clock_when_the_topic_has_no_time_of_its_own() -> None:
    topology = Topology().add_source("in", "a").add_sink("out", "b", "in")
    with TopologyTestDriver(topology, initial_wall_clock_ms=500) as driver:
        driver.advance_wall_clock_time(20)
        topic = driver.create_input_topic("a", BYTES, BYTES)
        topic.pipe_input(b"1", b"")
        topic.advance_time(3)
        topic.pipe_input(b"2", b"")

        assert [record.timestamp_ms for record in driver.create_output_topic("b", BYTES, BYTES).read_all()] == [
            520,
            523,
        ]


def test_should_name_topic_and_serdes_of_a_record_that_they_do_not_fit() -> None:
    wrong: Any = 5
    with TopologyTestDriver(word_count()) as driver:
        topic = driver.create_input_topic("text", STRING, STRING)
        for key, value, given in (
            (wrong, "a", "a int, value serde StringSerde a str"),
            ("a", wrong, "a str, .* a int"),
        ):
            fault = f"^topic text: the serdes do not fit the record: key serde StringSerde was given {given}"
            with pytest.raises(SerdeMismatch, match=fault):
                topic.pipe_input(key, value)


def test_should_refuse_time_that_goes_back() -> None:
    with TopologyTestDriver(word_count()) as driver:
        topic = driver.create_input_topic("text", STRING, STRING)
        with pytest.raises(StreamsRuntimeError, match="time does not go back, by -1 ms"):
            driver.advance_wall_clock_time(-1)
        with pytest.raises(StreamsRuntimeError, match="topic text: time does not go back, by -1 ms"):
            topic.advance_time(-1)
        with pytest.raises(StreamsRuntimeError, match="topic text: the timestamp -1 of a record is negative"):
            topic.pipe_input(None, "a", -1)
        with pytest.raises(StreamsRuntimeError, match=r"neither start \(0 ms\) nor advance \(-5 ms\)"):
            driver.create_input_topic("text", STRING, STRING, start_timestamp_ms=0, auto_advance_ms=-5)


def test_should_take_a_topic_for_idle_from_the_end_of_its_records() -> None:
    topology = Topology().add_source("in", ["a", "b"]).add_sink("out", "c", "in")
    with TopologyTestDriver(topology, {"max.task.idle.ms": 15}, initial_wall_clock_ms=0) as driver:
        output = driver.create_output_topic("c", BYTES, BYTES)
        driver.create_input_topic("a", BYTES, BYTES).pipe_input(b"from a", b"", 1)
        driver.advance_wall_clock_time(20)
        driver.advance_wall_clock_time(100)  # topic a has had no records for longer than the wait
        driver.create_input_topic("b", BYTES, BYTES).pipe_input(b"from b", b"", 2)
        assert output.read_key_values() == [(b"from a", b""), (b"from b", b"")]


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("table_first", [False, True])
def test_should_take_turns_among_equal_timestamps_in_the_order_of_writing(number: int, table_first: bool) -> None:
    """The heap of queues is Kafka's. Names differ because sets of them are in another order in each process."""
    builder = StreamsBuilder()
    stream = builder.stream("in", STRING, STRING).select_key(lambda k, v: k.upper())
    if table_first:
        table = stream.to_table(store="table", key_serde=STRING, value_serde=STRING, name=f"right-{number}")
        left = stream.repartition(key_serde=STRING, value_serde=STRING, name=f"left-{number}")
    else:
        left = stream.repartition(key_serde=STRING, value_serde=STRING, name=f"left-{number}")
        table = stream.to_table(store="table", key_serde=STRING, value_serde=STRING, name=f"right-{number}")
    left.left_join(table, lambda one, other: f"{one}/{other}").to("out", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        for time_ms in range(3):
            topic.pipe_input("a", str(time_ms + 1), time_ms)
        values = driver.create_output_topic("out", STRING, STRING).read_values()
    assert values == (["1/1", "2/2", "3/3"] if table_first else ["1/None", "2/1", "3/2"])


def test_should_take_turns_in_the_order_of_writing_where_a_loop_writes_a_topic_in_two_places() -> None:
    """The merged stream comes first in the topology, but its branch that has nothing for this record."""
    builder = StreamsBuilder()
    stream = builder.stream("in", STRING, STRING)
    nothing: KStream[str, str] = stream.flat_map(lambda _key, _value: [])
    keyed = stream.select_key(lambda key, _value: key)
    merged = stream.merge(nothing)
    table = keyed.to_table(store="table", key_serde=STRING, value_serde=STRING)
    joined = merged.join(table, lambda one, other: f"{one}/{other}", key_serde=STRING, value_serde=STRING)
    joined.to("out", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "1", 0)
        assert driver.create_output_topic("out", STRING, STRING).read_values() == ["1/1"]


def test_should_take_configs_as_values_and_refuse_what_an_application_refuses() -> None:
    with TopologyTestDriver(word_count(), StreamsConfig("wc", "memory:x", auto_offset_reset="none")) as driver:  # type: ignore[arg-type]
        driver.create_input_topic("text", STRING, STRING).pipe_input(None, "a")
        assert "wc-counts-changelog" in driver.produced_topic_names()

    with pytest.raises(InputError, match="topology: Invalid topology: It reads no topic"):
        TopologyTestDriver(Topology())
    with pytest.raises(InputError, match="unknown config 'state'"):
        TopologyTestDriver(word_count(), {"state": 1})


def test_should_clean_up_when_a_processor_fails_in_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Broken(PassOn):
        def init(self, context: ProcessorContext) -> None:
            raise ValueError("no model")

    with pytest.raises(StreamsRuntimeError, match="failed to initialize processor broken"):
        TopologyTestDriver(Topology().add_source("in", "a").add_processor("broken", Broken, "in"))

    assert list(tmp_path.iterdir()) == []


def test_should_close_processors_and_raise_what_one_of_them_raises() -> None:
    class Broken(PassOn):
        def close(self) -> None:
            raise ValueError("still busy")

    driver = TopologyTestDriver(Topology().add_source("in", "a").add_processor("broken", Broken, "in"))

    with pytest.raises(StreamsRuntimeError, match="failed to close processor broken"):
        driver.close()
    with pytest.raises(StreamsRuntimeError, match="the driver is closed"):
        driver.advance_wall_clock_time(1)
