"""Every scenario file says exactly what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkout import SCENARIOS
from tests.coordinator_api.group.scenario import play

FILES = sorted(SCENARIOS.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_should_do_what_the_scenario_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert play(text) == text


def test_should_find_the_scenario_files() -> None:
    assert len(FILES) >= 10
