"""What a commit survives is chosen in the address, and reaches every connection to the file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.embedded import connections
from streams_runtime.logs.opening import open_log
from tests.streams_runtime.logs.reading_and_writing import C0, T0, read_from, reading, write, write_pairs

NORMAL, FULL = 1, 2
"""As SQLite counts them."""


@pytest.mark.parametrize(
    ("option", "level"), [("", NORMAL), ("?synchronous=NORMAL", NORMAL), ("?synchronous=FULL", FULL)]
)
def test_should_open_as_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, level: int) -> None:
    opened: list[sqlite3.Connection] = []
    connect = connections.connect

    def noted(*arguments: object) -> sqlite3.Connection:
        opened.append(connect(*arguments))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(connections, "connect", noted)
    with closing(open_log(f"embedded:{tmp_path}{option}")) as log:
        log.create_topics([NewTopic("topic", 1), NewTopic("changelog", 1, {"cleanup.policy": "compact"})])
        write(log, T0, b"1")
        write_pairs(log, C0, (b"k", b"1"), (b"k", b"2"))
        log.maintain()
        consumer = reading(log, T0)
        consumer.poll(0, 10)

        levels = [each.execute("PRAGMA synchronous").fetchone()[0] for each in opened]
        assert levels == [level] * 4, "the writer, its reads, the cleaner's reads, and the consumer"
        consumer.close()


def test_should_have_what_was_committed_in_the_file_itself_once_the_log_is_closed(tmp_path: Path) -> None:
    """Nothing but that file is then needed: SQLite has moved its write-ahead log into it, and synced it."""
    with closing(open_log(f"embedded:{tmp_path / 'log'}")) as log:
        log.create_topics([NewTopic("topic", 1)])
        write(log, T0, b"1", b"2")
    (tmp_path / "moved").mkdir()
    (tmp_path / "log" / "log.sqlite").rename(tmp_path / "moved" / "log.sqlite")

    with closing(open_log(f"embedded:{tmp_path / 'moved'}")) as log:
        assert [record.value for record in read_from(log, T0)] == [b"1", b"2"]
