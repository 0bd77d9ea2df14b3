"""Finds the broker for each request: the leader of a partition, or the coordinator of a group or of a transactional id.

Rules: every request is retried with growing pauses. When `default.api.timeout.ms` is over, the call raises LogTimeout.
Before each retry, leaders and coordinators are looked up again. Leaders and coordinators are not looked up again if the
coordinator has answered that it still writes transaction markers. A partition counts as unknown if it has been missing
in the brokers' metadata for half a second. A partition can be missing for less than half a second if its topic was just
created or its leader moves. An error that no retry can fix is raised as a LogError with a message for the operator.
Source: `Metadata`, `NetworkClient`, `TransactionManager`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from aiokafka.protocol.coordination import FindCoordinatorRequest

from assignor.topology.cluster import TopicMetadata
from assignor.types import TopicPartition
from kafka_client.admin.topics import NO_LEADER, fetch_metadata
from kafka_client.connections import Connections, call
from kafka_client.error_codes import CONCURRENT_TRANSACTIONS, check
from kafka_client.errors import KafkaRefused, KafkaUnavailable, NotNow
from kafka_client.settings.client_settings import ClientSettings
from streams_runtime.logs.log_errors import LogError, LogTimeout, UnknownTopicOrPartition

T = TypeVar("T")

UNKNOWN_AFTER_S = 0.5
"""A partition counts as unknown after it has been missing in the brokers' metadata for this time, in seconds.
"""


async def all_of(calls: Iterable[Awaitable[None]], also: BaseException | None = None) -> None:
    """Runs all calls concurrently, and waits for all. After all calls have ended, raises one of their errors, if there
    is any. An error that no retry can fix is raised before other errors. `also`: an earlier error, which is handled
    like an error of a call; None if there is no earlier error.
    """
    found = await asyncio.gather(*calls, return_exceptions=True)
    errors = [each for each in (*found, also) if each is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, LogTimeout | NotNow))


class CoordinatorOf(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Led(NamedTuple):
    """The known leaders. `leaders`: the broker id of each partition's leader. `failure`: the error for a requested
    partition without a leader; None if each partition has a leader.
    """

    leaders: dict[TopicPartition, int]
    failure: NotNow | UnknownTopicOrPartition | None


class Leadership:
    """Caches leaders and coordinators, and has its own connections. Use a `Leadership` on only one event loop."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.connections = Connections(settings)
        self._topics: dict[str, TopicMetadata] = {}
        self._missing_since: dict[TopicPartition, float] = {}
        self._coordinators: dict[tuple[CoordinatorOf, str], int] = {}
        self._fetched_at = 0.0
        self._stale = True
        self._max_age_s = settings.milliseconds("metadata.max.age.ms") / 1_000

    async def call(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Calls `attempt` until a call succeeds, and returns its result.

        Raises LogTimeout, LogError, and the errors of `attempt` except NotNow.
        """

        async def once() -> T:
            try:
                return await attempt()
            except NotNow as reason:
                # only the right coordinator answers with this code, so the coordinator is not looked up again
                if reason.code != CONCURRENT_TRANSACTIONS:
                    self.forget()
                raise

        try:
            return await once()  # the first try nearly always succeeds
        except NotNow:
            pass
        except KafkaRefused as error:
            raise LogError(f"Kafka at {self.settings.bootstrap_servers}: {what}: {error}") from error
        try:
            return await call(self.settings, what, once)
        except KafkaUnavailable as error:
            raise LogTimeout(str(error)) from error
        except KafkaRefused as error:
            raise LogError(str(error)) from error

    def forget(self) -> None:
        """Look up leaders and coordinators again before the next request."""
        self._stale = True
        self._coordinators.clear()

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the leaders of these partitions. Raises UnknownTopicOrPartition, which names a partition that does
        not exist. Raises NotNow while a partition has no leader.
        """
        found = await self.led(partitions)
        if found.failure is not None:
            raise found.failure
        return found.leaders

    async def led(self, partitions: Iterable[TopicPartition]) -> Led:
        """Returns the leader of each partition that has a leader. Raises NotNow or KafkaRefused if no broker returns
        metadata.
        """
        asked = list(partitions)
        await self._know({partition.topic for partition in asked})
        leaders: dict[TopicPartition, int] = {}
        failure: NotNow | UnknownTopicOrPartition | None = None
        for partition in asked:
            topic = self._topics.get(partition.topic)
            if topic is None or not 0 <= partition.partition < topic.partitions:
                failure = self._missing(partition)
                continue
            self._missing_since.pop(partition, None)
            leader = NO_LEADER if topic.leaders is None else topic.leaders[partition.partition]
            if leader == NO_LEADER:
                failure = failure or NotNow(f"{partition} has no leader")
            else:
                leaders[partition] = leader
        return Led(leaders, failure)

    async def coordinator(self, kind: CoordinatorOf, key: str) -> int:
        """Returns the id of the broker that coordinates this group or transactional id. Raises NotNow, KafkaRefused."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        answer = await self.connections.send(FindCoordinatorRequest(key, int(kind)))
        check(answer.error_code, f"coordinator of {kind.name.lower()} {key}")
        self.connections.add_broker(answer.coordinator_id, (answer.host, answer.port))
        self._coordinators[kind, key] = answer.coordinator_id
        found: int = answer.coordinator_id
        return found

    async def ask_coordinator(self, kind: CoordinatorOf, key: str, request: Any) -> Any:
        """Sends a request to the coordinator, and returns the answer. Raises NotNow, KafkaRefused."""
        return await self.connections.send(request, await self.coordinator(kind, key))

    async def close(self) -> None:
        await self.connections.close()

    def _missing(self, partition: TopicPartition) -> NotNow | UnknownTopicOrPartition:
        self._stale = True
        since = self._missing_since.setdefault(partition, self._fetched_at)
        if self._fetched_at - since < UNKNOWN_AFTER_S:
            return NotNow(f"{partition} is not known yet")
        del self._missing_since[partition]
        return UnknownTopicOrPartition(f"there is no partition {partition}")

    async def _know(self, topics: set[str]) -> None:
        is_old = time.monotonic() - self._fetched_at > self._max_age_s
        if not self._stale and not is_old and topics <= self._topics.keys():
            return
        wanted = topics | self._topics.keys()
        metadata = await fetch_metadata(self.connections, wanted)
        self._topics = dict(metadata.topics)
        self._fetched_at = time.monotonic()
        self._stale = False
