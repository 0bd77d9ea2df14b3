"""A simulated disk: the directories and files of a machine, in memory, and what is left of them when a process dies.

Rules, which are those of a journaling file system and of RocksDB:
- What a process did to directories (new files, renames, deletions) is in a journal until somebody syncs. When the
  machine fails, the end of the journal is undone, from a point that chance draws.
- A file that was not synced may be torn then: chance draws how much of it is there.
- A store gets batches. A batch is there as a whole or not at all: RocksDB drops a torn one. When the machine fails, the
  batches since the last flush are lost from a point that chance draws: the write-ahead log is not synced at each batch.
  When only the process dies, none is lost.
- A store of a user's own class has no such log: its writes since its last flush are lost from a point that chance draws
  also when only the process dies.
- A full disk refuses to write and to make; it deletes. A slow one takes simulated time.
"""

import errno
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple
from weakref import WeakValueDictionary

from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import LockError
from streams_runtime.state_stores.rocksdb import KeepOffset
from streams_runtime.tasks.file_system import LOCK_FILE_NAME, FileSystem, HeldLock
from tests.simulation.clocks import Pauses
from tests.simulation.fate import Fate, Point
from tests.simulation.faults import Kind
from tests.simulation.windows import Windows

CORRUPTION = "Corruption: block checksum mismatch"


class File:
    __slots__ = ("changed_ms", "data", "synced")

    def __init__(self, data: bytes, changed_ms: int) -> None:
        self.data = data
        self.changed_ms = changed_ms
        self.synced = False


class Directory:
    __slots__ = ("changed_ms", "entries")

    def __init__(self, changed_ms: int) -> None:
        self.entries: dict[str, Node] = {}
        self.changed_ms = changed_ms


class Batch(NamedTuple):
    """Keys with their values, None to delete them, and the changelog offset that is written with them."""

    entries: Sequence[tuple[bytes, bytes | None]]
    offset: int | KeepOffset | None = KeepOffset.KEEP


class StoreContent:
    """Of a store on the disk."""

    __slots__ = ("entries", "offset")

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.offset: int | None = None

    def add(self, batch: Batch) -> None:
        for key, value in batch.entries:
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value
        if not isinstance(batch.offset, KeepOffset):
            self.offset = batch.offset


class Database:
    """The files of one store. `flushed`: what is sure. `since`: the batches after that. `has_log`: they survive when
    the process dies alone. `unchecked`: those that no rule has seen; `checked`: what was there before them.
    """

    __slots__ = ("changed_ms", "checked", "flushed", "has_log", "is_damaged", "since", "unchecked")

    def __init__(self, changed_ms: int, *, has_log: bool) -> None:
        self.flushed, self.checked = StoreContent(), StoreContent()
        self.since: list[Batch] = []
        self.unchecked: list[Batch] = []
        self.has_log = has_log
        self.is_damaged = False
        self.changed_ms = changed_ms

    def add(self, batch: Batch) -> None:
        self.since.append(batch)
        self.unchecked.append(batch)

    def content(self) -> StoreContent:
        """With all batches."""
        found = StoreContent()
        found.entries |= self.flushed.entries
        found.offset = self.flushed.offset
        for batch in self.since:
            found.add(batch)
        return found

    def take_unchecked(self) -> list[Batch]:
        taken, self.unchecked = self.unchecked, []
        return taken

    def lose(self) -> None:
        """What is not flushed is lost. What is left has to be checked again."""
        self.since.clear()
        self.checked = self.content()
        self.unchecked = [Batch(())]

    def flush(self, count: int | None = None) -> None:
        """The first `count` batches that are not flushed; None for all."""
        for batch in self.since[:count]:
            self.flushed.add(batch)
        del self.since[:count]


Node = File | Directory | Database


