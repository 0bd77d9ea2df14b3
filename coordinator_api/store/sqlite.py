"""Sets up connections to an SQLite file, and runs its writes one at a time. The module also checks the file for damage
that SQLite does not notice.

SQLite keeps the file open, and stores pages in memory. So SQLite does not notice when another program changes the file:

- If the file was deleted, replaced or cut short, writes still succeed, but are lost when the process ends. Before each
  commit and after each transaction, `OpenFile` checks that the path still leads to the opened file.
- Damaged bytes are not noticed while their pages are in memory. `FileDamage` has SQLite check the file over another
  connection, which has no pages in memory.
- When SQLite opens a damaged write-ahead log, it silently drops the commits after the damage. `log_damage` finds damage
  to a write-ahead log before SQLite opens the file.
"""

import asyncio
import os
import sqlite3
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from coordinator_api.store.store_errors import DamagedDatabase, DatabaseCutShort, DatabaseReplaced, StoreBusy, kind_of

Begin = Callable[[], AbstractAsyncContextManager[AsyncConnection]]
"""A function that begins a transaction. If the block ends without an error, the transaction is committed."""

TAKES_WRITE_LOCK = "takes_write_lock"
"""The execution option by which a transaction waits for the write lock when it begins. Without this option, a
transaction waits at its first write.
"""


def set_up(engine: AsyncEngine, *pragmas: str) -> None:
    """Makes each new connection of `engine` set these pragmas. Each transaction of the engine then begins with the
    statement BEGIN.
    """

    def set_pragmas(connection: Any, _record: object) -> None:
        # The driver begins no transaction before DDL or a SELECT. With the driver's own transactions, an interrupted
        # migration would create only a part of its tables, and a backup would see later commits. So the driver's own
        # transactions are switched off, and `begin` below begins each transaction.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def begin(connection: Connection) -> None:
        takes_lock = connection.get_execution_options().get(TAKES_WRITE_LOCK, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if takes_lock else "BEGIN")

    event.listen(engine.sync_engine, "connect", set_pragmas)
    event.listen(engine.sync_engine, "begin", begin)


# --- one write at a time


class WriteTurns:
    """Begins the writes of this process one at a time, in the order of their calls. `begin`: the function that begins
    one write.

    If writers did not take turns, all of them would poll SQLite's own lock, and would wait longer. If another program
    holds SQLite's lock, only one write waits for the lock. After this write has waited for `patience_s`, `begin`
    refuses all other writes with StoreBusy. A locked database therefore blocks only one call.
    """

    def __init__(self, begin: Begin, patience_s: float = 0.5) -> None:
        self._begin = begin
        self._patience_s = patience_s
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Timeout] = set()
        self._is_locked = False

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """Begins a write transaction. Raises StoreBusy if an earlier write has waited for `patience_s` because another
        program holds SQLite's lock.
        """
        await self._wait_for_turn()
        try:
            async with AsyncExitStack() as transaction:
                timer = asyncio.get_running_loop().call_later(self._patience_s, self._refuse_others)
                try:
                    connection = await transaction.enter_async_context(self._begin())
                finally:
                    timer.cancel()
                    self._is_locked = False
                yield connection
        finally:
            self._turn.release()

    async def _wait_for_turn(self) -> None:
        if self._is_locked:
            raise _busy()
        waiting = asyncio.timeout(None)
        self._waiting.add(waiting)
        try:
            async with waiting:
                await self._turn.acquire()
        except TimeoutError:
            raise _busy() from None
        finally:
            self._waiting.discard(waiting)

    def _refuse_others(self) -> None:
        self._is_locked = True
        for waiting in self._waiting:
            waiting.reschedule(asyncio.get_running_loop().time())
        self._waiting.clear()


def _busy() -> StoreBusy:
    return StoreBusy(
        "the database (setting database.url) is locked by another program, and one write is waiting for it already: "
        "end that program, or try again"
    )


# --- identity and length of the file


