"""What is special on disk: the offset, what a kill leaves, damage, the files, and other threads that read.

Kafka's: `RocksDBStoreTest`.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from threading import Barrier, Thread
from typing import Any

import pytest
from rocksdict import Options, Rdict, WriteBatch

from assignor.types import TopicPartition
from streams_runtime.common.errors import InvalidStateStore, ProcessorStateError, StoreCorrupted, StreamsRuntimeError
from streams_runtime.logs.base import IsolationLevel, RecordBatch
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores import rocksdb
from streams_runtime.state_stores.builders import key_value_store, timestamped_key_value_store, window_store
from streams_runtime.state_stores.key_value import KeyValueStore
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.rocksdb_offsets import stored_offset
from streams_runtime.state_stores.state_store import StoreBuilder, read_only
from streams_runtime.state_stores.window_keys import window_key
from tests.known import known
from tests.streams_runtime.state_stores.surroundings import CHANGELOG, batch, commit, committed_offset, context

_WRITER = """
import os, signal, sys
from pathlib import Path
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores.builders import key_value_store
from tests.streams_runtime.state_stores.surroundings import context
store = key_value_store("store", BYTES, BYTES).build()
store.open(context(Path(sys.argv[1])))
store.put(b"committed", b"1")
store.commit(41)
store.put(b"uncommitted", b"2")
os.kill(os.getpid(), signal.SIGKILL)
"""


def opened(directory: Path) -> KeyValueStore[bytes, bytes]:
    store = key_value_store("store", BYTES, BYTES).build()
    store.open(context(directory))
    return store


def filled(directory: Path, entries: int) -> KeyValueStore[bytes, bytes]:
    store = opened(directory)
    store.put_all([(b"key-%05d" % number, os.urandom(50)) for number in range(entries)])
    commit(store, entries)
    return store


def largest(directory: Path, name: str = "*.sst") -> Path:
    """The file with the entries, and not the file with the offset."""
    return max((directory / "rocksdb" / "store").glob(name), key=lambda path: path.stat().st_size)


def test_should_live_in_its_own_directory_below_the_tasks(tmp_path: Path) -> None:
    opened(tmp_path / "0_1").close()

    assert [path.name for path in (tmp_path / "0_1").iterdir()] == ["rocksdb"]
    assert [path.name for path in (tmp_path / "0_1" / "rocksdb").iterdir()] == ["store"]


def test_should_have_the_result_of_the_last_commit_on_disk_after_a_kill(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _WRITER, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL

    assert stored_offset(tmp_path / "rocksdb" / "store") == (CHANGELOG, 41)
    store = opened(tmp_path)
    assert committed_offset(store) == 41
    assert list(store.all()) == [(b"committed", b"1")]
    store.close()


@pytest.mark.parametrize("damage", ["garbage", "", None], ids=["overwritten", "emptied", "deleted"])
@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_should_report_files_that_are_missing_or_overwritten(tmp_path: Path, name: str, damage: str | None) -> None:
    filled(tmp_path, 1000).close()
    broken = largest(tmp_path, name)
    if damage is None:
        broken.unlink()
    else:
        broken.write_text(damage)

    with pytest.raises(StoreCorrupted) as raised:
        opened(tmp_path)
    message, directory = str(raised.value), tmp_path / "rocksdb" / "store"
    if (name, damage) == ("CURRENT", None):  # RocksDB would make an empty database
        assert message == f"store store: the file CURRENT is missing in {directory}"
    else:
        assert message.startswith(f"store store: RocksDB cannot open {directory} (")
        assert message.endswith("; the files are damaged")


def reopen(directory: Path, log_id: str | None, topic_id: str | None, commit: int | None = None) -> None:
    """Open and close the store as the state of this log and this topic. `commit`: the offset of a commit."""
    store = key_value_store("store", BYTES, BYTES).build()
    store.open(replace(context(directory), changelog=CHANGELOG, log_id=log_id, topic_id=topic_id))
    if commit is not None:
        store.commit(commit)
    store.close()


def test_should_refuse_the_state_of_another_log_or_of_a_deleted_changelog(tmp_path: Path) -> None:
    reopen(tmp_path, "log 1", "topic 1", commit=1)

    with pytest.raises(StoreCorrupted, match="is that of log 'log 1', not of 'log 2'"):
        reopen(tmp_path, "log 2", "topic 1")
    with pytest.raises(StoreCorrupted, match="is that of topic id 'topic 1', not of 'topic 2'"):
        reopen(tmp_path, "log 1", "topic 2")
    reopen(tmp_path, None, None, commit=2)
    reopen(tmp_path, "log 1", "topic 1")


def test_should_keep_the_ids_of_its_first_commit_that_knows_them(tmp_path: Path) -> None:
    reopen(tmp_path, None, None, commit=1)
    reopen(tmp_path, "log 2", "topic 2")
    reopen(tmp_path, "log 1", "topic 1", commit=2)

    with pytest.raises(StoreCorrupted):
        reopen(tmp_path, "log 2", None)
    with pytest.raises(StoreCorrupted):
        reopen(tmp_path, None, "topic 2")


_WITHOUT_FILES = """
import resource, sys
from pathlib import Path
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores.builders import key_value_store
from tests.streams_runtime.state_stores.surroundings import context
store = key_value_store("store", BYTES, BYTES).build()
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    store.open(context(Path(sys.argv[1])))
except StreamsRuntimeError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("open_files", [6, 8, 10])  # at different files of the store
def test_should_not_report_damage_without_free_files(tmp_path: Path, open_files: int) -> None:
    filled(tmp_path, 10).close()
    program = [sys.executable, "-c", _WITHOUT_FILES, str(tmp_path), str(open_files)]
    message = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert message.startswith("ProcessorStateError store store: RocksDB cannot open"), message
    assert "Too many open files" in message
    assert "raise this process's limit of open files (ulimit -n" in message
    assert message.rstrip().endswith("the state is not damaged")
    opened(tmp_path).close()


