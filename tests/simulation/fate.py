"""When a process of the simulation dies in the middle of what it does, and that it does nothing more afterwards.

The disk and the log ask at each point that they reach. A process that is to die there raises `ProcessKilled` out of the
production code, which no `except Exception` stops, and at every point after that, so that a `finally` changes nothing.
"""

from enum import StrEnum


class Point(StrEnum):
    """Where a process can be killed."""

    BEFORE_COMMIT = "before a commit"
    AFTER_COMMIT = "after a commit"
    """The log has made it, and nobody has heard."""

    DISK_WRITE = "before a change of the disk"
    STORE_FLUSH = "before a store is flushed"


class ProcessKilled(BaseException):
    """The process is no more."""


class Fate:
    """One for each process. `is_dead`: it was killed."""

    __slots__ = ("_point", "is_dead")

    def __init__(self) -> None:
        self.is_dead = False
        self._point: Point | None = None

    def dies_at(self, point: Point) -> None:
        self._point = point

    def lives_on(self) -> None:
        """It is not killed where it was to be."""
        self._point = None

    def reach(self, point: Point) -> None:
        """Raises ProcessKilled."""
        if self.is_dead or point is self._point:
            self.is_dead = True
            raise ProcessKilled