class OpenFile:
    """Remembers the identities of the database's file and of its write-ahead log, and checks the files against them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._identities: dict[Path, tuple[int, int]] = {}
        self._bytes = 0
        self._cut_to: int | None = None

    def check(self) -> None:
        """Raises DatabaseReplaced or DatabaseCutShort. If a file was moved away and put back, it is accepted again."""
        for path in (self._file, write_ahead_log_of(self._file)):
            found = stat_of(path)
            identity = None if found is None else (found.st_dev, found.st_ino)
            expected = self._identities.get(path, identity)
            if identity != expected:
                what = "deleted" if identity is None else "replaced by another one"
                raise DatabaseReplaced(
                    f"the file {path} was {what} while the coordinator was using it: nothing more can be stored. Put "
                    "it back, or stop the coordinator, restore a backup and start it again"
                )
            if identity is not None:
                self._identities[path] = identity
            if path == self._file and found is not None:
                self._check_length(found.st_size)

    def _check_length(self, now: int) -> None:
        """Raises DatabaseCutShort if the file has shrunk. A vacuum by another program also shrinks the file. A vacuum
        also writes the smaller length to the header, so this method raises no error after a vacuum.
        """
        if now < self._bytes and now < bytes_by_header(self._file):
            # Remember the smaller length. Later writes may make the file longer again, but the lost pages stay lost.
            self._cut_to = now
        self._bytes = now
        if self._cut_to is not None:
            raise DatabaseCutShort(
                f"the file {self._file} was cut to {self._cut_to} bytes while the coordinator was using it: nothing "
                "more can be stored. Stop the coordinator, restore a backup and start it again"
            )


def write_ahead_log_of(file: Path) -> Path:
    """Returns the path of the write-ahead log beside the database. The write-ahead log contains the newest writes."""
    return file.with_name(f"{file.name}-wal")


def stat_of(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def bytes_by_header(file: Path) -> int:
    """Returns the length of the file according to the file's header. If the file is too short for a header, the result
    is its length plus 1.
    """
    with file.open("rb") as opened:
        header = opened.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return len(header) + 1
    page_size, pages = _PAGE_SIZE_AND_PAGES.unpack_from(header)
    return int((_LARGEST_PAGE if page_size == 1 else page_size) * pages)


_HEADER_BYTES = 100
_PAGE_SIZE_AND_PAGES = struct.Struct(">16xH10xI")
_LARGEST_PAGE = 65_536
"""The largest page size in bytes. The header's field for the page size is too small for the largest page size. In the
header, the value 1 stands for the largest page size.
"""


# --- damage to the bytes of the file

_WAIT_S = 0.3
"""The longest time for which a caller waits for a running check. The check of a small file takes some milliseconds."""

_REST = 19
"""After a check, the pause is this number times the duration of the check. Checks therefore take at most a twentieth of
the time.
"""


class FileDamage:
    """Within `watched`, checks the file by `PRAGMA quick_check` if the file has changed since the last check.

    A check takes time in proportion to the size of the file. So checks run in the background, and callers get the
    newest result. If the file was damaged at the first check, `check` never raises an error. If a coordinator starts
    with a damaged file, it leads only the groups with intact logs. Use each `FileDamage` on one event loop only.

    Source: https://www.sqlite.org/pragma.html#pragma_quick_check
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._checked: tuple[int, int, int] | None = None
        self._was_damaged: bool | None = None
        self._problem: str | None = None
        self._due_s = 0.0
        self._checking: asyncio.Task[None] | None = None
        self._connection: sqlite3.Connection | None = None

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Begins the first check at once. Within the block, a call of `check` may begin another check."""
        self._begin()
        try:
            yield
        finally:
            if self._connection is not None:
                # ignore this error: the check may have closed its connection by now
                with suppress(sqlite3.ProgrammingError):
                    self._connection.interrupt()
            if self._checking is not None:
                await asyncio.wait((self._checking,))
                self._checking = None

    async def check(self) -> None:
        """Raises DamagedDatabase if the file was intact at the first check, and is damaged now."""
        if self._checked is not None and self._checking is None and time.monotonic() >= self._due_s:
            self._begin()
        if self._checking is not None:
            await asyncio.wait((self._checking,), timeout=_WAIT_S)
        if self._problem is not None and not self._was_damaged:
            raise DamagedDatabase(
                f"the file {self._file} was damaged while the coordinator was using it: {self._problem}. Stop the "
                "coordinator, restore a backup and start it again"
            )

    def _begin(self) -> None:
        try:
            found = os.stat(self._file)
        except OSError:  # the file was deleted or is out of reach: reads and writes report this error themselves
            return
        version = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        if version != self._checked:
            self._checked = version
            self._checking = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        began_s = time.monotonic()
        try:
            self._problem = await asyncio.to_thread(self._found)
            if self._was_damaged is None:
                self._was_damaged = self._problem is not None
        except sqlite3.DatabaseError:  # the file cannot be opened: reads and writes report this error themselves
            self._checked = (0, 0, 0)
        finally:
            self._checking = None
        now_s = time.monotonic()
        self._due_s = now_s + _REST * (now_s - began_s)

    def _found(self) -> str | None:
        """Returns a description of the first damage in the file; None if the file is intact. Raises
        sqlite3.DatabaseError.
        """
        try:
            # with `immutable`, SQLite reads the first page from the file itself, and not from the write-ahead log
            self._ask("PRAGMA schema_version", "immutable=1")
            answer = self._ask("PRAGMA quick_check(1)", "mode=ro")
        except sqlite3.DatabaseError as error:
            if kind_of(error) is DamagedDatabase:
                return str(error)
            raise
        return None if answer == "ok" else " ".join(str(answer).split())

    def _ask(self, statement: str, option: str) -> object:
        # SQLite itself opens the file here. If this process opened and closed the file itself, the system would drop
        # SQLite's locks on the file.
        uri = f"file:{quote(str(self._file))}?{option}"
        with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
            self._connection = connection
            try:
                return connection.execute(statement).fetchone()[0]
            finally:
                self._connection = None


# --- damage to the write-ahead log of an earlier process

_LOG_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_BYTE_ORDERS = {0x377F0682: "<", 0x377F0683: ">"}
"""Maps the magic number of a write-ahead log to a byte order. Checksums are computed from 32-bit words in this byte
order.
"""

_WORD = 0xFFFFFFFF


def log_damage(log: Path) -> str | None:
    """Describes damage to a write-ahead log if commits would be lost because of the damage. Returns None if no commits
    would be lost. Raises OSError.

    A write-ahead log has a header of 32 bytes, and then frames. Each frame has a header of 24 bytes, and then one page
    of the database. All numbers of the headers are big-endian.

    When SQLite opens a database, it uses the frames before the first frame whose checksum does not fit. A power loss
    during a write leaves an incomplete frame, whose checksum does not fit. If a frame is damaged after the write, it
    looks like an incomplete frame. Intact frames of a later commit can follow a damaged frame. Intact frames never
    follow an incomplete frame, because SQLite syncs a commit before the next commit begins. The checksum of each frame
    continues the checksum of the previous frame. The frames after the first wrong checksum show whether
    commits would be lost. The write-ahead log counts as damaged if one of these frames meets two conditions. The frame
    begins a new commit, and its checksum continues the checksum of the previous frame. In this case, the previous
    commit was complete, and the caller of this commit got the answer. Damage within the very last commit looks like an
    interrupted write.

    Source: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
    """
    try:
        opened = log.open("rb")
    except FileNotFoundError:
        return None
    with opened:
        header = opened.read(_LOG_HEADER.size)
        if not opened.read(1):
            return None  # no frame follows
        opened.seek(_LOG_HEADER.size)
        magic, _, page_size, _, *salts_and_sums = _LOG_HEADER.unpack(header)
        order, salts, sums = _BYTE_ORDERS.get(magic), salts_and_sums[:2], salts_and_sums[2:]
        if order is None or not 512 <= page_size <= _LARGEST_PAGE or _continued([0, 0], header[:24], order) != sums:
            return "its header is damaged"
        broken_at, after_commit = 0, False
        for number, (continues, is_commit) in enumerate(_frames(opened, page_size, salts, sums, order), start=1):
            if broken_at and after_commit and continues:
                return f"frame {broken_at} of it is damaged, and commits come after that"
            if not broken_at and not continues:
                broken_at = number
            after_commit = is_commit
    return None


def _frames(
    opened: BinaryIO, page_size: int, salts: list[int], sums: list[int], order: str
) -> Iterator[tuple[bool, bool]]:
    """Yields two values for each complete frame of the file. The first value is True if the frame's checksum continues
    the checksum in the previous frame. The second value is True if the frame ends a commit. The first value is False if
    the frame has other salts than the header. Such a frame is from an earlier use of the file.
    """
    while len(header := opened.read(_FRAME_HEADER.size)) == _FRAME_HEADER.size:
        page = opened.read(page_size)
        if len(page) < page_size:
            return
        _, pages_after_commit, *salts_and_sums = _FRAME_HEADER.unpack(header)
        is_of_log = salts_and_sums[:2] == salts
        continues = is_of_log and _continued(_continued(sums, header[:8], order), page, order) == salts_and_sums[2:]
        yield continues, pages_after_commit != 0
        sums = salts_and_sums[2:]


def _continued(sums: list[int], content: bytes, order: str) -> list[int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & _WORD
        second = (second + two + first) & _WORD
    return [first, second]
