"""An application on a real broker: reset and run again, and told what the broker has deleted or may delete."""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from rocksdict import Options, Rdict

from assignor.types import TopicPartition
from streams_runtime import LONG, STRING, Application, LocalRun, RecordProducer, StreamsBuilder, TimeWindows, read_topic
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests import program
from tests.oracle.broker import Broker
from tests.streams_runtime.word_counting import wait_for, word_counts

pytestmark = pytest.mark.kafka

PARTITIONS = 2
LINES = ["the cat and the dog", "and the bird"] * 20
WORDS = Counter(word for line in LINES for word in line.split())


@pytest.fixture
def log(kafka_broker: Broker) -> Iterator[Log]:
    with closing(KafkaLog(kafka_broker.bootstrap_servers)) as opened:
        yield opened


class WordCount:
    """Counts the words of `<id>-in` into `<id>-out`, exactly once; its state stays below `state_dir`."""

    def __init__(self, log: Log, servers: str, coordinator_url: str, state_dir: Path) -> None:
        self.id = f"words-{uuid.uuid4().hex[:8]}"
        self.lines, self.counts = f"{self.id}-in", f"{self.id}-out"
        self.state_dir = state_dir
        self._log, self._servers, self._coordinator_url = log, servers, coordinator_url
        log.create_topics([NewTopic(self.lines, PARTITIONS), NewTopic(self.counts, PARTITIONS)])

    def running(self, **more: object) -> LocalRun:
        configs = {
            "application.id": self.id,
            "bootstrap.servers": self._servers,
            "state.dir": self.state_dir,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "session.timeout.ms": 10_000,
            "statestore.cache.max.bytes": 0,  # every count is a result
            **more,
        }
        application = Application(word_counts(self.lines, self.counts), configs)
        return LocalRun(application, coordinator=self._coordinator_url)

    def write(self, lines: list[str]) -> None:
        with RecordProducer(self._log, STRING, STRING) as producer:
            for number, line in enumerate(lines):
                producer.send(self.lines, None, line, partition=number % PARTITIONS)

    def written(self) -> Counter[tuple[str, int]]:
        """How often each count was written for each word."""
        return Counter(
            (str(each.key), int(each.value or 0)) for each in read_topic(self._log, self.counts, STRING, LONG)
        )

    def reset(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        done = program.assignor(
            *("reset", "--application-id", self.id, "--bootstrap-server", self._servers),
            *("--coordinator", self._coordinator_url, "--state-dir", str(self.state_dir), *arguments),
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def words(log: Log, kafka_broker: Broker, coordinator_url: str, tmp_path: Path) -> WordCount:
    return WordCount(log, kafka_broker.bootstrap_servers, coordinator_url, tmp_path / "state")


def test_should_count_anew_after_a_reset_that_was_refused_while_instances_ran(words: WordCount, log: Log) -> None:
    words.write(LINES)
    once = Counter((word, number) for word, count in WORDS.items() for number in range(1, count + 1))
    with words.running() as run:
        run.wait_until_caught_up()
        refusals = [words.reset(), words.reset("--execute")]
    assert words.written() == once

    planned = words.reset("-o", "json")
    untouched = (words.written(), set(log.topics()), words.state_dir.exists())
    done = words.reset("--execute", "-o", "json")
    left = {topic for topic in log.topics() if topic.startswith(words.id)}
    with words.running() as run:
        run.wait_until_caught_up()

    for code, out, error in refusals:
        assert (code, out, error.count("\n")) == (1, "", 1)
        assert error.startswith(f"error: {words.id} is running: member ")
        assert error.endswith(f"end its instances first, as `assignor groups drain {words.id}` does\n")
    assert (planned[0], done[0]) == (0, 0), (planned, done)
    changes, executed = json.loads(planned[1]), json.loads(done[1])
    assert changes == {**executed, "executed": False}
    assert [(each["topic"], each["after"]) for each in executed["offsets"]] == [(words.lines, 0)] * PARTITIONS
    assert [each["topic"] for each in executed["deleted_topics"]] == sorted(
        f"{words.id}-{name}" for name in ("claims", "counts-changelog", "words-repartition")
    )
    assert executed["deleted_state"] == [str(words.state_dir / "instance-0" / words.id)]
    assert untouched[0] == once
    assert left == {words.lines, words.counts}, "only what is not the application's own"
    assert words.written() == Counter(dict.fromkeys(once, 2)), "each count once more"


def test_should_read_what_came_since_its_start_by_latest_although_nothing_had_moved(words: WordCount, log: Log) -> None:
    """The first run leaves the ends at which it began; repartition topics begin at their earliest record."""
    latest = {"auto.offset.reset": "latest"}
    words.write(LINES)
    lines = [TopicPartition(words.lines, number) for number in range(PARTITIONS)]
    every = [*lines, *(TopicPartition(f"{words.id}-words-repartition", number) for number in range(PARTITIONS))]

    def committed() -> dict[TopicPartition, int]:
        return {partition: one.offset for partition, one in log.committed_offsets(words.id, every).items()}

    with words.running(**latest):
        wait_for(lambda: committed().keys() == set(every), committed)
    begins = committed()
    words.write(["a late bird"])
    with words.running(**latest) as run:
        run.wait_until_caught_up()

    assert begins == {**dict.fromkeys(every, 0), **dict.fromkeys(lines, len(LINES) // PARTITIONS)}
    assert words.written() == Counter(dict.fromkeys([("a", 1), ("late", 1), ("bird", 1)], 1))


def test_should_tell_what_the_broker_deleted_unread(words: WordCount, log: Log, coordinator_url: str) -> None:
    words.write(LINES)
    with words.running() as run:
        run.wait_until_caught_up()
    at = len(LINES) // PARTITIONS
    words.write(["lost"] * 30 + ["kept"] * 10)
    log.delete_records({TopicPartition(words.lines, number): at + 15 for number in range(PARTITIONS)})

    with words.running() as run, CoordinatorClient(coordinator_url) as client:
        run.wait_until_caught_up()
        wait_for(
            lambda: [each["count"] for each in client.describe(words.id)["notices"]] == [30],
            lambda: client.describe(words.id),
        )
        described = program.assignor("groups", "describe", words.id, "--coordinator", coordinator_url)
        metrics = httpx.get(f"{run.endpoints[0]}/metrics", trust_env=False).text

    text = f"15 records were deleted before this group read them: the log starts at {at + 15}, the group was at {at}"
    assert text in " ".join(described.stdout.split())
    passed_over = [line for line in metrics.splitlines() if line.startswith("streams_passed_over_records_total{")]
    assert sum(float(line.rsplit(" ", 1)[1]) for line in passed_over) == 30
    assert words.written().keys() >= {("kept", number) for number in range(1, 11)}
    assert not any(word == "lost" for word, _ in words.written())


def test_should_rebuild_stores_whose_changelog_was_deleted_and_created_again(
    words: WordCount, log: Log, kafka_broker: Broker, coordinator_url: str
) -> None:
    words.write(LINES)
    with words.running() as run:
        run.wait_until_caught_up()
    changelog = f"{words.id}-counts-changelog"
    log.delete_topics([changelog])
    log.create_topics([NewTopic(changelog, PARTITIONS, {"cleanup.policy": "compact"})])
    with RecordProducer(log, STRING, LONG) as producer:
        for number in range(1_000):  # the offsets of the stores are in range
            producer.send(changelog, "cat", 100 + number, partition=number % PARTITIONS)
    with words.running() as run, CoordinatorClient(coordinator_url) as client:
        words.write(["the cat"])
        run.wait_until_caught_up()
        wait_for(lambda: client.describe(words.id)["notices"], lambda: client.describe(words.id))
        (notice,) = client.describe(words.id)["notices"]

    stored = [stored_origin(store) for store in words.state_dir.glob("*/*/*/rocksdb/counts")]
    topic_id = log.topic_ids([changelog])[changelog]
    assert (notice["code"], notice["count"]) == ("STORE_REBUILT", PARTITIONS)
    assert f"not of {topic_id!r}" in str(notice)
    assert stored == [(kafka_broker.cluster_id, topic_id)] * PARTITIONS
    assert words.written()["the", 1] == 2
    assert max(count for word, count in words.written() if word == "cat") > 1_000, words.written()


def stored_origin(store: Path) -> tuple[str, str]:
    """The ids of the log and of the changelog's topic in the files of a closed store."""
    options = Options(raw_mode=True)
    database = Rdict(str(store), options, column_families={"default": options, "offsets": options})
    try:
        ids: Any = database.get_column_family("offsets")
        found = [bytes(ids[key]).decode() for key in (b"log", b"topic-id")]
        ids.close()
    finally:
        database.close()
    return found[0], found[1]


def test_should_tell_of_windows_that_the_broker_may_delete_and_of_those_that_it_deleted(
    log: Log, kafka_broker: Broker, coordinator_url: str, tmp_path: Path
) -> None:
    group, hour_ms = f"windows-{uuid.uuid4().hex[:8]}", 3_600_000
    log.create_topics([NewTopic(f"{group}-in", 1)])
    builder = StreamsBuilder()
    windows = TimeWindows(hour_ms, grace_ms=hour_ms)
    builder.stream(f"{group}-in", STRING, STRING).group_by_key().windowed_by(windows).count(store="counts")
    old_ms = int(time.time() * 1_000) - 30 * hour_ms

    def running(state: str) -> LocalRun:
        with RecordProducer(log, STRING, STRING) as producer:
            for number in range(10):
                producer.send(f"{group}-in", f"k{number}", "x", timestamp_ms=old_ms)
        configs = {
            "application.id": group,
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "state.dir": tmp_path / state,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "session.timeout.ms": 10_000,
        }
        return LocalRun(Application(builder.build(), configs), coordinator=coordinator_url)

    def notices(client: CoordinatorClient) -> dict[str, int]:
        return {each["code"]: each["count"] for each in client.describe(group)["notices"]}

    with CoordinatorClient(coordinator_url) as client:
        with running("before") as run:
            run.wait_until_caught_up()
            wait_for(lambda: notices(client) == {"WINDOWS_AT_RISK": 10}, lambda: client.describe(group))
            described = program.assignor("groups", "describe", group, "--coordinator", coordinator_url)
        assert f"set retention.ms={50 * hour_ms} (now {26 * hour_ms})" in " ".join(described.stdout.split())
        changelog = TopicPartition(f"{group}-counts-changelog", 0)
        log.delete_records({changelog: 4})
        with running("after") as run:
            run.wait_until_caught_up()
            # the broker may have deleted the others by itself
            wait_for(lambda: notices(client).get("WINDOWS_MISSING") in (4, 10), lambda: client.describe(group))
