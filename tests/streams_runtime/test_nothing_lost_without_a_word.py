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
    NewTopic,
    StreamsBuilder,
    TimeWindowedSerde,
    TimeWindows,
    open_log,
    read_topic,
)
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.waiting import wait_until
from tests.warm_coordinator import WarmCoordinator

THIRTEEN_MONTHS_AGO_MS = (int(time.time()) - 396 * 86_400) * 1_000
HOUR_MS = 3_600_000
RECORDS = 2_000
PARTITIONS = 2


class Place:
    """A log with its coordinator, and applications whose state is below `directory`."""

    def __init__(self, servers: str, coordinator_url: str) -> None:
        self.servers, self.coordinator_url = servers, coordinator_url
        self.log = open_log(servers, {})
        self.directory = Path()

    def topics(self, *names: str, **configs: str) -> None:
        self.log.create_topics([NewTopic(name, PARTITIONS, configs) for name in names])

    def write(self, topic: str, count: int, spread_ms: int = 0) -> None:
        """Old records, `spread_ms` from the first to the last."""
        producer = self.log.producer()
        for number in range(count):
            timestamp_ms = THIRTEEN_MONTHS_AGO_MS + spread_ms * number // count
            partition = TopicPartition(topic, number % PARTITIONS)
            producer.send(partition, b"k%d" % (number % 7), LONG.serialize(1), timestamp_ms)
        producer.close()

    def write_windows(self, name: str, timestamp_ms: int = THIRTEEN_MONTHS_AGO_MS) -> None:
        """Of eight keys."""
        producer = self.log.producer()
        for key in range(8):
            producer.send(TopicPartition(f"{name}-in", key % PARTITIONS), b"k%d" % key, LONG.serialize(1), timestamp_ms)
        producer.close()

    def end(self, topic: str) -> int:
        """Of all partitions together."""
        return sum(self.log.end_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)]).values())

    def running(self, name: str, builder: StreamsBuilder, state: str = "state", **extra: object) -> LocalRun:
        """`extra`: configs with underscores for dots."""
        configs = {
            "application.id": name,
            "bootstrap.servers": self.servers,
            "state.dir": self.directory / state,
            "commit.interval.ms": 50,
            "poll.ms": 20,
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": 10_000,
            **{key.replace("_", "."): value for key, value in extra.items()},
        }
        return LocalRun(Application(builder.build(), configs), coordinator=self.coordinator_url)

    def copying(self, name: str) -> LocalRun:
        builder = StreamsBuilder()
        builder.stream(f"{name}-in", STRING, LONG).to(f"{name}-out", key_serde=STRING, value_serde=LONG)
        return self.running(name, builder)

    def counting(self, name: str, state: str = "state", **extra: object) -> LocalRun:
        builder = StreamsBuilder()
        windows = TimeWindows(HOUR_MS, grace_ms=HOUR_MS)
        builder.stream(f"{name}-in", STRING, LONG).group_by_key().windowed_by(windows).count(store="counts")
        return self.running(name, builder, state, **extra)

    def notice(self, group_id: str, code: str, count: float) -> Mapping[str, Any]:
        """The notice, when the coordinator has all of it."""
        with CoordinatorClient(self.coordinator_url) as client:

            def notices() -> list[Mapping[str, Any]]:
                described = client.describe(group_id)["notices"]
                return [notice for notice in described if (notice["code"], notice["count"]) == (code, count)]

            return wait_until(notices, lambda: client.describe(group_id))[0]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    servers = f"embedded:{tmp_path_factory.mktemp('log')}"
    settings = {"group.initial.rebalance.delay.ms": 0, "cluster.bootstrap.servers": servers}
    with WarmCoordinator(tmp_path_factory.mktemp("coordinator"), settings) as process:
        made = Place(servers, process.url)
        yield made
        made.log.close()


@pytest.fixture
def place(shared: Place, tmp_path: Path) -> Place:
    shared.directory = tmp_path
    return shared


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

    wait_until(lambda: processed() == records, processed)


def test_should_process_records_that_are_thirteen_months_old(place: Place) -> None:
    place.topics("old-in", "old-out")
    place.write("old-in", RECORDS)
    for _ in range(3):
        place.log.maintain()  # as every instance does
    with place.copying("old") as run:
        run.wait_until_caught_up()
        assert run.instances[0].notices.newest() == ()
    assert place.end("old-out") == RECORDS


