"""Old data is processed; what is dropped or was deleted unread is told by the metrics, the group and the log."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.types import TopicPartition
from streams_runtime import (
    LONG,
    STRING,
    Application,
    LocalRun,
    StreamsBuilder,
    TimeWindowedSerde,
    TimeWindows,
    read_topic,
)
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.streams_runtime.word_counting import wait_for
from tests.warm_coordinator import WarmCoordinator

THIRTEEN_MONTHS_AGO_MS = (int(time.time()) - 396 * 86_400) * 1_000
HOUR_MS = 3_600_000
RECORDS = 2_000
PARTITIONS = 2


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"embedded:{tmp_path_factory.mktemp('log')}"


@pytest.fixture(scope="module")
def coordinator_url(servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"group.initial.rebalance.delay.ms": 0, "cluster.bootstrap.servers": servers}
    with WarmCoordinator(tmp_path_factory.mktemp("coordinator"), settings) as process:
        yield process.url


@pytest.fixture
def log(servers: str) -> Iterator[Log]:
    opened = open_log(servers, {})
    yield opened
    opened.close()


def application(
    name: str, builder: StreamsBuilder, servers: str, state_dir: Path, extra: Mapping[str, object] | None = None
) -> Application:
    configs = {
        "application.id": name,
        "bootstrap.servers": servers,
        "state.dir": state_dir,
        "commit.interval.ms": 50,
        "poll.ms": 20,
        "heartbeat.interval.ms": 50,
        "session.timeout.ms": 10_000,
        **(extra or {}),
    }
    return Application(builder.build(), configs)


def copying(name: str, servers: str, state_dir: Path) -> Application:
    builder = StreamsBuilder()
    builder.stream(f"{name}-in", STRING, LONG).to(f"{name}-out", key_serde=STRING, value_serde=LONG)
    return application(name, builder, servers, state_dir)


def write(log: Log, topic: str, count: int, spread_ms: int = 0) -> None:
    """Old records, `spread_ms` from the first to the last."""
    producer = log.producer()
    for number in range(count):
        timestamp_ms = THIRTEEN_MONTHS_AGO_MS + spread_ms * number // count
        partition = TopicPartition(topic, number % PARTITIONS)
        producer.send(partition, b"k%d" % (number % 7), LONG.serialize(1), timestamp_ms)
    producer.flush()
    producer.close()


def ends(log: Log, topic: str) -> int:
    return sum(log.end_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)]).values())


def metric(run: LocalRun, name: str) -> dict[str, float]:
    """By reason, topic or store, over all threads and tasks."""
    found: dict[str, float] = {}
    for instance in run.instances:
        for family in instance.metrics.registry.collect():
            for sample in family.samples:
                if sample.name == name:
                    label = sample.labels.get("reason") or sample.labels.get("topic") or sample.labels["store"]
                    found[label] = found.get(label, 0) + sample.value
    return found


def wait_until_processed(run: LocalRun, records: int) -> None:
    """They need not be committed."""

    def processed() -> float:
        families = [family for instance in run.instances for family in instance.metrics.registry.collect()]
        samples = [sample for family in families for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == "streams_processed_records_total")

    wait_for(lambda: processed() == records, processed)


def told(url: str, group_id: str, code: str, count: float) -> Mapping[str, Any]:
    """The notice, when the coordinator has heard all of it."""
    with CoordinatorClient(url) as client:

        def notices() -> list[Mapping[str, Any]]:
            described = client.describe(group_id)["notices"]
            assert isinstance(described, list)
            return [notice for notice in described if (notice["code"], notice["count"]) == (code, count)]

        wait_for(lambda: bool(notices()), lambda: client.describe(group_id))
        return notices()[0]


def test_should_process_records_that_are_thirteen_months_old(
    log: Log, servers: str, coordinator_url: str, tmp_path: Path
) -> None:
    log.create_topics([NewTopic("old-in", PARTITIONS), NewTopic("old-out", PARTITIONS)])
    write(log, "old-in", RECORDS)
    for _ in range(3):
        log.maintain()  # as every instance does
    with LocalRun(copying("old", servers, tmp_path), coordinator=coordinator_url) as run:
        run.wait_until_caught_up()
        assert run.instances[0].notices.newest() == ()
    assert ends(log, "old-out") == RECORDS


def test_should_tell_how_much_of_a_windowed_sum_was_late_after_a_repartition(
    log: Log, servers: str, coordinator_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that reads its partition to the end before the other begins makes the other's records late."""
    builder = StreamsBuilder()
    (
        builder.stream("late-in", STRING, LONG)
        .group_by(lambda key, _value: key, key_serde=STRING, value_serde=LONG)
        .windowed_by(TimeWindows(60_000, grace_ms=60_000))
        .reduce(lambda one, other: one + other, store="sums")
    )
    log.create_topics([NewTopic("late-in", PARTITIONS)])
    write(log, "late-in", RECORDS, spread_ms=HOUR_MS)
    write(log, "late-in", RECORDS, spread_ms=HOUR_MS)  # the same hour again, behind the first one
    with LocalRun(application("late", builder, servers, tmp_path), coordinator=coordinator_url) as run:
        run.wait_until_caught_up()
        counted = metric(run, "streams_dropped_records_total")
        assert counted.keys() == {"late"}
        assert RECORDS * 0.9 <= counted["late"] < 2 * RECORDS
        shown = httpx.get(f"{run.endpoints[0]}/metrics", trust_env=False).text
        assert 'reason="late"' in shown
        status = httpx.get(f"{run.endpoints[0]}/status", trust_env=False).json()
        assert sum(thread["dropped"] for thread in status["threads"]) == counted["late"]
        notice = told(coordinator_url, "late", "RECORDS_DROPPED", counted["late"])
    assert notice["text"].startswith("late for a closed window, KSTREAM-REDUCE-")
    assert "after the window and its grace of 0:01:00)" in notice["text"]
    assert f"late has ended; RECORDS_DROPPED {notice['count']:,} in all: late for" in caplog.text


