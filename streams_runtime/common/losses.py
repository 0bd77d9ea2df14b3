"""Counts, reports and logs the losses of a task: dropped records, lost windows, and records that the log deleted before
the task read them.

Rules: each dropped record is counted once, with one of the reasons in `DropReason`. For each reason and place, the
first ten records are logged as warnings. Further records are logged at level debug. The metric and the notice count all
dropped records.
Source: `TaskMetrics.droppedRecordsSensor` (`dropped-records-total`), which has no reasons. Kafka does not count records
that were deleted before the group read them. Kafka also does not count records that are filtered out before a
repartition topic.
"""

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from assignor.configs import WINDOW_STORE_ADDITIONAL_RETENTION_MS
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import duration_text
from streams_runtime.common.metrics import TaskMetrics
from streams_runtime.common.notices import ALREADY_A_NOTICE, NoticeBoard, NoticeCode

WARNINGS = 10
"""For each reason and place, this number of records is logged as warnings. Further records are logged at level debug.
"""

_logger = logging.getLogger(__name__)


class DropReason(StrEnum):
    """The reasons why a record is dropped. The value of a reason is a label of the metric."""

    LATE = "late"
    """The record came after the grace period of its window, or after the retention of the window store.
    """

    NULL_KEY = "null-key"
    NULL_KEY_BEFORE_REPARTITION = "null-key-before-repartition"
    """A record without a key is filtered out before a repartition topic. Kafka does not count records that are filtered
    out. This project counts filtered records in a separate metric, so that `dropped-records-total` has the same value
    as in Kafka.
    """

    NULL_KEY_OR_VALUE = "null-key-or-value"
    OUT_OF_ORDER = "out-of-order"
    """A versioned table is joined with another table, and has a newer value of the key. Only its newest values are
    joined (KIP-914).
    """

    NULL_FOREIGN_KEY = "null-foreign-key"
    OUTDATED_RESPONSE = "outdated-response"
    """A response of a foreign-key join for an older value of a row. The newer value gets a response of its own, so the
    response is counted, as in Kafka, but appears in no notice and no warning. In an inner join, the newer value gets
    none if it has no row in the other table; the join then keeps a row that a dropped deletion should have deleted.
    """

    NEGATIVE_TIMESTAMP = "negative-timestamp"
    DESERIALIZATION_ERROR = "deserialization-error"
    PROCESSING_ERROR = "processing-error"
    PRODUCTION_ERROR = "production-error"
    DEAD_LETTER = "dead-letter"
    NO_PARTITION = "no-partition"
    """The partitioner of a sink chose no partition for the record."""


_REASON_TEXTS = {
    DropReason.LATE: "late for a closed window",
    DropReason.NULL_KEY: "null key",
    DropReason.NULL_KEY_BEFORE_REPARTITION: "null key before a repartition topic",
    DropReason.NULL_KEY_OR_VALUE: "null key or value",
    DropReason.OUT_OF_ORDER: "older than its key in a versioned table",
    DropReason.NULL_FOREIGN_KEY: "null foreign key",
    DropReason.OUTDATED_RESPONSE: "response for an older value",
    DropReason.NEGATIVE_TIMESTAMP: "negative timestamp",
    DropReason.DESERIALIZATION_ERROR: "cannot be read",
    DropReason.PROCESSING_ERROR: "failed in a processor",
    DropReason.PRODUCTION_ERROR: "an output could not be written",
    DropReason.DEAD_LETTER: "sent to the dead-letter topic",
    DropReason.NO_PARTITION: "its partitioner chose no partition",
}


_DAY_MS = 86_400_000


