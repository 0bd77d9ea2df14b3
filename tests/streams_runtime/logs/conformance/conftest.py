"""One suite for every implementation of a log: a test that uses `log` runs over each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.in_memory import InMemoryLog
from tests.streams_runtime.logs.moving_clock import MovingClock
from tests.streams_runtime.logs.reading_and_writing import CompactingLog

CHANGELOG_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "1", "delete.retention.ms": "1000"}
"""With a segment of one byte, the last batch alone is the head that compaction leaves alone."""


@pytest.fixture
def clock() -> MovingClock:
    return MovingClock()


@pytest.fixture(params=["embedded", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: MovingClock) -> Iterator[CompactingLog]:
    opened: CompactingLog
    if request.param == "embedded":
        opened = EmbeddedLog(tmp_path / "log", clock=clock, minimum_dirty_bytes=0)
    else:
        opened = InMemoryLog(clock)
    opened.create_topics([NewTopic("topic", 2), NewTopic("changelog", 1, CHANGELOG_CONFIGS)])
    yield opened
    opened.close()