def test_should_tell_what_was_deleted_before_the_group_read_it(
    log: Log, servers: str, coordinator_url: str, tmp_path: Path
) -> None:
    log.create_topics(
        [NewTopic("gone-in", PARTITIONS, {"retention.ms": "604800000"}), NewTopic("gone-out", PARTITIONS)]
    )
    write(log, "gone-in", 100)
    log.maintain()
    app = copying("gone", servers, tmp_path)
    with LocalRun(app, coordinator=coordinator_url) as run:
        notice = told(coordinator_url, "gone", "RECORDS_PASSED_OVER", 100)
        assert metric(run, "streams_passed_over_records_total") == {"gone-in": 100}
    assert "gone-in-0: 50 records were deleted before this group read any; it begins at offset 50" in notice["text"]


def test_should_tell_what_was_deleted_while_the_group_was_away(
    log: Log, servers: str, coordinator_url: str, tmp_path: Path
) -> None:
    log.create_topics([NewTopic("away-in", PARTITIONS), NewTopic("away-out", PARTITIONS)])
    app = copying("away", servers, tmp_path)
    write(log, "away-in", 10)
    with LocalRun(app, coordinator=coordinator_url) as run:
        run.wait_until_caught_up()
    write(log, "away-in", 100)
    log.delete_records({TopicPartition("away-in", 0): 40})
    with LocalRun(app, coordinator=coordinator_url) as run:
        run.wait_until_caught_up()
        notice = told(coordinator_url, "away", "RECORDS_PASSED_OVER", 35)
        assert metric(run, "streams_passed_over_records_total") == {"away-in": 35}
    assert notice["text"] == (
        "away-in-0: 35 records were deleted before this group read them: the log starts at 40, the group was at 5"
    )
    assert ends(log, "away-out") == 10 + 100 - 35


def counting(name: str, servers: str, state_dir: Path, extra: Mapping[str, object] | None = None) -> Application:
    builder = StreamsBuilder()
    windows = TimeWindows(HOUR_MS, grace_ms=HOUR_MS)
    builder.stream(f"{name}-in", STRING, LONG).group_by_key().windowed_by(windows).count(store="counts")
    return application(name, builder, servers, state_dir, extra)


def write_windows(log: Log, name: str, timestamp_ms: int, keys: int = 8) -> None:
    producer = log.producer()
    for key in range(keys):
        producer.send(TopicPartition(f"{name}-in", key % PARTITIONS), b"k%d" % key, LONG.serialize(1), timestamp_ms)
    producer.flush()
    producer.close()


