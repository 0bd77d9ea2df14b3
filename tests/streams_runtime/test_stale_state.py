"""A state directory that outlives its log, or its topics: what is counted anew is counted from nothing."""

import logging
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from streams_runtime import LONG, STRING, Application, LocalRun, NewTopic, RecordProducer, read_topic
from streams_runtime.logs.opening import open_log
from tests.streams_runtime.running_group import GUARANTEES
from tests.streams_runtime.word_counting import word_counts

pytestmark = pytest.mark.long


def _delete_log(directory: Path) -> None:
    shutil.rmtree(directory / "log")


def _delete_topics(directory: Path) -> None:
    with closing(open_log(f"embedded:{directory / 'log'}")) as log:
        log.delete_topics(sorted(log.topics()))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize(
    "delete, told",
    [
        (_delete_log, "was that of another log with the same application.id, and is deleted: 1_0"),
        (_delete_topics, "counts is that of topic id "),
    ],
    ids=["the log", "its topics"],
)
def test_should_count_from_nothing_what_is_written_after_the_log_was_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, guarantee: str, delete: Callable[[Path], None], told: str
) -> None:
    assert _counted(tmp_path, guarantee, lines=50) == {"a": 50, "b": 50}
    for lines in (10, 200):  # fewer than the state holds, and more
        delete(tmp_path)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert _counted(tmp_path, guarantee, lines=lines) == {"a": lines, "b": lines}
        assert told in caplog.text


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_should_give_up_state_that_is_ahead_of_a_log_that_lost_its_last_commits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, guarantee: str
) -> None:
    assert _counted(tmp_path, guarantee, lines=50) == {"a": 50, "b": 50}
    shutil.copytree(tmp_path / "log", tmp_path / "earlier")  # as a power loss leaves it, which takes the last commits
    assert _counted(tmp_path, guarantee, lines=100) == {"a": 150, "b": 150}
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "earlier").rename(tmp_path / "log")

    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert _counted(tmp_path, guarantee, lines=10) == {"a": 60, "b": 60}
    assert "state is ahead of its changelog, which was made again or has lost records: 1_0" in caplog.text


def _counted(directory: Path, guarantee: str, lines: int) -> dict[str | None, int | None]:
    """The topics, made and filled, and the counts of an instance whose state is that of the one before."""
    servers = f"embedded:{directory / 'log'}"
    configs = {
        "application.id": "words",
        "bootstrap.servers": servers,
        "state.dir": directory / "state",
        "processing.guarantee": guarantee,
        "commit.interval.ms": 100,
    }
    with closing(open_log(servers)) as log:
        log.create_topics([NewTopic("lines", 1), NewTopic("counts", 1)])
        with RecordProducer(log, STRING, STRING) as producer:
            for _ in range(lines):
                producer.send("lines", None, "a b")
        with LocalRun(Application(word_counts("lines", "counts"), configs)) as run:
            run.wait_until_caught_up()
        return {record.key: record.value for record in read_topic(log, "counts", STRING, LONG)}
