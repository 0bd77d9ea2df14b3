"""The timestamp extractors that are ready to use."""

import logging
import time

import pytest

from streams_runtime import (
    STRING,
    Record,
    StreamsBuilder,
    StreamsRuntimeError,
    TimestampExtractor,
    TopologyTestDriver,
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
    wallclock_timestamp,
)

INVALID = Record("k", "v", -1)


@pytest.mark.parametrize(
    "extractor",
    [fail_on_invalid_timestamp, log_and_skip_on_invalid_timestamp, use_partition_time_on_invalid_timestamp],
)
def test_should_use_a_valid_timestamp(extractor: TimestampExtractor) -> None:
    assert extractor(Record("k", "v", 7), 9) == 7


def test_should_fail_on_an_invalid_timestamp() -> None:
    with pytest.raises(StreamsRuntimeError, match="invalid timestamp -1"):
        fail_on_invalid_timestamp(INVALID, 9)


def test_should_skip_an_invalid_timestamp(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert log_and_skip_on_invalid_timestamp(INVALID, 9) == -1
    assert caplog.messages == ["a record is dropped, because it has the invalid timestamp -1"]


def test_should_use_partition_time_for_an_invalid_timestamp() -> None:
    assert use_partition_time_on_invalid_timestamp(INVALID, 9) == 9
    with pytest.raises(StreamsRuntimeError, match="its partition has no time yet"):
        use_partition_time_on_invalid_timestamp(INVALID, -1)


def test_should_use_the_clock_of_the_machine() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING, timestamp_extractor=wallclock_timestamp).to("out")
    before_ms = time.time_ns() // 1_000_000
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v", 7)
        (record,) = driver.create_output_topic("out", STRING, STRING).read_all()
    assert before_ms <= record.timestamp_ms <= time.time_ns() // 1_000_000
