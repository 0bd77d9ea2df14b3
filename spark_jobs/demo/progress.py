"""How far an application has come, by what it has committed: records done of records there, for chosen topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assignor.errors import AssignorFault
from assignor.types import TopicPartition
from streams_runtime.logs.base import Log

POLL_INTERVAL_S = 0.1


class NotFinished(AssignorFault):
    """Time ran out; the message says how far it had come."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Offsets committed and end offsets, summed over the partitions of the topics, and of the first topic alone."""

    done: int
    there: int
    first_done: int
    first_there: int

    @property
    def share(self) -> float:
        """Of the first topic, from 0 to 1."""
        return self.first_done / self.first_there if self.first_there else 0.0

    @property
    def is_complete(self) -> bool:
        return self.there > 0 and self.done == self.there


class ProgressMeter:
    """`topics`: read by the application, the one that feeds the others first."""

    def __init__(self, log: Log, application_id: str, topics: Sequence[str]) -> None:
        self._log = log
        self._application_id = application_id
        self._topics = tuple(topics)

    def now(self) -> Progress:
        """Ends are asked for after what is committed: records that a commit brings never make it look complete."""
        known = self._log.topics()
        partitions = [
            [TopicPartition(topic, number) for number in range(known[topic].partitions)]
            for topic in self._topics
            if topic in known
        ]
        every = [partition for of_topic in partitions for partition in of_topic]
        committed = self._log.committed_offsets(self._application_id, every)
        ends = self._log.end_offsets(every)

        def done(of: Sequence[TopicPartition]) -> int:
            return sum(committed[each].offset for each in of if each in committed)

        first = partitions[0] if partitions else []
        return Progress(done(every), sum(ends.values()), done(first), sum(ends[each] for each in first))

    def wait(self, wanted: Callable[[Progress], bool], timeout_s: float, tell: Callable[[Progress], None]) -> Progress:
        """Until `wanted`; `tell` hears of every look. Raises NotFinished."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            seen = self.now()
            tell(seen)
            if wanted(seen):
                return seen
            if time.monotonic() > deadline_s:
                raise NotFinished(f"only {seen.done} of {seen.there} records done after {timeout_s:g} s")
            time.sleep(POLL_INTERVAL_S)
