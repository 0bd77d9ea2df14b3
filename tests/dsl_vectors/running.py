"""Runs a case in this project's TopologyTestDriver. The answer has the form of Kafka's in the file."""

import json
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import tests.dsl_vectors.window_operators  # noqa: F401  # registers its operators
from assignor.topology.definition import SinkNode, SourceNode
from streams_runtime import (
    BYTES,
    ExceptionHandler,
    Headers,
    OutputTopic,
    Processor,
    Record,
    Topology,
    TopologyTestDriver,
    ValueAndTimestamp,
    dead_letter,
    dead_letter_and_fail,
    fail,
    log_and_continue,
)
from streams_runtime.state_stores.join_buffer import JoinBufferBuilder
from tests.dsl_vectors import cogroup_operators, global_operators, value_operators  # noqa: F401  # for `on`
from tests.dsl_vectors.cases import Case, NotKnown
from tests.dsl_vectors.dsl_operators import DslMaker
from tests.dsl_vectors.initial_values import give_initial_values
from tests.dsl_vectors.json_values import MAX_LONG, decode, encode, serde_named, to_json
from tests.dsl_vectors.processor_api_operators import TopologyMaker
from tests.dsl_vectors.processors import KAFKAS_METADATA_OF_PUNCTUATORS, NO_METADATA
from tests.dsl_vectors.suppression_operators import buffer_changelogs, log_buffers_in_kafkas_order

APPLICATION = "app"
DEAD_LETTER_TOPIC = "errors.dead.letter.queue.topic.name"

_SERDE_CLASSES = {
    "org.apache.kafka.common.serialization.Serdes$StringSerde": "string",
    "org.apache.kafka.common.serialization.Serdes$LongSerde": "long",
}


@dataclass(frozen=True)
class AsKafka:
    """In what a run does as Kafka's, and not as this project. `documented` says why each of them is different.

    `initial_values`: the old value of a new aggregate is the initializer's. `metadata_of_punctuators`: a punctuator has
    metadata, without a topic. `one_task`: all subtopologies are one task. `fails_at`: the index of the input that fails
    in Kafka; the run ends with it, without an error.
    """

    initial_values: bool = False
    metadata_of_punctuators: bool = False
    one_task: bool = False
    fails_at: int | None = None


@dataclass
class Run:
    """`answer`: in the form of the file, without what the input has caused that failed.

    `outputs_of_failure`, `internal_of_failure` (topic and row): what that input has caused. `error`: what ended the
    run. `failures`: how many records failed on an input, by its index and the reason of the loss. `sent`: how many
    records an input has sent. `subtopologies`: how many there were. `sink_parents`, `sink_topics`: by name of a sink.
    `stores`: names. `buffer_changelogs`, `join_buffer_changelogs`: topics whose
    records have no timestamp in Kafka, as the producer sets it.
    """

    answer: dict[str, Any] = field(default_factory=lambda: {"outputs": []})
    outputs_of_failure: list[dict[str, Any]] = field(default_factory=list)
    internal_of_failure: list[tuple[str, str]] = field(default_factory=list)
    error: Exception | None = None
    failures: dict[int, Counter[str]] = field(default_factory=dict)
    sent: Counter[int] = field(default_factory=Counter)
    subtopologies: int = 0
    sink_parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sink_topics: dict[str, str] = field(default_factory=dict)
    stores: frozenset[str] = frozenset()
    buffer_changelogs: frozenset[str] = frozenset()
    join_buffer_changelogs: frozenset[str] = frozenset()


def run(case: Case, as_kafka: AsKafka = AsKafka()) -> Run:
    """Raises NotKnown."""
    settings = _settings(case)
    without_metadata = KAFKAS_METADATA_OF_PUNCTUATORS if as_kafka.metadata_of_punctuators else NO_METADATA
    maker = (TopologyMaker if case.uses_topology else DslMaker)(case, without_metadata)
    result = Run()
    try:
        topology = maker.make()
        log_buffers_in_kafkas_order(topology)
        if as_kafka.one_task:
            _make_one_task(topology)
        _describe(topology, result)
    except NotKnown:
        raise
    except Exception as error:
        _end(result, "build", error)
        return result
    if as_kafka.initial_values and isinstance(maker, DslMaker):
        caches = settings.configs.get("statestore.cache.max.bytes") != 0
        give_initial_values(topology, maker.initial_values, caches=caches)
    try:
        driver = TopologyTestDriver(
            topology,
            settings.configs,
            initial_wall_clock_ms=case.initial_wall_clock_ms,
            processing_exception_handler=settings.processing,
            deserialization_exception_handler=settings.deserialization,
            production_exception_handler=settings.production,
        )
    except Exception as error:
        _end(result, "start", error)
        return result
    try:
        _Following(case, driver, result, as_kafka.fails_at).follow(sorted(set(maker.store_names)))
    finally:
        try:
            driver.close()
        except Exception as error:
            if result.error is None:
                _end(result, "close", error)
    return result


