"""Window stores whose changelog may lose records that the stores still need, because the log deletes by its clock."""

from pathlib import Path
from typing import Any

import pytest

from assignor.types import JAVA_LONG_MAX
from streams_runtime import STRING, StreamsBuilder, TimeWindows, UnlimitedWindows
from streams_runtime.logs.base import NewTopic
from tests.streams_runtime.tasks.running_task import COUNTS, IN, RunningTask

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


def task_with(directory: Path, windows: Any, kept_ms: int) -> RunningTask:
    """A task that has counted a word of a day ago. `kept_ms`: `retention.ms` of its changelog."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", STRING, STRING).group_by_key()
    grouped.windowed_by(windows).count(store="windows")
    one = RunningTask(directory, builder.build())
    topic = COUNTS.topic.replace("counts", "windows")
    one.log.create_topics([NewTopic(topic, 1, {"cleanup.policy": "delete", "retention.ms": str(kept_ms)})])
    one.start()
    one.write(IN, "word", first_ms=NOW_MS - 24 * HOUR_MS)
    one.run()
    one.commit()
    return one


@pytest.mark.parametrize("kept_ms, at_risk", [(20 * HOUR_MS, ["windows"]), (30 * HOUR_MS, [])])
def test_should_report_windows_that_the_log_may_delete_before_they_expire(
    tmp_path: Path, kept_ms: int, at_risk: list[str]
) -> None:
    one = task_with(tmp_path, TimeWindows(HOUR_MS), kept_ms)
    assert [risk.store for risk in one.task.windows_at_risk(NOW_MS)] == at_risk


def test_should_not_report_unlimited_windows_that_the_log_keeps_forever(tmp_path: Path) -> None:
    """The retention of the store is the highest possible one, and so is that of the changelog."""
    one = task_with(tmp_path, UnlimitedWindows(), JAVA_LONG_MAX)
    assert one.task.windows_at_risk(NOW_MS) == []


def test_should_report_unlimited_windows_that_the_log_may_delete(tmp_path: Path) -> None:
    one = task_with(tmp_path, UnlimitedWindows(), 20 * HOUR_MS)
    assert [risk.store for risk in one.task.windows_at_risk(NOW_MS)] == ["windows"]
