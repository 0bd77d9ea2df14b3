"""The half of a consumer that lives in the event loop: it asks the leaders of partitions for records.

Rules: the broker answers a request at once when there are records, else after the longest wait that the request names.
Requests that wait at the broker go over connections of their own, because a broker answers the requests of one
connection one after the other: a partition that was assigned just now must not wait for others to get records. Both
are connected as soon as there is a reader.
A partition is asked for again only when its records have been taken. An answer for a position that the reader has left
(by `seek`) is dropped. Source: `Fetcher`, `AbstractFetch`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from aiokafka.protocol.fetch import FetchRequest

from assignor.types import TopicPartition
from kafka_client.admin.partition_leaders import EARLIEST, LATEST, LeaderRequest
from kafka_client.error_codes import check
from kafka_client.errors import KafkaRefused, NotNow
from streams_runtime.logs.base import IsolationLevel, RecordBatch
from streams_runtime.logs.errors import LogError, LogTimeout
from streams_runtime.logs.kafka.completed_fetch import CompletedFetch
from streams_runtime.logs.kafka.leadership import Leadership
from streams_runtime.logs.kafka.settings import LogSettings

_OFFSET_OUT_OF_RANGE = 1
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.05, 1.0


class FetchedPartition:
    """One assigned partition, shared by reader and loop under the consumer's lock.

    `position`: of the reader. `completed`: fetched and not decoded yet; `decoding`: the fetch being decoded; `rest`:
    records that are decoded and not given yet. Requests to the broker are numbered: `asked` is the last one,
    `in_flight` the one on its way, `answered` the last one with an answer. `waits`: the request on its way waits at the
    broker until records come. `empty_at`: when the last answer brought nothing, by the monotonic clock; 0 if it brought
    records.
    """

    __slots__ = (
        "answered",
        "asked",
        "completed",
        "decoding",
        "empty_at",
        "in_flight",
        "is_outside",
        "is_paused",
        "position",
        "rest",
        "waits",
    )

    def __init__(self) -> None:
        self.position: int | None = None
        self.is_paused = False
        self.asked = self.answered = 0
        self.in_flight: int | None = None
        self.drop()

    def drop(self) -> None:
        """Forget what was fetched and what is being fetched."""
        self.decoding: CompletedFetch | None = None
        self.completed: deque[CompletedFetch] = deque()
        self.rest: RecordBatch | None = None
        self.is_outside = False
        self.waits = False
        self.empty_at = 0.0

    def ask(self, *, waits: bool) -> int:
        self.asked += 1
        self.in_flight = self.asked
        self.waits = waits
        return self.asked

    def over(self, question: int, *, is_answered: bool) -> None:
        if self.in_flight == question:
            self.in_flight = None
            if is_answered:
                self.answered = question

    @property
    def needs_records(self) -> bool:
        return not self.completed and not self.is_outside and self.in_flight is None

    @property
    def waits_at_broker(self) -> bool:
        return self.waits and self.in_flight is not None

    def fetch_offset(self) -> int:
        """After the records that are being decoded."""
        assert self.position is not None, "only a partition with a position is fetched"
        return self.position if self.decoding is None else max(self.position, self.decoding.end_offset)


class _Question(NamedTuple):
    partition: FetchedPartition
    number: int


class Fetcher:
    """`partitions`: those of the reader. They change under `changed`, which is notified of every answer."""

    def __init__(self, settings: LogSettings, isolation: IsolationLevel) -> None:
        self.changed = threading.Condition()
        self.partitions: dict[TopicPartition, FetchedPartition] = {}
        self.error: BaseException | None = None
        self._settings = settings
        self._read_committed = isolation is IsolationLevel.READ_COMMITTED
        self._leadership = Leadership(settings.client)
        self._waiting = Leadership(settings.client)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failing_since: float | None = None
        self._backoff_s = _FIRST_BACKOFF_S
        self._turn = 0

    def connect(self) -> None:
        """Connect already, so that the first records need not wait for it. Called in the loop."""
        self._in_background(self._connect())

    def start(self, longest_wait_ms: int, empty_before: float = math.inf) -> None:
        """Ask for records of every partition that needs some. Called in the loop.

        `empty_before`: but not if its last answer brought nothing and came later than this.
        """
        with self.changed:
            needed = {
                partition: one
                for partition, one in self.partitions.items()
                if one.position is not None and not one.is_paused and one.needs_records and one.empty_at < empty_before
            }
            questions = {
                partition: _Question(one, one.ask(waits=longest_wait_ms > 0)) for partition, one in needed.items()
            }
        if questions:
            self._in_background(self._fetch(questions, longest_wait_ms))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self._leadership.close()
        await self._waiting.close()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        with contextlib.suppress(NotNow, KafkaRefused):  # the first request says why
            await self._leadership.led(())
            await self._waiting.led(())

    async def _fetch(self, questions: Mapping[TopicPartition, _Question], longest_wait_ms: int) -> None:
        """Partitions that have no leader, or whose leader does not answer, do not hold up the others."""
        reasons: list[BaseException] = []
        leadership = self._waiting if longest_wait_ms > 0 else self._leadership
        try:
            led = await leadership.led(questions)
            if led.failure is not None:
                reasons.append(led.failure)
            by_leader: dict[int, list[TopicPartition]] = {}
            for partition in self._rotated(list(led.leaders)):
                by_leader.setdefault(led.leaders[partition], []).append(partition)
            asked = [
                self._ask(leadership, leader, of_it, questions, longest_wait_ms) for leader, of_it in by_leader.items()
            ]
            reasons += [each for each in await asyncio.gather(*asked, return_exceptions=True) if each is not None]
        except (NotNow, KafkaRefused) as reason:
            reasons.append(reason)
        if reasons:
            await self._failed(reasons)
        else:
            self._failing_since, self._backoff_s = None, _FIRST_BACKOFF_S
        with self.changed:
            for question in questions.values():
                question.partition.over(question.number, is_answered=False)
            self.changed.notify_all()

    async def _ask(
        self,
        leadership: Leadership,
        leader: int,
        partitions: Iterable[TopicPartition],
        questions: Mapping[TopicPartition, _Question],
        longest_wait_ms: int,
    ) -> None:
        settings = self._settings
        with self.changed:
            of = {p: questions[p].partition for p in partitions}
            offsets = {p: one.fetch_offset() for p, one in of.items() if self._is_current(p, one)}
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for (topic, number), offset in offsets.items():
            topics.setdefault(topic, []).append((number, offset, settings.max_partition_fetch_bytes))
        if not topics:
            return
        request = FetchRequest(
            longest_wait_ms, 1, settings.fetch_max_bytes, int(self._read_committed), list(topics.items())
        )
        answer = await leadership.connections.send(request, leader)
        outside = await self._outside(offsets, answer)
        moved: NotNow | None = None
        with self.changed:  # all of an answer at once, so that partitions share a poll
            for topic, answers in answer.topics:
                for each in answers:
                    partition = TopicPartition(topic, each[0])
                    try:
                        self._take(partition, of[partition], offsets[partition], each, outside)
                        of[partition].over(questions[partition].number, is_answered=True)
                    except NotNow as reason:
                        moved = reason
            self.changed.notify_all()
        if moved is not None:
            raise moved

    async def _outside(self, offsets: Mapping[TopicPartition, int], answer: Any) -> set[TopicPartition]:
        """Partitions whose offset really is out of range: a leader that is changing may say so of any offset."""
        said = [
            TopicPartition(topic, each[0])
            for topic, answers in answer.topics
            for each in answers
            if each[1] == _OFFSET_OUT_OF_RANGE
        ]
        if not said:
            return set()
        begins, ends = [
            await LeaderRequest(self._leadership.connections, said).offsets(which, read_committed=False)
            for which in (EARLIEST, LATEST)
        ]
        return {partition for partition in said if not begins[partition] <= offsets[partition] <= ends[partition]}

    def _take(
        self,
        partition: TopicPartition,
        one: FetchedPartition,
        offset: int,
        answer: Any,
        outside: Collection[TopicPartition],
    ) -> None:
        """`answer`: number, error, high watermark, last stable offset, first offset, aborted, ..., records."""
        code, aborted, records = answer[1], answer[5], answer[-1]
        if code == _OFFSET_OUT_OF_RANGE and partition not in outside:
            raise NotNow(f"{partition} has the offset {offset}, and its leader did not find it")
        if code != _OFFSET_OUT_OF_RANGE:
            check(code, f"fetching {partition}")
        if not self._is_current(partition, one) or one.fetch_offset() != offset:
            return
        if code == _OFFSET_OUT_OF_RANGE:
            one.is_outside = one.decoding is None
        elif records:
            one.empty_at = 0.0
            one.completed.append(
                CompletedFetch(partition, records, offset, aborted or () if self._read_committed else None)
            )
        else:
            one.empty_at = time.monotonic()

    def _is_current(self, partition: TopicPartition, one: FetchedPartition) -> bool:
        return self.partitions.get(partition) is one and one.position is not None

    async def _failed(self, reasons: list[BaseException]) -> None:
        where = f"Kafka at {self._settings.client.bootstrap_servers}"
        for reason in reasons:
            if isinstance(reason, KafkaRefused):
                return self._fail(LogError(f"{where}: fetching: {reason}"))
            if not isinstance(reason, NotNow):
                return self._fail(reason)  # a bug of ours has to reach the reader, too
        self._leadership.forget()
        self._waiting.forget()
        now = time.monotonic()
        longest_s = self._settings.client.api_timeout_s
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= longest_s:
            self._failing_since = None
            self._fail(
                LogTimeout(f"{where}: no records for {longest_s:g} s (default.api.timeout.ms); last: {reasons[0]}")
            )
        await asyncio.sleep(self._backoff_s)
        self._backoff_s = min(_LONGEST_BACKOFF_S, 2 * self._backoff_s)
        return None

    def _fail(self, error: BaseException) -> None:
        with self.changed:
            self.error = error

    def _rotated(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Brokers fill an answer in this order and may stop before its end."""
        self._turn += 1
        start = self._turn % max(1, len(partitions))
        return partitions[start:] + partitions[:start]
