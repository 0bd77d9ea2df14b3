"""When punctuations fire. Cases with numbers are Kafka's own (`PunctuationQueueTest`, `StreamTaskTest`)."""

import pytest

from streams_runtime.processors.api import PunctuationType
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, PunctuationSchedule, first_schedule


def test_should_tell_when_the_next_one_is_due_that_is_not_cancelled() -> None:
    queue, first = PunctuationQueue(), PunctuationSchedule("node", 10, 100, print)
    queue.add(first)
    queue.add(PunctuationSchedule("node", 30, 100, print))
    assert queue.next_time_ms() == 10
    first.cancel()
    assert queue.next_time_ms() == 30
    queue.clear()
    assert queue.next_time_ms() is None


@pytest.mark.parametrize(
    ("type", "start_time_ms", "now_ms", "first_ms"),
    [
        (PunctuationType.STREAM_TIME, None, -1, 0),
        (PunctuationType.STREAM_TIME, None, 5_000, 0),
        (PunctuationType.WALL_CLOCK_TIME, None, 5_000, 5_100),
        (PunctuationType.STREAM_TIME, 7, -1, 7),
        (PunctuationType.STREAM_TIME, 7, 7, 7),
        (PunctuationType.STREAM_TIME, 7, 8, 107),
        (PunctuationType.STREAM_TIME, 7, 107, 207),
        (PunctuationType.STREAM_TIME, 7, 350, 407),
        (PunctuationType.WALL_CLOCK_TIME, 7, 350, 407),
        (PunctuationType.WALL_CLOCK_TIME, 9_000, 350, 9_000),
    ],
)
def test_should_anchor_the_first(type: PunctuationType, start_time_ms: int | None, now_ms: int, first_ms: int) -> None:
    """KIP-1146: start + n * interval only; without a start, stream time counts from 0 and wall-clock time from now."""
    schedule = first_schedule("n", 100, type, print, start_time_ms=start_time_ms, now_ms=now_ms)
    assert (schedule.time_ms, schedule.interval_ms) == (first_ms, 100)
