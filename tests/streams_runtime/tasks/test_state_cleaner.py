"""The cleaner works in the background, outlives errors, and ends when told to."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from assignor.types import TaskId
from streams_runtime.clock import SystemClock
from streams_runtime.tasks.state_cleaner import StateCleaner
from streams_runtime.tasks.state_directory import StateDirectory

TASK = TaskId(0, 1)


class Passes:
    """Stands in for the directory: fails in the first pass, tells when the second one comes."""

    def __init__(self) -> None:
        self.delays: list[int] = []
        self.second = threading.Event()

    def clean_obsolete(self, cleanup_delay_ms: int) -> list[TaskId]:
        self.delays.append(cleanup_delay_ms)
        if len(self.delays) == 1:
            raise OSError("the disk is gone")
        self.second.set()
        return []


def test_should_delete_obsolete_state_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = StateDirectory(tmp_path, "app", SystemClock())
    path = directory.task_directory(TASK)
    (path / "rocksdb").mkdir()
    passed = threading.Event()
    clean = directory.clean_obsolete

    def clean_and_tell(cleanup_delay_ms: int) -> list[TaskId]:
        cleaned = clean(cleanup_delay_ms)
        if cleaned:
            passed.set()
        return cleaned

    monkeypatch.setattr(directory, "clean_obsolete", clean_and_tell)
    cleaner = StateCleaner(directory, 1, 5)
    cleaner.start()
    assert passed.wait(10)
    cleaner.close()

    assert not path.exists()
    directory.close()


def test_should_log_an_error_and_go_on(caplog: pytest.LogCaptureFixture) -> None:
    passes = Passes()
    cleaner = StateCleaner(cast(StateDirectory, passes), 600_000, 1)
    cleaner.start()
    assert passes.second.wait(10)
    cleaner.close()

    assert passes.delays[:2] == [600_000, 600_000]
    assert "the disk is gone" in caplog.text


def test_should_not_clean_before_the_first_interval_is_over_and_end_at_once_when_closed() -> None:
    passes = Passes()
    cleaner = StateCleaner(cast(StateDirectory, passes), 600_000, name="app-cleaner")
    before = threading.active_count()
    cleaner.start()
    assert "app-cleaner" in [thread.name for thread in threading.enumerate()]
    cleaner.close()
    cleaner.close()

    assert passes.delays == []
    assert threading.active_count() == before


def test_should_be_closable_without_having_been_started() -> None:
    StateCleaner(cast(StateDirectory, Passes()), 600_000).close()
