"""What an op of a case says: its options, which of them were used, and what the options stand for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from streams_runtime import (
    Materialized,
    Serde,
    StoreBuilder,
    fail_on_invalid_timestamp,
    key_value_store,
    log_and_skip_on_invalid_timestamp,
    session_store,
    timestamped_key_value_store,
    use_partition_time_on_invalid_timestamp,
    versioned_key_value_store,
    window_store,
)
from tests.dsl_vectors.cases import NotKnown
from tests.dsl_vectors.functions import AGGREGATORS, JOINERS, TIMESTAMPS, TOPICS, VALUES
from tests.dsl_vectors.json_values import optional_serde, serde_named


class Options:
    """A JSON object whose options have to be used, all of them: one that is not known must not be passed over."""

    def __init__(self, owner: str, written: dict[str, Any]) -> None:
        self.owner = owner
        self._written = written
        self._used: set[str] = set()

    def __contains__(self, option: object) -> bool:
        return self._written.get(str(option)) is not None

    def __getitem__(self, option: str) -> Any:
        self._used.add(option)
        return self._written[option]

    def get(self, option: str, default: Any = None) -> Any:
        """An option that is null counts as missing."""
        self._used.add(option)
        value = self._written.get(option)
        return default if value is None else value

    def pass_over(self, *options: str) -> None:
        """They change nothing here; the caller says why."""
        self._used.update(options)

    def check_all_used(self) -> None:
        """Raises NotKnown for an option that nothing has asked for."""
        for option, value in self._written.items():
            if option not in self._used and value is not None:
                raise NotKnown(f"{option} of {self.owner}")


class Operator(Options):
    """An op of a case."""

    def __init__(self, written: dict[str, Any]) -> None:
        super().__init__(str(written["op"]), written)
        self.pass_over("op", "in", "out")
        self.kind = self.owner
        inputs = written.get("in", [])
        self.inputs: list[str] = [inputs] if isinstance(inputs, str) else list(inputs)
        self.output: str | None = written.get("out")

    @property
    def name(self) -> str | None:
        name: str | None = self.get("name")
        return name

    @property
    def key_serde(self) -> Serde[Any] | None:
        return optional_serde(self.get("keySerde"))

    @property
    def value_serde(self) -> Serde[Any] | None:
        return optional_serde(self.get("valueSerde"))

    @property
    def serdes(self) -> dict[str, Any]:
        """As arguments by name."""
        return {"key_serde": self.key_serde, "value_serde": self.value_serde}

    @property
    def with_key(self) -> bool:
        """Whether the op is the overload whose function gets the key."""
        return bool(self.get("withKey", False))

    def value_function(self) -> Callable[..., Any]:
        """Of key and value with the key, else of the value alone."""
        return self.with_or_without_key(VALUES.get(self["f"]))

    def with_or_without_key(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function if self.with_key else partial(function, None)

    def reducer(self, option: str) -> Callable[[Any, Any], Any]:
        return partial(_reduce, AGGREGATORS.get(self[option]))

    def joiner(self) -> Callable[[Any, Any, Any], Any]:
        """Of key, left and right value."""
        return JOINERS.get(self["joiner"])

    def joiner_without_key(self) -> Callable[[Any, Any], Any]:
        """Of left and right value: joins of tables have no other joiner in Kafka, and recorded a null as the key."""
        return partial(self.joiner(), None)

    def timestamp_extractor(self) -> Callable[[Any, int], int] | None:
        written = self.get("timestampExtractor")
        if written is None or written[0] in _READY_EXTRACTORS:
            return written and _READY_EXTRACTORS[written[0]]
        return partial(_timestamp, TIMESTAMPS.get(written))

    def topic_or_extractor(self) -> str | Callable[[Any, Any], str]:
        """Of a sink."""
        extractor = self.get("topicExtractor")
        topic: str | None = self.get("topic")
        return partial(_topic, TOPICS.get(extractor)) if topic is None else topic

    def store_builder(self) -> StoreBuilder:
        """Of `addStateStore`. Raises NotKnown for a type of store."""
        self.pass_over("store", "keySerde", "valueSerde", "persistent", "caching", "logging")
        keys, values = serde_named(self["keySerde"]), serde_named(self["valueSerde"])
        more: dict[str, Any] = {"persistent": self["persistent"], "caching": bool(self.get("caching", False))}
        if self.get("logging", True) is False:
            more["changelog"] = None
        match self["storeType"]:
            case "keyValue":
                return key_value_store(self["store"], keys, values, **more)
            case "timestampedKeyValue":
                return timestamped_key_value_store(self["store"], keys, values, **more)
            case "window":
                more["retention_ms"], more["window_size_ms"] = self["retention_ms"], self["windowSize_ms"]
                more["retain_duplicates"] = bool(self.get("retainDuplicates", False))
                return window_store(self["store"], keys, values, **more)
            case "versioned":
                more["persistent"] = True  # Kafka has no versioned store in memory, and the oracle ignores the option
                more["history_retention_ms"] = self["historyRetention_ms"]
                return versioned_key_value_store(self["store"], keys, values, **more)
            case "session":
                return session_store(self["store"], keys, values, retention_ms=self["retention_ms"], **more)
        raise NotKnown(f"store of type {self['storeType']}")


_READY_EXTRACTORS: dict[str, Callable[[Any, int], int]] = {
    "FailOnInvalidTimestamp": fail_on_invalid_timestamp,
    "LogAndSkipOnInvalidTimestamp": log_and_skip_on_invalid_timestamp,
    "UsePartitionTimeOnInvalidTimestamp": use_partition_time_on_invalid_timestamp,
}


def _reduce(aggregator: Callable[[Any, Any, Any], Any], so_far: Any, value: Any) -> Any:
    return aggregator(None, value, so_far)


def _topic(extractor: Callable[[Any, Any], str], record: Any, metadata: Any) -> str:
    return extractor(record, metadata)


def _timestamp(extractor: Callable[[Any, int, int], int], record: Any, partition_time_ms: int) -> int:
    return extractor(record.value, record.timestamp_ms, partition_time_ms)


@dataclass(frozen=True)
class MaterializedOption:
    """`materialized` of an op. `given`: whether the op has one; else it is the overload without."""

    given: bool
    store: Materialized
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None

    @property
    def serdes(self) -> dict[str, Any]:
        """As arguments by name."""
        return {"key_serde": self.key_serde, "value_serde": self.value_serde}

    @property
    def store_if_given(self) -> Materialized | None:
        """For a table that is kept only when the op says so."""
        return self.store if self.given else None


def materialized(operator: Operator) -> MaterializedOption:
    """Raises NotKnown."""
    written = operator.get("materialized")
    if written is None:
        return MaterializedOption(False, Materialized(), None, None)
    options = Options(f"Materialized of {operator.kind}", written)
    more: dict[str, Any] = {}
    if "historyRetention_ms" in options:
        more = {"history_retention_ms": options["historyRetention_ms"]}
    if "storeType" in options:
        more["persistent"] = options["storeType"] == "rocksDB"
    if "caching" in options:
        more["caching"] = options["caching"]
    if options.get("logging", True) is False:
        more["changelog"] = None
    store = Materialized(options.get("name"), retention_ms=options.get("retention_ms"), **more)
    keys, values = optional_serde(options.get("keySerde")), optional_serde(options.get("valueSerde"))
    options.check_all_used()
    return MaterializedOption(True, store, keys, values)
