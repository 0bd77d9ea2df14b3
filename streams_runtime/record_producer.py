"""Writes records to topics of any log, each to the partition to which Kafka's own producer would send it.

Rules: a partition that is given counts. Else the key decides, by Kafka's murmur2 of its bytes. Records without a key
stay with one partition until 16 KiB went there, and then take the next one. Source: `KafkaProducer.partition`,
`BuiltInPartitioner`. Differs from Kafka: after 16 KiB Kafka draws any partition, by how busy the brokers are.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from assignor.types import TopicPartition
from streams_runtime.clock import Clock, SystemClock
from streams_runtime.errors import SerdeMismatch, StreamsRuntimeError
from streams_runtime.logs.base import Log, Producer
from streams_runtime.logs.errors import UnknownTopicOrPartition
from streams_runtime.logs.opening import open_log
from streams_runtime.partitioner import positive_hash
from streams_runtime.records import Headers
from streams_runtime.serdes import Serde, serde_for_topic

Key = TypeVar("Key")
Value = TypeVar("Value")

STICKY_BYTES = 16_384
"""`batch.size` of Kafka's producer."""


class RecordProducer(Generic[Key, Value]):
    """Use it in a `with` block, or `close` it; one thread uses it.

        with RecordProducer("embedded:/var/lib/words", STRING, JSON) as orders:
            orders.send("orders", "customer-7", {"total": 12})

    `log`: an address as for `open_log`, which is then closed with the producer, or a log, which stays open. Raises as
    `open_log` does.
    """

    def __init__(
        self,
        log: Log | str,
        key_serde: Serde[Key],
        value_serde: Serde[Value],
        *,
        properties: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`properties`: of Kafka's client, for an address. `clock`: for records without a timestamp."""
        self._own: Log | None = open_log(log, properties) if isinstance(log, str) else None
        self._log: Log = self._own if self._own is not None else log  # type: ignore[assignment]
        self._key_serde: Serde[Any] = key_serde
        self._value_serde: Serde[Any] = value_serde
        self._clock = clock or SystemClock()
        self._targets: dict[str, _TopicTarget] = {}
        try:
            self._producer: Producer = self._log.producer()
        except BaseException:
            self._close_own()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        key: Key | None,
        value: Value | None,
        *,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> TopicPartition:
        """Take the record, and say where it goes. It is written soon, at the latest by `flush` or `close`.

        `timestamp_ms`: since the epoch; None for now. `headers`: pairs of a name and bytes or None. Raises
        SerdeMismatch and the serdes' own StreamsRuntimeErrors, UnknownTopicOrPartition, InvalidRecord, RecordTooLarge,
        LogTimeout.
        """
        target = self._targets.get(topic) or self._look_up(topic)
        try:
            key_bytes = None if key is None else target.key_serde.serialize(key)
            value_bytes = None if value is None else target.value_serde.serialize(value)
        except StreamsRuntimeError:
            raise
        except Exception as error:
            refused = f"nothing is written to topic {topic}"
            raise SerdeMismatch(refused, target.key_serde, target.value_serde, key, value, error) from error
        where = target.choose(key_bytes, value_bytes, partition)
        at_ms = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        self._producer.send(where, key_bytes, value_bytes, at_ms, headers)
        return where

    def flush(self) -> None:
        """On return all records are written. Raises LogError; a LogTimeout may be tried again."""
        self._producer.flush()

    def discard(self) -> None:
        """Forget what was taken and is not written yet. Only `close` may follow."""
        self._producer.discard()

    def close(self) -> None:
        """Writes what was taken, if nothing was discarded. Raises as `flush` does, and is closed all the same."""
        try:
            self._producer.close()
        finally:
            self._close_own()

    def _look_up(self, topic: str) -> _TopicTarget:
        count = self._log.partitions_of(topic)
        if count < 1:
            raise UnknownTopicOrPartition(f"there is no topic {topic}")
        target = self._targets[topic] = _TopicTarget(topic, count, self._key_serde, self._value_serde)
        return target

    def _close_own(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()


class _TopicTarget:
    """The serdes and the partitions of one topic, and the partition at which keyless records are."""

    __slots__ = ("_at", "_bytes", "_partitions", "key_serde", "value_serde")

    def __init__(self, topic: str, count: int, key_serde: Serde[Any], value_serde: Serde[Any]) -> None:
        self.key_serde = serde_for_topic(key_serde, topic, is_key=True)
        self.value_serde = serde_for_topic(value_serde, topic, is_key=False)
        self._partitions = tuple(TopicPartition(topic, number) for number in range(count))
        self._at = random.randrange(count)  # noqa: S311 - so that short runs do not all meet in partition 0
        self._bytes = 0

    def choose(self, key: bytes | None, value: bytes | None, given: int | None) -> TopicPartition:
        partitions = self._partitions
        if given is not None:
            if not 0 <= given < len(partitions):
                topic = partitions[0].topic
                raise UnknownTopicOrPartition(f"topic {topic} has partitions 0 to {len(partitions) - 1}, no {given}")
            return partitions[given]
        if key is not None:
            return partitions[positive_hash(key) % len(partitions)]
        if self._bytes >= STICKY_BYTES:
            self._bytes = 0
            self._at = (self._at + 1) % len(partitions)
        self._bytes += 0 if value is None else len(value)
        return partitions[self._at]
