"""Which stores and internal topics count as not named. Kafka Streams 4.3.1 gives the same list for each topology, but
for the two cases in which the test says what Kafka does.
"""

from collections.abc import Callable
from typing import Any

import pytest

from assignor.errors import InputError, TopologyError
from streams_runtime import (
    STRING,
    Application,
    BufferConfig,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    StreamsBuilder,
    Suppressed,
    Topology,
    key_value_store,
)

EXPLICIT = {"ensure.explicit.internal.resource.naming": True}
SERDES: dict[str, Any] = {"key_serde": STRING, "value_serde": STRING}
COUNT = "KSTREAM-AGGREGATE-STATE-STORE-"
JOIN_STORES = tuple(
    f"KSTREAM-{kind}-store" for kind in ("JOINTHIS-0000000004", "OUTEROTHER-0000000005", "OUTERSHARED-0000000004")
)


def stream(builder: StreamsBuilder, topic: str = "a", **more: Any) -> KStream[str, str]:
    return builder.stream(topic, STRING, STRING, **more)


def table(builder: StreamsBuilder, topic: str = "t", store: str | None = "table") -> KTable[str, str]:
    return builder.table(topic, STRING, STRING, store=store)


def grouped(builder: StreamsBuilder, name: str | None = None) -> Any:
    return stream(builder).group_by(lambda _key, value: value, key_serde=STRING, value_serde=STRING, name=name)


def joined(builder: StreamsBuilder, store: str | None = None, name: str | None = None) -> object:
    left, right = stream(builder), stream(builder, "b")
    return left.left_join(right, lambda _l, _r: "", JoinWindows(10, grace_ms=5), store=store, name=name)


def suppressed(builder: StreamsBuilder, name: str | None) -> object:
    return table(builder).suppress(Suppressed.until_time_limit(10, BufferConfig(max_records=5)), name=name)


CASES: dict[str, tuple[Callable[[StreamsBuilder], object], tuple[str, ...]]] = {
    "count": (
        lambda builder: grouped(builder).count(),
        (f"{COUNT}0000000002", f"{COUNT}0000000002-repartition"),
    ),
    "count, grouping named": (lambda builder: grouped(builder, "g").count(), (f"{COUNT}0000000002",)),
    "count, store named": (lambda builder: grouped(builder).count(store="s"), ()),
    "count, store without a name": (
        lambda builder: grouped(builder, "g").count(store=Materialized(caching=False)),
        (f"{COUNT}0000000003",),
    ),
    "count, generated name given": (lambda builder: grouped(builder).count(store=f"{COUNT}0000000002"), ()),
    "table": (lambda builder: table(builder, store=None), ("t-STATE-STORE-0000000000",)),
    "filter with serdes": (
        lambda builder: table(builder).filter(lambda _key, _value: True, **SERDES),
        (),
    ),
    "join": (
        joined,
        JOIN_STORES,
    ),
    "join, node named": (
        lambda builder: joined(builder, name="j"),
        JOIN_STORES,
    ),
    "join, store named": (lambda builder: joined(builder, store="j"), ()),
    "suppress": (lambda builder: suppressed(builder, None), ("KTABLE-SUPPRESS-STATE-STORE-0000000003",)),
    "suppress, named": (lambda builder: suppressed(builder, "s"), ()),
    "repartition": (lambda builder: stream(builder).repartition(), ("KSTREAM-REPARTITION-0000000001-repartition",)),
    "repartition, named": (lambda builder: stream(builder).repartition(name="r"), ()),
    # Kafka counts only the first
    "foreign-key join": (
        lambda builder: table(builder).foreign_key_join(
            table(builder, "u", "other"), lambda _key, value: value, lambda _l, _r: ""
        ),
        (
            "KTABLE-FK-JOIN-OUTPUT-STATE-STORE-0000000017",
            "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000008",
            "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000004-topic",
            "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic",
        ),
    ),
    # Kafka counts this topic as not named
    "repartition of a named node": (
        lambda builder: (
            stream(builder)
            .select_key(lambda _key, value: value, name="by-value")
            .join(table(builder), lambda _l, _r: "")
        ),
        (),
    ),
}


@pytest.mark.parametrize("make, unnamed", CASES.values(), ids=CASES.keys())
def test_should_name_every_store_and_topic_without_a_name(
    make: Callable[[StreamsBuilder], object], unnamed: tuple[str, ...]
) -> None:
    builder = StreamsBuilder()
    make(builder)
    found = builder.build().without_names
    assert sorted(found) == sorted(unnamed)
    if unnamed:
        with pytest.raises(TopologyError, match="have generated names: ") as refused:
            builder.build(EXPLICIT)
        assert all(name in str(refused.value) for name in unnamed)
    else:
        builder.build(EXPLICIT)
    builder.build({"ensure.explicit.internal.resource.naming": "false"})


def test_should_refuse_generated_names_in_an_application_too() -> None:
    builder = StreamsBuilder()
    grouped(builder).count()
    configs = {"application.id": "app", "bootstrap.servers": "embedded:log", **EXPLICIT}
    with pytest.raises(InputError, match=rf"topology: Invalid topology: .* {COUNT}0000000002"):
        Application(builder.build(), configs)
    assert Application(builder.build(), {**configs, "ensure.explicit.internal.resource.naming": False}).topology


def test_should_accept_every_topology_of_the_processor_api() -> None:
    topology = Topology().add_source("s", "a").add_processor("p", _nothing, "s")
    topology.add_state_store(key_value_store(f"{COUNT}0000000002", STRING, STRING), "p")
    topology.check_explicit_names()


def _nothing() -> Any:
    from tests.streams_runtime.word_counting import SplitLine

    return SplitLine()
