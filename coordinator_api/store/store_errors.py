"""Defines the errors of the store, and converts database errors to these errors. The package `store` never raises
SQLAlchemy's errors.
"""

import sqlite3
from collections.abc import Mapping
from typing import ClassVar

from assignor.errors import AssignorFault, InputError, Unavailable


class StoreError(AssignorFault):
    """The store cannot be used. The message names the database or the setting, the cause, and the remedy.

    `public`: the text for callers of the service. The message of the error contains paths, so only the log file of the
    service shows the message.
    """

    public: ClassVar[str] = "it cannot be read or written"

    @property
    def in_public(self) -> str:
        return self.public


class StoreInUse(StoreError, Unavailable):
    """Another coordinator holds the lease of the database."""


class DatabaseOutOfReach(StoreError, Unavailable):
    """The database accepted no connection, or did not answer."""

    public = "it cannot be reached"


class ConcurrentWriter(StoreError):
    """Another process has written to this group's log. Nothing was written to the store, and the group in memory is out
    of date.
    """


class NotOwner(StoreError):
    """Another coordinator owns this group now. Nothing was written to the store, and this coordinator must not answer
    for the group.
    """

    public = "another coordinator owns the group now"


class LeaseEnded(StoreError):
    """This coordinator could not renew its row in time, so another coordinator may own its groups. Nothing was written
    to the store.
    """

    public = "this coordinator could not renew its lease in time, so another one may lead its groups"


class NameTaken(StoreError):
    """Another coordinator has just stored a token of this name. Nothing was written to the store."""

    public = "a token of this name was created at the same moment"


class UnusableDatabase(InputError, StoreError):
    """The database of the setting database.url cannot be a coordinator's database: set another database."""


class StoreBusy(StoreError):
    """Another program has locked the database. Nothing was written to the store."""

    public = "it is locked by another program"


class DiskFull(StoreError):
    """The disk has no space left for the write."""

    public = "its disk is full"


class DiskFailed(StoreError):
    """The system reported an error of the disk, such as an I/O error or a limit of the file's size."""

    public = "its disk cannot be used (an I/O error)"


class ReadOnlyDatabase(StoreError):
    """The database is read-only."""

    public = "it is read-only"


class DamagedDatabase(StoreError):
    """The database itself is damaged. The damage is not limited to the log of one group."""

    public = "its file is damaged"


class DatabaseReplaced(StoreError):
    """The database's file is not the file that was opened. The last writes may be lost."""

    public = "its file was deleted or replaced while the service was using it"


class DatabaseCutShort(StoreError):
    """The database's file is shorter than it was at an earlier check. Stored data may be lost."""

    public = "its file was cut short while the service was using it"


class DamagedLog(StoreError):
    """The log of one group is damaged. The message names the group and the record."""

    @property
    def in_public(self) -> str:
        return str(self)


_KIND_BY_SQLSTATE: Mapping[str, type[StoreError]] = {
    "XX001": DamagedDatabase,  # The error data_corrupted.
    "XX002": DamagedDatabase,  # The error index_corrupted.
    "53100": DiskFull,
    "25006": ReadOnlyDatabase,
    "53300": DatabaseOutOfReach,  # The error too_many_connections.
    "57P01": DatabaseOutOfReach,  # The error admin_shutdown.
    "57P02": DatabaseOutOfReach,  # The error crash_shutdown.
    "57P03": DatabaseOutOfReach,  # The error cannot_connect_now.
}
_KIND_BY_SQLITE_CODE: Mapping[int, type[StoreError]] = {
    sqlite3.SQLITE_BUSY: StoreBusy,  # the file is locked for longer than `sqlite.busy.timeout.ms`
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_IOERR: DiskFailed,
    sqlite3.SQLITE_READONLY: ReadOnlyDatabase,
    sqlite3.SQLITE_CORRUPT: DamagedDatabase,
    sqlite3.SQLITE_NOTADB: DamagedDatabase,
}
_NOT_TEXT = "Could not decode to UTF-8"


def kind_of(error: Exception) -> type[StoreError]:
    """Returns the class of StoreError for an error of the database, of its driver or of SQLAlchemy.

    DamagedDatabase means that the requested rows cannot be read; other rows of the database may be readable.
    """
    if isinstance(error, ConnectionError | TimeoutError):
        return DatabaseOutOfReach
    if _NOT_TEXT in str(error):
        return DamagedDatabase  # This error of Python's sqlite3 module has no SQLite error code.
    cause = getattr(error, "orig", error)
    sqlstate: str = getattr(cause, "sqlstate", None) or ""
    if sqlstate in _KIND_BY_SQLSTATE:
        return _KIND_BY_SQLSTATE[sqlstate]
    if getattr(error, "connection_invalidated", False):
        return DatabaseOutOfReach
    code: int = getattr(cause, "sqlite_errorcode", 0)
    return _KIND_BY_SQLITE_CODE.get(code & 0xFF, StoreError)  # SQLite's primary result code is in the lowest byte


def unusable(problem: str, error: Exception) -> StoreError:
    """Returns the error to raise when the database cannot be used because of `error`. `problem`: the text that follows
    the database's name in the message.
    """
    return kind_of(error)(f"the database (setting database.url) {problem}: {reason(error)}")


def reason(error: Exception) -> str:
    """Returns the database's own message in one line, without SQLAlchemy's text around it."""
    message = str(getattr(error, "orig", None) or error)
    return " ".join(message.split()) or type(error).__name__
