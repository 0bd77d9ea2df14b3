"""Writes records to topics of any log. Kafka's own producer would choose the same partition for a record with a key.

Rules: if the caller gives a partition, the record goes to this partition. If the caller gives no partition, Kafka's
murmur2 of the key's bytes decides the partition. Records without a key go to one partition until it has received 16 KiB
of values. Further records without a key go to the next partition. A record is written to the log at the latest
`linger.ms` after `send`, even if nobody calls `flush`.
Source: `KafkaProducer.partition`, `BuiltInPartitioner`. Differs from Kafka: after 16 KiB, Kafka chooses the next
partition at random, with weights that depend on the load of the brokers.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Generic

from assignor.errors import InputError
from assignor.types import TopicPartition
from operating_system.processes import reset_in_children
from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.common.errors import SerdeMismatch, StreamsRuntimeError
from streams_runtime.common.records import Headers, K, V, record_partition
from streams_runtime.logs.base import Log, Producer
from streams_runtime.logs.kafka.log_settings import linger_ms
from streams_runtime.logs.log_errors import LogError, LogTimeout, UnknownTopicOrPartition
from streams_runtime.logs.opening import open_log
from streams_runtime.logs.partitioner import positive_hash
from streams_runtime.logs.topic_reading import partitions_of
from streams_runtime.serdes import Serde, serde_fault, serde_for_topic, serializer_of

_logger = logging.getLogger(__name__)

STICKY_BYTES = 16_384
"""The default of `batch.size` of Kafka's producer, in bytes."""


class RecordProducer(AbstractContextManager["RecordProducer[K, V]"], Generic[K, V]):
    """A producer of records. Use a `RecordProducer` in a `with` block, or `close` it. Only one thread may use a
    `RecordProducer`. For example:

        with RecordProducer("embedded:/var/lib/words", STRING, JSON) as orders:
            orders.send("orders", "customer-7", {"total": 12})

    `log`: a log, or an address as for `open_log`. `close` closes a log that was opened from an address, and leaves any
    other log open. Raises the errors of `open_log`.
    """

    def __init__(
        self,
        log: Log | str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        properties: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`properties`: properties of Kafka's client, if `log` is an address. A log that is not on Kafka accepts only
        `linger.ms`. `clock`: the clock for the timestamps of records that are sent without a timestamp. Raises
        InputError if a serde lacks the method `serialize`.
        """
        for name, serde in (("key_serde", key_serde), ("value_serde", value_serde)):
            if (fault := serde_fault(serde, "serialize")) is not None:
                raise InputError(fault, name)
        self._linger_s = linger_ms(properties) / 1_000
        self._lock = threading.Lock()  # guards the log's producer, which only one thread at a time may call
        self._timer: threading.Timer | None = None
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
        self._lingers_by_itself = self._producer.lingers
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._timer = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        key: K | None,
        value: V | None,
        *,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> TopicPartition:
        """Accept the record, and return its partition. The record is written after `linger.ms`, or by an earlier
        `flush` or `close`.

        `timestamp_ms`: milliseconds since the epoch; None for the present time. `headers`: pairs of a name and a value,
        which is bytes or None. Raises SerdeMismatch, UnknownTopicOrPartition, InvalidRecord, RecordTooLarge and
        LogTimeout. Also raises any StreamsRuntimeError of the serdes.
        """
        target = self._targets.get(topic) or self._look_up(topic)
        try:
            key_bytes = None if key is None else target.serialize_key(key)
            value_bytes = None if value is None else target.serialize_value(value)
        except StreamsRuntimeError:
            raise
        except Exception as error:
            refused = f"nothing is written to topic {topic}"
            raise SerdeMismatch(refused, target.key_serde, target.value_serde, key, value, error) from error
        where = target.choose(key_bytes, value_bytes, partition)
        at_ms = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        with self._lock:
            self._producer.send(where, key_bytes, value_bytes, at_ms, headers)
            if self._timer is None and not self._lingers_by_itself:
                self._linger()
        return where

    def flush(self) -> None:
        """Write all pending records, and wait until they are written. Raises LogError. After a LogTimeout, the call may
        be repeated.
        """
        with self._lock:
            self._producer.flush()
            self._stop_timer()

    def discard(self) -> None:
        """Forget the records that are not written yet. After `discard`, only `close` may be called."""
        with self._lock:
            self._stop_timer()
            self._producer.discard()

    def close(self) -> None:
        """Writes the pending records, unless the records were discarded. Raises the errors of `flush`. The producer is
        closed even after an error.
        """
        with self._lock:
            self._stop_timer()
            try:
                self._producer.close()
            finally:
                self._close_own()

    def _linger(self) -> None:
        """Start a timer whose thread writes the pending records after `linger.ms`. The caller holds the lock."""
        if self._linger_s == 0:
            self._producer.send_now()
            return
        timer = threading.Timer(self._linger_s, lambda: self._lingered(timer))
        timer.daemon = True
        timer.name = "record-producer-linger"
        self._timer = timer
        timer.start()

    def _lingered(self, timer: threading.Timer) -> None:
        with self._lock:
            if self._timer is not timer:  # the timer was stopped while its thread waited for the lock
                return
            self._timer = None
            try:
                self._producer.send_now()
            except LogError as error:
                # No record is lost: the next call tries to write the pending records again. If this write also fails,
                # that call raises the error.
                _logger.warning("records that were sent are not in the log after linger.ms: %s", error)
                if isinstance(error, LogTimeout):
                    self._linger()

    def _stop_timer(self) -> None:
        """The caller holds the lock."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _look_up(self, topic: str) -> _TopicTarget:
        partitions = partitions_of(self._log, topic)
        target = self._targets[topic] = _TopicTarget(topic, partitions, self._key_serde, self._value_serde)
        return target

    def _close_own(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()


class _TopicTarget:
    """The serdes and the partitions of one topic, and the present partition for records without a key."""

    __slots__ = ("_at", "_bytes", "_partitions", "key_serde", "serialize_key", "serialize_value", "value_serde")

    def __init__(self, topic: str, partitions: list[TopicPartition], keys: Serde[Any], values: Serde[Any]) -> None:
        self.key_serde = serde_for_topic(keys, topic, is_key=True)
        self.value_serde = serde_for_topic(values, topic, is_key=False)
        self.serialize_key, self.serialize_value = serializer_of(self.key_serde), serializer_of(self.value_serde)
        # The first partition is random, so that short runs do not all write to partition 0.
        self._partitions = partitions
        self._at = random.randrange(len(partitions))  # noqa: S311
        self._bytes = 0

    def choose(self, key: bytes | None, value: bytes | None, given: int | None) -> TopicPartition:
        partitions = self._partitions
        if given is not None:
            try:
                return partitions[record_partition(given, len(partitions))]
            except ValueError:
                topic, last = partitions[0].topic, len(partitions) - 1
                raise UnknownTopicOrPartition(f"topic {topic} has partitions 0 to {last}, no {given!r}") from None
        if key is not None:
            return partitions[positive_hash(key) % len(partitions)]
        if self._bytes >= STICKY_BYTES:
            self._bytes = 0
            self._at = (self._at + 1) % len(partitions)
        self._bytes += 0 if value is None else len(value)
        return partitions[self._at]
