"""The random chains themselves, without Kafka: what they are made of."""

from collections import Counter
from itertools import chain
from typing import Any

import pytest

from tests.oracle.generated_dsl_chains import dsl_chain

Ops = list[dict[str, Any]]


@pytest.fixture(scope="module")
def topologies() -> list[Ops]:
    return [dsl_chain("fixed", number)["topology"] for number in range(600)]


def test_should_draw_a_chain_from_its_seed_and_its_number_alone() -> None:
    assert dsl_chain(7, 3) == dsl_chain(7, 3)
    assert dsl_chain(7, 3)["topology"] != dsl_chain(7, 4)["topology"]


def test_should_draw_every_kind_of_operator(topologies: list[Ops]) -> None:
    drawn = Counter(op["op"] for op in chain.from_iterable(topologies))
    expected = (
        "stream table globalTable addStateStore addGlobalStore filter filterNot selectKey map mapValues flatMap "
        "flatMapValues peek foreach split merge repartition to toTable groupByKey groupBy process processValues join "
        "leftJoin outerJoin count reduce aggregate windowedBy cogroup transformValues toStream suppress"
    )
    assert set(drawn) == set(expected.split())
    assert min(drawn.values()) >= 5


def test_should_draw_every_kind_of_window_and_store(topologies: list[Ops]) -> None:
    ops = list(chain.from_iterable(topologies))
    assert {op["windows"].get("type", "join") for op in ops if "windows" in op} == {
        *("time", "sliding", "session", "unlimited", "join")
    }
    stores = [op["materialized"] for op in ops if "materialized" in op]
    options = {(option, store[option]) for store in stores for option in ("storeType", "caching") if option in store}
    assert options == {("storeType", "in_memory"), ("storeType", "rocksDB"), ("caching", True), ("caching", False)}
    assert any("historyRetention_ms" in store for store in stores)
    assert {op["emitStrategy"] for op in ops if "emitStrategy" in op} == {"onWindowClose", "onWindowUpdate"}
    assert any("foreignKey" in op for op in ops)
    assert any(op["op"] == "join" and op["in"][0] == op["in"][1] and "windows" in op for op in ops)
