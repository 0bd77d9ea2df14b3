"""Who may still write: the checks inside the step that writes. Source: KIP-360 (producer epochs), KIP-447 (group)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from assignor.types import TopicPartition
from streams_runtime.logs.base import Claim, OffsetAndMetadata
from streams_runtime.logs.buffering_producer import ProducerIdentity
from streams_runtime.logs.errors import CommitFenced, LogError, ProducerFenced


def check_identity(identity: ProducerIdentity, current_epoch: int | None) -> None:
    """Raises ProducerFenced."""
    if current_epoch != identity.epoch:
        raise ProducerFenced(
            f"producer {identity.transactional_id} of epoch {identity.epoch} was replaced by epoch {current_epoch}"
        )


def check_claims(
    claim: Claim,
    moved: Mapping[TopicPartition, OffsetAndMetadata],
    current_epoch: Callable[[str, TopicPartition], int | None],
) -> None:
    """All partitions of the claim count, moved or not: a task that lost one of them has migrated as a whole.

    Raises CommitFenced; LogError for an offset of a partition outside of the claim, and for a negative one.
    """
    for partition, offset in moved.items():
        if partition not in claim.epochs:
            raise LogError(f"offset of {partition} is not covered by the claim of group {claim.group_id}")
        if offset.offset < 0:
            raise LogError(f"offset {offset.offset} of {partition} is negative")
    for partition, epoch in claim.epochs.items():
        current = current_epoch(claim.group_id, partition)
        if current != epoch:
            raise CommitFenced(
                f"group {claim.group_id}: {partition} was claimed with epoch {epoch} and is now with epoch {current}"
            )