def test_should_count_on_in_windows_of_a_backlog_after_their_state_is_lost(
    log: Log, servers: str, coordinator_url: str, tmp_path: Path
) -> None:
    """The grace is longer the second time, so the store needs its changelog for longer than the topic was made for."""
    log.create_topics([NewTopic("backlog-in", PARTITIONS), NewTopic("backlog-out", PARTITIONS)])
    for state, grace_ms in (("before", HOUR_MS), ("after", 30 * 24 * HOUR_MS)):
        builder = StreamsBuilder()
        (
            builder.stream("backlog-in", STRING, LONG)
            .group_by_key()
            .windowed_by(TimeWindows(HOUR_MS, grace_ms=grace_ms))
            .count(store="counts")
            .to_stream()
            .to("backlog-out", key_serde=TimeWindowedSerde(STRING, HOUR_MS), value_serde=LONG)
        )
        write_windows(log, "backlog", THIRTEEN_MONTHS_AGO_MS)
        app = application("backlog", builder, servers, tmp_path / state)
        with LocalRun(app, coordinator=coordinator_url) as run:
            run.wait_until_caught_up()
            assert run.instances[0].notices.newest() == ()
        log.maintain()
    assert log.topics()["backlog-counts-changelog"].configs["retention.ms"] == str(2 * (HOUR_MS + grace_ms))
    written = read_topic(servers, "backlog-out", TimeWindowedSerde(STRING, HOUR_MS), LONG)
    counts = {one.key.key: one.value for one in written if one.key is not None}
    assert counts == {f"k{key}": 2 for key in range(8)}


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("cut", {}),
        ("cut-late", {"commit.interval.ms": 600_000}),  # the only commit is that of the close
        ("cut-once", {"processing.guarantee": "exactly_once_v2"}),
        ("cut-uncached", {"statestore.cache.max.bytes": 0}),
    ],
)
def test_should_tell_how_many_windows_a_restore_lacks(
    log: Log, servers: str, coordinator_url: str, tmp_path: Path, name: str, extra: Mapping[str, object]
) -> None:
    log.create_topics([NewTopic(f"{name}-in", PARTITIONS)])
    write_windows(log, name, THIRTEEN_MONTHS_AGO_MS)
    with LocalRun(counting(name, servers, tmp_path / "before", extra), coordinator=coordinator_url) as run:
        wait_until_processed(run, 8)
    changelog = [TopicPartition(f"{name}-counts-changelog", number) for number in range(PARTITIONS)]
    assert log.end_offsets(changelog) == dict.fromkeys(changelog, 4)
    log.delete_records({changelog[0]: 4, changelog[1]: 1})
    write_windows(log, name, THIRTEEN_MONTHS_AGO_MS)
    with LocalRun(counting(name, servers, tmp_path / "after"), coordinator=coordinator_url) as run:
        wait_until_processed(run, 8)
        notice = told(coordinator_url, name, "WINDOWS_MISSING", 5)
        assert metric(run, "streams_missing_windows_total") == {"counts": 5}
    assert notice["text"].startswith(
        f"{name}-counts-changelog-0: 4 windows at most are missing in store counts: its changelog starts at offset 4, "
        f"and was needed from 0 on; {name}-counts-changelog-1: 1 windows at most"
    )
    with LocalRun(counting(name, servers, tmp_path / "again"), coordinator=coordinator_url) as run:
        run.instances[0].wait_until_running(30)
        assert metric(run, "streams_missing_windows_total") == {}, "what is there now is all that is needed"


def test_should_miss_no_window_that_had_expired(log: Log, servers: str, coordinator_url: str, tmp_path: Path) -> None:
    log.create_topics([NewTopic("months-in", PARTITIONS)])
    for month in range(3):
        write_windows(log, "months", THIRTEEN_MONTHS_AGO_MS + month * 30 * 24 * HOUR_MS)
    with LocalRun(counting("months", servers, tmp_path / "before"), coordinator=coordinator_url) as run:
        run.wait_until_caught_up()
    changelog = [TopicPartition("months-counts-changelog", number) for number in range(PARTITIONS)]
    log.maintain()
    log.delete_records(dict.fromkeys(changelog, 8))  # the first two months, as the log may when they are older batches
    with LocalRun(counting("months", servers, tmp_path / "after"), coordinator=coordinator_url) as run:
        run.wait_until_caught_up()
        assert run.instances[0].notices.newest() == ()


def test_should_tell_of_windows_that_the_log_may_delete_by_its_clock(
    log: Log, servers: str, coordinator_url: str, tmp_path: Path
) -> None:
    """With cleanup.policy=delete the embedded log deletes as a broker does."""
    log.create_topics([NewTopic("risk-in", PARTITIONS)])
    write_windows(log, "risk", THIRTEEN_MONTHS_AGO_MS)
    app = counting("risk", servers, tmp_path, {"topic.cleanup.policy": "delete"})
    with LocalRun(app, coordinator=coordinator_url) as run:
        run.wait_until_caught_up()
        notice = told(coordinator_url, "risk", "WINDOWS_AT_RISK", 8)
        assert metric(run, "streams_windows_at_risk") == {"counts": 8}
    assert notice["text"].startswith("store counts: 8 windows at most, as stream time is 396 days, ")
    assert f"set retention.ms={397 * 24 * HOUR_MS + 2 * HOUR_MS} (now {26 * HOUR_MS})" in notice["text"]
