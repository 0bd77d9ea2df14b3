"""An application that counts words as a stranger would write it, in instances of this process, and other versions."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assignor.types import TopicPartition
from streams_runtime import (
    LONG,
    STRING,
    Application,
    NewTopic,
    StreamsBuilder,
    StreamsInstance,
    Topology,
    open_log,
    read_topic,
)
from streams_runtime.common.states import InstanceState, TaskType
from streams_runtime.instance.application import group_body
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.small_application import address
from tests.streams_runtime.word_counting import wait_for
from tests.warm_coordinator import WarmCoordinator

TIMEOUT_S = 60.0
PARTITIONS = 2
TASKS = {"0_0", "0_1", "1_0", "1_1"}
TOPICS = ("lines", "orders", "word-counts", "order-totals")


def counting_words(*, also_orders: bool = False, output: str = "word-counts") -> Topology:
    """`also_orders`: with another subtopology behind it, as a next version may have."""
    builder = StreamsBuilder()
    words = builder.stream("lines", STRING, STRING).flat_map_values(str.split)
    grouped = words.group_by(lambda _key, word: word, name="words", key_serde=STRING, value_serde=STRING)
    grouped.count(store="counts").to_stream().to(output, key_serde=STRING, value_serde=LONG)
    if also_orders:
        orders = builder.stream("orders", STRING, STRING).group_by_key(key_serde=STRING, value_serde=STRING)
        orders.count(store="totals").to_stream().to("order-totals", key_serde=STRING, value_serde=LONG)
    return builder.build()


@contextmanager
def words_on_a_coordinator(directory: Path) -> Iterator[tuple["WordApplication", WarmCoordinator]]:
    """A declared application without instances, on a coordinator of its own below `directory`."""
    logs = LogDirectories(directory / "logs")
    settings = {"group.initial.rebalance.delay.ms": 1_000, **logs.setting}
    with (
        WarmCoordinator(directory / "coordinator", settings) as coordinator,
        CoordinatorClient(coordinator.url) as client,
    ):
        words = WordApplication(coordinator.url, client, logs.take(), directory / "words")
        try:
            words.declare()
            yield words, coordinator
        finally:
            words.close()


class WordApplication:
    """Its log, what was written to it, and its instances. `id`: the name of `directory`."""

    def __init__(self, coordinator_url: str, client: CoordinatorClient, log_directory: Path, directory: Path) -> None:
        self.id = directory.name
        self._coordinator_url, self._client = coordinator_url, client
        self._servers, self._directory = address(log_directory), directory
        self._words: Counter[str] = Counter()
        self.log = open_log(self._servers)
        self.log.create_topics(NewTopic(topic, PARTITIONS) for topic in TOPICS)
        self.instances: list[StreamsInstance] = []

    def version(self, topology: Topology | None = None, instance: str = "a", **configs: object) -> Application:
        """`configs`: dotted names with underscores for dots."""
        named = {
            "application.id": self.id,
            "bootstrap.servers": self._servers,
            "state.dir": str(self._directory / instance),
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
        return Application(topology or counting_words(), named)

    def declare(self, application: Application | None = None, *, replace: bool = False) -> None:
        self._client.declare(self.id, group_body(application or self.version()), replace=replace)

    def start(self, application: Application | None = None, instance: str = "a") -> StreamsInstance:
        """Returns once it runs."""
        started = StreamsInstance(application or self.version(instance=instance), self._coordinator_url)
        self.instances.append(started)
        started.start()
        assert started.wait_until_running(TIMEOUT_S), started.errors
        return started

    def count_some_words(self) -> None:
        """Write a line to every partition, and wait until all words so far are counted, each once."""
        producer = self.log.producer()
        for partition in range(PARTITIONS):
            line = f"the cat of partition {partition} and the dog"
            producer.send(TopicPartition("lines", partition), b"", line.encode(), round(time.time() * 1000))
            self._words.update(line.split())
        producer.close()
        wait_for(
            lambda: self.counts() == self._words,
            lambda: (self.counts(), [(each.status(), each.errors) for each in self.instances]),
        )

    def counts(self, topic: str = "word-counts") -> Counter[str]:
        """The last count of each word. Fails when a count was written twice."""
        last: Counter[str] = Counter()
        seen: set[tuple[str | None, int | None]] = set()
        for record in read_topic(self.log, topic, STRING, LONG):
            count = (record.key, record.value)
            assert count not in seen, f"{count} was counted twice"
            seen.add(count)
            assert record.value is not None, "a count is never deleted"
            last[str(record.key)] = max(last[str(record.key)], record.value)
        return last

    def generations(self) -> set[int]:
        return {thread.generation_id for instance in self.instances for thread in instance.status().threads}

    def owners(self) -> Counter[str]:
        """How many threads run each task as its active owner."""
        return Counter(
            str(task.task_id)
            for instance in self.instances
            for thread in instance.status().threads
            for task in thread.tasks
            if task.role is TaskType.ACTIVE
        )

    def wait_until_at_rest(self, since: int) -> None:
        """Until all threads have the same assignment, of generation `since` or later, and each task has one owner."""

        def at_rest() -> bool:
            found = self.generations()
            return len(found) == 1 and min(found) >= since and self.owners() == Counter(TASKS)

        wait_for(at_rest, lambda: [(each.status(), each.errors) for each in self.instances], TIMEOUT_S)

    def assert_whole(self) -> None:
        """All instances run, are the members of the group, and own each task once."""
        assert self.owners() == Counter(TASKS)
        assert len(self._client.describe(self.id)["members"]) == len(self.instances)
        assert all(instance.state is InstanceState.RUNNING for instance in self.instances)

    def close(self) -> None:
        for instance in self.instances:
            instance.close(TIMEOUT_S)
        self.log.close()
