"""Whole instances with a global thread: before the tasks, while they run, and when it fails."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.configs import AssignmentConfigs
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.types import TopicPartition
from streams_runtime import (
    STRING,
    Application,
    CoordinatorClient,
    InstanceOptions,
    InstanceState,
    NewTopic,
    Processor,
    Record,
    RecordProducer,
    StateStoreClient,
    StreamsBuilder,
    StreamsInstance,
    ThreadErrorResponse,
    key_value_store,
    open_log,
    read_topic,
)
from streams_runtime.common.errors import TaskCorrupted
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.base import Log
from streams_runtime.state_stores import rocksdb
from tests.streams_runtime.instance.counting_global_records import TOPIC, counting_instance
from tests.streams_runtime.logs.processes import running_program
from tests.streams_runtime.small_group import GroupDefinition
from tests.streams_runtime.word_counting import TIMEOUT_S, wait_for

PARTITIONS = 2


def enriching(key: str, value: str) -> str:
    return value


def enriched() -> StreamsBuilder:
    builder = StreamsBuilder()
    users = builder.global_table("users", STRING, STRING, store="users")
    orders = builder.stream("orders", STRING, STRING)
    orders.left_join(users, "{}+{}".format, key_selector=enriching).to("enriched", value_serde=STRING)
    return builder


class FailOnPoison(Processor[str, str]):
    def process(self, record: Record[str, str]) -> None:
        if record.value == "poison":
            raise ValueError("poison")


def failing() -> StreamsBuilder:
    store = key_value_store("users", STRING, STRING)
    return StreamsBuilder().add_global_store(store, "users", FailOnPoison, STRING, STRING)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with closing(open_log(f"embedded:{tmp_path / 'log'}")) as opened:
        opened.create_topics([NewTopic(topic, PARTITIONS) for topic in ("users", "orders", "enriched")])
        yield opened


def application(builder: StreamsBuilder, tmp_path: Path, **handlers: Any) -> Application:
    configs = {
        "application.id": tmp_path.name,
        "bootstrap.servers": f"embedded:{tmp_path / 'log'}",
        "state.dir": tmp_path / "state",
        "commit.interval.ms": 50,
        "poll.ms": 20,
    }
    return Application(builder.build(), configs, **handlers)


def write(log: Log, topic: str, *records: tuple[str, str]) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        for key, value in records:
            producer.send(topic, key, value)


def results(log: Log) -> list[str]:
    return sorted(str(record.value) for record in read_topic(log, "enriched", STRING, STRING))


def declare(client: CoordinatorClient, app: Application) -> None:
    """With a description of the cluster, which the coordinator cannot ask for it."""
    topic = TopicMetadata(PARTITIONS, ((1,),) * PARTITIONS, (1,) * PARTITIONS)
    snapshot = RebalanceSnapshot(
        assignor="HighAvailabilityTaskAssignor",
        configs=AssignmentConfigs(),
        application_id=app.id,
        topology=app.group_topology(),
        cluster=Cluster((Broker(1),), dict.fromkeys(("orders", "enriched"), topic)),
        members={},
    )
    client.declare(app.id, GroupDefinition(app.id, snapshot).body())


def test_should_fill_the_stores_before_the_tasks_start_and_keep_them_up_to_date(
    log: Log, tmp_path: Path, client: CoordinatorClient
) -> None:
    write(log, "users", *((f"u{number}", "old") for number in range(20)))
    write(log, "orders", *((f"o{number}", f"u{number}") for number in range(20)))
    app = application(enriched(), tmp_path)
    declare(client, app)
    instance = StreamsInstance(app, client, InstanceOptions(serve_at="127.0.0.1:0"))
    instance.start()
    try:
        wait_for(lambda: results(log) == sorted(f"u{number}+old" for number in range(20)), lambda: results(log))
        write(log, "users", ("u1", "new"))
        wait_for(lambda: _value_at(f"http://{instance.endpoint}", "u1") == "new", instance.status)
        with StateStoreClient([str(instance.endpoint)]) as queries:
            assert queries.get("users", b"u1").value == b"new"
            assert queries.key_metadata("users", b"u1").active == instance.endpoint
        write(log, "orders", ("o", "u1"))
        wait_for(lambda: "u1+new" in results(log), lambda: results(log))
        assert instance.status().threads[-1].name.endswith("-GlobalStreamThread")
    finally:
        assert instance.close(TIMEOUT_S)
    assert instance.state is InstanceState.NOT_RUNNING


def _value_at(endpoint: str, key: str) -> object:
    return httpx.get(f"{endpoint}/v1/stores/users/key", params={"key": key}).json().get("value")


class Restores(SilentRestoreListener):
    def __init__(self) -> None:
        self.starts: dict[TopicPartition, int] = {}
        self.total = 0

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self.starts[partition] = start

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        self.total += total


def test_should_restore_only_later_records_when_it_starts_again(
    log: Log, tmp_path: Path, coordinator: CoordinatorProcess
) -> None:
    write(log, "users", ("a", "1"), ("b", "1"), ("c", "1"))
    totals = []
    for _ in range(2):
        restores = Restores()
        options = InstanceOptions(restore_listener=restores, serve_at="127.0.0.1:0")
        instance = StreamsInstance(application(failing(), tmp_path), coordinator.url, options)
        instance.start()
        assert instance.wait_until_running(TIMEOUT_S), "a topology without sources needs no stream thread"
        assert [thread.state for thread in instance.status().threads] == ["running"]
        with StateStoreClient([str(instance.endpoint)]) as queries:
            assert queries.get("users", b"a").value is None, "its processor puts nothing"
            assert queries.key_metadata("users", b"a").active == instance.endpoint
        assert instance.close(TIMEOUT_S)
        totals.append(restores.total)
        write(log, "users", ("a", "2"))
    assert totals == [3, 1]


def test_should_end_the_instance_if_it_fails_and_never_replace_it(
    log: Log, tmp_path: Path, coordinator: CoordinatorProcess
) -> None:
    were_open = []

    def handler(_error: Exception) -> ThreadErrorResponse:
        were_open.append(instance.copies()[-1].stores["users"].is_open)
        return ThreadErrorResponse.REPLACE_THREAD

    instance = StreamsInstance(application(failing(), tmp_path, uncaught_exception_handler=handler), coordinator.url)
    instance.start()
    write(log, "users", ("a", "poison"))
    assert instance.wait(TIMEOUT_S) is InstanceState.ERROR
    (error,) = instance.errors
    assert "ValueError: poison" in str(error)
    assert were_open == [True], "tasks may read the stores until they are closed"


def test_should_end_the_instance_if_the_handler_of_its_error_calls_exit(
    log: Log, tmp_path: Path, coordinator: CoordinatorProcess
) -> None:
    def handler(_error: Exception) -> ThreadErrorResponse:
        raise SystemExit(1)

    instance = StreamsInstance(application(failing(), tmp_path, uncaught_exception_handler=handler), coordinator.url)
    instance.start()
    write(log, "users", ("a", "poison"))
    assert instance.wait(TIMEOUT_S) is InstanceState.ERROR


def test_should_not_start_if_a_store_cannot_be_restored(
    log: Log, tmp_path: Path, coordinator: CoordinatorProcess
) -> None:
    write(log, "users", ("a", "poison"))
    instance = StreamsInstance(application(failing(), tmp_path), coordinator.url)
    with pytest.raises(Exception, match="ValueError: poison"):
        instance.start()
    assert instance.state is InstanceState.ERROR
    again = StreamsInstance(application(enriched(), tmp_path), coordinator.url)
    log.delete_topics(["users"])
    with pytest.raises(Exception, match="the log has no topic users"):
        again.start()


def test_should_end_a_start_that_is_closed_during_the_restore(
    log: Log, tmp_path: Path, coordinator: CoordinatorProcess
) -> None:
    is_restoring, may_go_on = threading.Event(), threading.Event()

    class Waiting(SilentRestoreListener):
        def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
            is_restoring.set()
            may_go_on.wait(TIMEOUT_S)

    write(log, "users", ("a", "1"))
    options = InstanceOptions(restore_listener=Waiting())
    instance = StreamsInstance(application(enriched(), tmp_path), coordinator.url, options)
    starting = threading.Thread(target=instance.start)
    starting.start()
    assert is_restoring.wait(TIMEOUT_S)
    assert instance.state is InstanceState.REBALANCING
    assert instance.add_stream_thread() is None, "its tasks would read stores that are being restored"
    assert not instance.close(0)
    may_go_on.set()
    starting.join(TIMEOUT_S)
    assert instance.wait(TIMEOUT_S) is InstanceState.NOT_RUNNING


def test_should_restore_nothing_if_it_is_closed_before_it_has_a_global_thread(
    log: Log, tmp_path: Path, coordinator: CoordinatorProcess
) -> None:
    write(log, "users", ("a", "1"))
    restores = Restores()
    options = InstanceOptions(restore_listener=restores)
    instance = StreamsInstance(application(enriched(), tmp_path), coordinator.url, options)
    instance.set_state_listener(lambda new, _old: new is InstanceState.REBALANCING and instance.close(0))
    instance.start()
    assert instance.wait(TIMEOUT_S) is InstanceState.NOT_RUNNING
    assert not restores.starts


def damage(store: Path) -> None:
    """Changes a byte of the first block of the store's entries."""
    largest = max(store.glob("*.sst"), key=lambda file: file.stat().st_size)
    content = largest.read_bytes()
    largest.write_bytes(bytes([content[0] ^ 1]) + content[1:])


