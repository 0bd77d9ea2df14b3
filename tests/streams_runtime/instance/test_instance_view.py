"""What a real instance shows: before it starts, while it runs, and while a corrupt task starts over."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import TaskCorrupted
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.instance.application import Application
from streams_runtime.instance.instance_resources import InstanceOptions
from streams_runtime.instance.instance_view import InstanceView
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.instance.thread_status import OpenTask, open_task
from streams_runtime.logs.base import IsolationLevel, NewTopic, TopicDescription
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.logs.opening import open_log
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.processors.topology import Topology
from streams_runtime.queries.client import QueryFailed, StateStoreClient
from streams_runtime.queries.store_metadata import StoreCopy, StoreLocation
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.tasks.task import Task
from tests.no_tls import NO_TLS
from tests.streams_runtime.queries.serving import serving
from tests.streams_runtime.running_group import GUARANTEES, SOME_LINES, Group
from tests.streams_runtime.word_counting import (
    LINES,
    PARTITIONS,
    STORE,
    TIMEOUT_S,
    CountWord,
    RememberingListener,
    counting_application,
    wait_for,
)

WORD = "dog"
NOT_NOW = [(503, "STORE_NOT_READY"), (421, "INVALID_STATE_STORE_PARTITION")]
TASK = TaskId(1, partition_of(WORD.encode(), PARTITIONS))


@pytest.fixture
def group(group: Group) -> Group:
    group.declare(standbys=0)
    return group


def idle_instance(application: Application) -> StreamsInstance:
    """One that is never started."""
    return StreamsInstance(application, "http://127.0.0.1:1")


class FromTheBeginning(RememberingListener):
    """Makes one task corrupt at the first record after it was armed."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = threading.Event()
        self.corrupted = False

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        if task_id == TASK and self.armed.is_set() and not self.corrupted:
            self.corrupted = True
            raise TaskCorrupted([task_id])


