"""Half a minute of real traffic with faults: real processes, and a history that the model finds possible."""

from collections import Counter
from pathlib import Path

import pytest

from tests.history.calls import read_history
from tests.history.judge import judge
from tests.history.running import DYNAMIC, STATIC, RunSettings
from tests.history.traffic import run

pytestmark = pytest.mark.long

SEED = 16
MINUTES = 0.5
MOST_NOT_ANSWERED = 0.5


def test_should_write_a_valid_history_while_processes_are_killed(tmp_path: Path) -> None:
    said: list[str] = []
    run(RunSettings(SEED, MINUTES, tmp_path / "run"), said.append)
    is_valid, report = judge(tmp_path / "run")
    history = read_history(tmp_path / "run")
    answered = Counter(call.operation for call in history.calls if call.is_answered)

    assert is_valid, "\n".join((report, *said))
    assert history.groups == (DYNAMIC, STATIC)
    assert {"coordinator killed", "member killed"} <= {each.fault for each in history.faults}, report
    assert answered.keys() >= {"declare", "join", "fetch", "heartbeat", "leave", "describe", "hold", "resume"}
    assert answered.total() > MOST_NOT_ANSWERED * len(history.calls)
    assert all(sum(counts.expected.values()) > 1_000 for counts in history.counts.values())
