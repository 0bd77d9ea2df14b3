"""A task's right to commit offsets of its input: a claim, which is an epoch in the log for each input partition.

A task claims its input before it reads it. A claim fences earlier claims of the same partitions: their owners cannot
commit any more. A task that gives up its input releases the claim. If it did not, the next owner of the input would
fence the producer that commits under the claim, and all tasks of the thread use this producer.
"""

from __future__ import annotations

from assignor.types import TaskId, TopicPartition
from streams_runtime.logs.base import Claim
from streams_runtime.tasks.record_collector import StreamsProducer


class InputClaim:
    """One per active task.

    `producer`: the thread's producer, which commits under the claim. `newest`: the newest claim, even if it was
    released; None before the first claim.
    """

    __slots__ = ("_group_id", "_is_released", "_log", "_producer", "_task_id", "newest")

    def __init__(self, task_id: TaskId, producer: StreamsProducer, group_id: str) -> None:
        self._task_id = task_id
        self._producer = producer
        self._log = producer.log
        self._group_id = group_id
        self.newest: Claim | None = None
        self._is_released = False

    def accept(self, claim: Claim) -> None:
        """Use this claim, which the thread may have taken for several tasks at once."""
        self.newest = claim
        self._is_released = False

    def is_needed(self, partitions: frozenset[TopicPartition]) -> bool:
        """Whether a claim of exactly these partitions has to be taken."""
        return self.newest is None or self._is_released or self.newest.epochs.keys() != partitions

    def take_if_needed(self, partitions: frozenset[TopicPartition]) -> None:
        """Claim the partitions, unless exactly these are claimed already. If an earlier owner died, the log ends the
        transaction that the earlier owner had open. Raises LogTimeout.
        """
        if self.is_needed(partitions):
            self._producer.initialize()
            self.accept(self._log.claim(self._group_id, partitions, self._producer.transactional_id))

    def mark_released(self) -> Claim | None:
        """Returns the claim, which the caller has to release; None if there is no claim, or it is released already."""
        if self.newest is None or self._is_released:
            return None
        self._is_released = True
        return self.newest

    def release(self) -> None:
        """Release the claim, so that the next owner need not fence this thread. Does nothing without a claim."""
        claim = self.mark_released()
        if claim is not None:
            self._log.release(claim)

    def allow_writes(self) -> None:
        """At-least-once: let the task write as long as its claim is the newest."""
        self._producer.set_write_claim(self._task_id, self.newest)

    def forbid_writes(self) -> None:
        self._producer.set_write_claim(self._task_id, None)

    def forget(self) -> None:
        self.newest = None
        self._is_released = False