class WindowsAtRisk(NamedTuple):
    """The number of windows of one store that are at risk. A window is at risk if the log may delete it from the
    store's changelog before it expires in the store.

    `topic`: the name of the changelog. `windows`: an upper bound of the number of windows at risk. `behind_ms`: the
    clock's time minus stream time. `kept_ms`: `retention.ms` of the changelog. `retention_ms`: the store's retention.
    """

    store: str
    topic: str
    windows: int
    behind_ms: int
    kept_ms: int
    retention_ms: int

    @property
    def needed_ms(self) -> int:
        """The additional retention that the changelog needs to keep all windows of the store. The value is in
        milliseconds, and is a whole number of days.
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
    """The losses of one task. Only the task's thread calls this object. `dropped_records`: the number of all dropped
    records.
    """

    __slots__ = ("_at_risk", "_by_place", "_metrics", "_notices", "_suspected", "_task", "dropped_records")

    def __init__(self, task: TaskId, metrics: TaskMetrics | None, notices: NoticeBoard | None) -> None:
        """`metrics`: counts the losses; None if a test runs the task without an instance. `notices`: reports the
        losses; None if a test runs the task without an instance.
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

        `place`: the name of the node or topic where the record was dropped. `detail`: the text that the notice shows
        for this reason and place.
        """
        self.dropped_records += 1
        seen = self._by_place[reason, place] = self._by_place.get((reason, place), 0) + 1
        if self._metrics is not None:
            if reason is DropReason.NULL_KEY_BEFORE_REPARTITION:
                self._metrics.null_key_filtered()
            else:
                self._metrics.dropped(reason)
        if reason is DropReason.OUTDATED_RESPONSE:
            return False
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
        """Returns the number of dropped records by reason."""
        counts: dict[DropReason, int] = {}
        for (reason, _), count in self._by_place.items():
            counts[reason] = counts.get(reason, 0) + count
        return counts

    def log_level(self, reason: DropReason, place: str, detail: str = "") -> int:
        """Counts one dropped record, as `dropped` does. Returns the level at which the record has to be logged."""
        return logging.WARNING if self.dropped(reason, place, detail) else logging.DEBUG

    def suspect_timestamp(self, partition: TopicPartition, offset: int, timestamp_ms: int, unit: str) -> None:
        """Reports an input timestamp that is probably not in milliseconds. Reports at most once for each topic and
        unit.
        """
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
        """Counts and logs an update that is dropped because its window has expired in the store."""
        level = self.log_level(DropReason.LATE, store)
        _logger.log(level, "task %s: store %s skips an expired window", self._task, store, extra=ALREADY_A_NOTICE)

    def deleted_unread(self, partition: TopicPartition, begin: int) -> None:
        """Reports that the log deleted the first records of a partition before the group read any record of it."""
        self._passed_over(partition, begin, f"were deleted before this group read any; it begins at offset {begin}")

    def passed_over(self, partition: TopicPartition, position: int, begin: int, resumed_at: int) -> None:
        """Reports records that the log deleted before the group read them. `position`: the offset of the next record
        that the group would have read. `begin`: the partition's first offset, which is above `position`.
        """
        where = f"the log starts at {begin}, the group was at {position}"
        more = "" if resumed_at == begin else f" and goes on at {resumed_at}, by auto.offset.reset"
        self._passed_over(partition, begin - position, f"were deleted before this group read them: {where}{more}")

    def beyond_end(self, partition: TopicPartition, position: int, end: int, resumed_at: int) -> None:
        """Reports that the group's position is above the partition's end offset."""
        what = (
            f"position beyond the log's end: the group was at offset {position}, and the log ends at {end}, as the "
            f"topic was made again or has lost records; the group goes on at {resumed_at}"
        )
        self._warn(partition, what)
        self._add_notice(NoticeCode.POSITION_BEYOND_END, _name(partition), 1, what)

    def windows_missing(self, store: str, changelog: TopicPartition, needed_from: int, begin: int) -> None:
        """Reports windows that are missing after a restore, because the log deleted the first records of the changelog.
        `needed_from`: the first offset that the restore needed. `begin`: the first offset that the changelog still has.
        The reported number of windows is an upper bound, because several of the deleted records may belong to the same
        window.
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

    def store_rebuilt(self, what: str) -> None:
        """Reports a store that is deleted because its files cannot be used. `what`: the reason, and then what became of
        the content, because a notice is cut at the end.
        """
        _logger.warning("task %s: %s", self._task, what, extra=ALREADY_A_NOTICE)
        if self._metrics is not None:
            self._metrics.store_rebuilt()
        self._add_notice(NoticeCode.STORE_REBUILT, f"task {self._task}", 1, f"({what})")

    def windows_at_risk(self, risk: WindowsAtRisk) -> None:
        """Reports windows that the log may delete from a store's changelog before they expire in the store. Windows are
        at risk if stream time is behind the clock. The reason is that the log deletes records by the clock, and the
        store expires windows by stream time. A store is reported again only if it has twice as many windows at risk, or
        if it needs a longer retention.
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
"""The type of a function that makes the `TaskLosses` of a task."""


def uncounted(task: TaskId) -> TaskLosses:
    """Returns a `TaskLosses` for a task without an instance. Losses are logged, but they appear in no metric and no
    notice.
    """
    return TaskLosses(task, None, None)


class _CountedBefore(TaskLosses):
    """Does not count dropped records. The caller has to log each dropped record at level debug."""

    __slots__ = ()

    def dropped(self, reason: DropReason, place: str, detail: str = "") -> bool:
        return False


def counted_before(task: TaskId) -> TaskLosses:
    """Returns a `TaskLosses` that does not count dropped records. A task that reads records a second time uses this
    object, because the records were counted the first time.
    """
    return _CountedBefore(task, None, None)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
