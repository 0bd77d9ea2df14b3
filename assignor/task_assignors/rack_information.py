"""On which racks the partitions are that tasks read: what a rack-aware strategy (KIP-925) goes by.

Source: `RackAwareTaskAssignor.racksForPartition`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from assignor.cluster import Racks
from assignor.types import TaskId, TopicPartition


class RacksOnDemand(Mapping[str, tuple[Racks, ...]]):
    """`partition_racks` that are looked up when somebody asks first; without a strategy, only a report does."""

    def __init__(self, look_up: Callable[[], Mapping[str, tuple[Racks, ...]]]) -> None:
        self._look_up = look_up
        self._found: Mapping[str, tuple[Racks, ...]] | None = None

    def _racks(self) -> Mapping[str, tuple[Racks, ...]]:
        if self._found is None:
            self._found = self._look_up()
        return self._found

    def __getitem__(self, topic: str) -> tuple[Racks, ...]:
        return self._racks()[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._racks())

    def __len__(self) -> int:
        return len(self._racks())


@dataclass(frozen=True, slots=True)
class RackInformation:
    """`task_partitions`: every task with its source partitions; `changelog_partitions`: every stateful task with its
    changelog partitions. `partition_racks[topic][p]`: the racks of partition p; a topic that nothing is known of is
    absent.
    """

    task_partitions: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    changelog_partitions: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    partition_racks: Mapping[str, tuple[Racks, ...]] = field(default_factory=dict)

    def racks_of(self, partition: TopicPartition) -> Racks | None:
        """None when they are not known, or one of the brokers has no rack."""
        racks = self.partition_racks.get(partition.topic, ())
        known = racks[partition.partition] if partition.partition < len(racks) else None
        return known if known and None not in known else None

    def known_racks_of(self, partition: TopicPartition) -> frozenset[str] | None:
        """Of the brokers that have a rack; None when no replica is known.

        Source: `RackUtils.annotateTopicPartitionsWithRackInfo`.
        """
        racks = self.partition_racks.get(partition.topic, ())
        known = racks[partition.partition] if partition.partition < len(racks) else None
        return frozenset([rack for rack in known if rack is not None]) if known else None

    def knows_sources(self) -> bool:
        """Whether the racks of every source partition are known."""
        return all(
            self.racks_of(partition) is not None
            for partitions in self.task_partitions.values()
            for partition in partitions
        )

    def knows_changelogs(self) -> bool:
        """Whether every changelog topic is known, with the racks of all partitions that it has.

        Kafka asks for topics here, not for partitions: one that the topic lacks is an error later.
        """
        topics = {partition.topic for partitions in self.changelog_partitions.values() for partition in partitions}
        return all(
            topic in self.partition_racks and all(racks and None not in racks for racks in self.partition_racks[topic])
            for topic in topics
        )
