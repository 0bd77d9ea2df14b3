"""What a topic's brokers check of a record, as `send` knows it before they do."""

import pytest

from assignor.types import JAVA_LONG_MAX, TopicPartition
from streams_runtime.logs.log_errors import InvalidRecord, InvalidTimestamp
from streams_runtime.logs.record_limits import NO_TIMESTAMP_CHECKS, BrokerChecks, RecordLimits
from streams_runtime.logs.topic_configs import TopicConfigs
from tests.streams_runtime.manual_clock import ManualClock

NOW_MS, HOUR_MS, DAY_MS = 1_795_000_000_000, 3_600_000, 86_400_000
T0 = TopicPartition("topic", 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


def test_should_take_what_is_as_far_from_the_clock_as_the_topic_says(clock: ManualClock) -> None:
    checks = BrokerChecks(HOUR_MS, DAY_MS, clock)
    for timestamp_ms in (NOW_MS - DAY_MS, NOW_MS, NOW_MS + HOUR_MS):
        checks.check_timestamp(timestamp_ms)
    with pytest.raises(
        ValueError, match=r"has the timestamp 1795003600001, 1:00:00\.001 ahead of the clock; its topic"
    ):
        checks.check_timestamp(NOW_MS + HOUR_MS + 1)
    with pytest.raises(ValueError, match=r"1 day, 0:00:00\.001 behind the clock; its topic takes 1 day, 0:00:00 \("):
        checks.check_timestamp(NOW_MS - DAY_MS - 1)
    clock.advance(1)
    checks.check_timestamp(NOW_MS + HOUR_MS + 1)


def test_should_take_everything_without_a_limit(clock: ManualClock) -> None:
    checks = BrokerChecks(clock=clock)
    for timestamp_ms in (0, JAVA_LONG_MAX):
        assert timestamp_ms <= checks.accepted_to_ms
        checks.check_timestamp(timestamp_ms)


def test_should_let_rows_pass_that_are_certainly_not_too_late(clock: ManualClock) -> None:
    checks = BrokerChecks(HOUR_MS, clock=clock)
    assert checks.accepted_to_ms == NOW_MS + HOUR_MS
    clock.advance(10)
    checks.check_timestamp(NOW_MS + HOUR_MS + 5)
    assert checks.accepted_to_ms == NOW_MS + HOUR_MS + 10
    assert BrokerChecks(HOUR_MS, DAY_MS, clock).accepted_to_ms == -1  # time alone makes a record too early


def test_should_recognise_a_record_that_the_brokers_have_refused_once(clock: ManualClock) -> None:
    limits = RecordLimits(100, compacts=False, checks=BrokerChecks(clock=clock))
    limits.checks.was_refused((b"k", b"v", 5, ()), "they say so", for_its_timestamp=False)
    assert not limits.takes_unchecked(b"k", b"v", 5)
    limits.checked(T0, b"k", b"other", 5, ())
    with pytest.raises(InvalidRecord, match="record for topic-0 was refused by the brokers: they say so"):
        limits.checked(T0, b"k", b"v", 5, ())
    limits.checked(T0, b"k", b"v", 5, ())  # the answer was given; should the brokers refuse it again, they will say so


def test_should_learn_that_the_brokers_clock_is_behind(clock: ManualClock) -> None:
    checks = BrokerChecks(HOUR_MS, clock=clock)
    limits = RecordLimits(100, compacts=False, checks=checks)
    ahead_ms = NOW_MS + HOUR_MS - 30_000  # of a clock that is half a minute behind, too far
    limits.checked(T0, b"k", b"v", ahead_ms, ())
    checks.was_refused((b"k", b"v", ahead_ms, ()), "its timestamp", for_its_timestamp=True)
    with pytest.raises(InvalidTimestamp, match="0:59:30 ahead of the clock; the brokers have refused a record"):
        limits.checked(T0, b"k", b"another", ahead_ms, ())
    limits.checked(T0, b"k", b"another", ahead_ms - 1_001, ())
    checks.configure(2 * HOUR_MS, JAVA_LONG_MAX)
    limits.checked(T0, b"k", b"another", ahead_ms, ())


def test_should_check_no_timestamp_of_a_topic_that_takes_the_broker_s() -> None:
    given = {"message.timestamp.after.max.ms": "5", "message.timestamp.before.max.ms": "5"}
    assert TopicConfigs.of("t", given).record_limits.checks is not NO_TIMESTAMP_CHECKS
    assert (
        TopicConfigs.of("t", {**given, "message.timestamp.type": "LogAppendTime"}).record_limits.checks
        is NO_TIMESTAMP_CHECKS
    )
    assert TopicConfigs.of("t", {}).record_limits.checks is NO_TIMESTAMP_CHECKS


def test_should_not_take_a_negative_timestamp() -> None:
    limits = RecordLimits(100, compacts=False)
    assert limits.takes_unchecked(b"k", b"v", 0)
    assert not limits.takes_unchecked(b"k", b"v", -1)
    with pytest.raises(InvalidRecord, match="record for topic-0 has the timestamp -1; it must not be negative"):
        limits.checked(T0, b"k", b"v", -1, ())
