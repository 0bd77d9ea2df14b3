"""Builds the topology of a case with the DSL here, call by call as Kafka's was built."""

from functools import partial
from typing import Any

from streams_runtime.dsl import StreamsBuilder, TimeWindows
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.dsl.windows import TimeWindowedSerde
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores import key_value_store, timestamped_key_value_store, window_store
from tests.streams_runtime.golden import case_functions as functions
from tests.streams_runtime.golden.scripted_processor import ScriptedProcessor

_SERDES = {"key_serde": STRING, "value_serde": STRING}


class CaseTopology:
    """`made`: the result of each operation so far, by number. Each operation has a method, named as in the case."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.builder = StreamsBuilder(optimize=case["opt"])
        self.made: list[Any] = []
        for operation, *arguments in case["ops"]:
            made = getattr(self, operation)(*arguments)
            self.made.extend(made if isinstance(made, list) else [made])

    def build(self) -> Topology:
        return self.builder.build()

    def stream(self, topics: list[str], extractor: str | None = None) -> object:
        extract = None if extractor is None else partial(functions.extract_timestamp, extractor)
        return self.builder.stream(topics, STRING, STRING, timestamp_extractor=extract)

    def table(self, topic: str, store: str | None) -> object:
        return self.builder.table(topic, STRING, STRING, store=_settings(store))

    def map_values(self, source: int, name: str) -> Any:
        return self.made[source].map_values_with_key(partial(functions.map_value, name))

    def map(self, source: int, name: str) -> Any:
        return self.made[source].map(partial(functions.map_entry, name))

    def flat_map(self, source: int, name: str) -> Any:
        return self.made[source].flat_map(partial(functions.flat_map, name))

    def flat_map_values(self, source: int, name: str) -> Any:
        return self.made[source].flat_map_values(partial(functions.flat_map_values, name))

    def select_key(self, source: int, name: str) -> Any:
        return self.made[source].select_key(partial(functions.select_key, name))

    def filter(self, source: int, name: str) -> Any:
        return self.made[source].filter(partial(functions.accepts, name))

    def filter_not(self, source: int, name: str) -> Any:
        return self.made[source].filter_not(partial(functions.accepts, name))

    def merge(self, source: int, other: int) -> Any:
        return self.made[source].merge(self.made[other])

    def split(self, source: int, one: str, other: str, name: str) -> list[Any]:
        branched = self.made[source].split(name=name).branch(partial(functions.accepts, one), name="A")
        branches = branched.branch(partial(functions.accepts, other), name="B").default_branch(name="C")
        return [branches[name + suffix] for suffix in "ABC"]

    def repartition(self, source: int) -> Any:
        return self.made[source].repartition(**_SERDES)

    def to_table(self, source: int, store: str | None) -> Any:
        return self.made[source].to_table(store=_settings(store), **_SERDES)

    def count(self, source: int, selector: str | None, name: str, store: str | None) -> Any:
        return self._grouped(source, selector).count(store=_settings(store))

    def aggregate(self, source: int, selector: str | None, name: str, store: str | None) -> Any:
        return _aggregated(self._grouped(source, selector), name, _settings(store))

    def reduce(self, source: int, selector: str | None, name: str, store: str | None) -> Any:
        return self._grouped(source, selector).reduce(_reducer(name), store=_settings(store))

    def w_count(self, source: int, selector: str | None, name: str, store: str, *windows: Any) -> Any:
        grouped, settings = self._windowed(source, selector, store, *windows)
        return grouped.count(store=settings)

    def w_aggregate(self, source: int, selector: str | None, name: str, store: str, *windows: Any) -> Any:
        grouped, settings = self._windowed(source, selector, store, *windows)
        return _aggregated(grouped, name, settings)

    def w_reduce(self, source: int, selector: str | None, name: str, store: str, *windows: Any) -> Any:
        grouped, settings = self._windowed(source, selector, store, *windows)
        return grouped.reduce(_reducer(name), store=settings)

    def t_filter(self, source: int, name: str, store: str | None) -> Any:
        return self.made[source].filter(partial(functions.accepts, name), store=_settings(store))

    def t_filter_not(self, source: int, name: str, store: str | None) -> Any:
        return self.made[source].filter_not(partial(functions.accepts, name), store=_settings(store))

    def t_map_values(self, source: int, name: str, store: str | None) -> Any:
        mapper = partial(functions.map_value, name)
        return self.made[source].map_values_with_key(
            mapper, store=_settings(store), value_serde=STRING if store else None
        )

    def to_stream(self, source: int) -> Any:
        return self.made[source].to_stream()

    def t_count(self, source: int, selector: str, adder: str, subtractor: str, store: str | None) -> Any:
        return self._grouped_table(source, selector).count(store=_settings(store))

    def t_aggregate(self, source: int, selector: str, adder: str, subtractor: str, store: str | None) -> Any:
        return self._grouped_table(source, selector).aggregate(
            lambda: "0",
            lambda key, value, so_far: functions.add(adder, value, so_far),
            lambda key, value, so_far: functions.subtract(subtractor, value, so_far),
            value_serde=STRING,
            store=_settings(store),
        )

    def t_reduce(self, source: int, selector: str, adder: str, subtractor: str, store: str | None) -> Any:
        return self._grouped_table(source, selector).reduce(
            _reducer(adder), lambda so_far, value: functions.subtract(subtractor, value, so_far), store=_settings(store)
        )

    def st_join(self, source: int, table: int, name: str) -> Any:
        return self.made[source].join(self.made[table], partial(functions.join, name), **_SERDES)

    def st_left_join(self, source: int, table: int, name: str) -> Any:
        return self.made[source].left_join(self.made[table], partial(functions.join, name), **_SERDES)

    def tt_join(self, source: int, other: int, name: str, store: str | None) -> Any:
        value_serde = STRING if store else None
        joiner = partial(functions.join, name)
        return self.made[source].join(self.made[other], joiner, store=_settings(store), value_serde=value_serde)

    def tt_left_join(self, source: int, other: int, name: str, store: str | None) -> Any:
        value_serde = STRING if store else None
        joiner = partial(functions.join, name)
        return self.made[source].left_join(self.made[other], joiner, store=_settings(store), value_serde=value_serde)

    def process(self, source: int, spec: dict[str, Any], entries: str, windows: str) -> Any:
        persistent = spec["persistent"]
        key_value = timestamped_key_value_store if spec["ts"] else key_value_store
        self.builder.add_state_store(key_value(entries, STRING, STRING, persistent=persistent))
        self.builder.add_state_store(
            window_store(
                windows,
                STRING,
                STRING,
                retention_ms=spec["retention"],
                window_size_ms=10,
                retain_duplicates=spec["dup"],
                persistent=persistent,
            )
        )
        supplier = partial(ScriptedProcessor, spec, entries, windows)
        return self.made[source].process(supplier, stores=(entries, windows))

    def to(self, source: int, topic: str, keys: str, values: str, window_size_ms: int | None = None) -> None:
        key_serde = STRING if window_size_ms is None or keys == "s" else TimeWindowedSerde(STRING, window_size_ms)
        self.made[source].to(topic, key_serde=key_serde, value_serde=LONG if values == "l" else STRING)

    def _grouped(self, source: int, selector: str | None) -> Any:
        if selector is None:
            return self.made[source].group_by_key(**_SERDES)
        return self.made[source].group_by(partial(functions.select_key, selector), **_SERDES)

    def _grouped_table(self, source: int, selector: str) -> Any:
        return self.made[source].group_by(partial(functions.select_entry, selector), **_SERDES)

    def _windowed(
        self,
        source: int,
        selector: str | None,
        store: str,
        size_ms: int,
        advance_ms: int,
        grace_ms: int,
        retention_ms: int | None,
        persistent: bool,
    ) -> tuple[Any, Materialized]:
        windows = TimeWindows(size_ms, advance_ms, grace_ms)
        settings = Materialized(store, persistent=persistent, retention_ms=retention_ms)
        return self._grouped(source, selector).windowed_by(windows), settings


def _settings(store: str | None) -> Materialized | None:
    """A name that ends with m belongs to a store in memory."""
    return None if store is None else Materialized(store, persistent=not store.endswith("m"))


def _aggregated(grouped: Any, name: str, store: Materialized | None) -> Any:
    return grouped.aggregate(
        lambda: "0", lambda key, value, so_far: functions.add(name, value, so_far), value_serde=STRING, store=store
    )


def _reducer(name: str) -> Any:
    return lambda so_far, value: functions.add(name, value, so_far)