class HeldRestore(SilentRestoreListener):
    """Once `hold` is set, a restore waits after it has begun, with nothing restored yet."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.held = threading.Event()
        self.go_on = threading.Event()

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        if self.hold.is_set() and partition.partition == TASK.partition:
            self.held.set()
            self.go_on.wait(TIMEOUT_S)


@pytest.mark.parametrize("group", GUARANTEES, indirect=True)
def test_should_never_say_that_there_is_none_when_a_corrupt_task_restores_anew(group: Group) -> None:
    """Its store is the same object, open, and empty."""
    with serving(group.application(num_stream_threads=1), group.client):
        group.write(SOME_LINES)
        group.wait_until_counted()
    listener, restoring = FromTheBeginning(), HeldRestore()
    options = InstanceOptions(thread_listener=lambda _name: listener, restore_listener=restoring)
    with (
        serving(group.application(num_stream_threads=1), group.client, options) as (endpoint, instance),
        StateStoreClient([str(endpoint)], timeout_s=TIMEOUT_S) as stores,
        StateStoreClient([str(endpoint)], timeout_s=0.2) as hasty,
    ):
        assert stores.get(STORE, WORD.encode()).value == LONG.serialize(group.words[WORD])
        listener.armed.set()
        restoring.hold.set()
        group.write([WORD])
        assert restoring.held.wait(TIMEOUT_S), instance.status()
        try:
            answer = httpx.get(f"http://{endpoint}/v1/stores/{STORE}/key?key={WORD}", trust_env=False, verify=NO_TLS)
            assert (answer.status_code, answer.json().get("code")) in NOT_NOW, answer.text
            with pytest.raises(QueryFailed):
                hasty.get(STORE, WORD.encode(), max_lag=0)
        finally:
            restoring.go_on.set()
        wait_for(lambda: _count(stores) >= group.words[WORD], instance.status)
        assert instance.errors == ()


def _count(stores: StateStoreClient) -> int:
    value = stores.get(STORE, WORD.encode()).value
    assert value is not None, "it is there all the time"
    return LONG.deserialize(value)


def test_should_show_everything_of_a_running_instance_over_http(group: Group) -> None:
    group.write(SOME_LINES)
    with serving(group.application(), group.client) as (endpoint, instance):
        group.wait_until_counted()
        group.wait_until_settled(instance, standbys=0)
        url = f"http://{endpoint}"
        with httpx.Client(trust_env=False, base_url=url, verify=NO_TLS) as http:
            wait_for(lambda: "streams_processed_records_total" in http.get("/metrics").text, instance.status)
            status = http.get("/status").json()
            metadata = http.get("/v1/metadata").json()
            entries = http.get(f"/v1/stores/{STORE}/entries").json()["tasks"]
    assert (status["application_id"], status["state"], status["endpoint"]) == (group.id, "running", str(endpoint))
    tasks = [task for thread in status["threads"] for task in thread["tasks"]]
    assert {(task["task"], task["role"], task["state"], task["lag"]) for task in tasks} == {
        (task, "active", "running", 0) for task in ("0_0", "0_1", "1_0", "1_1")
    }
    words = f"{group.id}-words"
    assert metadata["generation_id"] >= 1
    assert metadata["stores"] == {
        STORE: {"subtopology": 1, "source_topics": {words: PARTITIONS}, "own_partitioner": False, "global": False}
    }
    assert metadata["active"] == {
        str(endpoint): [[topic, number] for topic in sorted((LINES, words)) for number in range(PARTITIONS)]
    }
    assert {one["key"]: one["value"] for task in entries.values() for one in task} == dict(group.words)


def test_should_have_stores_but_no_copies_and_no_hosts_before_it_is_started(group: Group) -> None:
    view = InstanceView(idle_instance(group.application()), group.log)
    words = f"{group.id}-words"
    builder = key_value_store(STORE, STRING, LONG)
    assert dict(view.store_locations()) == {STORE: StoreLocation(STORE, 1, {words: PARTITIONS}, False, builder)}
    assert view.store_copies(STORE) == []
    assert view.store_copies("nope") == []
    assert (view.generation_id(), view.host_maps()) == (0, PartitionHosts())
    assert view.status_document() == {
        "application_id": group.id,
        "process_id": None,
        "state": "created",
        "endpoint": None,
        "notices": [],
        "threads": [],
    }
    assert b"streams_tasks" in view.metrics_text()


def test_should_not_know_the_partitions_until_every_topic_is_there_and_the_log_answers(tmp_path: Path) -> None:
    def slow() -> dict[str, TopicDescription]:
        raise LogTimeout("too slow")

    log = open_log(f"memory:{tmp_path}")
    application = counting_application("late", tmp_path, tmp_path, guarantee="at_least_once")
    view = InstanceView(idle_instance(application), log)
    assert view.store_locations()[STORE].partitions == 0
    log.create_topics([NewTopic("late-words", 3)])
    assert view.store_locations()[STORE].source_topics == {"late-words": 3}
    log.topics = slow  # type: ignore[method-assign]
    assert view.store_locations()[STORE].partitions == 3, "it is not asked again"
    assert InstanceView(idle_instance(application), log).store_locations()[STORE].partitions == 0


def test_should_read_committed_state_only_from_transactional_stores(tmp_path: Path) -> None:
    def level(chosen: IsolationLevel | None, **configs: object) -> IsolationLevel:
        application = counting_application(
            "levels", tmp_path / "log", tmp_path / "state", guarantee="exactly_once_v2", **configs
        )
        view = InstanceView(idle_instance(application), open_log(f"memory:{tmp_path}"))
        return view.isolation_level(chosen)

    assert level(None) is IsolationLevel.READ_COMMITTED
    assert level(IsolationLevel.READ_UNCOMMITTED) is IsolationLevel.READ_UNCOMMITTED
    for chosen in (None, IsolationLevel.READ_COMMITTED):
        assert level(chosen, enable_transactional_statestores=False) is IsolationLevel.READ_UNCOMMITTED


def test_should_say_that_keys_are_placed_by_a_partitioner_of_the_application(tmp_path: Path) -> None:
    topology = Topology()
    topology.add_source("lines", LINES)
    topology.add_repartition_topic("words", 2)
    topology.add_sink("to-words", "words", "lines", partitioner=lambda _key, _value, count: count - 1)
    topology.add_source("words", "words")
    topology.add_processor("count", CountWord, "words")
    topology.add_state_store(key_value_store(STORE, STRING, LONG), "count")
    application = Application(topology, {"application.id": "own", "bootstrap.servers": f"memory:{tmp_path}"})
    view = InstanceView(idle_instance(application), open_log(f"memory:{tmp_path}"))
    assert view.store_locations()[STORE].own_partitioner


@pytest.mark.parametrize(
    "logged, role, state, lag",
    [
        (True, TaskType.STANDBY, TaskState.RUNNING, 0),
        (True, TaskType.ACTIVE, TaskState.RESTORING, 0),
        (True, TaskType.ACTIVE, TaskState.RUNNING, 0),
        (False, TaskType.ACTIVE, TaskState.RUNNING, 0),
        (False, TaskType.STANDBY, TaskState.RUNNING, None),
        (False, TaskType.ACTIVE, TaskState.RESTORING, None),
    ],
)
def test_should_know_no_lag_of_a_store_without_changelog_unless_it_is_the_running_active_one(
    logged: bool, role: TaskType, state: TaskState, lag: int | None
) -> None:
    """A standby keeps it open, but nothing ever comes into it: it would answer "no such key" to everybody."""
    changelog = TopicPartition("changelog", 0)
    task = SimpleNamespace(id=TASK, type=role, state=state, stores={STORE: object()})
    published = open_task(cast(Task, task), {STORE: changelog if logged else None}, {changelog: 0})
    assert (published.lags, published.stores) == ({STORE: lag}, task.stores)


def test_should_show_each_open_copy_of_a_store_as_its_thread_published_it(tmp_path: Path) -> None:
    class ShowingCopies(StreamsInstance):
        def copies(self) -> tuple[OpenTask, ...]:
            return copies

    store = key_value_store(STORE, STRING, LONG, persistent=False).build()
    behind = OpenTask(TASK, TaskType.STANDBY, TaskState.RUNNING, {STORE: store}, {STORE: 7})
    unknown = OpenTask(TASK, TaskType.ACTIVE, TaskState.RESTORING, {STORE: store}, {})
    copies = (behind, OpenTask(TASK, TaskType.ACTIVE, TaskState.RUNNING, {"other": store}, {"other": 0}), unknown)
    application = counting_application("app", tmp_path / "log", tmp_path, guarantee=GUARANTEES[0])
    view = InstanceView(ShowingCopies(application, "http://127.0.0.1:1"), open_log(f"memory:{tmp_path}"))
    assert view.store_copies(STORE) == [
        StoreCopy(TASK, TaskType.STANDBY, TaskState.RUNNING, store, 7, behind),
        StoreCopy(TASK, TaskType.ACTIVE, TaskState.RESTORING, store, None, unknown),
    ]
