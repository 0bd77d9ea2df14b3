"""Work that goes on while brokers come and go: numbers are written with and without transactions, and followed.

Every number has to appear once, in order, whatever dies meanwhile.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from assignor.types import TopicPartition
from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.log_errors import LogTimeout
from tests.streams_runtime.logs.reading_and_writing import read_from

LONGEST_PAUSE_S = 30.0
_A_STEP = 20
_EACH = 3


@dataclass(slots=True)
class SteadyWork:
    """`plain`: written without transactions; its offset is what transactions commit. `atomic`: written by these, three
    records each, into every one of the partitions.
    """

    log: KafkaLog
    group: str
    transactional_id: str
    plain: TopicPartition
    atomic: list[TopicPartition]
    produced: int = 0
    committed: int = 0
    followed: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """In threads; when the context ends all of it is checked."""
        with ThreadPoolExecutor(3) as threads:
            working = [threads.submit(each) for each in (self._produce, self._commit, self._follow)]
            try:
                self.wait_for_a_step()
                yield
                self.wait_for_a_step()
            finally:
                self._is_over.set()
            for each in working:
                each.result()
        self._check()

    def wait_for_a_step(self) -> float:
        """Until everything has gone on for a while; the seconds until the slowest did anything at all."""
        begun = time.monotonic()
        before = (self.produced, self.committed, self.followed)
        moved_s: list[float | None] = [None, None, None]
        while True:
            now = (self.produced, self.committed, self.followed)
            for index, (was, number) in enumerate(zip(before, now, strict=True)):
                if number > was + 1 and moved_s[index] is None:
                    moved_s[index] = time.monotonic() - begun
            if all(number > was + _A_STEP for was, number in zip(before, now, strict=True)):
                return max(each for each in moved_s if each is not None)
            assert time.monotonic() - begun < LONGEST_PAUSE_S, f"stuck: {before} was, {now} is"
            assert not self._is_over.is_set(), "a part of the work has failed"
            time.sleep(0.02)  # nothing tells when others have written

    def _produce(self) -> None:
        producer, number = self.log.producer(), 0
        try:
            while not self._is_over.is_set():
                for _ in range(_A_STEP):
                    producer.send(self.plain, b"k", b"%d" % number, _now_ms())
                    number += 1
                producer.flush()
                self.produced = number
            producer.close()
        finally:
            self._is_over.set()

    def _commit(self) -> None:
        try:
            producer, number = self.log.producer(self.transactional_id), 0
            claim = self.log.claim(self.group, [self.plain], self.transactional_id)
            while not self._is_over.is_set():
                producer.begin_transaction()
                for _ in range(_EACH):
                    for partition in self.atomic:
                        producer.send(partition, b"k", b"%d" % number, _now_ms())
                producer.commit_transaction([(claim, {self.plain: OffsetAndMetadata(number + 1)})])
                number += 1
                self.committed = number
        finally:
            self._is_over.set()

    def _follow(self) -> None:
        """What is read while it is written: all of it, in order, and nothing else."""
        try:
            consumer = self.log.consumer()
            consumer.assign(self.atomic)
            next_number = dict.fromkeys(self.atomic, 0)
            for partition in self.atomic:
                consumer.seek(partition, 0)
            while not self._is_over.is_set():
                for batch in consumer.poll(100, 100):
                    first = next_number[batch.partition]
                    next_number[batch.partition] = first + len(batch)
                    expected = [b"%d" % (number // _EACH) for number in range(first, first + len(batch))]
                    assert list(batch.values) == expected, f"{batch.partition}: {batch.values} instead of {expected}"
                self.followed = min(next_number.values()) // _EACH
            consumer.close()
        finally:
            self._is_over.set()

    def _check(self) -> None:
        written = [record.value for record in read_from(self.log, self.plain)]
        assert written == [b"%d" % number for number in range(self.produced)]
        expected = [b"%d" % number for number in range(self.committed) for _ in range(_EACH)]
        for partition in self.atomic:
            assert [record.value for record in read_from(self.log, partition)] == expected
        found = self.log.committed_offsets(self.group, [self.plain])
        assert found == {self.plain: OffsetAndMetadata(self.committed)}


def _now_ms() -> int:
    """What is older than retention.ms would be deleted while it is worked with; and a broker that was killed forgets
    the sequence numbers of producers whose last record is older than producer.id.expiration.ms (one day).
    """
    return round(time.time() * 1_000)


def until_answered(call: Callable[[], object]) -> None:
    """Call again until the log has answered in time."""
    give_up_at = time.monotonic() + 30
    while True:
        try:
            call()
        except LogTimeout:
            assert time.monotonic() < give_up_at, "never answered"
        else:
            return
