"""A task's right to commit offsets of its input.

A task claims its input before it reads it; from then on no earlier owner can commit. A task that gives its input up
releases the claim, so that the next owner can claim without fencing the whole thread.
"""

from __future__ import annotations

from assignor.types import TaskId, TopicPartition
from streams_runtime.logs.base import Claim
from streams_runtime.tasks.streams_producer import StreamsProducer


class InputClaim:
    """One per active task. `producer`: of the thread, which commits under the claim. `value`: None before the first."""

    __slots__ = ("_group_id", "_is_released", "_log", "_producer", "_task_id", "value")

    def __init__(self, task_id: TaskId, producer: StreamsProducer, group_id: str) -> None:
        self._task_id = task_id
        self._producer = producer
        self._log = producer.log
        self._group_id = group_id
        self.value: Claim | None = None
        self._is_released = False

    def become(self, claim: Claim) -> None:
        """Have this claim, which was taken for this task and others together."""
        self.value = claim
        self._is_released = False

    def is_needed(self, partitions: frozenset[TopicPartition]) -> bool:
        """Whether exactly these partitions are not claimed yet, or not any more."""
        return self.value is None or self._is_released or self.value.epochs.keys() != partitions

    def take_if_needed(self, partitions: frozenset[TopicPartition]) -> None:
        """Claim the partitions, unless exactly these are claimed already. The log ends the open transaction of an owner
        that died. Raises LogTimeout.
        """
        if self.is_needed(partitions):
            self._producer.initialize()
            self.become(self._log.claim(self._group_id, partitions, self._producer.transactional_id))

    def give_up(self) -> Claim | None:
        """The claim that the caller has to release; None when there is none, or it is released already."""
        if self.value is None or self._is_released:
            return None
        self._is_released = True
        return self.value

    def release(self) -> None:
        """Let the next owner claim without fencing this thread. Nothing happens when there is no claim."""
        claim = self.give_up()
        if claim is not None:
            self._log.release(claim)

    def let_write(self, *, may: bool) -> None:
        """At-least-once: the task may write from now on, as long as its claim is the newest, or may not any more."""
        self._producer.guard(self._task_id, self.value if may else None)

    def forget(self) -> None:
        self.value = None
        self._is_released = False
