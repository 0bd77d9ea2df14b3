"""Schedules punctuations, and finds the schedules that are due.

Rules: the intervals of a STREAM_TIME schedule begin at stream time 0. So a STREAM_TIME schedule fires after the first
record, and then once in every interval. A WALL_CLOCK_TIME schedule first fires after one interval. If several intervals
have passed since the last check, a schedule fires only once. For example, a schedule with the interval 5 is due at 5,
but the queue is checked only at 21. In this example the schedule fires once, with the time 21, and is next due at 25. A
schedule with a start time is due only at start + n * interval (KIP-1146). If this start time is in the past, the times
start + n * interval up to the present time are skipped. If a callback cancels its own schedule, the schedule does not
fire again. Schedules that are due at the same time fire in the order that Java's `PriorityQueue` would give them.
Source: `PunctuationQueue`, `PunctuationSchedule`, `StreamTask.schedule`.

Differs from Kafka: if a punctuation raises an error, it stays due. So the punctuation is not lost when the thread tries
again after a time-out.
"""

from collections.abc import Callable
from operator import attrgetter

from assignor.java.priority_queue import JavaPriorityQueue
from assignor.types import JAVA_LONG_MAX
from streams_runtime.processors.api import PunctuationType, Punctuator


class PunctuationSchedule:
    """A schedule of punctuations, which the user can cancel. `time_ms`: the next time at which the schedule is due."""

    __slots__ = ("callback", "cancelled", "interval_ms", "node", "time_ms")

    def __init__(self, node: str, time_ms: int, interval_ms: int, callback: Punctuator) -> None:
        self.node = node
        self.time_ms = time_ms
        self.interval_ms = interval_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def advance(self, now_ms: int) -> None:
        """Move `time_ms` by one or more intervals, to a time after `now_ms`."""
        missed = max(0, now_ms - self.time_ms) // self.interval_ms
        self.time_ms += (missed + 1) * self.interval_ms


class PunctuationQueue:
    """All punctuation schedules of one type in one task. As in Kafka, a cancelled schedule is removed from the queue
    only when it would be due. `due_ms`: no schedule is due before this time.
    """

    def __init__(self) -> None:
        self._schedules: JavaPriorityQueue[PunctuationSchedule] = JavaPriorityQueue(attrgetter("time_ms"))
        self.due_ms = JAVA_LONG_MAX

    def add(self, schedule: PunctuationSchedule) -> None:
        self._schedules.offer(schedule)
        self.due_ms = min(self.due_ms, schedule.time_ms)

    def maybe_punctuate(self, now_ms: int, punctuate: Callable[[PunctuationSchedule], None]) -> bool:
        """Call `punctuate` with each schedule that is due. Returns True if `punctuate` was called."""
        schedules = self._schedules
        punctuated = False
        while (schedule := schedules.peek()) is not None and schedule.time_ms <= now_ms:
            schedules.poll()
            if schedule.cancelled:
                continue
            try:
                punctuate(schedule)
            except BaseException:
                schedules.offer(schedule)
                raise
            punctuated = True
            if not schedule.cancelled:
                schedule.advance(now_ms)
                schedules.offer(schedule)
        earliest = schedules.peek()
        self.due_ms = JAVA_LONG_MAX if earliest is None else earliest.time_ms
        return punctuated

    def next_time_ms(self) -> int | None:
        """Returns the earliest time at which a schedule is due, or None if there is no schedule. Ignores cancelled
        schedules.
        """
        return min((schedule.time_ms for schedule in self._schedules if not schedule.cancelled), default=None)

    def clear(self) -> None:
        self._schedules.clear()
        self.due_ms = JAVA_LONG_MAX


def first_schedule(
    node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, *, start_time_ms: int | None, now_ms: int
) -> PunctuationSchedule:
    """Makes a new schedule, and computes the time at which the schedule first fires. `now_ms`: the present stream time
    if the type is STREAM_TIME, or the present wall-clock time if the type is WALL_CLOCK_TIME.
    """
    if start_time_ms is None:
        first_ms = 0 if type is PunctuationType.STREAM_TIME else now_ms + interval_ms
        return PunctuationSchedule(node, first_ms, interval_ms, callback)
    schedule = PunctuationSchedule(node, start_time_ms, interval_ms, callback)
    if start_time_ms < now_ms:
        schedule.advance(now_ms)
    return schedule
