"""Counts, reports and logs the losses of a task: dropped records, records deleted before they were read, lost windows.

Rules: each dropped record is counted once, under the reason for its drop. For each reason and place, the first ten
records are logged as warnings. Further records are logged at level debug. The metric and the notice count all records.
Source: `TaskMetrics.droppedRecordsSensor` (`dropped-records-total`), which has no reasons. Kafka does not count the
records that were deleted before the group read them. Kafka does not count the records that are filtered out before a
repartition topic, either.
"""

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from assignor.configs import WINDOW_STORE_ADDITIONAL_RETENTION_MS
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import duration_text
from streams_runtime.common.metrics import TaskMetrics
from streams_runtime.common.notices import NoticeBoard, NoticeCode

WARNINGS = 10
"""The number of records that are logged as warnings, for each reason and place. Further records are logged at level
debug.
"""

ALREADY_A_NOTICE = {"already_a_notice": True}
"""The `extra` of a log line that repeats a notice. `LoggedNotices` makes no second notice of a line with this
`extra`.
"""

_logger = logging.getLogger(__name__)


class DropReason(StrEnum):
    """The reasons why a record is dropped. The values are the labels of the metric."""

    LATE = "late"
    """The record's window was closed already, because the grace period or the retention of a window store is over.
    """

    NULL_KEY = "null-key"
    NULL_KEY_BEFORE_REPARTITION = "null-key-before-repartition"
    """Kafka filters out a record without a key before a repartition topic, and does not count the record. In this
    project, records without a key before a repartition topic have their own metric. With this separate metric, such
    losses are visible, and the value of `dropped-records-total` still equals Kafka's.
    """

    NULL_KEY_OR_VALUE = "null-key-or-value"
    NEGATIVE_TIMESTAMP = "negative-timestamp"
    DESERIALIZATION_ERROR = "deserialization-error"
    PROCESSING_ERROR = "processing-error"
    DEAD_LETTER = "dead-letter"


_REASON_TEXTS = {
    DropReason.LATE: "late for a closed window",
    DropReason.NULL_KEY: "null key",
    DropReason.NULL_KEY_BEFORE_REPARTITION: "null key before a repartition topic",
    DropReason.NULL_KEY_OR_VALUE: "null key or value",
    DropReason.NEGATIVE_TIMESTAMP: "negative timestamp",
    DropReason.DESERIALIZATION_ERROR: "cannot be read",
    DropReason.PROCESSING_ERROR: "failed in a processor",
    DropReason.DEAD_LETTER: "sent to the dead-letter topic",
}


_DAY_MS = 86_400_000


