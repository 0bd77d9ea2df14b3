"""The faults. Each is done to the files, the disk or the database of a running coordinator from outside of it.

`SQLITE_FAULTS` and `POSTGRESQL_FAULT` are by name. Some need rights: a disk of their own to fill (root), or a file that
nobody may write (root, on a file system with `chattr`).
"""

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.coordinator_api.store.postgresql import Postgresql

DATABASE = "assignor.sqlite3"
"""The default of `database.url`, in the directory in which the coordinator runs."""

DISK_BYTES = 8 * 1024 * 1024
_PAGE_BYTES = 4_096
_FLIPPED = 64
_FILLED_AT_ONCE = 4_096
_SEEN_AFTER_S = 1.5
"""Until the coordinator has looked at a file that has become longer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`happens`: to the coordinator's directory, until it is left. `ends`: whether the store is then as it was before.

    `small_disk`: it needs a disk of its own in that directory.
    """

    title: str
    happens: Callable[[Path], AbstractContextManager[None]]
    ends: bool = True
    small_disk: bool = False


@contextmanager
def small_disk(directory: Path, size: int = DISK_BYTES) -> Iterator[None]:
    """A file system of `size` bytes at `directory`. Needs root."""
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory)
    try:
        yield
    finally:
        _run("umount", "--lazy", directory)


@contextmanager
def _full(directory: Path) -> Iterator[None]:
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(_FILLED_AT_ONCE))
        except OSError:
            pass
    yield
    filler.unlink()


@contextmanager
def _files_read_only(directory: Path) -> Iterator[None]:
    """For everybody and for open files, too: permissions alone do not bind who has opened the file before."""
    with _immutable(directory / DATABASE, directory / f"{DATABASE}-wal"):
        yield


@contextmanager
def _directory_read_only(directory: Path) -> Iterator[None]:
    with _immutable(directory):
        yield


@contextmanager
def _immutable(*paths: Path) -> Iterator[None]:
    _run("chattr", "+i", *paths)
    try:
        yield
    finally:
        _run("chattr", "-i", *paths)


def _gone(name: str) -> Callable[[Path], AbstractContextManager[None]]:
    @contextmanager
    def gone(directory: Path) -> Iterator[None]:
        (directory / name).rename(directory / "elsewhere")
        yield
        (directory / "elsewhere").rename(directory / name)

    return gone


@contextmanager
def _replaced(directory: Path) -> Iterator[None]:
    """By an empty database, as somebody makes it who starts something else there."""
    file, kept = directory / DATABASE, directory / "elsewhere"
    file.rename(kept)
    file.touch()
    yield
    kept.rename(file)


@contextmanager
def _pages_changed(directory: Path) -> Iterator[None]:
    """Bytes in the middle of every page but the first two, once everything is in the main file."""
    _checkpoint(directory)
    with (directory / DATABASE).open("r+b") as file:
        for begin in range(2 * _PAGE_BYTES, os.fstat(file.fileno()).st_size, _PAGE_BYTES):
            _flip(file.fileno(), begin + _PAGE_BYTES // 2)
    yield


@contextmanager
def _log_changed(directory: Path) -> Iterator[None]:
    """Bytes in the middle of the write-ahead log."""
    with (directory / f"{DATABASE}-wal").open("r+b") as file:
        _flip(file.fileno(), os.fstat(file.fileno()).st_size // 2)
    yield


def _cut_to(share: float) -> Callable[[Path], AbstractContextManager[None]]:
    @contextmanager
    def cut(directory: Path) -> Iterator[None]:
        _checkpoint(directory)
        time.sleep(_SEEN_AFTER_S)
        file = directory / DATABASE
        os.truncate(file, int(file.stat().st_size * share) // _PAGE_BYTES * _PAGE_BYTES)
        yield

    return cut


@contextmanager
def _record_cut_short(directory: Path) -> Iterator[None]:
    with _other_program(directory) as database:
        database.execute(
            "UPDATE group_records SET body = substr(body, 1, 100) WHERE group_id = 'concerned'"
            " AND sequence = (SELECT max(sequence) FROM group_records WHERE group_id = 'concerned')"
        )
    yield


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with _other_program(directory) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield
        database.execute("ROLLBACK")


SQLITE_FAULTS = {
    "full-disk": Fault("the disk is full", _full, small_disk=True),
    "read-only-file": Fault("the file and its -wal are read-only", _files_read_only),
    "read-only-directory": Fault("the directory is read-only", _directory_read_only),
    "deleted": Fault("the file was deleted, then put back", _gone(DATABASE)),
    "deleted-log": Fault("its -wal was deleted, then put back", _gone(f"{DATABASE}-wal")),
    "replaced": Fault("the file was replaced by an empty one, then put back", _replaced),
    "corrupted": Fault("bytes in its pages were changed", _pages_changed, ends=False),
    "corrupted-log": Fault("bytes in its -wal were changed", _log_changed, ends=False),
    "truncated-record": Fault("the last record of one group was cut short", _record_cut_short, ends=False),
    "truncated": Fault("the file was cut in half", _cut_to(0.5), ends=False),
    "emptied": Fault("the file was emptied", _cut_to(0.0), ends=False),
    "locked": Fault("another program has it locked", _locked),
}


def postgresql_stopped(database: Postgresql) -> Fault:
    """PostgreSQL is stopped, and started again."""

    @contextmanager
    def stopped(_: Path) -> Iterator[None]:
        database.stop()
        try:
            yield
        finally:
            database.start()

    return Fault("PostgreSQL was stopped, then started", stopped)


def cannot_happen_here(fault: Fault, directory: Path) -> str | None:
    """Which right is missing; None when none is. `directory`: on the file system that the fault would happen on."""
    if fault.small_disk and os.getuid() != 0:
        return "needs root, to mount a small disk"
    if fault.happens in (_files_read_only, _directory_read_only):
        probe = directory / "probe"
        probe.touch()
        try:
            with _immutable(probe):
                return None
        except (OSError, subprocess.CalledProcessError):
            return "needs root, and a file system with chattr"
        finally:
            probe.unlink()
    return None


def _checkpoint(directory: Path) -> None:
    with _other_program(directory) as database:
        database.execute("PRAGMA wal_checkpoint(FULL)")


@contextmanager
def _other_program(directory: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(directory / DATABASE, isolation_level=None, timeout=30)
    try:
        yield database
    finally:
        database.close()


def _flip(file: int, begin: int) -> None:
    before = os.pread(file, _FLIPPED, begin)
    os.pwrite(file, bytes(byte ^ 0xFF for byte in before), begin)


def _run(program: str, *arguments: object) -> None:
    """Raises OSError, CalledProcessError."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or program
    subprocess.run([found, *map(str, arguments)], check=True, capture_output=True)  # noqa: S603 -- names above only
