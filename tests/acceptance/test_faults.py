"""Twenty faults of real applications, and the sentence that an operator sees about each of them."""

import ctypes
import os
import resource
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime import LONG, STRING, StreamsBuilder, TimeWindows, Topology
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.records import Record
from streams_runtime.instance.application import group_body
from streams_runtime.instance.instance_resources import InstanceOptions
from streams_runtime.membership import coordinator_client
from streams_runtime.membership.calls import GroupRunsAnotherTopology
from streams_runtime.processors.api import Processor, ProcessorContext, PunctuationType
from streams_runtime.serdes.schema_registry import AvroSerde
from tests.acceptance.fault_stage import Row, Stage, passed_on, rows
from tests.coordinator_api.service_process import ServiceProcess
from tests.oracle.broker import Broker
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.small_application import address
from tests.waiting import wait_until
from tests.warm_coordinator import WarmCoordinator

ROWS = rows()
TRIED: set[str] = set()
SLOW_S = 0.05
DETACH = 2
"""Unmounts a file system whose files are still open."""

GROWS_WITHIN_S = 100.0
STALLED_WITHIN_S = 45.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "metrics.group.max.count": 100,
    "cluster.metadata.max.age.ms": 1_000,
}


def fault(name: str) -> pytest.MarkDecorator:
    """Gives a test the row of this fault as `row`."""
    TRIED.add(name)
    return pytest.mark.parametrize("row", [pytest.param(ROWS.get(name), id=name)])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("faults")
    logs = LogDirectories(directory)
    with (
        WarmCoordinator(directory / "coordinator", {**SETTINGS, **logs.setting}) as coordinator,
        closing(Stage(coordinator.url, address(logs.take()), directory)) as opened,
    ):
        yield opened


class Ticking(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, _at_ms: int) -> None:
        raise RuntimeError("the shop is closed")

    def process(self, record: Record[str, str]) -> None:
        pass


