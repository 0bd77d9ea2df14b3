"""A real active task on a log in memory and a real state directory, driven by hand as a stream thread would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.records import Headers, Record
from streams_runtime.common.states import TaskType
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.application import Application
from streams_runtime.instance.task_creation import TaskCreator
from streams_runtime.local_run.topology_test_driver import MockClock
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata, RecordBatch
from streams_runtime.processors.api import ExceptionHandler, ProcessorContext
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import BYTES, LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.key_value import KeyValueStore
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from streams_runtime.tasks.exception_handling import fail
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.source_changelog import source_changelogs
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.streams_runtime.processors.recording_runtime import PassOn
from tests.streams_runtime.tasks.watched_log import WatchedLog

APPLICATION = "app"
TASK = TaskId(0, 0)
IN = TopicPartition("in", 0)
OTHER = TopicPartition("other", 0)
OUT = TopicPartition("out", 0)
DEAD = TopicPartition("dead", 0)
COUNTS = TopicPartition("app-counts-changelog", 0)
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}
START_MS = 1_000_000

Configs = dict[str, object]
both_guarantees = pytest.mark.parametrize("configs", [{}, EXACTLY_ONCE], ids=["at_least_once", "exactly_once"])

Rows = list[tuple[bytes | None, bytes | None, int]]


class Trouble(Exception):
    """What user code in these tests fails with."""


class Upper(PassOn):
    """Hands on values in capitals; `bad` fails, `commit` asks for one."""

    headers: Headers = ()

    def process(self, record: Record[str, str]) -> None:
        if record.value == "bad":
            raise Trouble("bad value")
        if record.value == "commit":
            self.context.commit()
        self.context.forward(record._replace(value=record.value.upper(), headers=record.headers + self.headers))


class UpperAtOnce(Upper):
    """A record with headers is no row: it is sent as soon as it is processed."""

    headers = (("sent", b"at once"),)


class Count(PassOn):
    """Counts by key, and hands on the counts."""

    store: KeyValueStore[str, int]

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store = context.state_store("counts")

    def process(self, record: Record[str, Any]) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record._replace(value=str(count)))


def uppercase(topics: Sequence[str] = ("in",), *, at_once: bool = False) -> Topology:
    """`at_once`: each record is sent when it is processed, not at the end of the turn."""
    topology = Topology().add_source("source", topics, key_serde=STRING, value_serde=STRING)
    topology.add_processor("upper", UpperAtOnce if at_once else Upper, "source")
    return topology.add_sink("sink", "out", "upper", key_serde=STRING, value_serde=STRING)


def counting(**options: Any) -> Topology:
    """`options`: of the store."""
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_state_store(key_value_store("counts", STRING, LONG, **options))
    topology.add_processor("count", Count, "source", stores=["counts"])
    return topology.add_sink("sink", "out", "count", key_serde=STRING, value_serde=STRING)


class RunningTask:
    """`configs`: by dotted names. Topics in, other, out, dead and the changelog have one partition each.

    `after`: an earlier one, whose log and state directory it goes on with. `cache`: for stores that may have one.
    """

    log: WatchedLog
    directory: StateDirectory

    def __init__(
        self,
        directory: Path,
        topology: Topology | None = None,
        configs: Mapping[str, object] | None = None,
        *,
        subtopology: int = 0,
        after: RunningTask | None = None,
        processing_handler: ExceptionHandler = fail,
        deserialization_handler: ExceptionHandler = fail,
        production_handler: ExceptionHandler = fail,
        state: StateManager | None = None,
        cache: ThreadCache | None = None,
    ) -> None:
        self.topology = topology or uppercase()
        self.configs = StreamsConfig.from_dotted(
            {"application.id": APPLICATION, "bootstrap.servers": "memory:test", **(configs or {})}
        )
        self.clock = MockClock(START_MS)
        if after is not None:
            self.log, self.directory = after.log, after.directory
        else:
            self.log = log = WatchedLog()
            self.directory = StateDirectory(directory, APPLICATION, self.clock)
            log.create_topics([NewTopic(topic, 1) for topic in ("in", "other", "out", "dead")])
            log.create_topics([NewTopic(COUNTS.topic, 1, {"cleanup.policy": "compact"})])
        application = Application(
            self.topology,
            # an application needs serdes that these topologies leave out
            replace(self.configs, default_key_serde=BYTES, default_value_serde=BYTES),
            processing_exception_handler=processing_handler,
            deserialization_exception_handler=deserialization_handler,
            production_exception_handler=production_handler,
        )
        self.graph = ProcessorGraph.build(application.topology, subtopology, APPLICATION)
        self.state = state or self._new_state()
        self.consumer = self.log.log.consumer()
        self.producer = StreamsProducer(self.log, "app-0" if self.configs.exactly_once else None)
        self.inputs = frozenset(TopicPartition(topic, 0) for topic in self.graph.sources)
        creator = TaskCreator(
            application, self.directory, self.log, self.consumer, self.producer, self.clock, cache=cache
        )
        self.task = creator.stream_task(TASK, self.inputs, self.graph, self.state)

    def _new_state(self) -> StateManager:
        changelogs = {
            store: None if topic is None else TopicPartition(topic, 0)
            for store, topic in self.graph.store_changelogs.items()
        }
        return StateManager(
            TASK,
            TaskType.ACTIVE,
            options=replace(StoreOptions.of(self.configs, None, {}), checkpoint_file=True),
            directory=self.directory,
            stores=self.graph.stores,
            changelogs=changelogs,
            source_changelogs=source_changelogs(TASK, self.graph),
            window_retentions_ms=self.graph.window_retentions_ms,
        )

    @property
    def checkpoint(self) -> dict[TopicPartition, int] | None:
        """What is on disk; None when there is no file."""
        file = CheckpointFile(self.directory.application_directory / str(TASK))
        return file.load() if file.path.exists() else None

    def restore(self) -> None:
        """What the changelog reader does."""
        for partition in self.task.changelog_partitions:
            consumer = self.log.log.consumer()
            consumer.assign([partition])
            consumer.seek(partition, self.state.changelog_offsets()[partition])
            for batch in consumer.poll(0, 1_000_000):
                self.state.restore(partition, batch)

    def start(self) -> RunningTask:
        self.task.initialize_if_needed()
        self.restore()
        self.consumer.assign(self.inputs)
        self.task.complete_restoration()
        return self

    def write(self, partition: TopicPartition, *values: str, first_ms: int = 1, key: str = "k") -> None:
        """Records one millisecond apart."""
        rows: Rows = [(key.encode(), value.encode(), first_ms + index) for index, value in enumerate(values)]
        self.log.write(partition, *rows)

    def poll(self) -> list[RecordBatch]:
        batches = self.consumer.poll(0, 1_000)
        for batch in batches:
            self.task.add_records(batch)
        return batches

    def process(self, max_records: int = 1_000) -> int:
        return self.task.process(self.clock.now_ms(), max_records)

    def run(self) -> int:
        """Poll and process until there is nothing more."""
        total = 0
        while True:
            polled = self.poll()
            processed = self.process()
            total += processed
            if not polled and not processed:
                return total

    def commit(self, *, enforce_checkpoint: bool = False) -> Mapping[TopicPartition, int]:
        positions = self.task.prepare_commit()
        self.producer.commit([(self.task.claim, self.task.offsets_to_commit())])
        self.task.post_commit(enforce_checkpoint=enforce_checkpoint)
        return positions

    def stop(self) -> None:
        """In good order."""
        self.commit()
        self.task.suspend()
        self.task.close_clean()

    def committed(self, partition: TopicPartition = IN) -> OffsetAndMetadata | None:
        return self.log.log.committed_offsets(APPLICATION, [partition]).get(partition)

    def output(self, partition: TopicPartition = OUT) -> list[str]:
        """Values of what was sent; under exactly-once, and committed."""
        if not self.producer.exactly_once:
            self.producer.flush()
        return [(value or b"").decode() for _, value, _ in self.log.read(partition)]
