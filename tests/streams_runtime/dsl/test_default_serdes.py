"""default.key.serde and default.value.serde stand in wherever the DSL is given no serde."""

import pickle
from typing import Any

import pytest

from assignor.errors import InputError, TopologyError
from streams_runtime import (
    DOUBLE,
    JSON,
    LONG,
    STRING,
    Application,
    Processor,
    ProcessorContext,
    Record,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    StreamsRuntimeError,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)

DEFAULTS = {"default.key.serde": "string", "default.value.serde": "json"}
GIVEN = {"application.id": "app", "bootstrap.servers": "memory:app"}
UPPER: Serdes[str] = Serdes(lambda text: text.upper().encode(), lambda data: data.decode())


def _swapped(key: str, value: str) -> tuple[str, str]:
    return value, key


class OwnSerde:
    def serialize(self, value: str, /) -> bytes:
        return value.encode()

    def deserialize(self, data: bytes, /) -> str:
        return data.decode()


class WithArguments(OwnSerde):
    def __init__(self, encoding: str) -> None:
        self.encoding = encoding


NOT_A_SERDE = object()


def _everywhere() -> Topology:
    """Each kind of place that needs a serde, without one."""
    builder = StreamsBuilder()
    stream: Any = builder.stream("in")
    table: Any = builder.table("table", store="kept")
    by_name = stream.map(lambda key, value: (value["name"], value)).group_by_key()
    by_name.count(store="counts").to_stream().to("counted", value_serde=LONG)
    by_name.reduce(lambda _old, new: new, store="last").to_stream().to("last")
    by_name.windowed_by(TimeWindows(1_000)).count(store="in-windows")
    stream.repartition(name="again").join(table, lambda left, right: [left, right]).to("joined")
    table.group_by(lambda key, value: (value["name"], value)).count(store="grouped").to_stream().to(
        "grouped", value_serde=LONG
    )
    stream.select_key(lambda _key, value: value["name"]).to_table(store="newest")
    return builder.build()


def test_should_use_the_default_serdes_wherever_none_is_given() -> None:
    with TopologyTestDriver(_everywhere(), DEFAULTS) as driver:
        driver.create_input_topic("table", STRING, JSON).pipe_input("k", {"name": "ann"}, 0)
        driver.create_input_topic("in", STRING, JSON).pipe_input("k", {"name": "bob"}, 1)

        assert driver.create_output_topic("counted", STRING, LONG).read_key_values() == [("bob", 1)]
        assert driver.create_output_topic("last", STRING, JSON).read_key_values() == [("bob", {"name": "bob"})]
        assert driver.create_output_topic("joined", STRING, JSON).read_key_values() == [
            ("k", [{"name": "bob"}, {"name": "ann"}])
        ]
        assert driver.create_output_topic("grouped", STRING, LONG).read_key_values() == [("ann", 1)]
        assert driver.get_key_value_store("kept").get("k") == ({"name": "ann"}, 0)
        assert driver.get_key_value_store("newest").get("bob") == ({"name": "bob"}, 1)
        assert driver.get_window_store("in-windows").fetch("bob", 0) == (1, 1)


def test_should_leave_the_topology_as_it_is_for_other_configs() -> None:
    topology = _everywhere()

    first = Application(topology, {**GIVEN, **DEFAULTS})
    second = Application(topology, {**GIVEN, "default.key.serde": LONG, "default.value.serde": DOUBLE})

    assert first.topology.describe() == second.topology.describe() == topology.describe()
    assert first.group_topology() == second.group_topology()
    supplier: Any = next(iter(second.topology.definition().nodes.values())).supplier
    assert (supplier.key_serde, supplier.value_serde) == (LONG, DOUBLE)


def test_should_keep_the_topology_that_names_all_its_serdes() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).to("out")
    topology = builder.build()

    assert Application(topology, GIVEN).topology is topology


