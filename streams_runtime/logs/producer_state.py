"""What a producer may do right now, and which offsets it may commit.

Every producer has one `ProducerState` and asks it before each call. A log that can check while it writes asks
`check_identity` and `check_claim` inside the step that writes.

Rules: records are accepted outside of transactions without a transactional id, and only inside of them with one. A
producer that was fenced stays fenced: it can only be aborted and closed. Source: `TransactionManager.State`; KIP-360
(producer epochs), KIP-447 (group).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.base import Claim, OffsetsToCommit
from streams_runtime.logs.errors import CommitFenced, LogError, ProducerFenced


class ProducerState:
    """`transactional_id` None: without transactions. One thread uses it.

    `accepts_records`: whether `send` may take a record; the one check that every record costs.
    """

    __slots__ = ("_discarded", "_error", "accepts_records", "in_transaction", "is_closed", "transactional_id")

    def __init__(self, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.accepts_records = transactional_id is None
        self.in_transaction = False
        self.is_closed = False
        self._discarded = False
        self._error: LogError | None = None

    @property
    def is_transactional(self) -> bool:
        return self.transactional_id is not None

    @property
    def is_useless(self) -> bool:
        """Whether an error has ended the producer."""
        return self._error is not None

    @property
    def writes_on_close(self) -> bool:
        """Whether `close` has to write what was taken: without transactions, unless it was refused or discarded."""
        return self.accepts_records and not self.is_transactional

    def begin_transaction(self) -> None:
        """Raises LogError without a transactional id and inside of a transaction."""
        self.check_usable()
        if self.transactional_id is None:
            raise LogError("a producer without a transactional id has no transactions")
        if self.in_transaction:
            raise LogError(f"transaction of {self.transactional_id} has begun already")
        self.in_transaction = self.accepts_records = True

    def end_transaction(self) -> None:
        """Also without one."""
        self.in_transaction = False
        self.accepts_records = not (self.is_transactional or self.is_closed or self._discarded or self._error)

    def give_up(self, error: LogError) -> None:
        """The producer is of no more use: every call but abort and close raises this error from now on."""
        self._error = error
        self.accepts_records = False

    def discard(self) -> None:
        self._discarded = True
        self.accepts_records = False

    def close(self) -> None:
        self.is_closed = True
        self.end_transaction()

    def check_usable(self) -> None:
        """Raises LogError when the producer is closed, and the error that has ended it."""
        if self.is_closed:
            raise LogError("the producer is closed")
        if self._error is not None:
            raise type(self._error)(str(self._error))

    def check_in_transaction(self) -> None:
        self.check_usable()
        if not self.in_transaction:
            raise LogError("no transaction has begun")

    def check_commits_offsets(self) -> None:
        """Raises LogError for `commit_offsets` of a transactional producer."""
        self.check_usable()
        if self.transactional_id is not None:
            raise LogError(f"{self.transactional_id} is transactional: offsets go with commit_transaction")

    def refuse_record(self) -> None:
        """Raises why `accepts_records` is False."""
        if self._discarded:
            self.check_usable()
            raise LogError("the producer takes no more records: what it had was discarded")
        self.check_in_transaction()


class ProducerIdentity(NamedTuple):
    """Higher epochs of a transactional id fence lower ones."""

    transactional_id: str
    epoch: int


def check_offsets(offsets: OffsetsToCommit) -> None:
    """Raises LogError for an offset of a partition outside of its claim, and for a negative offset."""
    for claim, moved in offsets:
        for partition, offset in moved.items():
            if partition not in claim.epochs:
                raise LogError(f"offset of {partition} is not covered by the claim of group {claim.group_id}")
            if offset.offset < 0:
                raise LogError(f"offset {offset.offset} of {partition} is negative")


def check_identity(identity: ProducerIdentity, current_epoch: int | None) -> None:
    """Raises ProducerFenced."""
    if current_epoch != identity.epoch:
        raise ProducerFenced(
            f"producer {identity.transactional_id} of epoch {identity.epoch} was replaced by epoch {current_epoch}"
        )


def check_claim(claim: Claim, current_epochs: Mapping[TopicPartition, int]) -> None:
    """All partitions of the claim count, moved or not: a task that lost one of them has migrated as a whole.

    `current_epochs`: of the group's newest claims. Raises CommitFenced.
    """
    for partition, epoch in claim.epochs.items():
        current = current_epochs.get(partition)
        if current != epoch:
            raise claimed_since(claim, partition, current)


def claimed_since(claim: Claim, partition: TopicPartition, current_epoch: int | None) -> CommitFenced:
    return CommitFenced(
        f"group {claim.group_id}: {partition} was claimed with epoch {claim.epochs[partition]} and is now with epoch "
        f"{current_epoch}"
    )
