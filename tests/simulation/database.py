"""The database of the coordinators in simulated time: a log of encoded records for each group, and one lease.

Rules, those of `coordinator_api.store`:
- Whoever holds the lease writes. The lease ends with the session of its holder, and what the session had begun to write
  is then made or not, before anybody else gets the lease.
- A write names the record that it follows. After any other one it is refused, and nothing is written.
- A write that fails may have been made, unless the error says that it was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator_api.group.image import GroupImage
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.store.errors import ConcurrentWriter, DatabaseOutOfReach, DiskFull, StoreError, StoreInUse
from tests.simulation.faults import Kind
from tests.simulation.timeline import Action, Timeline
from tests.simulation.windows import Struck, Windows

USUALLY_MS = 5

Written = Callable[[StoreError | None], None]


@dataclass(slots=True)
class StoredLog:
    """`sequence`: of the last record. `lines`: encoded, since the last snapshot."""

    sequence: int = 0
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """`follows`: the sequence number that the writer expects. `replaces`: the lines are the whole log from now on, a
    snapshot, and `records` is empty. `image`: of the group after it.
    """

    group_id: str
    follows: int
    lines: tuple[str, ...]
    records: tuple[CoordinatorRecord, ...]
    image: GroupImage
    replaces: bool = False


@dataclass(slots=True, eq=False)
class Writer:
    """Who may write, as long as the database has it as its holder."""

    name: str
    begun: list[tuple[Write, Written]] = field(default_factory=list)


Committed = Callable[[Write], None]
"""Called when a write is made, whoever hears of it."""


class SimulatedDatabase:
    """`dies_before_commit`, `dies_after_commit`: what to do, once, at the next write with records."""

    def __init__(self, timeline: Timeline, struck: Struck, committed: Committed) -> None:
        self.windows = Windows(timeline, "the database", struck)
        self.holder: Writer | None = None
        self.dies_before_commit: Action | None = None
        self.dies_after_commit: Action | None = None
        self._timeline = timeline
        self._committed = committed
        self._logs: dict[str, StoredLog] = {}
        self._free_ms = 0.0

    # --- the lease

    def take_lease(self, name: str) -> Writer | None:
        """None while another one holds it, or when the database is out of reach."""
        if self.holder is not None or self.windows.is_open(Kind.DATABASE_AWAY):
            return None
        self.holder = Writer(name)
        return self.holder

    def end_session(self, writer: Writer) -> None:
        """Its process was killed, or its connection broke."""
        begun, writer.begun = writer.begun, []
        if writer is self.holder:
            for write, _ in begun:
                if self.windows.chance.random() < 0.5 and self._refused(write) is None:
                    self._make(write)
            self.holder = None

    # --- reading and writing

    def load(self, group_id: str) -> StoredLog:
        """Raises DatabaseOutOfReach."""
        if self.windows.is_open(Kind.DATABASE_AWAY):
            raise DatabaseOutOfReach("the database does not answer")
        return self._logs.get(group_id) or StoredLog()

    def write(self, writer: Writer, write: Write, written: Written) -> None:
        """One after the other, each in a transaction of its own."""
        begins_ms = max(self._timeline.now_ms, self._free_ms)
        self._free_ms = begins_ms + self.windows.up_to(Kind.SLOW_COMMITS, USUALLY_MS)
        begun = write, written
        writer.begun.append(begun)
        self._timeline.after(self._free_ms - self._timeline.now_ms, lambda: self._due(writer, begun))

    def _due(self, writer: Writer, begun: tuple[Write, Written]) -> None:
        if begun not in writer.begun:
            return  # its session has ended
        write, written = begun
        if write.records and self.dies_before_commit is not None:
            writer.begun.remove(begun)
            dies, self.dies_before_commit = self.dies_before_commit, None
            dies()
            return
        writer.begun.remove(begun)
        error = self._error(writer, write)
        if error is None or isinstance(error, _SeemsToHaveFailed):
            self._make(write)
        if error is None and write.records and self.dies_after_commit is not None:
            dies, self.dies_after_commit = self.dies_after_commit, None
            dies()
            return
        written(error)

    def _error(self, writer: Writer, write: Write) -> StoreError | None:
        windows = self.windows
        if writer is not self.holder:
            return StoreInUse(f"{self.holder.name if self.holder else 'nobody'} holds the lease, not {writer.name}")
        refused = self._refused(write)
        if refused is not None:
            return refused
        if windows.any_open:
            if windows.is_open(Kind.DATABASE_AWAY):
                return DatabaseOutOfReach("the database does not answer")
            if windows.is_open(Kind.DATABASE_FULL):
                return DiskFull("there is no space left")
            if windows.happens(Kind.FAILED_COMMITS):
                return StoreError("the commit failed")
            if windows.happens(Kind.UNKNOWN_COMMITS):
                return _SeemsToHaveFailed("the answer of the database was lost")
        return None

    def _refused(self, write: Write) -> ConcurrentWriter | None:
        known = self._logs.get(write.group_id) or StoredLog()
        return None if known.sequence == write.follows else ConcurrentWriter(f"{write.group_id} is at {known.sequence}")

    def _make(self, write: Write) -> None:
        known = self._logs.get(write.group_id) or StoredLog()
        lines: Sequence[str] = write.lines if write.replaces else (*known.lines, *write.lines)
        self._logs[write.group_id] = StoredLog(known.sequence + len(write.lines), tuple(lines))
        self._committed(write)


class _SeemsToHaveFailed(StoreError):
    """It was made."""
