from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.embedded import EmbeddedLog
from tests.streams_runtime.logs.conformance.conftest import CHANGELOG_CONFIGS


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(directory: Path) -> Iterator[EmbeddedLog]:
    opened = EmbeddedLog(directory)
    opened.create_topics([NewTopic("topic", 2, {"retention.ms": "-1"}), NewTopic("changelog", 1, CHANGELOG_CONFIGS)])
    yield opened
    opened.close()