def test_should_say_that_another_owner_has_it_open(tmp_path: Path) -> None:
    store = opened(tmp_path)

    with pytest.raises(ProcessorStateError, match="another owner has it open and has to close it first"):
        opened(tmp_path)
    store.close()


def damage(directory: Path, share: float, count: int = 1) -> None:
    """Flips a bit in `count` bytes of a closed store. `share`: the place of the first of them in the file."""
    table = largest(directory)
    content = bytearray(table.read_bytes())
    first = int(len(content) * share)
    for index in range(first, first + count):
        content[index] ^= 1
    table.write_bytes(content)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.8])
def test_should_find_a_flipped_bit_of_a_small_store_when_it_opens(tmp_path: Path, share: float) -> None:
    filled(tmp_path, 2000).close()
    damage(tmp_path, share)
    with pytest.raises(StoreCorrupted, match=r"the files in .* are damaged .*checksum mismatch") as kept:
        opened(tmp_path)

    damage(tmp_path, share)  # the bit is as before
    repaired = opened(tmp_path)  # the kept error does not keep the files locked
    assert len(list(repaired.all())) == 2000
    repaired.close()
    assert kept.value


@pytest.fixture
def unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are not read when they open, as if they were large."""
    monkeypatch.setattr(rocksdb, "VERIFIED_BYTES", -1)


@pytest.mark.usefixtures("unverified")
def test_should_never_end_a_range_early_at_a_broken_block(tmp_path: Path) -> None:
    filled(tmp_path, 5000).close()
    damage(tmp_path, 1 / 3, 8192)
    store = opened(tmp_path)

    for entries in (store.all(), store.reverse_range(None, None)):
        with pytest.raises(StoreCorrupted, match=r"the files in .* are damaged .*block checksum mismatch"):
            list(entries)
    answers = Counter(answer_of(store, b"key-%05d" % number) for number in range(0, 5000, 10))
    assert set(answers) == {"value", "StoreCorrupted"}
    store.close()


@pytest.mark.usefixtures("unverified")
def test_should_let_go_of_the_files_when_closed_even_if_somebody_keeps_the_error_of_a_range(tmp_path: Path) -> None:
    filled(tmp_path, 1000).close()
    damage(tmp_path, 0.001)
    store = opened(tmp_path)
    with pytest.raises(StoreCorrupted) as kept:
        list(store.all())
    store.close()

    opened(tmp_path).close()
    assert "block checksum mismatch" in str(kept.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"changelog": TopicPartition("another", 0)},
            "changelog 'app-store-changelog 0', not of 'another 0'",
        ),
        ({"log_id": "another log"}, "log 'a log', not of 'another log'"),
    ],
)
def test_should_refuse_the_state_of_another_changelog_or_log(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    filled(tmp_path, 1).close()
    store = key_value_store("store", BYTES, BYTES).build()
    with pytest.raises(StoreCorrupted, match=reason):
        store.open(replace(context(tmp_path), **changes))
    assert not store.is_open

    opened(tmp_path).close()


def test_should_keep_the_offset_of_its_last_commit_or_restore(tmp_path: Path) -> None:
    directory = tmp_path / "rocksdb" / "store"
    assert stored_offset(directory) is None
    assert not directory.exists()
    store = opened(tmp_path)
    offsets = [committed_offset(store)]
    changes: list[Callable[[], object]] = [
        lambda: commit(store, 5),
        lambda: commit(store, 5),
        lambda: store.restore(batch([(b"a", b"1", 0), (None, b"2", 0)], first_offset=7)),
        lambda: commit(store, None),
        lambda: store.restore(batch([(b"a", None, 0)], first_offset=2**40)),
    ]
    for change in changes:
        change()
        offsets.append(committed_offset(store))
        store.close()
        assert stored_offset(directory) == (None if offsets[-1] is None else (CHANGELOG, offsets[-1]))
        store.open(context(tmp_path))
        assert committed_offset(store) == offsets[-1]
    store.close()
    assert offsets == [None, 5, 5, 8, None, 2**40]


def test_should_open_the_files_of_a_release_without_offsets_and_leave_them_readable_for_it(tmp_path: Path) -> None:
    directory = tmp_path / "rocksdb" / "store"
    directory.parent.mkdir(parents=True)
    before = Rdict(str(directory), Options(raw_mode=True))
    before[b"a"] = b"1"
    before.close()
    assert stored_offset(directory) is None
    store = opened(tmp_path)
    assert (committed_offset(store), list(store.all())) == (None, [(b"a", b"1")])
    store.put(b"b", b"2")
    commit(store, 3)
    store.close()

    before = Rdict(str(directory), Options(raw_mode=True))
    assert list(before.items()) == [(b"a", b"1"), (b"b", b"2")]
    before.close()
    assert stored_offset(directory) == (CHANGELOG, 3)

    before = Rdict(str(directory), Options(raw_mode=True))
    before[b"c"] = b"3"
    before.close()
    assert stored_offset(directory) is None, "the offset does not belong to what that release has written"
    store = opened(tmp_path)
    assert committed_offset(store) is None
    commit(store, 4)
    store.close()
    assert stored_offset(directory) == (CHANGELOG, 4)


def test_should_keep_the_offset_of_content_that_is_written_before_a_commit(tmp_path: Path) -> None:
    """A full buffer of a store without transactions is written early, and conversions write without an offset."""
    store = RocksDBStore("store")
    store.open(context(tmp_path))
    store.write({b"a": b"1"}, 3)
    store.write({b"a": None, b"b": b"2", b"c": b"3"}, deleted_ranges=[(b"b", b"c")])
    store.close()
    store.open(context(tmp_path))
    assert (store.committed_offset, list(store.scan(None, None))) == (3, [(b"c", b"3")])
    store.close()


def answer_of(store: KeyValueStore[bytes, bytes], key: bytes) -> str:
    try:
        return "nothing" if store.get(key) is None else "value"
    except StreamsRuntimeError as error:
        return type(error).__name__


def test_should_be_free_for_its_next_owner_when_iterators_are_left_open(tmp_path: Path) -> None:
    store = filled(tmp_path, 1000)
    left_open = [store.all(), store.reverse_range(None, None)]
    for entries in left_open:
        next(entries)
    store.close()
    next_owner = opened(tmp_path)

    assert len(list(next_owner.all())) == 1000
    for entries in left_open:
        with pytest.raises(InvalidStateStore):
            next(entries)
    next_owner.close()


def test_should_keep_the_bounds_of_many_ranges_that_are_read_in_turns(tmp_path: Path) -> None:
    store = filled(tmp_path, 1000)
    ranges = [store.range(b"key-%05d" % start, b"key-%05d" % (start + 99)) for start in range(0, 1000, 100)]
    entries = [entry for turn in zip(*ranges, strict=True) for entry in turn]

    assert sorted(entries) == list(store.all())
    store.close()


def test_should_read_several_ranges_from_one_snapshot(tmp_path: Path) -> None:
    """Otherwise a query of windows in several segments could find a part of a commit."""
    store = RocksDBStore("store")
    store.open(context(tmp_path))
    keys = [b"%03d" % number for number in range(200)]
    store.write(dict(zip(keys, keys, strict=True)))
    entries = store.scan_ranges([(keys[0], keys[80]), (keys[120], keys[199])])
    read = [next(entries)]
    store.write(dict.fromkeys(keys))
    read += entries
    assert read == [(key, key) for key in (*keys[:80], *keys[120:199])]
    assert list(store.scan_ranges([(keys[0], keys[199])])) == []
    store.close()


def test_should_refuse_what_is_not_bytes(tmp_path: Path) -> None:
    store = opened(tmp_path)

    with pytest.raises(TypeError, match="bytes are needed, not str"):
        store.put("text", b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes are needed, not str"):
        store.put_all([(b"a", "text")])  # type: ignore[list-item]
    assert list(store.all()) == []
    store.close()


def test_should_let_other_threads_read_while_it_is_written_committed_and_closed(tmp_path: Path) -> None:
    answers: Counter[str] = Counter()

    def read_until_closed(store: KeyValueStore[bytes, bytes], start: Barrier) -> None:
        committed: Any = read_only(store, IsolationLevel.READ_COMMITTED)
        start.wait()
        while True:
            try:
                assert store.get(b"key-00007") is not None
                assert committed.get(b"key-00007") is not None
                assert len(list(store.range(b"key-00000", b"key-00099"))) == 100
                next(store.reverse_range(None, None))
                store.approximate_num_entries()
            except InvalidStateStore:
                answers["invalid state store"] += 1
                return
            except BaseException as error:
                answers[repr(error)] += 1
                return

    for round_of_the_test in range(10):
        store = filled(tmp_path / str(round_of_the_test), 100)
        start = Barrier(4)
        readers = [Thread(target=read_until_closed, args=(store, start)) for _ in range(3)]
        for reader in readers:
            reader.start()
        start.wait()
        for number in range(300):
            store.put(b"new-%05d" % number, b"x")
            store.put(b"key-%05d" % (number % 100), b"changed")
            if number % 60 == 0:
                commit(store, number)
        store.flush()
        store.close()
        for reader in readers:
            reader.join()
    assert answers == {"invalid state store": 30}


def batches(keys_of: str, count: int) -> list[RecordBatch]:
    """Of 1,000 records each, as `restore` gets them: keys in no order, windows in order of time."""
    numbers = Random(4).sample(range(count * 1000), count * 1000)
    values: list[bytes | None] = [b"value-%06d" % number * 4 for number in range(1000)]
    return [
        RecordBatch(
            CHANGELOG,
            range(first, first + 1000),
            range(first, first + 1000),
            [
                window_key(b"key-%09d" % number, first * 20, 0) if keys_of == "window" else b"key-%012d" % number
                for number in numbers[first : first + 1000]
            ],
            values,
        )
        for first in range(0, count * 1000, 1000)
    ]


@pytest.mark.parametrize("kind", ["key_value", "timestamped", "window"])
def test_should_restore_at_half_the_speed_of_rocksdict_alone_or_more(tmp_path: Path, kind: str) -> None:
    builders: dict[str, StoreBuilder] = {
        "key_value": key_value_store("store", BYTES, BYTES),
        "timestamped": timestamped_key_value_store("store", BYTES, BYTES),
        "window": window_store("store", BYTES, BYTES, retention_ms=3_600_000, window_size_ms=1000),
    }
    given = batches(kind, 50)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    alone = Rdict(str(tmp_path / "alone"), options)
    store = builders[kind].build()
    store.open(context(tmp_path))

    ours, theirs = [], []
    for _ in range(5):  # in turns, because the machine has others to serve
        began = time.perf_counter()
        for one in given:
            written = WriteBatch(raw_mode=True)
            for key, value in zip(one.keys, one.values, strict=True):
                written.put(known(key), value)
            alone.write(written)
        theirs.append(time.perf_counter() - began)
        began = time.perf_counter()
        for one in given:
            store.restore(one)
        ours.append(time.perf_counter() - began)
    store.close()
    alone.close()

    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    assert median(ratios) < 2, f"restored in {ours} s, written in {theirs} s"
