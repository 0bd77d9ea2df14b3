"""Timestamps from 0 to 2^63-1 work everywhere, and one in another unit than milliseconds is told by name."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
from streams_runtime import (
    LONG,
    STRING,
    Application,
    LocalRun,
    NewTopic,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordProducer,
    StreamsBuilder,
    TimeWindowedSerde,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
    open_log,
    read_topic,
)
from streams_runtime.common.clock import duration_text
from streams_runtime.common.losses import TaskLosses
from streams_runtime.common.notices import NoticeBoard, NoticeCode
from tests.streams_runtime.asked import AskedHandler
from tests.streams_runtime.manual_clock import ManualClock
from tests.warm_coordinator import WarmCoordinator

NOW_MS = 1_795_000_000_000
NANOSECONDS = NOW_MS * 1_000_000
SIZE_MS = 60_000
HUGE = (0, SIZE_MS, NOW_MS, NOW_MS * 1_000, NANOSECONDS, JAVA_LONG_MAX - SIZE_MS, JAVA_LONG_MAX - 10, JAVA_LONG_MAX)
WINDOWED = TimeWindowedSerde(STRING, SIZE_MS)


def windowed_counts(windows: TimeWindows) -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream("in", STRING, STRING).group_by_key().windowed_by(windows).count(store="w")
    counts.to_stream().to("out", key_serde=WINDOWED, value_serde=LONG)
    return builder.build()


def window_of(timestamp_ms: int) -> Windowed[str]:
    start_ms = timestamp_ms // SIZE_MS * SIZE_MS
    return Windowed("k", start_ms, min(start_ms + SIZE_MS, JAVA_LONG_MAX))


@pytest.mark.parametrize("cache_bytes", [0, 10_000_000])
@pytest.mark.parametrize("header", [False, True], ids=["in the loop", "one by one"])
def test_should_count_windows_of_every_timestamp(cache_bytes: int, header: bool) -> None:
    headers = (("h", b"1"),) if header else ()
    topology = windowed_counts(TimeWindows(SIZE_MS, grace_ms=JAVA_LONG_MAX))
    with TopologyTestDriver(topology, {"statestore.cache.max.bytes": cache_bytes}) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        for timestamp_ms in HUGE:
            topic.pipe_input("k", "v", timestamp_ms, headers)
        out = driver.create_output_topic("out", WINDOWED, LONG).read_all()
        stored = list(driver.get_window_store("w").fetch_all(0, JAVA_LONG_MAX))

    assert [record.timestamp_ms for record in out] == list(HUGE)
    assert {record.key for record in out} == set(map(window_of, HUGE))
    assert {window for window, _ in stored} == set(map(window_of, HUGE))


@pytest.mark.parametrize("header", [False, True], ids=["in the loop", "one by one"])
def test_should_drop_what_is_late_after_a_timestamp_of_any_size(header: bool, caplog: pytest.LogCaptureFixture) -> None:
    headers = (("h", b"1"),) if header else ()
    for far_ms in (NANOSECONDS, JAVA_LONG_MAX):
        with TopologyTestDriver(windowed_counts(TimeWindows(SIZE_MS, 1_000, grace_ms=1_000))) as driver:
            topic = driver.create_input_topic("in", STRING, STRING)
            for timestamp_ms in (NOW_MS, far_ms, NOW_MS + 1_000):
                topic.pipe_input("k", "v", timestamp_ms, headers)
            assert driver.dropped_records() == {"late": SIZE_MS // 1_000}
    assert "its timestamp is 1795000001000 and windows that end by" in caplog.text


class Ticking(Processor[str, str]):
    """Hands on the times of its punctuations."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        context.schedule(1, PunctuationType.STREAM_TIME, self.tick)

    def tick(self, time_ms: int) -> None:
        self.context.forward(Record("tick", "t", time_ms))

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_should_punctuate_and_join_at_every_timestamp() -> None:
    topology = Topology().add_source("s", "in", key_serde=STRING, value_serde=STRING)
    topology.add_processor("p", Ticking, "s").add_sink("k", "out", "p", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        out = driver.create_output_topic("out", STRING, STRING)
        for timestamp_ms in HUGE:
            topic.pipe_input("k", "v", timestamp_ms)
            assert [record.timestamp_ms for record in out.read_all()] == [timestamp_ms] * 2


@pytest.fixture
def coordinator_url(tmp_path: Path) -> Iterator[str]:
    settings = {"group.initial.rebalance.delay.ms": 0, "cluster.bootstrap.servers": f"embedded:{tmp_path}/log"}
    with WarmCoordinator(tmp_path / "coordinator", settings) as process:
        yield process.url


def test_should_restore_and_go_on_with_every_timestamp(tmp_path: Path, coordinator_url: str) -> None:
    servers = f"embedded:{tmp_path}/log"
    log = open_log(servers)
    log.create_topics([NewTopic("in", 1), NewTopic("out", 1)])
    partition = TopicPartition("in", 0)

    def counted(state: str) -> dict[Windowed[str], int]:
        with RecordProducer(log, STRING, STRING) as producer:
            for timestamp_ms in HUGE:
                producer.send("in", "k", "v", timestamp_ms=timestamp_ms)
        configs = {
            "application.id": "huge",
            "bootstrap.servers": servers,
            "state.dir": tmp_path / state,
            "commit.interval.ms": 20,
            "poll.ms": 20,
            "heartbeat.interval.ms": 50,
        }
        topology = windowed_counts(TimeWindows(SIZE_MS, grace_ms=JAVA_LONG_MAX - SIZE_MS))
        with LocalRun(Application(topology, configs), coordinator=coordinator_url) as run:
            run.wait_until_caught_up(30)
        for _ in range(3):
            log.maintain()
        read = read_topic(log, "out", WINDOWED, LONG)
        return {record.key: record.value for record in read if record.key and record.value}

    once = counted("first")
    twice = counted("second")  # nothing is in this directory, so the changelog is all that it has

    assert once.keys() == set(map(window_of, HUGE))
    assert twice == {window: 2 * count for window, count in once.items()}
    assert log.offsets_for_time([partition], JAVA_LONG_MAX) == {partition: len(HUGE) - 1}
    log.close()


@given(st.integers(0, 999_999_999) | st.integers(0, JAVA_LONG_MAX // 1_000 // 86_400 // 200))
def test_should_say_durations_as_timedelta_does(seconds: int) -> None:
    assert duration_text(seconds * 1_000) == str(timedelta(seconds=seconds))


def test_should_say_durations_that_timedelta_has_not() -> None:
    assert duration_text(JAVA_LONG_MAX) == "106751991167 days, 7:12:55.807"
    assert duration_text(1_500) == "0:00:01.500"


# --- another unit


@pytest.mark.parametrize(
    ("timestamp_ms", "unit"),
    [
        (NOW_MS // 1_000, "seconds"),
        (NOW_MS * 1_000, "microseconds"),
        (NOW_MS * 1_000_000, "nanoseconds"),
        (0, None),
        (60_000, None),
        (NOW_MS, None),
        (JAVA_LONG_MAX, None),
    ],
)
@pytest.mark.parametrize("extracted", [False, True])
def test_should_tell_once_that_timestamps_look_like_another_unit(
    timestamp_ms: int, unit: str | None, extracted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    builder = StreamsBuilder()
    extractor = (lambda record, _: int(record.value)) if extracted else None
    builder.stream("in", STRING, STRING, timestamp_extractor=extractor).to("out", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        for each in (NOW_MS, timestamp_ms, timestamp_ms, NOW_MS):
            topic.pipe_input("k", str(each), NOW_MS if extracted else each)

    told = [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING]
    expected = (
        f"task 0_0: in-0: offset 1 has the timestamp {timestamp_ms}, which looks like {unit}: timestamps are in "
        "milliseconds since the epoch, and later records may count as late"
    )
    assert told == ([] if unit is None else [expected])


def test_should_tell_the_group_of_another_unit() -> None:
    notices = NoticeBoard(ManualClock())
    losses = TaskLosses(TaskId(0, 0), None, notices)
    for offset in (7, 8):
        losses.suspect_timestamp(TopicPartition("in", 0), offset, NOW_MS // 1_000, "seconds")
    losses.suspect_timestamp(TopicPartition("in", 0), 9, NANOSECONDS, "nanoseconds")

    (notice,) = notices.newest()
    assert (notice.code, notice.count) == (NoticeCode.TIMESTAMP_UNIT, 2)
    assert notice.text.startswith(f"in-0: 2 offset 9 has the timestamp {NANOSECONDS}, which looks like nanoseconds")
    assert losses.dropped_records == 0


@pytest.mark.parametrize("wrong", [NOW_MS * 1.0, "1795000000000", None, True, JAVA_LONG_MAX + 1, [1]])
def test_should_ask_about_a_record_of_which_the_extractor_gives_no_timestamp(wrong: Any) -> None:
    asked = AskedHandler()
    builder = StreamsBuilder()
    stream = builder.stream(
        "in", STRING, STRING, timestamp_extractor=lambda record, _: wrong if record.value == "bad" else 5
    )
    stream.to("out", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(builder.build(), deserialization_exception_handler=asked) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        for value in ("good", "bad", "good"):
            topic.pipe_input("k", value)
        assert len(driver.create_output_topic("out", STRING, STRING).read_all()) == 2
    assert [failed.metadata.offset for failed in asked.about] == [1]
    assert str(asked.about[0].error).startswith("the timestamp extractor's result: the record has ")