class WindowsAtRisk(NamedTuple):
    """The windows at risk of one window store: the log may delete these windows from the store's changelog before they
    expire in the store.

    `topic`: the changelog. `windows`: the greatest possible number of windows at risk. `behind_ms`: the difference
    between the clock and stream time. `kept_ms`: `retention.ms` of the topic. `retention_ms`: the store's retention.
    """

    store: str
    topic: str
    windows: int
    behind_ms: int
    kept_ms: int
    retention_ms: int

    @property
    def needed_ms(self) -> int:
        """The additional retention, in milliseconds, with which the log keeps all windows of the store. The value is a
        multiple of a day.
        """
        return (self.behind_ms // _DAY_MS + 1) * _DAY_MS

    def text(self) -> str:
        behind = duration_text(max(0, self.behind_ms) // 1_000 * 1_000)
        enough_ms = self.retention_ms + self.needed_ms
        return (
            f"windows at most, as stream time is {behind} behind the clock: set retention.ms={enough_ms} "
            f"(now {self.kept_ms}), and {WINDOW_STORE_ADDITIONAL_RETENTION_MS}={self.needed_ms} for topics still to be "
            f"made, or the log deletes them from {self.topic}"
        )


class TaskLosses:
    """The losses of one task. Only the task's thread calls this object. `dropped_records`: the number of dropped
    records so far, for all reasons.
    """

    __slots__ = ("_at_risk", "_by_place", "_metrics", "_notices", "_suspected", "_task", "dropped_records")

    def __init__(self, task: TaskId, metrics: TaskMetrics | None, notices: NoticeBoard | None) -> None:
        """`metrics`: counts the losses. `notices`: reports the losses. `metrics` and `notices` are None if a test runs
        the task without an instance.
        """
        self.dropped_records = 0
        self._task = task
        self._metrics = metrics
        self._notices = notices
        self._by_place: dict[tuple[DropReason, str], int] = {}
        self._at_risk: dict[str, WindowsAtRisk] = {}
        self._suspected: set[tuple[str, str]] = set()

    def dropped(self, reason: DropReason, place: str, detail: str = "") -> bool:
        """Counts one dropped record. Returns True if the record has to be logged as a warning.

        `place`: a node or a topic. `detail`: the new detail of the notice for this reason and place.
        """
        self.dropped_records += 1
        seen = self._by_place[reason, place] = self._by_place.get((reason, place), 0) + 1
        if self._metrics is not None:
            if reason is DropReason.NULL_KEY_BEFORE_REPARTITION:
                self._metrics.null_key_filtered()
            else:
                self._metrics.dropped(reason)
        code = NoticeCode.RECORDS_DEAD_LETTERED if reason is DropReason.DEAD_LETTER else NoticeCode.RECORDS_DROPPED
        self._add_notice(code, f"{_REASON_TEXTS[reason]}, {place}", 1, detail)
        if seen == WARNINGS + 1:
            _logger.warning(
                "task %s: more records are dropped (%s, %s); they are counted, and logged at level debug only",
                self._task,
                _REASON_TEXTS[reason],
                place,
                extra=ALREADY_A_NOTICE,
            )
        return seen <= WARNINGS

    def by_reason(self) -> dict[DropReason, int]:
        """Returns the number of dropped records so far, for each reason."""
        counts: dict[DropReason, int] = {}
        for (reason, _), count in self._by_place.items():
            counts[reason] = counts.get(reason, 0) + count
        return counts

    def log_level(self, reason: DropReason, place: str, detail: str = "") -> int:
        """Calls `dropped`, and returns the level at which the record has to be logged."""
        return logging.WARNING if self.dropped(reason, place, detail) else logging.DEBUG

    def suspect_timestamp(self, partition: TopicPartition, offset: int, timestamp_ms: int, unit: str) -> None:
        """Reports an input timestamp that is probably not in milliseconds, once for each topic and unit."""
        if (partition.topic, unit) in self._suspected:
            return
        self._suspected.add((partition.topic, unit))
        what = (
            f"offset {offset} has the timestamp {timestamp_ms}, which looks like {unit}: timestamps are in "
            "milliseconds since the epoch, and later records may count as late"
        )
        self._warn(partition, what)
        self._add_notice(NoticeCode.TIMESTAMP_UNIT, _name(partition), 1, what)

    def expired(self, store: str) -> None:
        """Counts and logs an update for a window that the store has already expired."""
        level = self.log_level(DropReason.LATE, store)
        _logger.log(level, "task %s: store %s skips an expired window", self._task, store, extra=ALREADY_A_NOTICE)

    def deleted_unread(self, partition: TopicPartition, begin: int) -> None:
        """Reports that the log deleted the first records of a partition before the group read any record of the
        partition.
        """
        self._passed_over(partition, begin, f"were deleted before this group read any; it begins at offset {begin}")

    def passed_over(self, partition: TopicPartition, position: int, begin: int, resumed_at: int) -> None:
        """Reports records that the log deleted before the group read them. `begin`, the first offset of the log, is
        above the group's position.
        """
        where = f"the log starts at {begin}, the group was at {position}"
        more = "" if resumed_at == begin else f" and goes on at {resumed_at}, by auto.offset.reset"
        self._passed_over(partition, begin - position, f"were deleted before this group read them: {where}{more}")

    def beyond_end(self, partition: TopicPartition, position: int, end: int, resumed_at: int) -> None:
        """Reports a position beyond the end of the log."""
        what = (
            f"position beyond the log's end: the group was at offset {position}, and the log ends at {end}, as the "
            f"topic was made again or has lost records; the group goes on at {resumed_at}"
        )
        self._warn(partition, what)
        self._add_notice(NoticeCode.POSITION_BEYOND_END, _name(partition), 1, what)

    def windows_missing(self, store: str, changelog: TopicPartition, needed_from: int, begin: int) -> None:
        """Reports windows that a restore could not find, because the changelog begins at `begin` and was needed from
        `needed_from` on. Each deleted record was a change of one window, and a window may have had several changes. So
        the reported number of missing windows is an upper bound.
        """
        windows = begin - needed_from
        what = (
            f"windows at most are missing in store {store}: its changelog starts at offset {begin}, and was needed "
            f"from {needed_from} on"
        )
        self._warn(changelog, f"{windows:,} {what}")
        if self._metrics is not None:
            self._metrics.windows_missing(store, windows)
        self._add_notice(NoticeCode.WINDOWS_MISSING, _name(changelog), windows, what)

    def windows_at_risk(self, risk: WindowsAtRisk) -> None:
        """Reports windows that a store still has, but that the log may delete from the store's changelog. The log
        compares the timestamps of records with the clock, and the store compares them with stream time. Reports a store
        again only if its windows at risk have at least doubled, or if the store needs a longer retention.
        """
        reported = self._at_risk.get(risk.store)
        is_worse = reported is None or risk.windows >= 2 * reported.windows or risk.needed_ms > reported.needed_ms
        if not is_worse:
            return
        self._at_risk[risk.store] = risk
        if reported is None:
            what = f"{risk.windows:,} {risk.text()}"
            _logger.warning("task %s: store %s: %s", self._task, risk.store, what, extra=ALREADY_A_NOTICE)
        new = risk.windows - (0 if reported is None else reported.windows)
        self._add_notice(NoticeCode.WINDOWS_AT_RISK, f"store {risk.store}", max(0, new), risk.text())

    def _passed_over(self, partition: TopicPartition, records: int, what: str) -> None:
        self._warn(partition, f"{records:,} records {what}")
        if self._metrics is not None:
            self._metrics.passed_over(partition.topic, records)
        self._add_notice(NoticeCode.RECORDS_PASSED_OVER, _name(partition), records, f"records {what}")

    def _warn(self, partition: TopicPartition, what: str) -> None:
        _logger.warning("task %s: %s: %s", self._task, _name(partition), what, extra=ALREADY_A_NOTICE)

    def _add_notice(self, code: NoticeCode, about: str, count: int, detail: str) -> None:
        if self._notices is not None:
            self._notices.add(code, about, count, detail)


LossesOf = Callable[[TaskId], TaskLosses]
"""Makes the `TaskLosses` of a task."""


def uncounted(task: TaskId) -> TaskLosses:
    """Returns a `TaskLosses` for a task without an instance. Losses are logged, but they appear in no metric and no
    notice.
    """
    return TaskLosses(task, None, None)


class _CountedBefore(TaskLosses):
    """Counts no dropped record, and lets each record be logged at level debug."""

    __slots__ = ()

    def dropped(self, reason: DropReason, place: str, detail: str = "") -> bool:
        return False


def counted_before(task: TaskId) -> TaskLosses:
    """Returns a `TaskLosses` that does not count records, for records that were counted before and are now read
    again.
    """
    return _CountedBefore(task, None, None)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
