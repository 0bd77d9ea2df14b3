"""What can go wrong with the store. SQLAlchemy's own errors never leave this package."""

from __future__ import annotations

from typing import ClassVar

from assignor.errors import AssignorFault, InputError, Unavailable


class StoreError(AssignorFault):
    """The store cannot be used. The message names the database or the setting, the cause, and what to do.

    `public`: the kind of it, for everybody who calls the service; the message has paths and is for its log.
    """

    public: ClassVar[str] = "it cannot be read or written"

    @property
    def in_public(self) -> str:
        return self.public


class StoreInUse(StoreError, Unavailable):
    """Another coordinator holds the lease of the database."""


class DatabaseOutOfReach(StoreError, Unavailable):
    """The database did not let anybody in, or did not answer."""

    public = "it cannot be reached"


class ConcurrentWriter(StoreError):
    """Somebody else wrote this group. Nothing was written, and the group in memory is out of date."""


class NotOwner(StoreError):
    """Another coordinator owns this group now. Nothing was written, and nothing may be answered for the group here."""

    public = "another coordinator owns the group now"


class LeaseEnded(StoreError):
    """This coordinator could not renew its row for so long that another one may own its groups. Nothing was written."""

    public = "this coordinator could not renew its lease in time, so another one may lead its groups"


class NameTaken(StoreError):
    """Another coordinator has just stored a token of this name. Nothing was written."""

    public = "a token of this name was created at the same moment"


class UnusableDatabase(InputError, StoreError):
    """What the setting database.url names cannot be a coordinator's database: another one has to be named."""


class StoreBusy(StoreError):
    """Somebody else has locked the database. Nothing was written."""

    public = "it is locked by another program"


class DiskFull(StoreError):
    """There is no space left for what was to be written."""

    public = "its disk is full"


class ReadOnlyDatabase(StoreError):
    """The database may be read only."""

    public = "it is read-only"


class DamagedDatabase(StoreError):
    """The database itself is damaged, and not only the log of one group."""

    public = "its file is damaged"


class DatabaseReplaced(StoreError):
    """The database's file is not the one that was opened. What was written last may be lost."""

    public = "its file was deleted or replaced while the service was using it"


class DatabaseCutShort(StoreError):
    """The database's file is shorter than it was. What was stored may be lost."""

    public = "its file was cut short while the service was using it"


class NoTables(StoreError):
    """The database is new, and was expected to be a coordinator's."""


class DamagedLog(StoreError):
    """The log of one group cannot be read as it was written. The message names the group and the record."""

    @property
    def in_public(self) -> str:
        return str(self)
