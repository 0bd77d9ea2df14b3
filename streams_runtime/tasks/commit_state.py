"""Whether an active task has something to commit, and what was prepared for the commit.

    begin_work    the task processes, punctuates or writes for the first time since its last commit
    prepare       the offsets are fixed; under exactly-once the task processes nothing until they are committed
    clear         the commit is done

Rule: under exactly-once, work in a transaction that was aborted meanwhile is never committed. Source: `StreamTask`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import TaskCorrupted
from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.tasks.input_buffer import InputBuffer
from streams_runtime.tasks.input_offsets import InputOffsets
from streams_runtime.tasks.streams_producer import StreamsProducer


class CommitState:
    """`is_needed`: work has begun. `is_requested`: a processor asked for a commit. `is_pending`: a commit is prepared
    under exactly-once and not done yet. `prepared`: the offsets of the commit that is being made.
    """

    __slots__ = (
        "_aborted_before",
        "_buffer",
        "_offsets",
        "_producer",
        "_task_id",
        "is_needed",
        "is_pending",
        "is_requested",
        "prepared",
    )

    def __init__(self, task_id: TaskId, producer: StreamsProducer, buffer: InputBuffer, offsets: InputOffsets) -> None:
        self._task_id = task_id
        self._buffer = buffer
        self._offsets = offsets
        self._producer = producer
        self._aborted_before = producer.aborted  # transactions that were not committed, when work began
        self.is_needed = self.is_requested = self.is_pending = False
        self.prepared: Mapping[TopicPartition, OffsetAndMetadata] = {}

    def begin_work(self) -> None:
        """From now on there is something to commit."""
        if not self.is_needed:
            self.is_needed = True
            self._aborted_before = self._producer.aborted

    def request(self) -> None:
        self.is_requested = True

    def check(self) -> bool:
        """Whether there is something to commit. Gaps in the input that the task has passed count, too."""
        if not self.is_needed and self._offsets.moved(self._buffer.positions()):
            self.begin_work()
        return self.is_needed

    def expect_transaction(self) -> None:
        """Raises TaskCorrupted when the transaction with the task's work was aborted."""
        if self.is_needed and self._producer.exactly_once and self._producer.aborted != self._aborted_before:
            raise TaskCorrupted([self._task_id], "the transaction with records of these tasks was aborted")

    def prepare(self) -> None:
        """Fix `prepared`: the offsets that moved, none when the task only wrote, or when there is nothing to commit.

        Raises TaskCorrupted when the transaction with the task's work was aborted.
        """
        self.prepared = {}
        if not self.check():
            return
        self.expect_transaction()
        self.is_pending = self._producer.exactly_once
        self.prepared = self._offsets.moved(self._buffer.positions())

    def clear(self) -> None:
        """There is nothing to commit."""
        self.is_needed = self.is_requested = self.is_pending = False
        self.prepared = {}
