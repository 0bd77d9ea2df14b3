"""The Python runtime and Kafka Streams in a JVM, the same topology and the same input on one broker: the same results.

Output topics and changelogs are compared. Where one task alone writes a partition, all of its records are the same in
the same order, times and headers included. Behind a repartition topic several tasks meet and their order is chance, so
there each key has the same values in the same order, and ends with the same time.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from spark_jobs.demo.word_count import (
    COUNT_STORE,
    COUNTS,
    LINES,
    PACKAGE_STORE,
    TextFeed,
    expected_counts,
    stdlib_lines,
    word_count,
)
from spark_jobs.workers.member_process import InstanceSettings
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.instance.application import Application, group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.serdes import LONG, STRING
from tests.acceptance.instance_processes import InstanceProcess, instances
from tests.known import known
from tests.oracle.broker import Broker
from tests.oracle.jars import DEFAULT_RELEASE, RELEASES
from tests.oracle.streams_app import StreamsInstance
from tests.oracle.topic_contents import Contents, TopicRecord, by_key, contents, contents_when
from tests.told import Tell
from tests.warm_coordinator import WarmCoordinator

pytestmark = pytest.mark.kafka

TEXT_LINES = 3_000
IN_PYTHON = "in-python"
IN_JAVA = "in-java"
JAVA_COUNTS = "word-counts-in-java"
GUARANTEE = {"processing.guarantee": "exactly_once_v2"}


@pytest.fixture
def release() -> str:
    """Of the broker and of Kafka Streams. A test that runs on every release is parametrised by it."""
    return DEFAULT_RELEASE


@pytest.fixture
def own_broker(oracle_jars: str, release: str, tmp_path: Path) -> Iterator[Broker]:
    """Its cleaner stands still: changelogs are compared whole."""
    broker = Broker(tmp_path / "broker", {"log.cleaner.enable": "false"}, release=release)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def log(own_broker: Broker) -> Iterator[Log]:
    with closing(open_log(own_broker.bootstrap_servers)) as opened:
        yield opened


@pytest.fixture
def coordinator(own_broker: Broker, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    settings = {"group.initial.rebalance.delay.ms": 500, "cluster.bootstrap.servers": own_broker.bootstrap_servers}
    with WarmCoordinator(tmp_path / "coordinator", settings) as process:
        yield process


def test_should_write_the_same_records_in_the_same_order_as_kafka_streams(
    own_broker: Broker, log: Log, coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    lines = list(stdlib_lines(TEXT_LINES))
    feed = TextFeed(log, lines)
    log.create_topics([NewTopic(f"counts-{where}", 6) for where in (IN_PYTHON, IN_JAVA)])
    feed.write(lines)
    feed.close()
    builder = StreamsBuilder()
    counts = builder.stream(LINES, key_serde=STRING, value_serde=STRING).group_by_key(
        key_serde=STRING, value_serde=STRING
    )
    counts.count(store=COUNT_STORE).to_stream().to(f"counts-{IN_PYTHON}", key_serde=STRING, value_serde=LONG)
    application = Application(builder.build(), python_configs(own_broker))
    java_configs = {"app.input": LINES, "app.output": f"counts-{IN_JAVA}", **GUARANTEE}
    with ExitStack() as stack:
        in_python(stack, application, coordinator, tmp_path, count=1)
        in_java(stack, own_broker, tmp_path, "count-by-key", java_configs, count=1)
        found = {
            where: contents_when(log, f"counts-{where}", lambda seen: size(seen) == len(lines))
            for where in (IN_PYTHON, IN_JAVA)
        }
        changelogs = {where: contents(log, f"{where}-{COUNT_STORE}-changelog") for where in (IN_PYTHON, IN_JAVA)}
    assert size(found[IN_JAVA]) == len(lines)
    assert found[IN_PYTHON] == found[IN_JAVA]
    assert size(changelogs[IN_JAVA]) == len(lines)
    assert changelogs[IN_PYTHON] == changelogs[IN_JAVA]


@pytest.mark.parametrize("release", RELEASES)
def test_should_count_the_same_as_kafka_streams_when_instances_of_both_and_the_broker_are_killed(
    own_broker: Broker, log: Log, coordinator: CoordinatorProcess, tmp_path: Path, tell: Tell
) -> None:
    lines = list(stdlib_lines(TEXT_LINES))
    pieces = [lines[start::4] for start in range(4)]
    feed = TextFeed(log, lines)
    log.create_topics([NewTopic(JAVA_COUNTS, 6, {"retention.ms": "-1"})])
    configs = {**python_configs(own_broker), "num.standby.replicas": 1, "session.timeout.ms": 3_000}
    java_configs = {"app.output": JAVA_COUNTS, "num.standby.replicas": "1", **GUARANTEE}
    with ExitStack() as stack:
        settings, processes = in_python(stack, word_count(configs), coordinator, tmp_path, count=2)
        jvms = in_java(stack, own_broker, tmp_path, "word-count", java_configs, count=2)
        for piece, fault in zip(pieces, faults(own_broker, settings, processes, jvms), strict=True):
            feed.write(piece)
            fault()
        feed.close()
        expected = expected_counts(lines)
        for topic in (COUNTS, JAVA_COUNTS):
            contents_when(log, topic, lambda seen: last_counts(seen) == expected)
        found = {
            name: (by_key(contents(log, topic)), by_key(contents(log, java_topic)))
            for name, topic, java_topic in (
                ("output", COUNTS, JAVA_COUNTS),
                ("counts", changelog(IN_PYTHON, COUNT_STORE), changelog(IN_JAVA, COUNT_STORE)),
                ("packages", changelog(IN_PYTHON, PACKAGE_STORE), changelog(IN_JAVA, PACKAGE_STORE)),
            )
        }
    counted = f"{len(lines)} lines, {sum(expected.values())} words, {len(expected)} keys"
    tell(f"Kafka {own_broker.release}: {counted}: the same from both")
    assert_counted_once_each(found["output"], expected)
    assert_counted_once_each(found["counts"], expected)
    python_table, java_table = found["packages"]
    assert python_table == java_table


def faults(
    broker: Broker, settings: InstanceSettings, processes: list[InstanceProcess], jvms: list[StreamsInstance]
) -> list[Callable[[], None]]:
    """What goes wrong behind each piece of the input."""

    def an_instance_in_python() -> None:
        processes[0].kill()
        processes.append(InstanceProcess(settings, 0, incarnation=1))

    def an_instance_in_java() -> None:
        jvms[0].kill()
        jvms[0].start()

    def the_broker() -> None:
        broker.kill()
        broker.start()

    return [an_instance_in_python, an_instance_in_java, the_broker, lambda: None]


def assert_counted_once_each(
    found: tuple[dict[bytes | None, list[TopicRecord]], dict[bytes | None, list[TopicRecord]]], expected: dict[str, int]
) -> None:
    """Each key went 1, 2, 3, ... up to its count in both, without gap or repetition, and ended at the same time."""
    for records_by_key in found:
        counted = {text(key): [number(record) for record in records] for key, records in records_by_key.items()}
        assert counted == {key: list(range(1, count + 1)) for key, count in expected.items()}
    last_in_python, last_in_java = ({key: records[-1] for key, records in each.items()} for each in found)
    assert last_in_python == last_in_java


def in_python(
    stack: ExitStack, application: Application, coordinator: CoordinatorProcess, directory: Path, *, count: int
) -> tuple[InstanceSettings, list[InstanceProcess]]:
    settings = InstanceSettings(application, coordinator.url, state_dir=str(directory / "python-state"))
    with CoordinatorClient(coordinator.url) as client:
        client.declare(application.id, group_body(application))
    return settings, stack.enter_context(instances(settings, count))


def in_java(
    stack: ExitStack, broker: Broker, directory: Path, topology: str, configs: dict[str, str], *, count: int
) -> list[StreamsInstance]:
    started = []
    for number in range(count):
        where = directory / f"java-{number}"
        where.mkdir()
        servers, release = broker.bootstrap_servers, broker.release
        one = StreamsInstance(servers, IN_JAVA, where, topology=topology, configs=configs, release=release)
        stack.callback(one.kill)
        started.append(one.start())
    return started


def python_configs(broker: Broker) -> dict[str, object]:
    return {
        "application.id": IN_PYTHON,
        "bootstrap.servers": broker.bootstrap_servers,
        "commit.interval.ms": 100,
        "statestore.cache.max.bytes": 0,  # every update is compared, and the JVM's cache depends on when it commits
        **GUARANTEE,
    }


def changelog(application_id: str, store: str) -> str:
    return f"{application_id}-{store}-changelog"


def size(found: Contents) -> int:
    return sum(map(len, found.values()))


def last_counts(found: Contents) -> dict[str, int]:
    return {text(key): number(records[-1]) for key, records in by_key(found).items()}


def text(key: bytes | None) -> str:
    return STRING.deserialize(known(key))


def number(record: TopicRecord) -> int:
    return LONG.deserialize(known(record.value))
