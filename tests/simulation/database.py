"""The database of the coordinators in simulated time: a log of encoded records for each group, and the rows that say
who owns what.

Rules, those of `coordinator_api.store`:
- On PostgreSQL each coordinator has a row and each group an owner and an epoch. A write names the record that it
  follows and the epoch of its writer. After any other one it is refused, and nothing is written.
- What a coordinator that was killed had sent may still be written, and later than anybody thinks.
- On SQLite one process has the file. It has no rows. When it is killed, what it had begun to write is then made or not.
- A write that fails may have been made, unless the error says that it was not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from coordinator_api.group.image import GroupImage
from coordinator_api.group.record_codec import decode_record
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.store.lease_rows import LeaseView
from coordinator_api.store.store_errors import ConcurrentWriter, DatabaseOutOfReach, DiskFull, StoreError
from tests.coordinator_api.lease.table import LeaseTable
from tests.simulation.faults import Kind
from tests.simulation.timeline import Timeline
from tests.simulation.windows import Struck, Windows

USUALLY_MS = 5
LATEST_MS = 8_000
"""When at last a write comes whose writer is dead: the network or the database was busy with other things."""

SOON_MS = 20

Written = Callable[[StoreError | None], None]

decoded_once = lru_cache(20_000)(decode_record)
"""A record is read many times, and is the same each time."""


@dataclass(slots=True)
class StoredLog:
    """`sequence`: of the last record. `lines`: encoded, since the last snapshot."""

    sequence: int = 0
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """`follows`: the sequence number that the writer expects. `by`, `epoch`: as whom it writes; None and 0 on SQLite.
    `replaces`: the lines are the whole log from now on, a snapshot, and `records` is empty. `image`: of the group after
    it.
    """

    group_id: str
    by: str | None
    epoch: int
    follows: int
    lines: tuple[str, ...]
    records: tuple[CoordinatorRecord, ...]
    image: GroupImage
    replaces: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """Of one coordinator process. `reach`: what is wrong between it and the database."""

    name: str
    reach: Windows
    begun: list[tuple[Write, Written]] = field(default_factory=list)
    is_over: bool = False

    @property
    def is_cut(self) -> bool:
        return self.reach.any_open and self.reach.is_open(Kind.COORDINATOR_CUT)


Committed = Callable[[Write], None]
"""Called when a write is made, whoever hears of it."""

Dies = Callable[[Session], None]


class Rows(LeaseTable):
    """`renewed_ms`: when each row was last renewed. `when_taken`: called with each group that another one owns now."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.renewed_ms: dict[str, int] = {}
        self.when_taken: Callable[[str], None] = lambda _: None
        self._timeline = timeline

    def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> int | None:
        taken_in = super().take(group_id, owner, epoch, by)
        if taken_in is not None:
            self.when_taken(group_id)
        return taken_in

    def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        if renews:
            self.renewed_ms[coordinator_id] = self._timeline.now_ms
        return super().poll(coordinator_id, takes=takes, renews=renews)