@pytest.mark.parametrize("reader", ["task", "query"])
def test_should_end_the_instance_and_fill_the_store_again_when_a_read_finds_damage(
    log: Log, tmp_path: Path, client: CoordinatorClient, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """The store is too large to be read when it is opened. A task that is started again would find the damage again."""
    write(log, "users", ("u1", "old"), *((f"u{number}", "old") for number in range(500)))

    def handler(_error: Exception) -> ThreadErrorResponse:
        return ThreadErrorResponse.REPLACE_THREAD

    app = application(enriched(), tmp_path, uncaught_exception_handler=handler)
    declare(client, app)

    def started() -> StreamsInstance:
        instance = StreamsInstance(app, client, InstanceOptions(serve_at="127.0.0.1:0"))
        instance.start()
        assert instance.wait_until_running(TIMEOUT_S)
        return instance

    assert started().close(TIMEOUT_S)
    monkeypatch.setattr(rocksdb, "VERIFIED_BYTES", -1)
    damage(tmp_path / "state" / app.id / "global" / "rocksdb" / "users")
    instance = started()
    if reader == "task":
        write(log, "orders", ("o1", "u1"))
    else:
        assert _value_at(f"http://{instance.endpoint}", "u1") is None
    assert instance.wait(TIMEOUT_S) is InstanceState.ERROR
    assert any("store users: the files in" in str(error) for error in instance.errors)
    assert not any(isinstance(error, TaskCorrupted) for error in instance.errors)

    again = started()
    write(log, "orders", ("o2", "u1"))
    wait_for(lambda: "u1+old" in results(log), lambda: results(log))
    assert again.close(TIMEOUT_S)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_should_count_every_record_once_when_it_is_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    chance, keys = random.Random(seed), [f"key-{number}" for number in range(50)]
    written: Counter[str] = Counter()
    with closing(open_log(f"embedded:{tmp_path / 'log'}")) as log:
        log.create_topics([NewTopic(TOPIC, PARTITIONS)])
        for _ in range(4):
            some = chance.choices(keys, k=600)
            written.update(some)
            with RecordProducer(log, STRING, STRING) as producer:
                for key in some:
                    producer.send(TOPIC, key, "x")
            with running_program("tests.streams_runtime.instance.counting_global_records", tmp_path) as program:
                for _ in range(chance.randrange(1, 5)):
                    program.line()
        instance = counting_instance(tmp_path)
        instance.start()
        store: Any = instance.copies()[0].stores[TOPIC]
        assert dict(store.all()) == dict(written)
        assert not instance.notices.newest(), "no store was filled again"
        assert instance.close(TIMEOUT_S)
