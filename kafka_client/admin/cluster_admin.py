"""An admin client for Kafka, with the requests that this project needs.

Rules: a request can fail because brokers restart or leaders move. Every call retries such a failure for up to
`default.api.timeout.ms`, and then raises KafkaUnavailable. A failure that no retry can fix raises KafkaRefused
immediately. Several calls of one admin client may run at the same time, in one event loop. Source: `Admin` of
kafka-clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager

from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from assignor.types import Offsets, TopicPartition
from kafka_client.admin.groups import CommittedOffset as CommittedOffset
from kafka_client.admin.groups import ConsumerGroupDescription as ConsumerGroupDescription
from kafka_client.admin.groups import ConsumerGroupMember as ConsumerGroupMember
from kafka_client.admin.groups import committed_offsets, describe_group
from kafka_client.admin.partition_leaders import EARLIEST, LATEST, LeaderRequest
from kafka_client.admin.topics import (
    add_partitions,
    alter_configs,
    create_topics,
    delete_topics,
    fetch_metadata,
    topic_configs,
)
from kafka_client.connections import Connections, call
from kafka_client.errors import UnknownTopic
from kafka_client.event_loop import T, first_of
from kafka_client.settings.client_settings import ClientSettings

_SLOW_S = 3.0


class ClusterAdmin(AbstractAsyncContextManager["ClusterAdmin"]):
    """An admin client, which connects to the cluster when it is first called. `close` and the end of the `async with`
    block close the connections. A call after `close` opens new connections.

    The class has one public method for each request that this project needs. The methods are in one class because they
    share connections, retries and known leaders.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._connections = Connections(settings)
        self._leaders: dict[TopicPartition, int] = {}
        self._group_coordinators: dict[str, int] = {}

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connections.close()

    async def brokers(self) -> tuple[Broker, ...]:
        """Returns the running brokers with their racks, sorted by id."""
        return (await self.cluster(())).brokers

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None until a call of this client has read metadata."""
        return self._connections.cluster_id

    async def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Returns the ids of the requested topics that exist. A topic that is deleted and created again has another id
        (KIP-516). Brokers before Kafka 2.8 return no ids.
        """
        asked = sorted(set(names))
        return dict((await self._call(f"topics {_some(asked)}", fetch_metadata, asked)).topic_ids)

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """Returns the metadata of the requested topics that exist. `names`: the requested topics; None for all topics
        that the user may see. A partition without a leader has leader -1.
        """
        return dict((await self.cluster(names)).topics)

    async def cluster(self, names: Iterable[str] | None = None) -> Cluster:
        """Returns the cluster's brokers and topics from one answer of a broker. `names`: the requested topics; None for
        all topics that the user may see.
        """
        asked = None if names is None else sorted(set(names))
        what = "topics" if asked is None else f"topics {_some(asked)}" if asked else "brokers"
        metadata = await self._call(what, fetch_metadata, asked)
        return Cluster(metadata.brokers, metadata.topics)

    async def topic_configs(self, names: Iterable[str], *, only_own: bool = False) -> dict[str, dict[str, str]]:
        """Returns the effective configs of the requested topics that exist. `names`: the requested topics. `only_own`:
        True to return only configs that are set on the topic itself.
        """
        asked = sorted(set(names))
        return await self._call(f"configs of topics {_some(asked)}", topic_configs, asked, only_own)

    async def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        """Creates the topics. Returns when all topics exist and all their partitions have leaders. Raises
        TopicHasOtherPartitions before any topic is created.
        """
        await self._call(f"creating topics {_some(topics)}", create_topics, topics, self.settings.request_timeout_s)

    async def add_partitions(self, topic: str, count: int) -> None:
        """Adds partitions. Returns when the topic has `count` partitions and each partition has a leader. Raises
        UnknownTopic.
        """
        what = f"adding partitions to topic {topic}"
        await self._call(what, add_partitions, topic, count, self.settings.request_timeout_s)

    async def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Changes configs of a topic. `changes`: maps each config to its new value, or to None to reset the config. The
        topic's other configs do not change.
        """
        await self._call(f"configs of topic {topic}", alter_configs, topic, changes)

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Deletes the topics. Returns when a broker's metadata no longer has the topics. Raises UnknownTopic before any
        topic is deleted.
        """
        asked = sorted(set(names))
        there = await self.topics(asked)
        missing = [name for name in asked if name not in there]
        if missing:
            raise UnknownTopic(f"there is no topic {', '.join(missing)}")
        await self._call(f"deleting topics {_some(asked)}", delete_topics, asked, self.settings.request_timeout_s)
        for partition in [each for each in self._leaders if each.topic in there]:
            del self._leaders[partition]

    async def end_offsets(self, partitions: Iterable[TopicPartition], read_committed: bool = False) -> Offsets:
        """Returns the end offset of each partition: the last stable offset if `read_committed` is True, and otherwise
        the high watermark. Raises UnknownTopic.
        """
        return await self._offsets("end offsets", partitions, LATEST, read_committed)

    async def begin_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Returns the first offset of each partition. Raises UnknownTopic."""
        return await self._offsets("begin offsets", partitions, EARLIEST, False)

    async def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        """Returns an offset for each partition: the offset of the first record with this timestamp or a later
        timestamp. The offset is -1 if all records have earlier timestamps. Raises UnknownTopic.
        """
        return await self._offsets(f"offsets at {timestamp_ms} ms", partitions, timestamp_ms, False)

    async def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Returns the group's committed offsets. Partitions without a committed offset are left out. `partitions`: the
        requested partitions; None for all partitions. `stable`: True to wait until no open transaction can change one
        of the offsets (KIP-447).
        """
        asked = None if partitions is None else sorted(set(partitions))
        what = f"committed offsets of group {group}"
        return await self._call(what, committed_offsets, group, asked, stable, self._group_coordinators)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> Offsets:
        """Deletes the records below the given offsets. Returns the new first offset of each partition. Raises
        UnknownTopic.
        """
        request = LeaderRequest(self._connections, before, self._leaders)
        what = f"deleting records of {_some(map(str, before))}"
        return await call(self.settings, what, lambda: request.delete(before, self.settings.request_timeout_s))

    async def describe_group(self, group: str) -> ConsumerGroupDescription:
        """Describes a group. A group that does not exist has state `Dead` and no members."""
        return await self._call(f"group {group}", describe_group, group)

    async def _offsets(
        self, what: str, partitions: Iterable[TopicPartition], timestamp: int, read_committed: bool
    ) -> Offsets:
        asked = set(partitions)
        request = LeaderRequest(self._connections, asked, self._leaders)
        what = f"{what} of {_some(map(str, asked))}"
        return await call(self.settings, what, lambda: request.offsets(timestamp, read_committed))

    async def _call(self, what: str, attempt: Callable[..., Awaitable[T]], *arguments: object) -> T:
        return await call(self.settings, what, lambda: attempt(self._connections, *arguments))


async def first_contact(
    admin: ClusterAdmin, settings: ClientSettings, stopped: asyncio.Event, report: Callable[[str], None]
) -> bool:
    """Makes the first request to a cluster, so that a wrong address is reported within seconds. Returns True if the
    cluster has answered, and False if `stopped` was set before the answer. Calls `report` with one line if the answer
    takes longer than 3 s. Raises KafkaClientError.
    """
    notice = asyncio.get_running_loop().call_later(
        _SLOW_S,
        report,
        f"Kafka at {settings.bootstrap_servers} has not answered yet; "
        f"asking for {settings.api_timeout_s:g} s at most (default.api.timeout.ms)",
    )
    try:
        return await first_of(admin.brokers(), stopped.wait()) is not True
    finally:
        notice.cancel()


def _some(names: Iterable[str]) -> str:
    """Returns a text for messages: the first three names, and the number of further names."""
    ordered = sorted(names)
    return ", ".join(ordered[:3]) + (f" and {len(ordered) - 3} more" if len(ordered) > 3 else "")
