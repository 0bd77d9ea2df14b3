"""Reads new records of `__consumer_offsets`, in which the brokers store every generation of every group.

Rules: Kafka stores all records of a group in one partition of this topic. The hash of the group's id gives the
partition. The reader returns the group metadata of the requested groups, and skips offset commits. The reader is
`read_uncommitted`, because an open transaction with offset commits would stop a `read_committed` reader. Group metadata
is never part of a transaction. `__consumer_offsets` is compacted, so older generations may be missing. The reader does
not join a group or commit offsets. Source: `GroupCoordinatorService.partitionFor`, `GroupCoordinatorRecordHelpers`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import aiokafka
from aiokafka import errors

from assignor.errors import DecodeError
from assignor.java.hash_codes import string_hash
from assignor.protocol.group_metadata import GroupMetadataKey, OtherGroupKey, decode_group_key
from kafka_client.errors import KafkaRefused, KafkaUnavailable
from kafka_client.settings.client_settings import ClientSettings

OFFSETS_TOPIC = "__consumer_offsets"

# most records are offset commits; their keys begin with one of these versions, so they are skipped without decoding
_OFFSET_COMMITS = (b"\0\0", b"\0\1")
_INT32_MIN = -(2**31)
_LONGEST_WAIT_MS = 500
_MOST_RECORDS = 5000


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One record of one group. `value`: None for a tombstone. `timestamp_ms`: the time at which a broker wrote the
    record.
    """

    key: GroupMetadataKey | OtherGroupKey
    value: bytes | None
    partition: int
    offset: int
    timestamp_ms: int


def offsets_partition(group: str, partitions: int) -> int:
    """Returns the partition of `__consumer_offsets` that contains this group's records. `partitions`: the number of
    partitions of the topic.
    """
    code = string_hash(group)
    return (0 if code == _INT32_MIN else abs(code)) % partitions


class OffsetsTopic:
    """Reads the partitions of `__consumer_offsets` that have the records of the given groups. Use the reader in an
    `async with` block, in one asyncio task. `partition_count`: the number of partitions of the topic.
    """

    def __init__(self, settings: ClientSettings, groups: Iterable[str], partition_count: int) -> None:
        self._settings = settings
        self.partition_of = {group: offsets_partition(group, partition_count) for group in groups}
        self._partitions = {
            number: aiokafka.TopicPartition(OFFSETS_TOPIC, number) for number in sorted(set(self.partition_of.values()))
        }
        self._consumer: aiokafka.AIOKafkaConsumer | None = None

    async def __aenter__(self) -> OffsetsTopic:
        """Connects. Raises KafkaUnavailable, KafkaRefused."""
        consumer = aiokafka.AIOKafkaConsumer(
            **self._settings.client_arguments(),
            group_id=None,
            enable_auto_commit=False,
            exclude_internal_topics=False,
            auto_offset_reset="earliest",
            isolation_level="read_uncommitted",
        )
        try:
            with _translated(self._settings):
                async with asyncio.timeout(self._settings.api_timeout_s):
                    await consumer.start()
        except BaseException:
            await consumer.stop()
            raise
        consumer.assign(list(self._partitions.values()))
        self._consumer = consumer
        return self

    async def __aexit__(self, *_: object) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def seek(self, positions: Mapping[int, int]) -> None:
        """Sets the offset of the next record to read in each partition. `positions`: maps partition numbers to offsets.
        A partition that is missing in `positions` is read from its first record.
        """
        consumer = self._started()
        for number, partition in self._partitions.items():
            # if offset 0 has been deleted, auto_offset_reset moves the position to the first record
            consumer.seek(partition, positions.get(number, 0))

    async def end_offsets(self) -> dict[int, int]:
        """Returns the current end offset of each partition. Raises KafkaUnavailable, KafkaRefused."""
        with _translated(self._settings):
            async with asyncio.timeout(self._settings.api_timeout_s):
                ends = await self._started().end_offsets(list(self._partitions.values()))
        return {partition.partition: end for partition, end in ends.items()}

    async def read(self) -> tuple[list[GroupRecord], dict[int, int]]:
        """Returns the next records, and for each partition the offset at which the next read begins. The records of one
        partition are in the order of their offsets. The list of records is empty if no record arrives within half a
        second, or if no broker answers. Raises KafkaRefused if the user may not read `__consumer_offsets`.
        """
        with _translated(self._settings):
            fetched = await self._started().getmany(timeout_ms=_LONGEST_WAIT_MS, max_records=_MOST_RECORDS)
        found: list[GroupRecord] = []
        for records in fetched.values():
            for record in records:
                key = self._key(record.key)
                if key is not None:
                    found.append(GroupRecord(key, record.value, record.partition, record.offset, record.timestamp))
        return found, await self._positions()

    async def _positions(self) -> dict[int, int]:
        """Returns the offset of the next record in each partition. The next offset may skip some numbers after the last
        record, because transaction markers also have offsets.
        """
        positions: dict[int, int] = {}
        with contextlib.suppress(TimeoutError):  # the consumer may not know the first offset of a partition yet
            async with asyncio.timeout(_LONGEST_WAIT_MS / 1000):
                for number, partition in self._partitions.items():
                    positions[number] = await self._started().position(partition)
        return positions

    def _key(self, raw: bytes | None) -> GroupMetadataKey | OtherGroupKey | None:
        """Returns the decoded key of a record. The result is None for an offset commit, for a record of a group that
        was not requested, and for invalid bytes.
        """
        if raw is None or raw[:2] in _OFFSET_COMMITS:
            return None
        try:
            key = decode_group_key(raw)
        except DecodeError:
            return None
        if isinstance(key, GroupMetadataKey | OtherGroupKey) and key.group in self.partition_of:
            return key
        return None

    def _started(self) -> aiokafka.AIOKafkaConsumer:
        assert self._consumer is not None, "enter it with `async with` first"
        return self._consumer


@contextlib.contextmanager
def _translated(settings: ClientSettings) -> Iterator[None]:
    """Converts errors of aiokafka to errors of this package."""
    try:
        yield
    except (errors.KafkaError, OSError, TimeoutError) as error:
        raise _fault(error, settings) from error


def _fault(error: BaseException, settings: ClientSettings) -> KafkaUnavailable | KafkaRefused:
    where = f"{OFFSETS_TOPIC} of {settings.bootstrap_servers}"
    if isinstance(error, errors.TopicAuthorizationFailedError):
        return KafkaRefused(f"no permission to read {where}: grant READ and DESCRIBE on topic {OFFSETS_TOPIC}")
    if isinstance(error, errors.AuthenticationFailedError | errors.SaslAuthenticationFailed):
        return KafkaRefused(f"{settings.bootstrap_servers} does not accept these credentials: {error}")
    if (
        isinstance(error, errors.KafkaError)
        and not error.retriable
        and not isinstance(error, errors.KafkaConnectionError)
    ):
        return KafkaRefused(f"{where} cannot be read: {type(error).__name__} {error}".rstrip())
    reason = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return KafkaUnavailable(f"{settings.bootstrap_servers} cannot be reached: {reason}")