def _end(result: Run, at: str | int, error: Exception) -> None:
    result.error = error
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    told: dict[str, Any] = {"at": at, "class": type(error).__name__, "message": str(error)}
    if root is not error:
        told |= {"rootClass": type(root).__name__, "rootMessage": str(root)}
    result.answer["error"] = told


def _describe(topology: Topology, result: Run) -> None:
    definition = topology.definition()
    sinks = [node for node in definition.nodes.values() if isinstance(node, SinkNode)]
    result.sink_parents = {sink.name: sink.parents for sink in sinks}
    result.sink_topics = {sink.name: definition.full_topic(sink.topic, APPLICATION) for sink in sinks}
    result.stores = frozenset(definition.stores)
    result.buffer_changelogs = buffer_changelogs(topology, APPLICATION)
    buffers = [name for name, store in definition.stores.items() if isinstance(store.supplier, JoinBufferBuilder)]
    result.join_buffer_changelogs = frozenset(f"{APPLICATION}-{name}-changelog" for name in buffers)
    with suppress(Exception):  # the driver raises it again, when the topology is started
        subtopologies = topology.group_topology(APPLICATION).subtopologies
        result.subtopologies = sum(1 for each in subtopologies if each.source_topics)


def _make_one_task(topology: Topology) -> None:
    """A processor below all sources, which does nothing, makes them one subtopology. Global stores are in no task."""
    definition = topology.definition()
    own = [node for name, node in definition.nodes.items() if name not in definition.global_nodes()]
    sources = [node.name for node in own if isinstance(node, SourceNode)]
    topology.add_processor("one-task", _Ignoring, sources)


