"""How far an application has come, by its commits: records done of records written, for chosen topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assignor.errors import AssignorFault
from assignor.types import TopicPartition
from streams_runtime.logs.base import Log

POLL_INTERVAL_S = 0.1


class NotFinished(AssignorFault):
    """The application did not come far enough in time. The message says how far it came."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Committed offsets and end offsets, summed over the topics, and for the first topic alone."""

    done: int
    there: int
    first_done: int
    first_there: int

    @property
    def share(self) -> float:
        """The done share of the first topic, from 0 to 1."""
        return self.first_done / self.first_there if self.first_there else 0.0

    @property
    def is_complete(self) -> bool:
        return self.there > 0 and self.done == self.there


class ProgressMeter:
    """`topics`: those that the application reads, with the one that feeds the others first."""

    def __init__(self, log: Log, application_id: str, topics: Sequence[str]) -> None:
        self._log = log
        self._application_id = application_id
        self._topics = tuple(topics)

    def now(self) -> Progress:
        """Reads the end offsets after the commits, so that records written by a commit never look complete."""
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
        """Wait until `wanted` holds. `tell` receives every look. Raises NotFinished."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            seen = self.now()
            tell(seen)
            if wanted(seen):
                return seen
            if time.monotonic() > deadline_s:
                raise NotFinished(f"only {seen.done} of {seen.there} records are done after {timeout_s:g} s")
            time.sleep(POLL_INTERVAL_S)
