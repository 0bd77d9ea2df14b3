"""A task's right to commit offsets of its input: a claim, which is an epoch in the log for each input partition.

A task claims its input before it reads it. A claim fences earlier claims of the same partitions: their owners cannot
commit any more. A task that gives up its input releases the claim, so that the next owner can claim without fencing the
whole thread.
"""

from __future__ import annotations

from assignor.types import TaskId, TopicPartition
from streams_runtime.logs.base import Claim
from streams_runtime.tasks.record_collector import StreamsProducer


class InputClaim:
    """One per active task. `producer`: the thread's producer, which commits under the claim. `value`: the newest claim,
    even if it was released; None before the first one.
    """

    __slots__ = ("_group_id", "_is_released", "_log", "_producer", "_task_id", "value")

    def __init__(self, task_id: TaskId, producer: StreamsProducer, group_id: str) -> None:
        self._task_id = task_id
        self._producer = producer
        self._log = producer.log
        self._group_id = group_id
        self.value: Claim | None = None
        self._is_released = False

    def accept(self, claim: Claim) -> None:
        """Use this claim, which the thread may have taken for several tasks at once."""
        self.value = claim
        self._is_released = False

    def is_needed(self, partitions: frozenset[TopicPartition]) -> bool:
        """Whether a claim of exactly these partitions has to be taken."""
        return self.value is None or self._is_released or self.value.epochs.keys() != partitions

    def take_if_needed(self, partitions: frozenset[TopicPartition]) -> None:
        """Claim the partitions, unless exactly these are claimed already. If an earlier owner died, the log ends the
        transaction that this owner had open. Raises LogTimeout.
        """
        if self.is_needed(partitions):
            self._producer.initialize()
            self.accept(self._log.claim(self._group_id, partitions, self._producer.transactional_id))

    def give_up(self) -> Claim | None:
        """Returns the claim, for the caller to release; None if there is no claim, or it is released already."""
        if self.value is None or self._is_released:
            return None
        self._is_released = True
        return self.value

    def release(self) -> None:
        """Let the next owner claim without fencing this thread. Does nothing without a claim."""
        claim = self.give_up()
        if claim is not None:
            self._log.release(claim)

    def allow_writes(self) -> None:
        """At-least-once: let the task write as long as its claim is the newest."""
        self._producer.set_write_claim(self._task_id, self.value)

    def forbid_writes(self) -> None:
        self._producer.set_write_claim(self._task_id, None)

    def forget(self) -> None:
        self.value = None
        self._is_released = False