class SimulatedDatabase:
    """`table`: who owns what; None on SQLite. `dies_before_commit`, `dies_after_commit`: what to do, once, with the
    writer of the next write with records. `heavier`: by how many members groups are taken for larger than they are.
    """

    def __init__(self, timeline: Timeline, table: Rows | None, struck: Struck, committed: Committed) -> None:
        self.windows = Windows(timeline, "the database", struck)
        self.table = table
        self.dies_before_commit: Dies | None = None
        self.dies_after_commit: Dies | None = None
        self._timeline = timeline
        self._committed = committed
        self.heavier: dict[str, int] = {}
        self._late: list[Write] = []
        if table is not None:
            table.when_taken = self._taken
        self._logs: dict[str, StoredLog] = {}
        self._chance = timeline.chance("beats").random

    def end_session(self, session: Session) -> None:
        """Its process was killed."""
        begun, session.is_over = session.begun, True
        if self.table is None:
            session.begun = []
            for write, _ in begun:
                if self.windows.chance.random() < 0.5 and self._refused(write) is None:
                    self._make(write)
            return
        session.begun = []
        for write, _ in begun:
            if self.windows.chance.random() < 0.5:
                self._late.append(write)
                self._timeline.after(LATEST_MS * self.windows.chance.random(), partial(self._comes_late, write))

    def _taken(self, group_id: str) -> None:
        """Another coordinator owns the group now. What a dead one had sent may come just then."""
        for write in self._late:
            if write.group_id == group_id and self.windows.chance.random() < 0.5:
                self._timeline.after(SOON_MS * self.windows.chance.random(), partial(self._comes_late, write))

    def _comes_late(self, write: Write) -> None:
        if write in self._late:
            self._late.remove(write)
            if self._refused(write) is None:
                self._make(write)

    def is_away(self, session: Session) -> bool:
        """Whether this coordinator cannot reach it now."""
        return session.is_cut or (self.windows.any_open and self.windows.is_open(Kind.DATABASE_AWAY))

    # --- who owns what

    def ask(
        self,
        session: Session,
        timeout_ms: float,
        call: Callable[[LeaseTable], Any],
        answered: Callable[[Any], None],
        failed: Callable[[], None],
    ) -> None:
        """One transaction. `failed`: whether it was made is not known. It may be made after that."""
        after, to_ms, back_ms = self._timeline.after, self._takes_ms(), self._takes_ms()
        late_ms = session.reach.amount(Kind.COORDINATOR_SLOW) if session.reach.any_open else None
        if late_ms is not None:
            back_ms += late_ms * self._chance()
        in_time = to_ms + back_ms <= timeout_ms
        if self.is_away(session):  # it refuses to connect, or says nothing at all
            after(to_ms if self._chance() < 0.5 else timeout_ms, failed)
            return
        if not in_time:
            after(timeout_ms, failed)

        def arrive() -> None:
            assert self.table is not None
            if self.is_away(session):
                if in_time:
                    after(timeout_ms - to_ms, failed)
                return
            made, is_answered = self._outcome()
            told = call(self.table) if made else None
            if in_time:
                after(back_ms, partial(answered, told) if is_answered else failed)

        after(to_ms, arrive)

    def _takes_ms(self) -> float:
        """Half of a call."""
        amount = self.windows.amount(Kind.SLOW_COMMITS) if self.windows.any_open else None
        return self._chance() * (USUALLY_MS if amount is None else amount) / 2

    def _outcome(self) -> tuple[bool, bool]:
        """Whether a transaction is made, and whether its answer comes."""
        windows = self.windows
        if not windows.any_open:
            return True, True
        if windows.is_open(Kind.DATABASE_FULL) or windows.happens(Kind.FAILED_COMMITS):
            return False, False
        return True, not windows.happens(Kind.UNKNOWN_COMMITS)

    def weigh(self, group_id: str, heavier: int) -> None:
        """From now on the group is taken for so many members larger than it is."""
        assert self.table is not None
        before, self.heavier[group_id] = self.heavier.get(group_id, 0), heavier
        group = self.table.groups.get(group_id)
        if group is not None:
            self.table.groups[group_id] = group._replace(members=group.members - before + heavier)

    # --- reading and writing

    def load(self, group_id: str, session: Session) -> StoredLog:
        """Raises DatabaseOutOfReach."""
        if self.is_away(session):
            raise DatabaseOutOfReach("the database does not answer")
        return self.stored(group_id)

    def stored(self, group_id: str) -> StoredLog:
        """What there is, whoever can read it."""
        return self._logs.get(group_id) or StoredLog()

    def epoch_of(self, group_id: str) -> int:
        """As it is read with the log: 0 on SQLite, and of a group that there is not."""
        group = None if self.table is None else self.table.groups.get(group_id)
        return 0 if group is None else group.epoch

    def write(self, session: Session, write: Write, written: Written) -> None:
        """Each in a transaction of its own."""
        begun = write, written
        session.begun.append(begun)

        def due() -> None:
            if not session.is_over:
                self._due(session, begun)

        self._timeline.after(self.windows.up_to(Kind.SLOW_COMMITS, USUALLY_MS), due)

    def _due(self, session: Session, begun: tuple[Write, Written]) -> None:
        write, written = begun
        session.begun.remove(begun)
        if write.records and self.dies_before_commit is not None:
            dies, self.dies_before_commit = self.dies_before_commit, None
            if self.table is not None:
                session.begun.append(begun)  # it is on its way
            dies(session)
            return
        error = self._error(session, write)
        if error is None or isinstance(error, _SeemsToHaveFailed):
            self._make(write)
        if error is None and write.records and self.dies_after_commit is not None:
            dies, self.dies_after_commit = self.dies_after_commit, None
            dies(session)
            return
        written(error)

    def _error(self, session: Session, write: Write) -> StoreError | None:
        windows = self.windows
        refused = self._refused(write)
        if refused is not None:
            return refused
        if session.is_cut:
            made = windows.chance.random() < 0.5
            return _SeemsToHaveFailed("the connection broke") if made else DatabaseOutOfReach("the connection broke")
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
        known = self.stored(write.group_id)
        if known.sequence != write.follows:
            return ConcurrentWriter(f"{write.group_id} is at {known.sequence}")
        if self.table is not None and not self.table.may_write(write.group_id, write.by, write.epoch):
            return ConcurrentWriter(f"{write.group_id} is owned by another coordinator")
        return None

    def _make(self, write: Write) -> None:
        known = self.stored(write.group_id)
        lines: Sequence[str] = write.lines if write.replaces else (*known.lines, *write.lines)
        self._logs[write.group_id] = StoredLog(known.sequence + len(write.lines), tuple(lines))
        if self.table is not None:
            heavier = self.heavier.get(write.group_id, 0)
            self.table.written(write.group_id, write.by, len(write.image.members) + heavier)
        self._committed(write)


class _SeemsToHaveFailed(StoreError):
    """It was made."""