def hoard(_value: str) -> int:
    """Takes memory until the system gives no more. Its process may have a gigabyte more than it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    kept: list[bytearray] = []
    while True:
        kept.append(bytearray(2**28))


def only_numbers(value: str) -> int:
    if not value.isdigit():
        raise ValueError(f"not a number: {value!r}")
    return int(value)


def slow(value: str) -> str:
    time.sleep(SLOW_S)
    return value


def counted(topic: str, windows: TimeWindows | None = None) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(topic, STRING, STRING).group_by_key(key_serde=STRING, value_serde=STRING)
    if windows is None:
        grouped.count(store="counts").to_stream().to(f"{topic}-out", key_serde=STRING, value_serde=LONG)
    else:
        grouped.windowed_by(windows).count(store="counts")
    return builder.build()


def test_should_try_every_fault_of_the_documentation() -> None:
    assert ROWS.keys() == TRIED
    assert len(ROWS) >= 20


@fault("Crash by an exception")
def test_should_name_the_error_and_its_line(stage: Stage, row: Row) -> None:
    topology = Topology().add_source("source", "crash", key_serde=STRING, value_serde=STRING)
    stage.start(stage.application("crash", topology.add_processor("ticking", Ticking, "source")))
    stage.assert_shown("crash", row)


@fault("Out of memory")
def test_should_say_that_memory_ran_out(stage: Stage, row: Row) -> None:
    process = stage.start_process(stage.application("memory", passed_on("memory", hoard)))
    stage.feed("memory", [b"a"])
    process.wait()
    stage.assert_shown("memory", row)


@fault("SIGKILL")
def test_should_say_what_was_seen_of_a_killed_process_and_the_candidates(stage: Stage, row: Row) -> None:
    application = stage.application("kill", passed_on("kill"))
    stage.start(application)
    process = stage.start_process(application)
    stage.wait_until_runs("kill", members=2)
    process.kill()
    stage.assert_shown("kill", row)


@fault("SIGKILL of the only instance, or a broken network")
def test_should_show_that_the_only_instance_is_missed_before_its_session_ends(stage: Stage, row: Row) -> None:
    process = stage.start_process(stage.application("only", passed_on("only"), session_timeout_ms=60_000))
    stage.wait_until_runs("only")
    process.kill()
    stage.assert_shown("only", row)


@fault("Missing topic")
def test_should_name_the_missing_topic(stage: Stage, row: Row) -> None:
    application = stage.undeclared("missing", passed_on("missing"))
    stage.client.declare("missing", group_body(application))
    stage.start(application)
    assert stage.assert_shown("missing", row)["where"] == ["missing"]


@fault("Another number of partitions")
def test_should_name_the_topic_with_another_number_of_partitions(stage: Stage, row: Row) -> None:
    application = stage.application("partitions", counted("partitions"))
    stage.create("partitions-counts-changelog", partitions=3)
    stage.start(application)
    assert stage.assert_shown("partitions", row)["where"] == ["partitions-counts-changelog"]


@fault("Poison record")
def test_should_name_the_record_that_fails(stage: Stage, row: Row) -> None:
    stage.start(stage.application("poison", passed_on("poison", only_numbers)))
    stage.feed("poison", [b"1", b"poison"])
    stage.assert_shown("poison", row)


@fault("Unreadable schema")
def test_should_name_the_record_with_an_unreadable_schema(stage: Stage, row: Row) -> None:
    builder = StreamsBuilder()
    serde: AvroSerde[str] = AvroSerde('"string"', {"schema.registry.url": "mock://faults"})
    builder.stream("schema", STRING, serde).to("schema-out", key_serde=STRING, value_serde=serde)
    stage.start(stage.application("schema", builder.build()))
    stage.feed("schema", [b"\0" + struct.pack(">i", 77) + b"\2a"])
    stage.assert_shown("schema", row)


@fault("Late records")
def test_should_count_late_records(stage: Stage, row: Row) -> None:
    stage.start(stage.application("late", counted("late", TimeWindows(1_000, grace_ms=0))))
    stage.feed("late", [b"a"], timestamp_ms=100_000)
    stage.feed("late", [b"a"] * 3, timestamp_ms=1_000)
    assert stage.assert_shown("late", row)["count"] == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    system, directory = ctypes.CDLL(None, use_errno=True), os.fsencode(tmp_path)
    if system.mount(b"tmpfs", directory, b"tmpfs", 0, b"size=2m"):
        pytest.skip(f"a small file system cannot be mounted: {os.strerror(ctypes.get_errno())}")
    yield tmp_path
    system.umount2(directory, DETACH)


@fault("Full disk")
def test_should_say_that_the_disk_is_full(stage: Stage, row: Row, small_disk: Path) -> None:
    builder = StreamsBuilder()
    values = builder.stream("disk", STRING, STRING).select_key(lambda _key, value: value)
    values.to_table(store="values", key_serde=STRING, value_serde=STRING)
    stage.start(stage.application("disk", builder.build(), state_dir=str(small_disk / "state")))
    stage.wait_until_runs("disk")
    stage.feed("disk", [b"%08d" % number + b"-" * 4_000 for number in range(1_000)])
    stage.assert_shown("disk", row)


@fault("Corrupt state")
def test_should_tell_of_a_store_that_was_rebuilt(stage: Stage, row: Row) -> None:
    application = stage.application("corrupt", counted("corrupt"))
    stage.feed("corrupt", [b"a"] * 10)
    first = stage.start(application)
    wait_until(lambda: stage.log.end_offsets([TopicPartition("corrupt-out", 0)])[TopicPartition("corrupt-out", 0)], "x")
    assert first.close(30)
    for store in (stage.directory / "corrupt").glob("*/0_0/rocksdb/*/CURRENT"):
        store.write_bytes(b"no such manifest\n")
    stage.start(application)
    stage.assert_shown("corrupt", row)


@fault("Two applications of one id")
def test_should_show_that_another_application_was_refused(stage: Stage, row: Row) -> None:
    stage.start(stage.application("twice", passed_on("twice")))
    stage.wait_until_runs("twice")
    with pytest.raises(GroupRunsAnotherTopology):
        stage.client.declare("twice", group_body(stage.undeclared("twice", counted("twice"))))
    stage.assert_shown("twice", row)


@fault("Held rebalance")
def test_should_show_that_a_rebalance_waits_for_approval(stage: Stage, row: Row) -> None:
    application = stage.application("held", passed_on("held"))
    stage.start(application)
    stage.wait_until_runs("held")
    stage.http.put("/v1/groups/held/hold", json={"time_limit_ms": 600_000}).raise_for_status()
    stage.start(stage.undeclared("held", passed_on("held"), state_dir=str(stage.directory / "held-2")))
    stage.assert_shown("held", row)


class AnHourAhead(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() + 3_600_000 + 500


@fault("Wrong clock")
def test_should_show_a_clock_that_differs(stage: Stage, row: Row) -> None:
    stage.start(stage.application("clock", passed_on("clock")), InstanceOptions(clock=AnHourAhead()))
    stage.assert_shown("clock", row)


@fault("Mixed releases")
def test_should_show_that_releases_are_mixed(stage: Stage, row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.start(stage.application("mixed", passed_on("mixed")))
    stage.wait_until_runs("mixed")
    monkeypatch.setattr(coordinator_client, "version", lambda _name: "0.0.1")
    stage.start(stage.undeclared("mixed", passed_on("mixed"), state_dir=str(stage.directory / "mixed-2")))
    stage.assert_shown("mixed", row)


@fault("Coordinator restarted")
def test_should_show_that_members_are_silent_since_a_restart(tmp_path: Path, row: Row) -> None:
    logs = LogDirectories(tmp_path)
    coordinator = WarmCoordinator(tmp_path / "coordinator", {**SETTINGS, **logs.setting})
    with coordinator, closing(Stage(coordinator.url, address(logs.take()), tmp_path)) as stage:
        topology = passed_on("restart")
        application = stage.application("restart", topology, session_timeout_ms=60_000)
        process = stage.start_process(application)
        stage.wait_until_runs("restart")
        process.suspend()
        coordinator.kill()
        coordinator.start()
        stage.assert_shown("restart", row)
        process.resume()
        wait_until(lambda: not stage.group("restart")["health"]["reasons"], lambda: stage.group("restart")["health"])


@fault("Full disk of the coordinator")
def test_should_show_that_the_coordinator_cannot_store_changes(tmp_path: Path, row: Row) -> None:
    logs = LogDirectories(tmp_path)
    flags = {**SETTINGS, **logs.setting}
    given = [word for name, value in flags.items() for word in (f"--{name.replace('.', '-')}", str(value))]
    with (
        ServiceProcess(tmp_path, *given) as service,
        closing(Stage(service.url, address(logs.take()), tmp_path)) as stage,
    ):
        stage.start(stage.application("store", passed_on("store")))
        stage.wait_until_runs("store")
        pid, limits = service.process.pid, (4_096, resource.RLIM_INFINITY)
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)  # the kernel lets no file of it grow
        assert stage.http.post("/v1/groups/store/pause").status_code == 503
        stage.assert_shown("store", row)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        wait_until(lambda: not stage.group("store")["health"]["reasons"], lambda: stage.group("store")["health"])


@fault("Expired token")
def test_should_show_that_the_token_of_an_instance_has_expired(
    tmp_path: Path, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = LogDirectories(tmp_path)
    tokens = tmp_path / "tokens"
    admin, short = "an-admins-token", "a-short-token"
    ends = datetime.now(UTC) + timedelta(seconds=4)
    lines = [entry("ops", "admin", admin), f"{entry('short', 'member', short)} {ends:%Y-%m-%dT%H:%M:%SZ}"]
    tokens.write_text("\n".join(lines), encoding="ascii")
    tokens.chmod(0o600)
    settings = {**SETTINGS, **logs.setting, "auth.tokens.file": tokens}
    with (
        WarmCoordinator(tmp_path / "coordinator", settings) as coordinator,
        closing(Stage(coordinator.url, address(logs.take()), tmp_path, token=admin)) as stage,
    ):
        stage.start(stage.application("token", passed_on("token")), InstanceOptions(token=short))
        stage.wait_until_runs("token")
        stage.assert_shown("token", row, within_s=20.0)


def entry(name: str, right: str, token: str) -> str:
    from coordinator_client.access.tokens import digest_of

    return f"{name} {right} * {digest_of(token.encode())}"


@pytest.mark.kafka
@fault("Broker down")
def test_should_show_that_the_brokers_do_not_answer(tmp_path: Path, own_broker: Broker, row: Row) -> None:
    servers = own_broker.bootstrap_servers
    settings = {**SETTINGS, "cluster.bootstrap.servers": servers, "cluster.request.timeout.ms": 3_000}
    with (
        WarmCoordinator(tmp_path / "coordinator", settings) as coordinator,
        closing(Stage(coordinator.url, servers, tmp_path)) as stage,
    ):
        stage.start(stage.application("broker", passed_on("broker")))
        stage.wait_until_runs("broker")
        own_broker.kill()
        stage.assert_shown("broker", row)
        own_broker.start()
        wait_until(lambda: not stage.group("broker")["health"]["reasons"], lambda: stage.group("broker")["health"])


@pytest.mark.long
@fault("Warm-up that never ends")
def test_should_show_that_a_warm_up_makes_no_progress(stage: Stage, row: Row) -> None:
    configs = {"acceptable_recovery_lag": 0, "num_standby_replicas": 0}
    application = stage.application("warm", counted("warm"), **configs)
    for partition in range(2):
        stage.feed("warm", [b"a"] * 50, partition=partition)
    stage.start(application)
    stage.wait_until_runs("warm")
    second = stage.undeclared("warm", counted("warm"), state_dir=str(stage.directory / "warm-2"), **configs)
    stage.start(second, paused=True)
    stage.assert_shown("warm", row, STALLED_WITHIN_S)


@pytest.fixture(scope="module")
def growing(stage: Stage) -> Iterator[None]:
    """Two groups that get more than they can process: in all partitions, and in one. They share the minute for which a
    lag has to grow.
    """
    ends = threading.Event()

    def feed() -> None:
        while not ends.wait(0.5):
            for partition in range(2):
                stage.feed("slow", [b"a"] * 50, partition=partition)
            stage.feed("hot", [b"a"] * 50)

    for name in ("slow", "hot"):
        stage.start(stage.application(name, passed_on(name, slow)))
    feeding = threading.Thread(target=feed, daemon=True)
    feeding.start()
    yield
    ends.set()
    feeding.join()


@pytest.mark.long
@fault("Lag by a slow function")
@pytest.mark.usefixtures("growing")
def test_should_show_that_the_lag_of_all_tasks_grows(stage: Stage, row: Row) -> None:
    stage.assert_shown("slow", row, GROWS_WITHIN_S)


@pytest.mark.long
@fault("Hot partition")
@pytest.mark.usefixtures("growing")
def test_should_show_that_the_lag_of_one_task_grows(stage: Stage, row: Row) -> None:
    assert stage.assert_shown("hot", row, GROWS_WITHIN_S)["where"] == ["0_0"]