class SimulatedDisk:
    """Of one machine. `windows`: what is wrong with it. `damages_stores`: when the machine fails. `wiped`: the stores
    that were deleted although they were whole and had an offset.
    """

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.damages_stores = False
        self.wiped: list[str] = []
        self.root = Directory(0)
        self.locks: dict[str, DiskView] = {}

    def node(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in path.split("/"):
            if name:
                if type(node) is not Directory:
                    return None
                node = node.entries.get(name)
        return node


class DiskView(FileSystem):
    """The disk as one process sees it. `clock`: the time of what it writes. `is_cleaning`: it deletes obsolete
    state.
    """

    def __init__(self, disk: SimulatedDisk, fate: Fate, clock: Clock, pauses: Pauses) -> None:
        self.disk = disk
        self._fate = fate
        self._clock = clock
        self._pauses = pauses
        self._undo: list[tuple[Directory, str, Node | None]] = []
        self._unsynced: list[File] = []
        self._databases: list[Database] = []
        self.is_cleaning = False

    # --- FileSystem

    def read(self, file: Path) -> bytes:
        self._check_alive()
        found = self._found(file)
        if not isinstance(found, File):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(file))
        return found.data

    def write_whole(self, file: Path, data: bytes, *, written_as: str, synced: bool) -> None:
        self._change(file)
        written = File(data, self._clock.now_ms())
        directory = self._directory(file)
        self._unsynced.append(written)
        if synced:
            self._fate.reach(Point.DISK_WRITE)  # it is written, and not renamed
            written.synced = True
        self._put(directory, file.name, written)
        if synced:
            self._fate.reach(Point.DISK_WRITE)  # it is renamed, and its directory not synced
            self._sync()

    def delete(self, file: Path) -> None:
        self._fate.reach(Point.DISK_WRITE)
        found = self._found(file)
        if not isinstance(found, File):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(file))
        self._put(self._directory(file), file.name, None)

    def rename(self, path: Path, to: Path) -> None:
        self._fate.reach(Point.DISK_WRITE)
        node = self._found(path)
        into = self._directory(to)
        if not self.is_cleaning:  # state is renamed before it is deleted
            self.disk.wiped += _whole_stores(str(path), node)
        self._put(self._directory(path), path.name, None)
        self._put(into, to.name, node)

    def sync_directory(self, directory: Path) -> None:
        self._fate.reach(Point.DISK_WRITE)
        self._found(directory)
        self._sync()

    def make_directory(self, directory: Path) -> None:
        self._check_alive()
        node: Node = self.disk.root
        for name in str(directory).split("/"):
            if not name:
                continue
            if type(node) is not Directory:
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(directory))
            below = node.entries.get(name)
            if below is None:
                self._change(directory)
                below = Directory(self._clock.now_ms())
                self._put(node, name, below)
            node = below

    def delete_directory(self, directory: Path) -> None:
        self._fate.reach(Point.DISK_WRITE)
        found = self._found(directory)
        if not isinstance(found, Directory) or found.entries:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(directory))
        self._put(self._directory(directory), directory.name, None)

    def delete_tree(self, directory: Path, *, ignore_errors: bool = False) -> None:
        self._fate.reach(Point.DISK_WRITE)
        if self.disk.node(str(directory)) is None:
            if ignore_errors:
                return
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(directory))
        self._put(self._directory(directory), directory.name, None)

    def names(self, directory: Path) -> list[str]:
        self._check_alive()
        found = self._found(directory)
        if not isinstance(found, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(directory))
        return sorted(found.entries)

    def exists(self, path: Path) -> bool:
        self._check_alive()
        return self.disk.node(str(path)) is not None

    def is_directory(self, path: Path) -> bool:
        """A store's files are in a directory."""
        self._check_alive()
        return isinstance(self.disk.node(str(path)), Directory | Database)

    def changed_ms(self, directory: Path, *, but: str) -> int:
        self._check_alive()
        found = self._found(directory)
        return max(_times(found, but), default=0) or found.changed_ms

    def lock(self, directory: Path, what: str, *, wait_ms: int = 0) -> HeldLock:
        self._check_alive()
        path = str(directory)
        if path in self.disk.locks:
            raise LockError(f"{what} ({directory}) is in use by another process")
        found = self._found(directory)
        assert isinstance(found, Directory)
        if LOCK_FILE_NAME not in found.entries:
            self._put(found, LOCK_FILE_NAME, File(b"", self._clock.now_ms()))
        self.disk.locks[path] = self
        return _Lock(self, path)

    def warn_if_readable_by_others(self, directory: Path) -> None:
        """There are none."""

    # --- stores

    def open_database(self, path: Path, *, has_log: bool) -> Database:
        """Raises OSError, and ValueError when its files are damaged."""
        self.make_directory(path.parent)
        node = self.disk.node(str(path))
        if node is None:
            self._change(path)
            node = Database(self._clock.now_ms(), has_log=has_log)
            self._put(self._directory(path), path.name, node)
        assert isinstance(node, Database), f"{path} is no database"
        if node.is_damaged:
            raise ValueError(CORRUPTION)
        if node not in self._databases:
            self._databases.append(node)
        return node

    def write(self, database: Database, path: Path, batch: Batch) -> None:
        """Into the write-ahead log. Raises OSError; nothing of the batch is there then."""
        self._check_alive()
        self._fate.reach(Point.STORE_FLUSH)
        self._change(path)
        database.add(batch)
        database.changed_ms = self._clock.now_ms()

    def flush(self, database: Database, path: Path) -> None:
        """Raises OSError."""
        self._check_alive()
        if not database.since:
            return
        self._fate.reach(Point.STORE_FLUSH)
        self._change(path)
        database.flush()
        database.changed_ms = self._clock.now_ms()
        self._sync()

    # --- the end of the process

    def crash(self, chance: Random, *, machine_fails: bool) -> None:
        """The process is no more, and perhaps the machine was off for a moment."""
        for path in [path for path, holder in self.disk.locks.items() if holder is self]:
            del self.disk.locks[path]
        for database in self._databases:
            if machine_fails or not database.has_log:
                database.flush(chance.randint(0, len(database.since)))
                database.lose()
            if self.disk.damages_stores and machine_fails and chance.random() < 0.5:
                database.is_damaged = True
        self._databases.clear()
        if machine_fails:
            kept = chance.randint(0, len(self._undo))
            for directory, name, before in reversed(self._undo[kept:]):
                _set(directory, name, before)
            for file in self._unsynced:
                if not file.synced:
                    file.data = file.data[: chance.randint(0, len(file.data))]
        self._sync()

    # --- inside

    def _check_alive(self) -> None:
        if self._fate.is_dead:
            self._fate.reach(Point.DISK_WRITE)

    def _change(self, path: Path) -> None:
        self._fate.reach(Point.DISK_WRITE)
        windows = self.disk.windows
        if not windows.any_open:
            return
        self._pauses.spend(windows.amount(Kind.DISK_SLOW) or 0)
        if windows.is_open(Kind.DISK_FULL):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def _found(self, path: Path) -> Node:
        found = self.disk.node(str(path))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return found

    def _directory(self, path: Path) -> Directory:
        found = self.disk.node(str(path).rpartition("/")[0])
        if not isinstance(found, Directory):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return found

    def _put(self, directory: Directory, name: str, node: Node | None) -> None:
        self._undo.append((directory, name, directory.entries.get(name)))
        _set(directory, name, node)
        directory.changed_ms = self._clock.now_ms()

    def _sync(self) -> None:
        self._undo.clear()
        self._unsynced = [file for file in self._unsynced if not file.synced]


