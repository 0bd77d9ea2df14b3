"""Global tables and stores in a topology: what they are, who may read and change them, and what is refused."""

from typing import Any

import pytest

from assignor.errors import IllegalArgumentError, InputError, TopologyError
from streams_runtime import (
    STRING,
    Materialized,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StreamsBuilder,
    StreamsRuntimeError,
    Topology,
    TopologyTestDriver,
    key_value_store,
    window_store,
)
from streams_runtime.common.errors import ProcessingFailed
from tests.streams_runtime.dsl.driven import driven


class Put(Processor[Any, Any]):
    """Puts each record into the store `users`."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.store = context.state_store("users")

    def process(self, record: Record[Any, Any]) -> None:
        self.store.put(record.key, record.value)


class LookUp(Put):
    """Replaces each value by its entry in the store `users`."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record._replace(value=self.store.get(record.value)))


def test_should_join_by_any_key_without_a_repartition_topic() -> None:
    builder = StreamsBuilder()
    users = builder.global_table("users", STRING, STRING, store="users")
    orders = builder.stream("orders", STRING, STRING).select_key(lambda _key, value: value)
    orders.join(users, "{}+{}".format, key_selector=lambda _key, value: value[:1]).to(
        "inner", key_serde=STRING, value_serde=STRING
    )
    orders.left_join(users, "{}:{}+{}".format, key_selector=lambda _key, value: value[:1], with_key=True).to(
        "left", value_serde=STRING, key_serde=STRING
    )
    topology = builder.build()
    (orders_part,) = topology.group_topology("app").subtopologies
    assert orders_part.source_topics == ("orders",)
    assert "for global store (will not generate tasks)" in topology.describe()
    with driven(builder) as run:
        run.pipe("users", ("a", "Ann", 5))
        run.pipe("orders", ("1", "apples", 1), ("2", "beans", 2))
        assert run.read("inner") == [("apples", "apples+Ann", 1)]
        assert run.read("left") == [("apples", "apples:apples+Ann", 1), ("beans", "beans:beans+None", 2)]


def test_should_show_a_processor_what_an_earlier_record_has_written_to_the_global_topic() -> None:
    builder = StreamsBuilder()
    users = builder.global_table("users", STRING, STRING)
    seen = builder.stream("in", STRING, STRING).left_join(users, "{}+{}".format, key_selector=lambda key, _value: key)
    seen.to("users", value_serde=STRING)
    seen.to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("in", ("k", "1", 1), ("k", "2", 2))
        assert [value for _, value, _ in run.read("out")] == ["1+None", "2+1+None"]


@pytest.mark.parametrize("store", [key_value_store, window_store])
def test_should_refuse_changes_by_processors_of_tasks(store: Any) -> None:
    class Change(Put):
        def process(self, record: Record[Any, Any]) -> None:
            self.store.delete(record.key) if store is key_value_store else self.store.put(record.key, "v", 0)

    more = {} if store is key_value_store else {"retention_ms": 10, "window_size_ms": 10}
    builder = StreamsBuilder()
    builder.add_global_store(store("users", STRING, STRING, **more), "users", Put, STRING, STRING)
    builder.stream("in", STRING, STRING).process(Change)
    with driven(builder) as run, pytest.raises(ProcessingFailed, match="global store users is read only"):
        run.pipe("in", ("k", "v", 1))


def test_should_let_every_processor_read_a_global_store() -> None:
    topology = Topology()
    topology.add_global_store(
        key_value_store("users", STRING, STRING), "s", "users", "p", Put, key_serde=STRING, value_serde=STRING
    )
    topology.add_source("in", "in", key_serde=STRING, value_serde=STRING)
    topology.add_processor("look up", LookUp, "in").add_sink(
        "out", "out", "look up", key_serde=STRING, value_serde=STRING
    )
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("users", STRING, STRING).pipe_input("a", "Ann")
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "a")
        assert driver.create_output_topic("out", STRING, STRING).read_values() == ["Ann"]
        assert driver.get_key_value_store("users").get("a") == "Ann"


def test_should_refuse_punctuations_of_a_global_processor() -> None:
    class Tick(Put):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(1, PunctuationType.STREAM_TIME, lambda _time_ms: None)

    builder = StreamsBuilder()
    builder.add_global_store(key_value_store("users", STRING, STRING), "users", Tick, STRING, STRING)
    with (
        pytest.raises(StreamsRuntimeError, match="the processor of a global store cannot use `schedule`"),
        driven(builder),
    ):
        pass


def test_should_refuse_what_cannot_be() -> None:
    builder, other = StreamsBuilder(), StreamsBuilder()
    stream, table = builder.stream("in", STRING, STRING), builder.table("t", STRING, STRING)
    users = builder.global_table("users", STRING, STRING)
    with pytest.raises(IllegalArgumentError, match="topic u needs the name of the store"):
        other.global_table("u", store=Materialized(persistent=False))
    with pytest.raises(TopologyError, match=r"GlobalTables cannot be versioned\."):
        other.global_table("v", store=Materialized("v", history_retention_ms=10))
    with pytest.raises(TopologyError, match=r"The key_selector of KStream.join must be a function, not None"):
        stream.join(users, str.__add__)
    with pytest.raises(TopologyError, match=r"the option key_selector only with a global table, not with a table"):
        stream.left_join(table, "{}{}".format, key_selector=lambda key, _value: key)
    with pytest.raises(TopologyError, match="come from different builders"):
        stream.join(other.global_table("u"), str.__add__, key_selector=lambda key, _value: key)
    builder.stream("users", STRING, STRING)
    with pytest.raises(TopologyError, match="Topic users has already been registered by another source"):
        builder.build()


def test_should_restore_a_read_only_store_from_its_topic() -> None:
    topology = Topology()
    topology.add_read_only_state_store(
        key_value_store("users", STRING, STRING), "s", "t", "p", Put, key_serde=STRING, value_serde=STRING
    )
    topology.add_source("in", "in", key_serde=STRING, value_serde=STRING).add_processor("look up", LookUp, "in")
    topology.connect_processor_and_stores("look up", "users")
    (part,) = topology.group_topology("app").subtopologies
    assert set(part.source_topics) == {"t", "in"}
    assert [(store.changelog_topic, store.source_topic_as_changelog) for store in part.stores] == [(None, "t")]


def test_should_change_nothing_when_a_read_only_store_is_refused() -> None:
    topology = Topology().add_source("in", "in").add_processor("p", Put, "in")
    before = topology.describe()
    for processor, store in (("p", "users"), ("q", "../up")):
        with pytest.raises((TopologyError, InputError), match=r"p is already added|cannot be the name"):
            topology.add_read_only_state_store(key_value_store(store, STRING, STRING), "s", "t", processor, Put)
    assert topology.describe() == before
