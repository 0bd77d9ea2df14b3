"""The log on Kafka. Source: `Admin` and the client constructors of kafka-clients.

Rules: a `KafkaLog` is the log of one cluster. Any number of processes may use the cluster. All network calls of one log
run in one separate thread. Each consumer and each producer has its own connections, because a broker answers the
requests of one connection one after the other.
In the child of a fork the log opens new connections. Consumers and producers that were made before the fork belong to
the parent.
"""

import asyncio
import logging
import math
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from assignor.topology.internal_topics import CreatedTopic
from assignor.types import Offsets, TopicPartition
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.errors import KafkaClientError, KafkaRefused, KafkaUnavailable, TopicHasOtherPartitions, UnknownTopic
from kafka_client.event_loop import EventLoopThread
from operating_system.processes import reset_in_children
from streams_runtime.logs.base import (
    Claim,
    CommittedOffsets,
    ConfigChanges,
    Consumer,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicDescription,
)
from streams_runtime.logs.kafka.claims_topic import CLAIMS_CONFIGS, ClaimOwner, ClaimsWriter, GroupClaims
from streams_runtime.logs.kafka.consumer import KafkaConsumer
from streams_runtime.logs.kafka.leadership import Leadership, T
from streams_runtime.logs.kafka.log_settings import LogSettings, log_settings
from streams_runtime.logs.kafka.producer import KafkaProducer
from streams_runtime.logs.log_errors import (
    InvalidTopic,
    LogError,
    LogTimeout,
    TopicExists,
    UnknownTopicOrPartition,
    check_not_beyond,
)
from streams_runtime.logs.record_limits import AnyRecord, BrokerChecks, RecordLimits
from streams_runtime.logs.topic_configs import (
    TopicConfigs,
    altered_topic,
    check_topics_exist,
    checked_topic,
    topics_to_add,
)

_logger = logging.getLogger(__name__)
_LIMITS = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "retention.ms",
)


_LONGEST_ID_LOOKUP_S = 1.0
"""A look-up of topic ids takes at most this time, because a store can be opened without them."""
_IDS_FOR_S = 10.0
"""The ids of topics are looked up again after this time. The tasks of one assignment are made within a shorter time, so
they need one request for each set of topics.
"""


class _KnownId(NamedTuple):
    """`at`: the monotonic time of the look-up, in seconds. `id`: the id of the topic; None if it was not found."""

    at: float
    id: str | None


class _KnownLimits(NamedTuple):
    """The limits and the retention of a topic. `at`: the monotonic time of the look-up, in seconds."""

    at: float
    partitions: int
    limits: RecordLimits
    deletes_after_ms: int | None


