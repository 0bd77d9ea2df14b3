"""A small application that counts words: two subtopologies, a repartition topic, a logged store, an output topic."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assignor.configs import AssignmentConfigs
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.types import TaskId, TopicPartition
from streams_runtime import (
    Application,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Topology,
    key_value_store,
    read_topic,
)
from streams_runtime.instance.thread_listener import TaskRestored, ThreadListener
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.membership.member_events import HeldTasks
from streams_runtime.serdes import LongSerde, StringSerde
from tests.known import known
from tests.streams_runtime.small_group import GroupDefinition
from tests.waiting import wait_until

LINES, TOTALS, STORE = "lines", "totals", "counts"
PARTITIONS = 2
TEXT, LONG = StringSerde(), LongSerde()
TIMEOUT_S = 30.0


class SplitLine(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record[str, str]) -> None:
        for word in record.value.split():
            if word == "poison":
                raise ValueError("a poisoned line")
            self._context.forward(record._replace(key=word, value=word))


class CountWord(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._counts = context.state_store(STORE)

    def process(self, record: Record[str, str]) -> None:
        count = (self._counts.get(record.key) or 0) + 1
        self._counts.put(record.key, count)
        self._context.forward(Record(record.key, count, record.timestamp_ms))


def counting_topology() -> Topology:
    topology = Topology()
    topology.add_source("lines", LINES, key_serde=TEXT, value_serde=TEXT)
    topology.add_processor("split", SplitLine, "lines")
    topology.add_repartition_topic("words", PARTITIONS)
    topology.add_sink("to-words", "words", "split", key_serde=TEXT, value_serde=TEXT)
    topology.add_source("words", "words", key_serde=TEXT, value_serde=TEXT)
    topology.add_processor("count", CountWord, "words")
    topology.add_state_store(key_value_store(STORE, TEXT, LONG), "count")
    topology.add_sink("to-totals", TOTALS, "count", key_serde=TEXT, value_serde=LONG)
    return topology


def word_counts(lines: str, counts: str) -> Topology:
    """The same, as its users write it."""
    builder = StreamsBuilder()
    words = builder.stream(lines, TEXT, TEXT).flat_map_values(str.split)
    grouped = words.group_by(lambda _key, word: word, name="words", key_serde=TEXT, value_serde=TEXT)
    grouped.count(store=STORE).to_stream().to(counts, key_serde=TEXT, value_serde=LONG)
    return builder.build()


def counting_application(
    application_id: str, log_directory: Path, state_dir: Path, *, guarantee: str, **more: Any
) -> Application:
    """`more`: handlers, and configs with underscores for dots."""
    handlers = {name: more.pop(name) for name in list(more) if name.endswith("_handler")}
    configs = {
        "application.id": application_id,
        "bootstrap.servers": f"embedded:{log_directory}",
        "state.dir": state_dir,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 50,
        "poll.ms": 50,
        "num.stream.threads": 2,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 50,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return Application(counting_topology(), configs, **handlers)


def create_topics(log: Log, application_id: str) -> None:
    """The user's topics, and the internal ones, which the leader's side creates otherwise.

    They keep records whatever their age: those of these tests are from 1970, and an instance maintains its log.
    """
    forever = {"retention.ms": "-1"}
    log.create_topics(
        [
            NewTopic(LINES, PARTITIONS, forever),
            NewTopic(TOTALS, PARTITIONS, forever),
            NewTopic(f"{application_id}-words", PARTITIONS, forever),
            NewTopic(f"{application_id}-{STORE}-changelog", PARTITIONS, {"cleanup.policy": "compact"}),
        ]
    )


def counting_definition(application: Application, *, standbys: int = 1) -> GroupDefinition:
    topic = TopicMetadata(PARTITIONS, ((1,),) * PARTITIONS, (1,) * PARTITIONS)
    internal = {f"{application.id}-words": topic, f"{application.id}-{STORE}-changelog": topic}
    return GroupDefinition(
        application.id,
        RebalanceSnapshot(
            assignor="HighAvailabilityTaskAssignor",
            configs=AssignmentConfigs(num_standby_replicas=standbys),
            application_id=application.id,
            topology=application.group_topology(),
            cluster=Cluster((Broker(1),), {LINES: topic, TOTALS: topic}),
            members={},
            existing_internal_topics=internal,
            changelog_end_offsets={f"{application.id}-{STORE}-changelog": (0,) * PARTITIONS},
        ),
    )


def write_lines(log: Log, lines: Iterable[str]) -> Counter[str]:
    """Write them round robin; their words, counted."""
    producer = log.producer()
    words: Counter[str] = Counter()
    for number, line in enumerate(lines):
        partition = TopicPartition(LINES, number % PARTITIONS)
        producer.send(partition, b"", TEXT.serialize(line), 1_000 + number)
        words.update(line.split())
    producer.close()
    return words


def read_all(log: Log, topic: str) -> list[tuple[str, int]]:
    """Every committed record of a topic of words and counts."""
    return [(known(record.key), known(record.value)) for record in read_topic(log, topic, TEXT, LONG)]


def read_highest(log: Log, topic: str) -> dict[str, int]:
    """The highest count of each word in a topic."""
    highest: dict[str, int] = {}
    for word, count in read_all(log, topic):
        highest[word] = max(count, highest.get(word, 0))
    return highest


def totals(log: Log) -> dict[str, int]:
    return read_highest(log, TOTALS)


def wait_for(condition: Callable[[], bool], what: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Look every few milliseconds; for conditions that nobody can signal, such as the content of a log."""
    wait_until(condition, what, timeout_s, 0.01)


@dataclass(slots=True)
class RememberingListener(ThreadListener):
    """Remembers what stream threads tell; shared by the threads of an instance."""

    joined: int = 0
    assignments: list[HeldTasks] = field(default_factory=list)
    revocations: list[HeldTasks] = field(default_factory=list)
    drops: list[tuple[str, bool]] = field(default_factory=list)
    restores: list[TaskRestored] = field(default_factory=list)
    first_records: list[TaskId] = field(default_factory=list)

    def joining(self, held: HeldTasks) -> None:
        self.joined += 1

    def assigned(self, held: HeldTasks) -> None:
        self.assignments.append(held)

    def revoked(self, held: HeldTasks) -> None:
        self.revocations.append(held)

    def dropped(self, reason: str, *, clean: bool) -> None:
        self.drops.append((reason, clean))

    def restored(self, task: TaskRestored) -> None:
        self.restores.append(task)

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        self.first_records.append(task_id)
