"""What a task loses is a metric, a notice, and at first a line of the log."""

import logging

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.losses import WARNINGS, DropReason, TaskLosses, WindowsAtRisk
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.notices import NoticeBoard, NoticeCode
from tests.streams_runtime.manual_clock import ManualClock

TASK = TaskId(1, 2)
ORDERS = TopicPartition("orders", 3)


class Kept:
    """The losses of a task, and what comes of them."""

    def __init__(self) -> None:
        self.metrics = InstanceMetrics()
        self.notices = NoticeBoard(ManualClock())
        self.losses = TaskLosses(TASK, self.metrics.thread("t").task(TASK), self.notices)

    def counted(self) -> dict[str, float]:
        """By reason, topic, store or the metric's name."""

        def name_of(labels: dict[str, str], metric: str) -> str:
            return next((labels[each] for each in ("reason", "topic", "store") if each in labels), metric)

        return {
            name_of(sample.labels, sample.name): sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.labels.get("task") == str(TASK) and sample.name.endswith("_total")
        }

    def told(self) -> dict[NoticeCode, tuple[int, str]]:
        return {notice.code: (notice.count, notice.text) for notice in self.notices.newest()}


def test_should_count_dropped_records_by_reason_and_tell_where() -> None:
    kept = Kept()
    for _ in range(3):
        kept.losses.dropped(DropReason.LATE, "SUM", "(up to 0:01:00)")
    kept.losses.dropped(DropReason.NULL_KEY, "SPLIT")
    kept.losses.dropped(DropReason.DEAD_LETTER, "PARSE")
    assert kept.losses.dropped_records == 5
    assert kept.counted() == {"late": 3, "null-key": 1, "dead-letter": 1}
    assert kept.told() == {
        NoticeCode.RECORDS_DROPPED: (
            4,
            "late for a closed window, SUM: 3 (up to 0:01:00); null key, SPLIT: 1",
        ),
        NoticeCode.RECORDS_DEAD_LETTERED: (1, "sent to the dead-letter topic, PARSE: 1"),
    }


def test_should_tell_null_keys_before_a_repartition_topic_apart_from_what_kafka_counts_as_dropped() -> None:
    kept = Kept()
    kept.losses.dropped(DropReason.NULL_KEY_BEFORE_REPARTITION, "words-filter")
    kept.losses.dropped(DropReason.NULL_KEY, "COUNT")
    assert kept.counted() == {"null-key": 1, "streams_filtered_null_keys_total": 1}
    text = "null key before a repartition topic, words-filter: 1; null key, COUNT: 1"
    assert kept.told() == {NoticeCode.RECORDS_DROPPED: (2, text)}


def test_should_name_the_first_records_of_a_place_in_the_log_and_no_more() -> None:
    losses = Kept().losses
    levels = [losses.log_level(DropReason.LATE, "SUM") for _ in range(WARNINGS + 2)]
    assert levels == [logging.WARNING] * WARNINGS + [logging.DEBUG] * 2
    assert losses.log_level(DropReason.LATE, "OTHER") == logging.WARNING


def test_should_tell_how_many_records_were_deleted_before_the_group_read_them(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    kept.losses.passed_over(ORDERS, position=1_000, begin=204_000, resumed_at=204_000)
    expected = (
        "orders-3: 203,000 records were deleted before this group read them: the log starts at 204000, the group was "
        "at 1000"
    )
    assert kept.told() == {NoticeCode.RECORDS_PASSED_OVER: (203_000, expected)}
    assert kept.counted() == {"orders": 203_000}
    assert [record.getMessage() for record in caplog.records] == [f"task 1_2: {expected}"]


def test_should_say_where_the_group_goes_on_when_it_skips_more_than_was_deleted() -> None:
    kept = Kept()
    kept.losses.passed_over(ORDERS, position=1, begin=5, resumed_at=9)
    assert kept.told()[NoticeCode.RECORDS_PASSED_OVER][1].endswith(" and goes on at 9, by auto.offset.reset")


def test_should_count_what_a_window_store_keeps_no_more(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    kept.losses.expired("clicks")
    assert kept.told() == {NoticeCode.RECORDS_DROPPED: (1, "late for a closed window, clicks: 1")}
    assert caplog.messages == ["task 1_2: store clicks skips an expired window"]


def test_should_tell_of_a_log_that_ends_before_the_group(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    kept.losses.beyond_end(ORDERS, position=500, end=20, resumed_at=0)
    expected = (
        "orders-3: 1 position beyond the log's end: the group was at offset 500, and the log ends at 20, as the topic "
        "was made again or has lost records; the group goes on at 0"
    )
    assert kept.told() == {NoticeCode.POSITION_BEYOND_END: (1, expected)}
    assert kept.counted() == {}
    assert len(caplog.records) == 1


def test_should_tell_how_many_windows_a_restore_lacks() -> None:
    kept = Kept()
    kept.losses.windows_missing("clicks", TopicPartition("app-clicks-changelog", 3), 100, 1_300)
    assert kept.counted() == {"clicks": 1_200}
    assert kept.told() == {
        NoticeCode.WINDOWS_MISSING: (
            1_200,
            "app-clicks-changelog-3: 1,200 windows at most are missing in store clicks: its changelog "
            "starts at offset 1300, and was needed from 100 on",
        )
    }


def test_should_tell_of_windows_at_risk_once_with_what_helps_and_again_when_it_is_worse() -> None:
    kept = Kept()
    hour_ms, day_ms = 3_600_000, 86_400_000

    def risk(windows: int, behind_ms: int) -> WindowsAtRisk:
        return WindowsAtRisk("clicks", "app-clicks-changelog", windows, behind_ms, 26 * hour_ms, 2 * hour_ms)

    kept.losses.windows_at_risk(risk(10, 29 * hour_ms))
    kept.losses.windows_at_risk(risk(12, 30 * hour_ms))
    assert kept.told() == {
        NoticeCode.WINDOWS_AT_RISK: (
            10,
            "store clicks: 10 windows at most, as stream time is 1 day, 5:00:00 behind the clock: set "
            "retention.ms=180000000 (now 93600000), and windowstore.changelog.additional.retention.ms=172800000 for "
            "topics still to be made, or the log deletes them from app-clicks-changelog",
        )
    }
    kept.losses.windows_at_risk(risk(12, 30 * day_ms))
    ((count, text),) = kept.told().values()
    assert (count, "retention.ms=2678400000 for" in text) == (12, True)
