"""Sends the requests that only the leader of a partition answers. These requests read offsets of the partition, or
delete its records.

Rules: the first try of a call asks the leaders that earlier calls have found. Each further try first looks up the
leaders. A try sends requests to all leaders at the same time. A try requests only the partitions that have no answer
from an earlier try. Raises UnknownTopic if a partition is missing in the metadata for longer than a second. Source:
`PartitionLeaderStrategy`, `PartitionLeaderCache`, `ListOffsetsHandler`, `DeleteRecordsHandler`. Differs from Kafka:
Kafka's admin client retries an unknown partition until the time-out.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiokafka.protocol.admin import DeleteRecordsRequest
from aiokafka.protocol.offset import OffsetRequest

from assignor.topology.cluster import TopicMetadata
from assignor.types import Offsets, TopicPartition
from kafka_client.admin.topics import NO_LEADER, fetch_metadata
from kafka_client.connections import Connections
from kafka_client.error_codes import check
from kafka_client.errors import NotNow, UnknownTopic
from kafka_client.requests import by_topic

LATEST = -1
EARLIEST = -2
_ORDINARY_CONSUMER = -1
_UNKNOWN_FOR_S = 1.0

Answer = Iterable[tuple[TopicPartition, int, int]]
"""One tuple (partition, error code, offset) for each partition."""


class LeaderRequest:
    """One call to the leaders of partitions, including all tries of the call. The object stores the answers of all
    tries. `known`: maps partitions to the leaders that earlier calls have found; this call adds the leaders that it
    finds.
    """

    def __init__(
        self, connections: Connections, partitions: Iterable[TopicPartition], known: dict[TopicPartition, int]
    ) -> None:
        self._connections = connections
        self._known = known
        self._is_first_try = True
        self._open = set(partitions)
        self._answers: dict[TopicPartition, int] = {}
        self._began_at = time.monotonic()

    async def offsets(self, timestamp: int, read_committed: bool) -> Offsets:
        """Makes one try to read offsets. Raises NotNow, KafkaRefused, UnknownTopic."""

        async def ask(leader: int, partitions: list[TopicPartition]) -> Answer:
            topics = [
                (topic, [(number, timestamp) for number in numbers]) for topic, numbers in by_topic(partitions).items()
            ]
            request = OffsetRequest(_ORDINARY_CONSUMER, int(read_committed), topics)
            answer = await self._connections.send(request, leader)
            return [
                (TopicPartition(topic, number), code, offset)
                for topic, numbers in answer.topics
                for number, code, _, offset in numbers
            ]

        return await self._ask_leaders(ask)

    async def delete(self, before: Mapping[TopicPartition, int], timeout_s: float) -> Offsets:
        """Makes one try to delete the records below the given offsets. Returns the new first offset of each partition.
        Raises NotNow, KafkaRefused, UnknownTopic.
        """

        async def ask(leader: int, partitions: list[TopicPartition]) -> Answer:
            topics = [
                (topic, [(number, before[TopicPartition(topic, number)]) for number in numbers])
                for topic, numbers in by_topic(partitions).items()
            ]
            answer = await self._connections.send(
                DeleteRecordsRequest(topics, round(timeout_s * 1000), tags={}), leader
            )
            return [
                (TopicPartition(each[0], number[0]), number[2], number[1])
                for each in answer.topics
                for number in each[1]
            ]

        return await self._ask_leaders(ask)

    async def _ask_leaders(self, ask: Callable[[int, list[TopicPartition]], Awaitable[Answer]]) -> Offsets:
        if not self._open:
            return self._answers
        led, not_yet = await self._leaders()
        answers = await asyncio.gather(
            *[ask(leader, sorted(partitions)) for leader, partitions in led.items()], return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, NotNow):
                not_yet = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                not_yet = self._take(answer) or not_yet
        for partition in self._open:
            self._known.pop(partition, None)
        if self._open:
            raise not_yet or NotNow(f"no answer for {min(self._open)}")
        return self._answers

    async def _leaders(self) -> tuple[dict[int, list[TopicPartition]], NotNow | None]:
        """Returns two values. The first value maps each leader to its partitions that have no answer yet. The second
        value is the last reason why a partition has no leader.
        """
        is_first_try, self._is_first_try = self._is_first_try, False
        if is_first_try and self._open <= self._known.keys():
            led: dict[int, list[TopicPartition]] = defaultdict(list)
            for partition in sorted(self._open):
                led[self._known[partition]].append(partition)
            return led, None
        metadata = await fetch_metadata(self._connections, {partition.topic for partition in self._open})
        led, not_yet = self._by_leader(metadata.topics)
        self._known.update((partition, leader) for leader, of_it in led.items() for partition in of_it)
        return led, not_yet

    def _take(self, answer: Answer) -> NotNow | None:
        not_yet = None
        for partition, code, offset in answer:
            try:
                check(code, str(partition))
            except NotNow as reason:
                not_yet = reason
            else:
                self._answers[partition] = offset
                self._open.discard(partition)
        return not_yet

    def _by_leader(self, topics: Mapping[str, TopicMetadata]) -> tuple[dict[int, list[TopicPartition]], NotNow | None]:
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        not_yet: NotNow | None = None
        for partition in sorted(self._open):
            topic = topics.get(partition.topic)
            if topic is None or topic.leaders is None or partition.partition >= topic.partitions:
                if time.monotonic() - self._began_at > _UNKNOWN_FOR_S:
                    raise UnknownTopic(_unknown(partition, topic))
                not_yet = NotNow(_unknown(partition, topic))
            elif topic.leaders[partition.partition] == NO_LEADER:
                not_yet = NotNow(f"{partition} has no leader")
            else:
                led[topic.leaders[partition.partition]].append(partition)
        return led, not_yet


def _unknown(partition: TopicPartition, topic: TopicMetadata | None) -> str:
    if topic is None:
        return f"there is no topic {partition.topic}"
    return f"topic {partition.topic} has {topic.partitions} partitions, so there is no {partition}"
