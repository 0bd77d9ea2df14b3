"""The state directory of an application, for tests of what tasks keep there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.common.clock import SystemClock
from streams_runtime.tasks.state_directory import StateDirectory


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    state = StateDirectory(tmp_path, "app", SystemClock())
    yield state
    state.close()
