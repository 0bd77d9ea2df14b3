"""What the coordinator asks of a store: append to the logs of groups, read them, shorten them, and keep rebalances.

Only values go in and out; `sql_repository` is the implementation. A group is what its records replay to, so nothing
else about it is stored. Every write names the sequence number that the writer expects the group to be at, and the epoch
in which its coordinator owns the group: a second writer of the same group is refused, and the two never interleave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from coordinator_api.store.stored_logs import StoredLog


@dataclass(frozen=True, slots=True)
class Recording:
    """One rebalance to keep. `document`: rebalance/1, packed (`recorded_documents`). `summary`: what a list shows of
    it, as JSON.
    """

    generation_id: int
    now_ms: int
    summary: str
    document: bytes


HELD = "held"
"""The outcome of a recorded rebalance that waits for approval, or whose wait another rebalance has ended. No member
was ever told of it.
"""


@dataclass(frozen=True, slots=True)
class RecordingNote:
    """What became of a rebalance that has been recorded already: it waited for approval.

    `outcome`: how it ended, None to leave that as it is. `hold`: replaces these keys of the summary's `hold`.
    """

    generation_id: int
    outcome: str | None
    hold: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class GroupLog:
    """`sequence`: the number of the last record, which the next write has to expect. `records`: oldest first.
    `stored_bytes`: of these records and of the group's recorded rebalances. `epoch`: which the next write has to name.
    """

    group_id: str
    sequence: int
    records: tuple[str, ...]
    stored_bytes: int = field(default=0, compare=False)
    epoch: int = field(default=0, compare=False)


class Written(NamedTuple):
    """What a group is at after a write: the number of its last record, and the bytes of its log and recordings."""

    sequence: int
    stored_bytes: int


class Repository(Protocol):
    """The store of one coordinator. Every method raises StoreError when the store cannot be used.

    After a StoreError the caller does not know whether a write was made: it reads the group again before it goes on.
    After a `ConcurrentWriter` or a `NotOwner`, nothing was written.

    `epoch` of a write is that of the group's log as it was loaded. It stays the same for as long as the coordinator
    owns the group. On SQLite one process has all groups, and it is 0.
    """

    def owned_by(self, coordinator_id: str | None) -> None:
        """Whose writes these are from now on, and whose the groups become that they make. At first, nobody's."""

    async def check(self) -> None:
        """Write something and read it again."""

    async def group_ids(self) -> list[str]:
        """Of all groups, sorted."""

    async def stored_bytes(self) -> Mapping[str, int]:
        """By group, also of those whose log cannot be read: how much its log and its recorded rebalances take."""

    async def load_group(self, group_id: str) -> GroupLog:
        """One group; sequence 0 and no records when there is none, and the epoch that it gets when it is made.

        Raises DamagedLog.
        """

    async def stored_log(self, group_id: str) -> StoredLog:
        """The log as its rows are, damaged or not; sequence 0 and no records when there is no such group."""

    async def append(
        self,
        group_id: str,
        expected: int,
        records: Sequence[str],
        recording: Recording | None = None,
        notes: Sequence[RecordingNote] = (),
        *,
        epoch: int,
        members: int | None = None,
    ) -> Written:
        """Write `records` after number `expected`, 0 for a new group, and `recording`, in one transaction.

        A recording takes the place of one of its generation that has waited for approval, and keeps its `hold`.
        `notes`: of recordings that may not be kept any more. `members`: how many the group has now, None for as many as
        before. Raises ConcurrentWriter, NotOwner.
        """

    async def replace(self, group_id: str, expected: int, snapshot: Sequence[str], *, epoch: int) -> Written:
        """Replace the whole log by `snapshot`, which replays to the same state; where the file is damaged, as `renew`.

        Raises ConcurrentWriter, NotOwner.
        """

    async def renew(self, group_id: str, expected: int, snapshot: Sequence[str], *, epoch: int) -> Written:
        """Begin a new log, which is `snapshot`, in place of one that may be damaged, in one transaction.

        Raises ConcurrentWriter, NotOwner. Old records that cannot be deleted because the file is damaged are left, and
        not read any more.
        """

    async def delete(self, group_id: str, expected: int, *, epoch: int) -> None:
        """Remove the group, its log and its recorded rebalances. Raises ConcurrentWriter, NotOwner.

        Where the file is damaged, a log without records takes the place of what cannot be removed.
        """

    async def list_rebalances(self, group_id: str, before: int | None, limit: int) -> list[Mapping[str, object]]:
        """Summaries, newest first, at most `limit`. `before`: only generations below it."""

    async def rebalance(self, group_id: str, generation_id: int) -> bytes | None:
        """The recorded rebalance/1 as it is stored (`recorded_documents`); None when it was never recorded, or is no
        longer kept.
        """