class _Ignoring(Processor[Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


# configs


@dataclass
class _Settings:
    configs: dict[str, object]
    processing: ExceptionHandler = fail
    deserialization: ExceptionHandler = fail
    production: ExceptionHandler = fail


def _settings(case: Case) -> _Settings:
    """Raises NotKnown for a config, and for handlers that this project does not have."""
    settings = _Settings({"application.id": APPLICATION, "bootstrap.servers": "memory:vectors"})
    configs = case.configs
    dead_letter_topic = configs.pop(DEAD_LETTER_TOPIC, None)
    for name, value in configs.items():
        match name:
            case "default.key.serde" | "default.value.serde":
                if value not in _SERDE_CLASSES:
                    raise NotKnown(f"{name}={value}")
                settings.configs[name] = serde_named(_SERDE_CLASSES[value])
            case "statestore.cache.max.bytes":
                settings.configs[name] = int(value)
            case "processing.guarantee" | "topology.optimization" | "processing.exception.handler.global.enabled":
                settings.configs[name] = value
            case "default.dsl.store":
                pass  # Kafka reads it only from the `TopologyConfig` of a `StreamsBuilder`, and these have none
            case "processing.exception.handler":
                settings.processing = _handler(value, dead_letter_topic)
            case "deserialization.exception.handler":
                settings.deserialization = _handler(value, dead_letter_topic)
            case "production.exception.handler":
                settings.production = _handler(value, None)
            case _:
                raise NotKnown(name)
    if dead_letter_topic is not None:
        settings.configs[DEAD_LETTER_TOPIC] = dead_letter_topic
    return settings


def _handler(name: str, dead_letter_topic: str | None) -> ExceptionHandler:
    """In Kafka each of these handlers also sends a dead letter when there is a topic for it."""
    if name.endswith((".LogAndContinueProcessingExceptionHandler", ".LogAndContinueExceptionHandler")):
        return log_and_continue if dead_letter_topic is None else dead_letter
    if name.endswith((".LogAndFailProcessingExceptionHandler", ".LogAndFailExceptionHandler")):
        return fail if dead_letter_topic is None else dead_letter_and_fail
    if name == "ContinueProduction":
        return log_and_continue
    raise NotKnown(f"exception handler {name}")


# inputs and outputs

_FAILURES = ("processing-error", "deserialization-error", "dead-letter")
_TASK_HEADER = "__streams.errors.task"  # Kafka has none
_STACK_TRACE_HEADER = "__streams.errors.stacktrace"  # each language has its own


@dataclass
class _Following:
    """Pipes the inputs one by one, and collects what each of them has caused."""

    case: Case
    driver: TopologyTestDriver
    result: Run
    fails_at: int | None
    readers: dict[str, OutputTopic[Any, Any]] = field(default_factory=dict)

    def follow(self, store_names: list[str]) -> None:
        answer = self.result.answer
        answer["internal"] = {}
        self._read_written_inputs()
        self._collect(-1, answer["outputs"], self._count_internal)
        dropped = Counter(self.driver.dropped_records())
        for index, record in enumerate(self.case.inputs):
            before = dropped
            try:
                self._give(record)
            except Exception as error:
                _end(self.result, index, error)
            if index != self.fails_at:  # in Kafka, that record does not get further, so nothing drops it there
                dropped = Counter(self.driver.dropped_records())
            if self.result.error is not None or index == self.fails_at:
                self._collect(index, self.result.outputs_of_failure, self._keep_internal, record.get("topic"))
                break
            self._collect(index, answer["outputs"], self._count_internal, record.get("topic"))
            failed = dropped - before
            if any(failed[reason] for reason in _FAILURES):
                self.result.failures[index] = failed
        answer["dropped_records"] = dropped.total()
        if self.result.error is None:
            stores = self.driver.get_all_state_stores()
            answer["stores"] = {name: _dumped(stores.get(name), self.case) for name in store_names}

    def _read_written_inputs(self) -> None:
        """Topics with inputs to which the topology writes, too, are read from the start: the inputs are left out."""
        written = {*self.result.sink_topics.values(), self.case.configs.get(DEAD_LETTER_TOPIC)}
        for topic in {record["topic"] for record in self.case.inputs if "topic" in record} & written:
            self.readers[topic] = self.driver.create_output_topic(topic, BYTES, BYTES)

    def _give(self, record: dict[str, Any]) -> None:
        if "advanceWallClock_ms" in record:
            self.driver.advance_wall_clock_time(record["advanceWallClock_ms"])
            return
        serdes = self.case.topics[record["topic"]]
        key, value = encode(record, "key", serdes["key"]), encode(record, "value", serdes["value"])
        written = record.get("headers", ())
        headers = tuple((name, None if text is None else text.encode()) for name, text in written)
        self.driver.pipe_raw(record["topic"], key, value, record["timestamp_ms"], headers)

    def _collect(
        self,
        index: int,
        outputs: list[dict[str, Any]],
        internal: Callable[[str, str], None],
        piped_to: str | None = None,
    ) -> None:
        """Read what is new in all topics. `piped_to`: where the first new record is the input."""
        for topic in self.driver.produced_topic_names():
            if topic not in self.readers:
                self.readers[topic] = self.driver.create_output_topic(topic, BYTES, BYTES)
        without_timestamps = self.result.buffer_changelogs | self.result.join_buffer_changelogs
        for topic, reader in sorted(self.readers.items()):
            records = reader.read_all()
            for key, value, timestamp_ms, headers in records[1:] if topic == piped_to else records:
                self.result.sent[index] += 1
                if topic in self.case.topics:
                    outputs.append(self._output(index, topic, key, value, timestamp_ms, headers))
                else:
                    time = "null" if topic in without_timestamps else timestamp_ms
                    internal(topic, f"{_hex(key)} {_hex(value)} {time}\n")

    def _output(
        self, index: int, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> dict[str, Any]:
        serdes = self.case.topics[topic]
        output: dict[str, Any] = {
            "after": index,
            "topic": topic,
            "key": decode(key, serdes["key"]),
            "value": decode(value, serdes["value"]),
            "timestamp_ms": timestamp_ms,
        }
        shown = [[name, _header_text(name, data)] for name, data in headers if name != _TASK_HEADER]
        return {**output, "headers": shown} if shown else output

    def _count_internal(self, topic: str, row: str) -> None:
        internal = self.result.answer["internal"]
        count, crc = internal.get(topic, (0, 0))
        internal[topic] = [count + 1, zlib.crc32(row.encode(), crc)]

    def _keep_internal(self, topic: str, row: str) -> None:
        self.result.internal_of_failure.append((topic, row))


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def _header_text(name: str, data: bytes | None) -> str | None:
    if data is None:
        return None
    return "..." if name == _STACK_TRACE_HEADER else data.decode("utf-8", "replace")


# stores


def _dumped(store: Any, case: Case) -> dict[str, Any] | None:
    """None for a store that the topology does not have. A versioned store is read for the keys and times of inputs."""
    if store is None:
        return None
    if hasattr(store, "versions"):
        kind = "versioned"
        records = [record for record in case.inputs if "topic" in record]
        keys = {record["key"] for record in records if isinstance(record.get("key"), str)}
        times = {record["timestamp_ms"] for record in records}
        found = [(key, time, store.get(key, time)) for key in keys for time in (None, *times)]
        rows = [[key, time, to_json(each.value), *each[1:]] for key, time, each in found if each is not None]
    elif hasattr(store, "fetch_all"):
        kind = "window"
        windows = store.fetch_all(0, MAX_LONG)
        rows = [[to_json(window.key), window.start_ms, *_stored(value)] for window, value in windows]
    elif hasattr(store, "find_sessions"):
        kind = "session"
        sessions = store.fetch_keys(None, None)
        rows = [[to_json(key), start_ms, end_ms, to_json(value)] for (key, start_ms, end_ms), value in sessions]
    else:
        kind = "keyValue"
        rows = [[to_json(key), *_stored(value)] for key, value in store.all()]
    rows.sort(key=lambda row: json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode())
    return {"type": kind, "rows": rows}


def _stored(value: Any) -> list[Any]:
    if isinstance(value, ValueAndTimestamp):
        return [to_json(value.value), value.timestamp_ms]
    return [to_json(value)]
