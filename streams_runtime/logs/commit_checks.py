"""Who may write, and which offsets may be committed. Source: KIP-360 (producer epochs), KIP-447 (group).

A log that can check while it writes asks `check_identity` and `check_claim` inside the step that writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.base import Claim, OffsetsToCommit
from streams_runtime.logs.errors import CommitFenced, LogError, ProducerFenced


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


def check_claim(claim: Claim, current_epoch: Callable[[str, TopicPartition], int | None]) -> None:
    """All partitions of the claim count, moved or not: a task that lost one of them has migrated as a whole.

    `current_epoch`: of the newest claim of a group and partition. Raises CommitFenced.
    """
    for partition, epoch in claim.epochs.items():
        current = current_epoch(claim.group_id, partition)
        if current != epoch:
            raise claimed_since(claim, partition, current)


def claimed_since(claim: Claim, partition: TopicPartition, current_epoch: int | None) -> CommitFenced:
    return CommitFenced(
        f"group {claim.group_id}: {partition} was claimed with epoch {claim.epochs[partition]} and is now with epoch "
        f"{current_epoch}"
    )
