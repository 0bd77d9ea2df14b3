"""What the active tasks of a thread ask of the log about their input: claims, and the group's committed offsets.

Rules:
- Tasks that come together are asked for together: one call claims the input of all, one releases it, one finds their
  committed offsets. On Kafka a call is two or three round trips, and a fenced owner is fenced once; one call for each
  task would make the last one wait for the sum.
- Each task then has a claim of its own, to its own partitions, and may release it alone.
- Offsets are asked for after the claim. A task that is asked for alone asks by itself, in the same way.

Source: `KafkaConsumer.committed`, which takes all partitions of an assignment. Kafka has no claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assignor.types import TopicPartition
from streams_runtime.logs.base import Log, OffsetAndMetadata
from streams_runtime.tasks.stream_task import StreamTask
from streams_runtime.tasks.streams_producer import StreamsProducer


class TaskInputs:
    """One per stream thread, which alone uses it. `producer`: that of the thread; its transactional id owns claims."""

    def __init__(self, log: Log, group_id: str, producer: StreamsProducer) -> None:
        self._log = log
        self._group_id = group_id
        self._producer = producer

    def claim(self, tasks: Iterable[StreamTask]) -> None:
        """Claim the input of those that have no claim to it. Their directories are locked. Raises LogTimeout."""
        needing = [task for task in tasks if task.needs_claim]
        if not needing:
            return
        self._producer.initialize()
        partitions = frozenset[TopicPartition]().union(*(task.input_partitions for task in needing))
        claim = self._log.claim(self._group_id, partitions, self._producer.transactional_id)
        for task in needing:
            task.take_claim(claim.part(task.input_partitions))

    def release(self, tasks: Iterable[StreamTask]) -> None:
        """Let others claim the input of these tasks without fencing this thread, except where work is uncommitted."""
        claims = [claim for task in tasks if (claim := task.give_up_claim()) is not None]
        if claims:
            self._log.release(*claims)

    def committed(self, tasks: Iterable[StreamTask]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of the tasks' input, where there are any. Raises LogTimeout."""
        partitions = [partition for task in tasks for partition in task.input_partitions]
        return self._log.committed_offsets(self._group_id, partitions) if partitions else {}
