"""Versioned tables: misuse, and what the recorded cases of `tests/dsl_vectors` do not show."""

from collections.abc import Callable

import pytest

from assignor.errors import IllegalArgumentError
from streams_runtime import STRING, KTable, Materialized, Processor, ProcessorContext, Record, StreamsBuilder
from streams_runtime.dsl.change import OutOfOrderChange, in_order_of
from tests.streams_runtime.dsl.driven import driven

VERSIONED = Materialized("prices", history_retention_ms=100)


class ShowOrigin(Processor[str, str]):
    """Appends the offset of the input record, and the timestamp of the record's context."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        metadata = self.context.record_metadata
        assert metadata is not None
        self.context.forward(record._replace(value=f"{record.value}@{metadata.offset}"))


def both(first: str | None, second: str | None) -> str:
    return f"{first}+{second}"


def test_should_join_a_record_that_waited_in_its_own_context() -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", STRING, STRING, store=VERSIONED)
    joined = builder.stream("orders", STRING, STRING).join(prices, both, grace_ms=10)
    joined.process(ShowOrigin).to("out", key_serde=STRING, value_serde=STRING)
    with driven(builder) as run:
        run.pipe("orders", ("a", "first", 5), ("a", "second", 6))
        run.pipe("prices", ("a", "old", 5), ("a", "new", 6))
        run.pipe("orders", ("b", "third", 16))
        assert run.read("out") == [("a", "first+old@0", 5), ("a", "second+new@1", 6)]


def test_should_count_changes_out_of_order_that_a_join_of_tables_leaves_out() -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", STRING, STRING, store=VERSIONED)
    prices.join(builder.table("names", STRING, STRING), both).to_stream().to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("names", ("a", "apple", 1))
        run.pipe("prices", ("a", "3", 50), ("a", "2", 40))
        assert [value for _, value, _ in run.read("out")] == ["3+apple"]
        assert run.driver.dropped_records() == {"out-of-order": 1}
        store = run.driver.get_versioned_key_value_store("prices")
        assert [version.value for version in store.versions("a")] == ["3", "2"]


def test_should_keep_a_versioned_table_without_name() -> None:
    builder = StreamsBuilder()
    table = builder.table("prices", STRING, STRING, store=Materialized(history_retention_ms=100))
    table.filter(lambda _key, value: value != "0").to_stream().to("out")
    with driven(builder) as run:
        run.pipe("prices", ("a", "0", 50), ("a", "0", 40))
        assert run.read("out") == [("a", None, 50), ("a", None, 40)]


@pytest.mark.parametrize(
    "store, change, reason",
    [
        (Materialized("prices"), lambda table: table, "KTable must be versioned"),
        (VERSIONED, lambda table: table.filter(bool, store="unversioned"), "KTable must be versioned"),
        (Materialized("prices", history_retention_ms=9), lambda table: table, "History retention must be at least"),
    ],
)
def test_should_refuse_a_grace_period_that_the_table_cannot_give(
    store: Materialized, change: Callable[[KTable[str, str]], KTable[str, str]], reason: str
) -> None:
    builder = StreamsBuilder()
    table = change(builder.table("prices", STRING, STRING, store=store))
    with pytest.raises(IllegalArgumentError, match=reason):
        builder.stream("orders", STRING, STRING).join(table, both, grace_ms=10)


def test_should_refuse_a_negative_grace_period_and_a_versioned_store_in_memory() -> None:
    builder = StreamsBuilder()
    table = builder.table("prices", STRING, STRING, store=VERSIONED)
    with pytest.raises(IllegalArgumentError, match="must not be negative"):
        builder.stream("orders", STRING, STRING).join(table, both, grace_ms=-1)
    with pytest.raises(IllegalArgumentError, match="always persistent"):
        Materialized(persistent=False, history_retention_ms=1)


def test_should_derive_a_change_in_the_order_of_its_parent() -> None:
    late = in_order_of(OutOfOrderChange(("a", "b")), "c", "d")
    assert (late, type(late), type(in_order_of(("a", "b"), "c", "d"))) == (("c", "d"), OutOfOrderChange, tuple)
