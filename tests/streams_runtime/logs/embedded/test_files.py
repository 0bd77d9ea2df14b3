"""The directory: opening it again, refusing one that is no log, and using little memory for a large one."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from streams_runtime.logs.base import NewTopic, OffsetAndMetadata, TopicDescription
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.embedded.connections import as_log_errors
from streams_runtime.logs.log_errors import LogError
from tests.streams_runtime.logs.embedded.programs import running
from tests.streams_runtime.logs.reading_and_writing import (
    C0,
    T0,
    compact,
    offsets,
    read_from,
    reading,
    values_of,
    write,
    write_pairs,
)


def test_should_find_everything_again_when_it_is_opened_again(directory: Path) -> None:
    log = EmbeddedLog(directory)
    log.create_topics([NewTopic("topic", 2, {"retention.ms": "5"})])
    write(log, T0, b"1", b"2", b"3")
    claim = log.claim("group", [T0])
    zombie = log.producer("id")
    zombie.begin_transaction()
    zombie.commit_transaction(offsets(claim, T0, 2, "text"))
    log.delete_records({T0: 1})
    log.close()
    log = EmbeddedLog(directory)
    assert log.topics() == {"topic": TopicDescription("topic", 2, {"retention.ms": "5"})}
    assert values_of(log, T0, 1) == [(1, b"2"), (2, b"3")]
    assert log.begin_offsets([T0]) == {T0: 1}
    assert log.committed_offsets("group", [T0]) == {T0: OffsetAndMetadata(2, "text")}
    assert log.claim("group", [T0]).epochs == {T0: 2}
    producer = log.producer("id")
    producer.begin_transaction()
    producer.commit_transaction(offsets(log.claim("group", [T0]), T0, 3))
    log.close()
    with pytest.raises(LogError, match="is closed"):
        log.end_offsets([T0])
    with pytest.raises(LogError, match="is closed"):
        log.producer("id")
    log.close()


def test_should_have_an_id_of_its_own_for_as_long_as_it_is_there(tmp_path: Path, directory: Path) -> None:
    ids = []
    for place in (directory, directory, tmp_path / "another"):
        log = EmbeddedLog(place)
        ids.append(log.cluster_id())
        log.close()
    assert ids[0] == ids[1] != ids[2]


def _with_another_version(directory: Path) -> None:
    EmbeddedLog(directory).close()
    with closing(sqlite3.connect(directory / "log.sqlite")) as connection:
        connection.execute("PRAGMA user_version=2")


def _of_somebody_else(directory: Path) -> None:
    directory.mkdir()
    with closing(sqlite3.connect(directory / "log.sqlite")) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def _that_is_no_database(directory: Path) -> None:
    directory.mkdir()
    (directory / "log.sqlite").write_bytes(b"not a database" * 1_000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_with_another_version, "has tables of version 2, and this program knows version 1 only"),
        (_of_somebody_else, r"log\.sqlite is a SQLite file, but not a log of this program"),
        (_that_is_no_database, r"log\.sqlite cannot be used: file is not a database"),
        (Path.touch, r"log cannot be used: .*File exists"),
    ],
)
def test_should_refuse_what_is_no_log_of_ours(directory: Path, make: Callable[[Path], None], message: str) -> None:
    make(directory)
    with pytest.raises(LogError, match=message):
        EmbeddedLog(directory)


def test_should_make_the_file_anew_when_its_maker_died_before_it_had_tables(directory: Path) -> None:
    directory.mkdir()
    connection = sqlite3.connect(directory / "log.sqlite")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    log = EmbeddedLog(directory)
    assert log.topics() == {}
    log.close()


def test_should_say_which_batch_is_broken(log: EmbeddedLog, directory: Path) -> None:
    write(log, T0, b"1", b"2")
    write(log, T0, b"3")
    with sqlite3.connect(directory / "log.sqlite") as connection:
        connection.execute("UPDATE batches SET payload=zeroblob(100) WHERE base_offset=2")
    connection.close()
    consumer = reading(log, T0)
    with pytest.raises(LogError, match="batch of topic-0 at offset 2 cannot be read: its checksum is wrong"):
        consumer.poll(0, 10)
    assert consumer.position(T0) == 0
    assert [len(batch) for batch in consumer.poll(0, 2)] == [2]


def test_should_say_so_when_the_file_is_taken_away(log: EmbeddedLog, directory: Path) -> None:
    consumer = reading(log, T0)
    for file in directory.glob("log.sqlite*"):
        file.unlink()
    with pytest.raises(LogError, match=r"log\.sqlite cannot be used: unable to open database file"):
        consumer.poll(1, 1)


def test_should_read_and_compact_a_large_topic_in_little_memory(log: EmbeddedLog, directory: Path) -> None:
    """With 100 MB of records, the peak memory of the process grows by a few batches only."""
    write(log, C0, *[bytes(100)] * 20_000)
    with running("read_and_compact", directory) as reader:
        assert reader.line() == "warm"
        producer = log.producer()
        for number in range(100):
            for key in range(100):
                producer.send(C0, b"%d" % key, bytes([number]) * 10_000, 0)
        producer.flush()
        reader.go_on()
        count, grown_kib = map(int, reader.line().split())
    assert count == 30_000
    assert len(read_from(log, C0)) < 200
    assert grown_kib < 25_000


def test_should_not_let_the_write_ahead_log_grow_for_ever_when_there_are_always_readers(
    log: EmbeddedLog, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log._writer, "_empty_at_bytes", 1_000_000)
    monkeypatch.setattr("streams_runtime.logs.embedded.reads_and_writes._LARGEST_WAL_BYTES", 1_000_000)
    done = threading.Event()

    def read_for_ever() -> None:
        while not done.is_set():
            read_from(log, T0)

    reader = threading.Thread(target=read_for_ever)
    reader.start()
    try:
        sizes = []
        for _ in range(60):
            write(log, T0, bytes(200_000))
            sizes.append((directory / "log.sqlite-wal").stat().st_size)
    finally:
        done.set()
        reader.join()
    assert min(sizes[20:]) < 1_000_000
    assert max(sizes) < 20_000_000


def test_should_not_fail_a_commit_that_is_done_when_the_write_ahead_log_cannot_be_emptied(
    log: EmbeddedLog, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error, the caller would assume that nothing was written, and would write the same records again."""
    monkeypatch.setattr(log._writer, "_write_ahead_log", directory / "gone")
    write(log, T0, b"once")
    assert len(read_from(log, T0)) == 1