class KafkaLog:
    """A `Log`. The log connects to the brokers at its first call. `properties`: properties of Kafka's clients, and the
    properties of `log_settings`.

    Raises InputError for unknown or unusable properties.
    """

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str] | None = None) -> None:
        self.settings: LogSettings = log_settings(bootstrap_servers, properties)
        self._loop = EventLoopThread("kafka-log")
        self._open: set[KafkaConsumer | KafkaProducer] = set()
        self._limits: dict[str, _KnownLimits] = {}
        self._closed = False
        self._connect()
        reset_in_children(self)

    def _connect(self) -> None:
        self._admin = ClusterAdmin(self.settings.client)
        self._leadership = Leadership(self.settings.client)
        self._claims_writer = ClaimsWriter(self._leadership, self.settings)
        self._claims: dict[str, GroupClaims] = {}
        self._owners: dict[str, ClaimOwner] = {}
        self._topic_ids: dict[str, _KnownId] = {}

    def reset_after_fork(self) -> None:
        # This reference keeps the parent's objects alive in the child of a fork: see `Connections`.
        self._parents = (self._admin, self._leadership, self._claims_writer)
        self._open = set()
        self._connect()

    def cluster_id(self) -> str | None:
        """Returns None until a broker has returned metadata, for example in `topic_ids`. The method makes no request,
        because an application may start before its brokers.
        """
        return self._admin.cluster_id

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """Waits at most a second for the brokers. Never raises LogTimeout, because the caller can go on without ids.
        The ids may be some seconds old. Brokers before Kafka 2.8 have no topic ids.
        """
        asked = set(topics)
        now = time.monotonic()
        recent = {topic for topic in asked if (it := self._topic_ids.get(topic)) and now - it.at < _IDS_FOR_S}
        if missing := asked - recent:
            found = self._run(self._look_up_ids(missing))
            self._topic_ids.update({topic: _KnownId(time.monotonic(), found.get(topic)) for topic in missing})
        known = {topic: self._topic_ids[topic].id for topic in asked}
        return {topic: topic_id for topic, topic_id in known.items() if topic_id is not None}

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        asked = list(topics)
        for topic in asked:
            checked_topic(topic)
        there = self._run(self._admin.topics({topic.name for topic in asked}))
        missing = topics_to_add(
            asked, {name: TopicDescription(name, metadata.partitions) for name, metadata in there.items()}
        )
        if missing:
            self._run(self._admin.create_topics({topic.name: self._created(topic) for topic in missing}))
            for topic in missing:
                self._topic_ids.pop(topic.name, None)

    def alter_topic(self, name: str, partitions: int | None, configs: ConfigChanges) -> None:
        there = self._run(self._admin.topics([name]))
        check_topics_exist([name], there)
        altered_topic(TopicDescription(name, there[name].partitions), partitions, configs)
        if configs:
            self._run(self._admin.alter_configs(name, configs))
        if partitions is not None and partitions > there[name].partitions:
            self._run(self._admin.add_partitions(name, partitions))
        self._limits.pop(name, None)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics. The brokers also delete the offsets that groups have committed for these topics."""
        asked = list(names)
        if not asked:
            return
        self._run(self._admin.delete_topics(asked))
        for name in asked:
            self._limits.pop(name, None)
            self._topic_ids.pop(name, None)

    def topics(self) -> Mapping[str, TopicDescription]:
        """Returns the topics with the configs that were set on them. The configs are missing if the user has no
        permission to read them.
        """

        async def both() -> dict[str, TopicDescription]:
            known = await self._admin.topics()
            configs = await self._configs(known, only_own=True)
            return {
                name: TopicDescription(name, metadata.partitions, configs.get(name, {}))
                for name, metadata in known.items()
            }

        return self._run(both())

    def partitions_of(self, topic: str) -> int:
        try:
            return self._known_limits(TopicPartition(topic, 0)).partitions
        except UnknownTopicOrPartition:
            return 0

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        asked = list(partitions)
        return self._run(self._admin.begin_offsets(asked), asked) if asked else {}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> Offsets:
        asked = list(partitions)
        read_committed = isolation is IsolationLevel.READ_COMMITTED
        return self._run(self._admin.end_offsets(asked, read_committed), asked) if asked else {}

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        asked = list(partitions)
        found = self._run(self._admin.offsets_for_time(asked, timestamp_ms), asked) if asked else {}
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def committed_offsets(self, group_id: str, partitions: Iterable[TopicPartition] | None) -> CommittedOffsets:
        """Returns the committed offsets. If an open transaction contains one of these offsets, waits for the end of the
        transaction.
        """
        asked = None if partitions is None else list(partitions)
        found = {} if asked == [] else self._run(self._admin.committed_offsets(group_id, asked, stable=True))
        return {partition: OffsetAndMetadata(one.offset, one.metadata) for partition, one in found.items()}

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        """Writes records to the group's claims topic: see `claims_topic`."""
        asked = list(partitions)
        if not asked:
            return Claim(group_id, {})
        claim_owner = None if owner is None else self._owners.get(owner, ClaimOwner(owner, -1, -1))
        return self._run(self._in_claims(group_id).claim(asked, claim_owner))

    def release(self, *claims: Claim) -> None:
        for group_id, of_it in _by_group(claims).items():
            try:
                self._run(self._in_claims(group_id).release(of_it))
            except LogError:
                _logger.info(
                    "group %s: claims could not be released; the next owner may fence this one", group_id, exc_info=True
                )

    def consumer(
        self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED, *, whole_transactions: bool = False
    ) -> Consumer:
        consumer = KafkaConsumer(
            self._loop, self.settings, isolation, self._open.discard, whole_transactions=whole_transactions
        )
        self._open.add(consumer)
        return consumer

    def producer(self, transactional_id: str | None = None) -> Producer:
        producer = KafkaProducer(self._loop, self.settings, self, transactional_id, self._open.discard)
        try:
            producer.open()
        except BaseException:
            producer.close()
            raise
        self._open.add(producer)
        if transactional_id is not None:
            opened = producer.transactions
            self._owners[transactional_id] = ClaimOwner(transactional_id, opened.producer_id, opened.epoch)
        return producer

    def deletes_after_ms(self, topic: str) -> int | None:
        """If the client has no permission to read the topic's configs, this method also returns None."""
        return self._known_limits(TopicPartition(topic, 0)).deletes_after_ms

    def keep_windows(self, topic: str, retention_ms: int) -> None:
        """Does nothing, because the operator of the brokers decides the retention of a topic, as in Kafka Streams."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """If an offset is beyond the end of its partition, raises OffsetOutOfRange and deletes no record."""
        if not before:
            return
        check_not_beyond(before, self.end_offsets(before, IsolationLevel.READ_UNCOMMITTED))
        self._run(self._admin.delete_records(before), before)

    def maintain(self) -> None:
        """Does nothing: the brokers do compaction and retention by themselves."""

    def close(self) -> None:
        """Close the log, its consumers and its producers. No other call may run during `close`."""
        if self._closed:
            return
        for each in list(self._open):
            if isinstance(each, KafkaProducer):
                each.discard()
            each.close()
        self._run(self._disconnect())
        self._closed = True
        self._loop.close()

    async def _disconnect(self) -> None:
        await self._claims_writer.close()
        await self._leadership.close()
        await self._admin.close()

    # --- Methods that producers and claims call.

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        """Raises UnknownTopicOrPartition, LogTimeout."""
        return self._known_limits(partition).limits

    def _known_limits(self, partition: TopicPartition) -> _KnownLimits:
        known = self._limits.get(partition.topic)
        if known is None or partition.partition >= known.partitions or self._is_old(known):
            known = self._limits[partition.topic] = self._run(self._look_up_limits(partition))
        return known

    def _is_old(self, known: _KnownLimits) -> bool:
        return time.monotonic() - known.at > self.settings.client.milliseconds("metadata.max.age.ms") / 1_000

    def record_refused(
        self, partition: TopicPartition, record: AnyRecord, reason: str, for_its_timestamp: bool
    ) -> None:
        """Remember the refused record, so that `send` refuses it the next time. The cached limits of the topic are
        marked as outdated, because the topic's configs may have changed.
        """
        known = self._limits.get(partition.topic)
        if known is not None:
            known.limits.checks.was_refused(record, reason, for_its_timestamp=for_its_timestamp)
            self._limits[partition.topic] = known._replace(at=-math.inf)

    async def check_claims(self, claims: Sequence[Claim]) -> None:
        for group_id, of_it in _by_group(claims).items():
            await self._in_claims(group_id).check(of_it)

    async def make_claims_topic(self, name: str) -> None:
        topic = CreatedTopic(1, self.settings.replication_factor, CLAIMS_CONFIGS)
        await _translated(self._admin.create_topics({name: topic}))

    # --- inside

    def _in_claims(self, group_id: str) -> GroupClaims:
        found = self._claims.get(group_id)
        if found is None:
            made = GroupClaims(group_id, self._leadership, self._claims_writer, self.make_claims_topic)
            found = self._claims.setdefault(group_id, made)
        return found

    def _created(self, topic: NewTopic) -> CreatedTopic:
        replication = topic.replication_factor if topic.replication_factor > 0 else self.settings.replication_factor
        return CreatedTopic(topic.partitions, replication, topic.configs)

    async def _look_up_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        try:
            async with asyncio.timeout(_LONGEST_ID_LOOKUP_S):
                return await self._admin.topic_ids(topics)
        except (KafkaClientError, TimeoutError) as error:
            _logger.info("the ids of topics %s are not known: %s", ", ".join(sorted(topics)), error or "no answer")
            return {}

    async def _look_up_limits(self, partition: TopicPartition) -> _KnownLimits:
        await self._leadership.call(f"topic {partition.topic}", lambda: self._leadership.leaders([partition]))
        name = partition.topic
        there = await _translated(self._admin.topics([name]))
        if name not in there:
            raise UnknownTopicOrPartition(f"there is no partition {partition}")
        found = (await self._configs([name], only_own=False)).get(name, {})
        configs = TopicConfigs.of(name, {key: found[key] for key in _LIMITS if key in found})
        times_ms = configs.timestamp_after_max_ms, configs.timestamp_before_max_ms
        known = self._limits.get(name)
        if known is None:
            checks = BrokerChecks(*times_ms)
        else:
            checks = known.limits.checks
            checks.configure(*times_ms)  # the limits are changed in place, because producers have this object
        limits = RecordLimits(configs.max_message_bytes, configs.compacts, checks)
        return _KnownLimits(time.monotonic(), there[name].partitions, limits, configs.deletes_after_ms)

    async def _configs(self, topics: Iterable[str], *, only_own: bool) -> dict[str, dict[str, str]]:
        """Returns the configs of topics. Returns no configs if the client has no permission to read configs: the
        brokers check every record anyway.
        """
        try:
            return await self._admin.topic_configs(topics, only_own=only_own)
        except KafkaRefused:
            return {}

    def _run(self, call: Coroutine[Any, Any, T], partitions: Iterable[TopicPartition] = ()) -> T:
        if self._closed:
            call.close()
            raise LogError("the log is closed")
        return self._loop.run(_translated(call, list(partitions)))


def _by_group(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """Returns the claims by group, without claims that have no partitions."""
    by_group: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.epochs:
            by_group.setdefault(claim.group_id, []).append(claim)
    return by_group


async def _translated(call: Coroutine[Any, Any, T], partitions: Sequence[TopicPartition] = ()) -> T:
    """Awaits `call`, and converts errors of the client to errors of a log. `partitions`: the partitions of the call."""
    try:
        return await call
    except UnknownTopic as error:
        raise UnknownTopicOrPartition(_unknown(str(error), partitions)) from error
    except TopicHasOtherPartitions as error:
        raise TopicExists(str(error)) from error
    except KafkaUnavailable as error:
        raise LogTimeout(str(error)) from error
    except KafkaClientError as error:
        kind = InvalidTopic if "creating topic" in str(error) else LogError
        raise kind(str(error)) from error


def _unknown(message: str, partitions: Sequence[TopicPartition]) -> str:
    for partition in partitions:
        if str(partition) in message or message.endswith(f"no topic {partition.topic}"):
            return f"there is no partition {partition}"
    return message
