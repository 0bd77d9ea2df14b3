"""What a user gets wrong is told at the call that is wrong, in words that say what to do; never taken for something
else."""

from typing import Any

import pytest

from assignor.errors import InputError, TopologyError
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Record
from streams_runtime.configs import StreamsConfig
from streams_runtime.dsl.streams import KTable
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.local_run.topology_test_driver import TopologyTestDriver
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.processors.api import Processor, ProcessorContext, PunctuationType
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import STRING
from tests.streams_runtime.running_member import RunningMember
from tests.streams_runtime.small_group import small_definition, without_source_topic


def scheduling(interval_ms: Any, type: Any, callback: Any) -> Topology:
    class Scheduling(Processor[str, str]):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(interval_ms, type, callback)

        def process(self, record: Record[str, str]) -> None:
            pass

    source = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    return source.add_processor("scheduling", Scheduling, "source")


def test_should_take_the_text_of_a_punctuation_type_for_the_type() -> None:
    fired: list[int] = []
    with TopologyTestDriver(scheduling(10, "stream_time", fired.append), initial_wall_clock_ms=0) as driver:
        driver.advance_wall_clock_time(1_000)
        assert fired == []
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v", 7)
        assert fired == [7]


@pytest.mark.parametrize(
    ("interval_ms", "type", "callback", "told"),
    [
        (10, "wall_clock", print, "the type of a punctuation is stream_time or wall_clock_time, not 'wall_clock'"),
        (10.5, PunctuationType.STREAM_TIME, print, "needs an interval in whole milliseconds and a function to call"),
        (10, PunctuationType.STREAM_TIME, None, "needs an interval in whole milliseconds and a function to call"),
    ],
)
def test_should_refuse_a_schedule_that_makes_no_sense(interval_ms: Any, type: Any, callback: Any, told: str) -> None:
    with pytest.raises(StreamsRuntimeError, match=told):
        TopologyTestDriver(scheduling(interval_ms, type, callback))


class WithArguments(Processor[str, str]):
    def __init__(self, size: int) -> None:
        self.size = size

    def process(self, record: Record[str, str]) -> None:
        pass


def test_should_refuse_a_supplier_that_needs_arguments() -> None:
    topology = Topology().add_source("source", "in")
    supplier: Any = WithArguments
    with pytest.raises(TopologyError, match="Processor p could not make a processor when called without arguments: T"):
        topology.add_processor("p", supplier, "source")
    topology.add_processor("p", lambda: WithArguments(3), "source")


def test_should_say_what_a_stream_is_joined_with() -> None:
    builder = StreamsBuilder()
    stream: Any = builder.stream("in", STRING, STRING)
    for join in (stream.join, stream.left_join):
        with pytest.raises(TopologyError, match="a KTable, a GlobalKTable or a KStream, not with a str; make"):
            join("other", lambda left, right: left + right)
    assert isinstance(stream.to_table(), KTable)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("cache.max.bytes.buffering", ": use 'statestore.cache.max.bytes'"),
        ("default.interactive.query.isolation.level", ": use 'isolation.level'"),
        ("processing.exception.handler", ": handlers are arguments of Application: processing_exception_handler="),
        (
            "main.consumer.max.poll.records",
            ": single clients cannot be configured here; the value is fixed, or write the key without its prefix",
        ),
        (
            "stream.threads.run.as",
            ": stream threads share the process of their instance; for more cores, run n instances: "
            "assignor workers run module:app --local --instances n$",
        ),
        ("commit.interval", "; did you mean 'commit.interval.ms'"),
        ("num.stream.thread", "; did you mean 'num.stream.threads'"),
        ("something.else.entirely", "$"),
    ],
)
def test_should_say_what_to_write_instead_of_a_key_that_is_not_known(key: str, told: str) -> None:
    with pytest.raises(InputError, match=f"unknown config '{key}'{told}"):
        StreamsConfig.from_dotted({"application.id": "a", "bootstrap.servers": "memory:a", key: 1})


def test_should_refuse_heartbeats_that_are_slower_than_the_session() -> None:
    given = {"application.id": "a", "bootstrap.servers": "memory:a", "session.timeout.ms": 6_000}
    with pytest.raises(InputError, match=r"must be lower than session\.timeout\.ms"):
        StreamsConfig.from_dotted({**given, "heartbeat.interval.ms": 6_000})
    assert StreamsConfig.from_dotted({**given, "heartbeat.interval.ms": 5_999}).heartbeat_interval_ms == 5_999


def test_should_take_true_and_false_for_leave_on_disconnect_and_nothing_else() -> None:
    given = {"application.id": "a", "bootstrap.servers": "memory:a"}
    assert StreamsConfig.from_dotted(given).leave_on_disconnect
    assert not StreamsConfig.from_dotted({**given, "leave.on.disconnect": "false"}).leave_on_disconnect
    with pytest.raises(InputError, match=r"leave\.on\.disconnect must be true or false, not 1"):
        StreamsConfig.from_dotted({**given, "leave.on.disconnect": 1})


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "localhost", ""])
def test_should_not_take_an_address_without_scheme_for_a_coordinator_that_is_down(address: str) -> None:
    with pytest.raises(InputError, match="must be a URL such as http"):
        CoordinatorClient(address)


def test_should_name_the_topics_it_reads_when_the_leader_misses_one(client: CoordinatorClient) -> None:
    definition = small_definition("a-topic-is-missing")
    client.declare("a-topic-is-missing", without_source_topic(definition))
    with RunningMember(client, definition, "a") as member:
        member.join()
    assert str(member.failure).endswith(
        "METADATA: The definition's cluster lacks source topics. The topology reads events"
    )
