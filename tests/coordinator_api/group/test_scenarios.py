"""Every scenario file says exactly what happens; or, in files of the second kind, what goes wrong in a whole simulated
service, which has to keep every rule all the same (`tests/simulation`).
"""

from pathlib import Path

import pytest

from tests.checkout import SCENARIOS
from tests.coordinator_api.group.scenario import play
from tests.simulation.running import run
from tests.simulation.schedule import is_simulated, parse

FILES = sorted(SCENARIOS.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_should_do_what_the_scenario_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if is_simulated(text):
        once = run(parse(text))
        assert once.rule is None, once.what
    else:
        assert play(text) == text


def test_should_find_the_scenario_files() -> None:
    assert len(FILES) >= 10