def test_should_prefer_the_serde_that_is_given() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).to("out", value_serde=UPPER)
    with TopologyTestDriver(builder.build(), DEFAULTS) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")
        assert driver.create_output_topic("out", STRING, STRING).read_key_values() == [("k", "V")]


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (lambda builder: builder.stream("in").to("out"), "-SOURCE-0000000000, which reads in, needs a key serde"),
        (lambda builder: builder.stream("in", STRING).to("out"), "which reads in, needs a value serde"),
        (
            lambda builder: builder.stream("in", STRING, STRING).map(_swapped).group_by_key().count(store="n"),
            "store n needs a key serde",
        ),
        (lambda builder: builder.table("in", STRING, store="kept"), "store kept needs a value serde"),
        (
            lambda builder: builder.stream("in", STRING, STRING).map_values(len).to("out"),
            "-SINK-0000000002, which writes to out, needs a value serde",
        ),
    ],
)
def test_should_name_the_node_whose_serde_is_missing(topology: Any, message: str) -> None:
    builder = StreamsBuilder()
    topology(builder)

    with pytest.raises(InputError) as refused:
        Application(builder.build(), GIVEN).check_serdes()

    assert message in str(refused.value)
    what = "key" if "key serde" in message else "value"
    hint = f"give {what}_serde to its call or to a call before, such as the group_by_key of a count, or set default."
    assert str(refused.value).endswith(f"{hint}{what}.serde")


class _NeedsAnotherStore(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        context.state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        raise AssertionError("its task does not start")


def _two_faults(builder: StreamsBuilder) -> None:
    builder.table("table", STRING, STRING, store="kept")
    builder.stream("in", STRING, STRING).process(_NeedsAnotherStore, name="asks").to("out")


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (lambda builder: builder.stream("in").to("out"), "processor KSTREAM-SOURCE-0000000000: .* a key serde"),
        (
            lambda builder: builder.stream("in", STRING, STRING).map(_swapped).to("out"),
            "processor KSTREAM-SINK-0000000002: .* a key serde",
        ),
        (
            lambda builder: builder.stream("a").merge(builder.table("b", STRING, store="kept").to_stream()),
            "^Invalid topology: store kept needs a value serde",
        ),
        (
            lambda builder: (
                builder.table("b", STRING, STRING, store="kept")
                .map_values(str.upper)
                .suppress(Suppressed.until_time_limit(5))
                .to_stream()
                .to("out")
            ),
            "processor KTABLE-SUPPRESS-0000000003: .* a value serde",
        ),
        (_two_faults, "processor asks: .* has no access to state store kept"),
    ],
)
def test_should_name_the_fault_that_kafka_finds_first(topology: Any, message: str) -> None:
    """Stores come before nodes, and nodes in their order, whatever the fault."""
    builder = StreamsBuilder()
    topology(builder)

    with pytest.raises((TopologyError, StreamsRuntimeError), match=message):
        TopologyTestDriver(builder.build())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("string", STRING),
        ("org.apache.kafka.common.serialization.Serdes$LongSerde", LONG),
        (UPPER, UPPER),
        (f"{__name__}.UPPER", UPPER),
        (f"{__name__}:UPPER", UPPER),
    ],
)
def test_should_take_a_serde_or_its_name(value: object, expected: object) -> None:
    assert StreamsConfig.from_dotted({**GIVEN, "default.key.serde": value}).default_key_serde is expected


@pytest.mark.parametrize("value", [OwnSerde, f"{__name__}.OwnSerde"])
def test_should_make_a_serde_of_a_class(value: object) -> None:
    configs = StreamsConfig.from_dotted({**GIVEN, "default.value.serde": value})

    assert isinstance(pickle.loads(pickle.dumps(configs)).default_value_serde, OwnSerde)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("strnig", "default.key.serde must be one of string, long, double, bytes, json, integer, short, float, "),
        ("no.such.module.SERDE", "default.key.serde: no.such.module cannot be imported"),
        (f"{__name__}.MISSING", f"default.key.serde: {__name__} has no MISSING"),
        (f"{__name__}.NOT_A_SERDE", "default.key.serde must be a serde, one of string, long"),
        (WithArguments, "default.key.serde: WithArguments cannot be made without arguments"),
        (7, "default.key.serde must be a serde, one of string, long"),
    ],
)
def test_should_refuse_what_is_no_serde(value: object, message: str) -> None:
    with pytest.raises(InputError) as refused:
        StreamsConfig.from_dotted({**GIVEN, "default.key.serde": value})

    assert f"configs: {message}" in str(refused.value)