def test_should_use_freed_space_again(log: EmbeddedLog, directory: Path) -> None:
    sizes = []
    for _ in range(30):
        write(log, T0, *[bytes(100_000)] * 10)
        log.delete_records(log.end_offsets([T0]))
        log.maintain()
        sizes.append((directory / "log.sqlite").stat().st_size)
    assert max(sizes) < 20_000_000
    with sqlite3.connect(directory / "log.sqlite") as connection:
        assert connection.execute("SELECT COUNT(*) FROM batches").fetchone() == (0,)
        assert connection.execute("SELECT DISTINCT bytes, dirty_bytes FROM partitions").fetchall() == [(0, 0)]
    connection.close()


def test_should_keep_count_of_sizes_through_compaction_and_deletion(log: EmbeddedLog, directory: Path) -> None:
    for _ in range(10):
        write_pairs(log, C0, *[(b"%d" % key, bytes(1_000)) for key in range(20)])
    compact(log, "changelog")
    write_pairs(log, C0, (b"x", b"1"))
    log.delete_records({C0: 195})
    with sqlite3.connect(directory / "log.sqlite") as connection:
        counted = connection.execute(
            "SELECT SUM(size), SUM(CASE WHEN last_offset >= p.cleaned_to THEN size ELSE 0 END) FROM batches b"
            " JOIN partitions p ON p.id=b.partition WHERE p.topic='changelog'"
        ).fetchone()
        kept = connection.execute("SELECT bytes, dirty_bytes FROM partitions WHERE topic='changelog'").fetchone()
    connection.close()
    assert kept == counted


_WITHOUT_FILES = """
import os, resource, sys
from streams_runtime import open_log
from streams_runtime.logs.log_errors import LogError
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for left in range(8):
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for descriptor in taken[:left]:
            os.close(descriptor)
    try:
        open_log(f"embedded:{sys.argv[1]}/{left}").close()
    except LogError as error:
        said = str(error)
    else:
        said = "open"
    for descriptor in taken[left:]:
        os.close(descriptor)
    print(said)
"""


def test_should_advise_what_to_do_wherever_the_process_has_no_file_left(tmp_path: Path) -> None:
    program = [sys.executable, "-c", _WITHOUT_FILES, str(tmp_path)]
    said = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()
    opened = said.index("open")
    assert opened >= 2
    assert all("raise this process's limit of open files" in each for each in said[:opened]), said
    assert set(said[opened:]) == {"open"}


def test_should_advise_to_free_space_when_the_disk_is_full(tmp_path: Path) -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    with pytest.raises(LogError, match=r"disk is full; free space on this disk"), as_log_errors(tmp_path):
        raise error
