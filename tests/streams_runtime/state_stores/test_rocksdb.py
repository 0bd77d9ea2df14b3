"""What is special on disk: durability by flush, the files, and other threads that read. Kafka's: `RocksDBStoreTest`."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from threading import Barrier, Thread

import pytest
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from streams_runtime.common.errors import InvalidStateStore, ProcessorStateError, StoreCorrupted, StreamsRuntimeError
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores import (
    KeyValueStore,
    StoreBuilder,
    key_value_store,
    timestamped_key_value_store,
    window_store,
)
from streams_runtime.state_stores.window_keys import window_key
from tests.known import known
from tests.streams_runtime.state_stores.surroundings import CHANGELOG, context

_WRITER = """
import os, signal, sys
from pathlib import Path
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores import key_value_store
from tests.streams_runtime.state_stores.surroundings import context
store = key_value_store("store", BYTES, BYTES).build()
store.open(context(Path(sys.argv[1])))
store.put(b"flushed", b"1")
store.flush()
store.put(b"not flushed", b"2")
os.kill(os.getpid(), signal.SIGKILL)
"""


def opened(directory: Path) -> KeyValueStore[bytes, bytes]:
    store = key_value_store("store", BYTES, BYTES).build()
    store.open(context(directory))
    return store


def filled(directory: Path, entries: int) -> KeyValueStore[bytes, bytes]:
    store = opened(directory)
    store.put_all([(b"key-%05d" % number, os.urandom(50)) for number in range(entries)])
    return store


def test_should_live_in_its_own_directory_below_the_tasks(tmp_path: Path) -> None:
    opened(tmp_path / "0_1").close()

    assert [path.name for path in (tmp_path / "0_1").iterdir()] == ["rocksdb"]
    assert [path.name for path in (tmp_path / "0_1" / "rocksdb").iterdir()] == ["store"]


def test_should_have_on_disk_what_was_flushed_and_no_log_of_the_rest_after_a_kill(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _WRITER, str(tmp_path)], check=False)
    store = opened(tmp_path)

    assert killed.returncode == -signal.SIGKILL
    assert list(store.all()) == [(b"flushed", b"1")]
    store.close()


@pytest.mark.parametrize("damage", ["garbage", "", None], ids=["overwritten", "emptied", "deleted"])
@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_should_say_what_to_do_when_the_files_are_corrupt(tmp_path: Path, name: str, damage: str | None) -> None:
    filled(tmp_path, 1000).close()
    (broken,) = (tmp_path / "rocksdb" / "store").glob(name)
    if damage is None:
        broken.unlink()
    else:
        broken.write_text(damage)

    with pytest.raises(StoreCorrupted) as raised:
        opened(tmp_path)
    message = str(raised.value)
    assert message.startswith(f"store store: RocksDB cannot open {tmp_path / 'rocksdb' / 'store'} (")
    assert "delete this directory" in message
    assert "the task restores it from its changelog" in message


_WITHOUT_FILES = """
import resource, sys
from pathlib import Path
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores import key_value_store
from tests.streams_runtime.state_stores.surroundings import context
store = key_value_store("store", BYTES, BYTES).build()
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    store.open(context(Path(sys.argv[1])))
except StreamsRuntimeError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("open_files", [6, 8, 10])  # at different files of the store
def test_should_not_advise_to_delete_the_state_without_free_files(tmp_path: Path, open_files: int) -> None:
    filled(tmp_path, 10).close()
    program = [sys.executable, "-c", _WITHOUT_FILES, str(tmp_path), str(open_files)]
    message = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert message.startswith("ProcessorStateError store store: RocksDB cannot open"), message
    assert "Too many open files" in message
    assert "raise this process's limit of open files (ulimit -n" in message
    assert "delete" not in message
    opened(tmp_path).close()


def test_should_say_that_another_owner_has_it_open(tmp_path: Path) -> None:
    store = opened(tmp_path)

    with pytest.raises(ProcessorStateError, match="another owner has it open and has to close it first"):
        opened(tmp_path)
    store.close()


def damaged(directory: Path, where: Callable[[int], slice]) -> KeyValueStore[bytes, bytes]:
    """An open store with wrong bytes in its only file. `where`: takes the size of the file."""
    filled(directory, 5000).close()
    (table,) = (directory / "rocksdb" / "store").glob("*.sst")
    content = bytearray(table.read_bytes())
    wrong = where(len(content))
    content[wrong] = bytes(byte ^ 0xFF for byte in content[wrong])
    table.write_bytes(content)
    return opened(directory)


def test_should_never_end_a_range_early_at_a_broken_block(tmp_path: Path) -> None:
    store = damaged(tmp_path, lambda size: slice(size // 3, size // 3 + 8192))

    for entries in (store.all(), store.reverse_range(None, None)):
        with pytest.raises(ProcessorStateError, match=r"RocksDB failed in .*block checksum mismatch"):
            list(entries)
    answers = Counter(answer_of(store, b"key-%05d" % number) for number in range(0, 5000, 10))
    assert set(answers) == {"value", "ProcessorStateError"}
    store.close()


def test_should_let_go_of_the_files_when_closed_even_if_somebody_keeps_the_error_of_a_range(tmp_path: Path) -> None:
    store = damaged(tmp_path, lambda size: slice(5, 60))
    with pytest.raises(ProcessorStateError) as kept:
        list(store.all())
    store.close()

    opened(tmp_path).close()
    assert "block checksum mismatch" in str(kept.value)


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


def test_should_refuse_what_is_not_bytes(tmp_path: Path) -> None:
    store = opened(tmp_path)

    with pytest.raises(TypeError, match="bytes are needed, not str"):
        store.put("text", b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes are needed, not str"):
        store.put_all([(b"a", "text")])  # type: ignore[list-item]
    assert list(store.all()) == []
    store.close()


def test_should_let_other_threads_read_while_it_is_written_flushed_and_closed(tmp_path: Path) -> None:
    answers: Counter[str] = Counter()

    def read_until_closed(store: KeyValueStore[bytes, bytes], start: Barrier) -> None:
        start.wait()
        while True:
            try:
                assert store.get(b"key-00007") is not None
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
    no_log = WriteOptions()
    no_log.disable_wal = True  # type: ignore[assignment, method-assign]
    store = builders[kind].build()
    store.open(context(tmp_path))

    ours, theirs = [], []
    for _ in range(5):  # in turns, because the machine has others to serve
        began = time.perf_counter()
        for batch in given:
            written = WriteBatch(raw_mode=True)
            for key, value in zip(batch.keys, batch.values, strict=True):
                written.put(known(key), value)
            alone.write(written, no_log)
        theirs.append(time.perf_counter() - began)
        began = time.perf_counter()
        for batch in given:
            store.restore(batch)
        ours.append(time.perf_counter() - began)
    store.close()
    alone.close()

    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    assert median(ratios) < 2, f"restored in {ours} s, written in {theirs} s"