def test_should_tell_how_much_of_a_windowed_sum_was_late_after_a_repartition(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that reads its partition to the end before the other begins makes the other's records late."""
    builder = StreamsBuilder()
    (
        builder.stream("late-in", STRING, LONG)
        .group_by(lambda key, _value: key, key_serde=STRING, value_serde=LONG)
        .windowed_by(TimeWindows(60_000, grace_ms=60_000))
        .reduce(lambda one, other: one + other, store="sums")
    )
    place.topics("late-in")
    place.write("late-in", RECORDS, spread_ms=HOUR_MS)
    place.write("late-in", RECORDS, spread_ms=HOUR_MS)  # the same hour again, behind the first one
    with place.running("late", builder) as run:
        run.wait_until_caught_up()
        counted = metric(run, "streams_dropped_records_total")
        assert counted.keys() == {"late"}
        assert RECORDS * 0.9 <= counted["late"] < 2 * RECORDS
        shown = httpx.get(f"{run.endpoints[0]}/metrics", trust_env=False).text
        assert 'reason="late"' in shown
        status = httpx.get(f"{run.endpoints[0]}/status", trust_env=False).json()
        assert sum(thread["dropped"] for thread in status["threads"]) == counted["late"]
        notice = place.notice("late", "RECORDS_DROPPED", counted["late"])
    assert notice["text"].startswith("late for a closed window, KSTREAM-REDUCE-")
    assert "after the window and its grace of 0:01:00)" in notice["text"]
    assert f"late has ended; RECORDS_DROPPED {notice['count']:,} in all: late for" in caplog.text


def test_should_tell_what_was_deleted_before_the_group_read_it(place: Place) -> None:
    place.topics("gone-in", **{"retention.ms": "604800000"})
    place.topics("gone-out")
    place.write("gone-in", 100)
    place.log.maintain()
    with place.copying("gone") as run:
        notice = place.notice("gone", "RECORDS_PASSED_OVER", 100)
        assert metric(run, "streams_passed_over_records_total") == {"gone-in": 100}
    assert "gone-in-0: 50 records were deleted before this group read any; it begins at offset 50" in notice["text"]


def test_should_tell_what_was_deleted_while_the_group_was_away(place: Place) -> None:
    place.topics("away-in", "away-out")
    place.write("away-in", 10)
    with place.copying("away") as run:
        run.wait_until_caught_up()
    place.write("away-in", 100)
    place.log.delete_records({TopicPartition("away-in", 0): 40})
    with place.copying("away") as run:
        run.wait_until_caught_up()
        notice = place.notice("away", "RECORDS_PASSED_OVER", 35)
        assert metric(run, "streams_passed_over_records_total") == {"away-in": 35}
    assert notice["text"] == (
        "away-in-0: 35 records were deleted before this group read them: the log starts at 40, the group was at 5"
    )
    assert place.end("away-out") == 10 + 100 - 35


def test_should_count_on_in_windows_of_a_backlog_after_their_state_is_lost(place: Place) -> None:
    """The grace is longer the second time, so the store needs its changelog for longer than the topic was made for."""
    place.topics("backlog-in", "backlog-out")
    serde = TimeWindowedSerde(STRING, HOUR_MS)
    for state, grace_ms in (("before", HOUR_MS), ("after", 30 * 24 * HOUR_MS)):
        builder = StreamsBuilder()
        windowed = (
            builder.stream("backlog-in", STRING, LONG)
            .group_by_key()
            .windowed_by(TimeWindows(HOUR_MS, grace_ms=grace_ms))
        )
        windowed.count(store="counts").to_stream().to("backlog-out", key_serde=serde, value_serde=LONG)
        place.write_windows("backlog")
        with place.running("backlog", builder, state) as run:
            run.wait_until_caught_up()
            assert run.instances[0].notices.newest() == ()
        place.log.maintain()
    assert place.log.topics()["backlog-counts-changelog"].configs["retention.ms"] == str(2 * (HOUR_MS + grace_ms))
    written = read_topic(place.servers, "backlog-out", serde, LONG)
    counts = {one.key.key: one.value for one in written if one.key is not None}
    assert counts == {f"k{key}": 2 for key in range(8)}


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("cut", {}),
        ("cut-late", {"commit_interval_ms": 600_000}),  # the only commit is that of the close
        ("cut-once", {"processing_guarantee": "exactly_once_v2"}),
        ("cut-uncached", {"statestore_cache_max_bytes": 0}),
    ],
)
def test_should_tell_how_many_windows_a_restore_lacks(place: Place, name: str, extra: Mapping[str, object]) -> None:
    place.topics(f"{name}-in")
    place.write_windows(name)
    with place.counting(name, "before", **extra) as run:
        wait_until_processed(run, 8)
    changelog = [TopicPartition(f"{name}-counts-changelog", number) for number in range(PARTITIONS)]
    assert place.log.end_offsets(changelog) == dict.fromkeys(changelog, 4)
    place.log.delete_records({changelog[0]: 4, changelog[1]: 1})
    place.write_windows(name)
    with place.counting(name, "after") as run:
        wait_until_processed(run, 8)
        notice = place.notice(name, "WINDOWS_MISSING", 5)
        assert metric(run, "streams_missing_windows_total") == {"counts": 5}
    assert notice["text"].startswith(
        f"{name}-counts-changelog-0: 4 windows at most are missing in store counts: its changelog starts at offset 4, "
        f"and was needed from 0 on; {name}-counts-changelog-1: 1 windows at most"
    )
    with place.counting(name, "again") as run:
        run.instances[0].wait_until_running(30)
        assert metric(run, "streams_missing_windows_total") == {}, "what is there now is all that is needed"


def test_should_miss_no_window_that_had_expired(place: Place) -> None:
    place.topics("months-in")
    for month in range(3):
        place.write_windows("months", THIRTEEN_MONTHS_AGO_MS + month * 30 * 24 * HOUR_MS)
    with place.counting("months", "before") as run:
        run.wait_until_caught_up()
    changelog = [TopicPartition("months-counts-changelog", number) for number in range(PARTITIONS)]
    place.log.maintain()
    place.log.delete_records(dict.fromkeys(changelog, 8))  # the first two months, which are older batches
    with place.counting("months", "after") as run:
        run.wait_until_caught_up()
        assert run.instances[0].notices.newest() == ()


def test_should_tell_of_windows_that_the_log_may_delete_by_its_clock(place: Place) -> None:
    """With cleanup.policy=delete the embedded log deletes as a broker does."""
    place.topics("risk-in")
    place.write_windows("risk")
    with place.counting("risk", topic_cleanup_policy="delete") as run:
        run.wait_until_caught_up()
        notice = place.notice("risk", "WINDOWS_AT_RISK", 8)
        assert metric(run, "streams_windows_at_risk") == {"counts": 8}
    assert notice["text"].startswith("store counts: 8 windows at most, as stream time is 396 days, ")
    assert f"set retention.ms={397 * 24 * HOUR_MS + 2 * HOUR_MS} (now {26 * HOUR_MS})" in notice["text"]
