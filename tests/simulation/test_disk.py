"""The simulated disk: it answers as the system's file system does, and forgets what no disk has to keep."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import ProcessorStateError
from streams_runtime.state_stores.state_store import StoreContext
from streams_runtime.tasks.file_system import FileSystem
from tests.simulation.clocks import Pauses
from tests.simulation.disk import DiskView, Machine
from tests.simulation.fate import Fate
from tests.simulation.faults import Fault, Kind
from tests.simulation.simulated_store import SimulatedRocksDB, SimulatedStore
from tests.simulation.timeline import Timeline
from tests.simulation.windows import Windows


class Time:
    ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Computer:
    """One machine and one process of application `app` on it."""

    def __init__(self) -> None:
        self.time = Time()
        self.machine = Machine("machine", Windows(Timeline(0), "disk", lambda _: None))
        self.root = self.machine.state_dir / "app"
        self.start()

    def start(self) -> DiskView:
        self.fate, self.pauses = Fate(), Pauses()
        self.view = self.machine.view("app", self.fate, self.time, self.pauses)
        self.view.make_directory(self.root)
        return self.view

    def crash(self, *, machine_fails: bool, seed: int = 0) -> None:
        self.fate.is_dead = True
        self.view.crash(Random(seed), machine_fails=machine_fails)
        self.start()


def _said(call: Callable[[], object]) -> object:
    """What the call says, or the number of its error."""
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def _conversation(files: FileSystem, root: Path) -> list[object]:
    a, b, one, two = root / "a", root / "a" / "b", root / "a" / "one", root / "a" / "two"
    calls: list[Callable[[], object]] = [
        lambda: files.names(root),
        lambda: files.names(a),
        lambda: files.read(one),
        lambda: files.write_whole(one, b"1", written_as="t", synced=True),
        lambda: files.make_directory(b),
        lambda: files.make_directory(b),
        lambda: files.write_whole(one, b"1", written_as="t", synced=True),
        lambda: files.write_whole(one, b"22", written_as="t", synced=False),
        lambda: files.read(one),
        lambda: files.read(b),
        lambda: files.names(one),
        lambda: files.delete(b),
        lambda: files.rename(two, one),
        lambda: files.rename(one, two),
        lambda: files.exists(one),
        lambda: (files.exists(two), files.is_directory(two), files.is_directory(b)),
        lambda: files.delete_directory(a),
        lambda: files.rename(two, b / "two"),
        lambda: (files.names(a), files.names(b)),
        lambda: files.delete_tree(a / "nothing", ignore_errors=True),
        lambda: files.delete_tree(a / "nothing"),
        lambda: files.sync_directory(a),
        lambda: files.sync_directory(a / "nothing"),
        lambda: files.changed_ms(a / "nothing", but=".lock"),
        lambda: files.delete_tree(b),
        lambda: files.delete(b / "two"),
        lambda: files.delete_directory(a),
        lambda: files.exists(a),
    ]
    return [_said(call) for call in calls]


def test_should_answer_as_the_systems_file_system_does(tmp_path: Path) -> None:
    computer = Computer()
    assert _conversation(computer.view, computer.root) == _conversation(FileSystem(), tmp_path)


def test_should_keep_what_was_synced_and_lose_or_tear_what_was_not() -> None:
    contents, names = set(), set()
    for seed in range(60):
        computer = Computer()
        view, file, directory = computer.view, computer.root / "file", computer.root / "directory"
        view.write_whole(file, b"old", written_as="t", synced=True)
        view.make_directory(directory)
        view.write_whole(file, b"new!", written_as="t", synced=False)
        computer.crash(machine_fails=True, seed=seed)
        contents.add(computer.view.read(file))
        names.add(tuple(computer.view.names(computer.root)))
    assert contents == {b"old", b"", b"n", b"ne", b"new", b"new!"}
    assert names == {("file",), ("directory", "file")}


def test_should_keep_the_writes_of_an_own_store_in_order_and_all_that_were_flushed() -> None:
    kept = set()
    for seed in range(60):
        computer = Computer()
        store = _opened(computer, SimulatedStore("counts"))
        store.put(b"a", b"1")
        store.flush()
        store.put(b"b", b"1")
        store.put(b"a", None)
        computer.crash(machine_fails=False, seed=seed)
        kept.add(tuple(sorted(_opened(computer, SimulatedStore("counts")).scan(None, None))))
    assert kept == {((b"a", b"1"),), ((b"a", b"1"), (b"b", b"1")), ((b"b", b"1"),)}


@pytest.mark.parametrize(
    "machine_fails, kept", [(False, {(9, b"3")}), (True, {(5, b"1"), (7, b"2"), (9, b"3")})], ids=["killed", "failed"]
)
def test_should_keep_whole_batches_with_their_offsets(machine_fails: bool, kept: set[tuple[int, bytes]]) -> None:
    found = set()
    for seed in range(60):
        computer = Computer()
        store = _opened(computer, SimulatedRocksDB("counts"))
        store.write({b"a": b"1", b"b": b"1"}, 5)
        store.flush()
        store.write({b"a": b"2", b"b": b"2"}, 7)
        store.write({b"a": b"3", b"b": b"3"}, 9)
        computer.crash(machine_fails=machine_fails, seed=seed)
        left = _opened(computer, SimulatedRocksDB("counts"))
        assert left.get(b"a") == left.get(b"b")
        found.add((left.committed_offset, left.get(b"a")))
    assert found == kept


def test_should_refuse_a_whole_batch_when_it_is_full() -> None:
    computer = Computer()
    store = _opened(computer, SimulatedRocksDB("counts"))
    computer.machine.disk.windows.open(Fault(0, Kind.DISK_FULL, 1, 1_000))
    with pytest.raises(ProcessorStateError, match="No space left"):
        store.write({b"a": b"1", b"b": b"1"}, 5)
    assert (store.is_empty, store.committed_offset) == (True, None)


class _NoClock:
    record_timestamp_ms = stream_time_ms = current_system_time_ms = -1


S = TypeVar("S", SimulatedStore, SimulatedRocksDB)


def _opened(computer: Computer, store: S) -> S:
    store.open(StoreContext(TaskId(0, 0), computer.root / "0_0", None, _NoClock()))
    return store