class _Lock:
    def __init__(self, view: DiskView, path: str) -> None:
        self._view = view
        self._path = path

    def release(self) -> None:
        if self._view.disk.locks.get(self._path) is self._view:
            del self._view.disk.locks[self._path]


class Machine:
    """A host: its disk outlives its processes. `views`: of the process that has, or had, an application's directory.

    A store is opened by a path alone, and finds the view of its process here.
    """

    _of_directories: ClassVar[WeakValueDictionary[str, DiskView]] = WeakValueDictionary()

    def __init__(self, name: str, windows: Windows) -> None:
        self.name = name
        self.disk = SimulatedDisk(windows)
        self.state_dir = Path("/", name)

    def view(self, application_id: str, fate: Fate, clock: Clock, pauses: Pauses) -> DiskView:
        """For a new process."""
        view = DiskView(self.disk, fate, clock, pauses)
        self._of_directories[str(self.state_dir / application_id)] = view
        return view

    @classmethod
    def view_of(cls, task_directory: Path) -> DiskView:
        return cls._of_directories[str(task_directory.parent)]


def _set(directory: Directory, name: str, node: Node | None) -> None:
    if node is None:
        directory.entries.pop(name, None)
    else:
        directory.entries[name] = node


def _whole_stores(path: str, node: Node) -> list[str]:
    if isinstance(node, Database):
        return [] if node.is_damaged or node.content().offset is None else [path]
    if not isinstance(node, Directory):
        return []
    return [store for name, below in node.entries.items() for store in _whole_stores(f"{path}/{name}", below)]


def _times(node: Node, but: str) -> list[int]:
    if not isinstance(node, Directory):
        return []
    return [
        time_ms
        for name, below in node.entries.items()
        if name != but
        for time_ms in (below.changed_ms, *_times(below, but))
    ]
