"""Half a minute of real traffic with faults: real processes, and a history that the model finds possible."""

from collections import Counter
from pathlib import Path

import pytest

from tests.history.calls import History, read_history
from tests.history.judge import judge
from tests.history.model import KILLS
from tests.history.running import DYNAMIC, ON_SPARK, STATIC, RunSettings
from tests.history.traffic import run

pytestmark = pytest.mark.long

SEED = 16
MINUTES = 0.5
MOST_NOT_ANSWERED = 0.5


def valid_history(settings: RunSettings, least_words: int) -> History:
    """The history of a run. Asserts that it is possible, that enough was counted, and that each fault happened."""
    said: list[str] = []
    run(settings, said.append)
    is_valid, report = judge(settings.directory)
    history = read_history(settings.directory)

    assert is_valid, "\n".join((report, *said))
    assert history.groups == tuple(sorted(settings.groups))
    assert {each.fault for each in history.faults} >= set(settings.kinds), report
    assert all(sum(counts.expected.values()) > least_words for counts in history.counts.values())
    return history


def test_should_write_a_valid_history_while_processes_are_killed(tmp_path: Path) -> None:
    history = valid_history(RunSettings(SEED, MINUTES, tmp_path / "run", groups=(DYNAMIC, STATIC)), 1_000)
    answered = Counter(call.operation for call in history.calls if call.is_answered)

    assert {"coordinator killed", "member killed"} <= {each.fault for each in history.faults}
    assert answered.keys() >= {"declare", "join", "fetch", "heartbeat", "leave", "describe", "hold", "resume"}
    assert answered.total() > MOST_NOT_ANSWERED * len(history.calls)


@pytest.mark.spark
@pytest.mark.parametrize(
    "on_kafka", [False, pytest.param(True, marks=pytest.mark.kafka)], ids=["embedded log", "Kafka"]
)
def test_should_count_right_while_executors_and_workers_are_killed(tmp_path: Path, on_kafka: bool) -> None:
    """Exactly once in one group, and at least once in another one, both started by `workers.run`."""
    kinds = tuple(KILLS if on_kafka else KILLS - {"broker killed"})
    mean_gap_s = 3.0 if on_kafka else 1.5  # nothing is written while the only broker is away
    settings = RunSettings(SEED, MINUTES, tmp_path / "run", 2, on_kafka, ON_SPARK, kinds, mean_gap_s, lines_a_turn=100)
    history = valid_history(settings, 100)

    lives = {(line.instance, line.pid) for lines in history.ownership.values() for line in lines}
    assert {instance for instance, _ in lives} == {"p0", "p1"}
    assert len(lives) > 4, "killed instances were started again"
