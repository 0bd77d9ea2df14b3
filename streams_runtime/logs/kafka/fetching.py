"""Fetches records for a consumer from the leaders of its partitions, in the event loop.

Rules:
- The broker answers a request at once if there are records. If there are no records, the broker waits for records. Each
  request sets the longest time of this wait. A broker answers the requests of one connection one after the other. So
  requests that may wait at the broker have their own connection, and all other requests use a different connection.
  With only one connection, the request for a newly assigned partition could be delayed. This request would have to wait
  behind a request that waits for records of other partitions. The connection for waiting requests and the connection
  for other requests are opened when the consumer is made.
- A partition is fetched again only after the reader has taken all records of its previous answer. If the reader calls
  `seek` before the answer arrives, the answer is dropped.
- If some partitions have records and others have none, the requests for the partitions without records soon wait at the
  broker. These waiting requests use a third connection. So the connection for waiting requests stays free until the
  reader has read all records of all partitions.
- After a request has waited for its full time, its answer may have no records. The next request is then sent at once if
  the reader still polls. The next request contains all partitions without new records. While a request waits, the
  consumer knows the end offsets of the request's partitions, because the broker would have sent newer records at once.

Source: `Fetcher`, `AbstractFetch`; `SubscriptionState.partitionLag`.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from aiokafka.protocol.fetch import FetchRequest

from assignor.types import TopicPartition
from kafka_client.admin.partition_leaders import EARLIEST, LATEST, LeaderRequest
from kafka_client.error_codes import check
from kafka_client.errors import KafkaRefused, NotNow
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.logs.consumers import AssignedPartition, rotated
from streams_runtime.logs.kafka.completed_fetch import CompletedFetch, UnfinishedTransaction
from streams_runtime.logs.kafka.leadership import Leadership
from streams_runtime.logs.kafka.log_settings import LogSettings
from streams_runtime.logs.log_errors import LogError, LogTimeout

_OFFSET_OUT_OF_RANGE = 1
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.05, 1.0
LONGEST_WAIT_MS = 100
"""The longest time that a request waits at the broker for records, in milliseconds."""
EMPTY_REST_S = 0.01
"""The time in seconds for which an answer without records counts as recent."""
_LONGEST_KNOWN_S = 2 * LONGEST_WAIT_MS / 1_000


class FetchedPartition(AssignedPartition):
    """An assigned partition of a consumer on Kafka. The reader and the event loop share this object. The consumer's
    lock guards it.

    `completed`: the answers that are not decoded yet. `decoding`: the answer that is being decoded. Requests to the
    broker are numbered. The field `asked` is the number of the last request. `in_flight`: the number of the request
    that has no answer yet, or None. `answered`: the number of the last answered request. `waits`: True if the request
    in flight waits at the broker until there are records. `empty_at`: 0 if the last answer had records; otherwise the
    monotonic time in seconds at which the last answer arrived. `end`: the end offset in the last answer. `end_is_kept`:
    True if the last request waits at the broker and was sent at most EMPTY_REST_S after the last answer.
    `transaction`: the transaction at the position; None if the reader may read a part of a transaction.
    """

    def __init__(self, *, whole_transactions: bool = False) -> None:
        super().__init__()
        self._whole_transactions = whole_transactions
        self.asked = self.answered = 0
        self.in_flight: int | None = None
        self.drop()

    def drop(self) -> None:
        """Forget fetched records, and ignore the answer to the request in flight."""
        super().drop()
        self.decoding: CompletedFetch | None = None
        self.completed: deque[CompletedFetch] = deque()
        self.transaction = UnfinishedTransaction() if self._whole_transactions else None
        self.is_outside = False
        self.waits = False
        self.empty_at = 0.0
        self.end: int | None = None
        self.end_is_kept = False

    def ask(self, *, waits: bool) -> int:
        self.asked += 1
        self.in_flight = self.asked
        self.waits = waits
        self.end_is_kept = waits and time.monotonic() - self.empty_at < EMPTY_REST_S
        return self.asked

    def over(self, number: int, *, is_answered: bool) -> None:
        if self.in_flight == number:
            self.in_flight = None
            if is_answered:
                self.answered = number

    @property
    def needs_records(self) -> bool:
        return not self.completed and not self.is_outside and self.in_flight is None

    @property
    def waits_at_broker(self) -> bool:
        return self.waits and self.in_flight is not None

    def known_end(self) -> int | None:
        """Returns the end offset up to which a reader can read. Returns None if only a request could find this offset.

        The end offset is known if the reader has not reached the end offset of the last answer yet. The end offset is
        also known while the last answer is recent. An answer counts as recent for EMPTY_REST_S. If the next request was
        sent at once and still waits at the broker, the answer counts as recent for _LONGEST_KNOWN_S. The broker would
        have answered this request if there were new records.
        """
        if self.end is None or self.position is None or self.position < self.end:
            return self.end
        is_kept = self.end_is_kept and self.waits_at_broker
        for_s = _LONGEST_KNOWN_S if is_kept else EMPTY_REST_S
        return self.end if time.monotonic() - self.empty_at < for_s else None

    def fetch_offset(self) -> int:
        """Returns the offset of the next fetch, which is after the records that are being decoded, and after the
        records of an unfinished transaction.
        """
        assert self.position is not None, "only a partition with a position is fetched"
        if self.decoding is not None:
            return max(self.position, self.decoding.end_offset)
        if self.transaction is not None and self.transaction.batches:
            return self.transaction.next_offset
        return self.position


class _Way(NamedTuple):
    """Rules for sending a request. `over`: the connections that the request may use. The request uses the first of
    these connections that has no waiting request. `is_optional`: True if the request is not sent while all these
    connections have a waiting request. If `is_optional` is False, the request then uses the first connection.
    `then_aside`: True if, after two answers without records, the next request for the partition waits at the broker.
    """

    longest_wait_ms: int
    over: tuple[Leadership, ...]
    is_optional: bool = False
    then_aside: bool = False


class _Request(NamedTuple):
    """A request for one partition. `was_empty`: True if the answer to the previous request had no records."""

    partition: FetchedPartition
    number: int
    was_empty: bool


class Fetcher:
    """Fetches records for one consumer, the reader. `changed`: a condition that is notified after each answer that the
    reader has to handle. `partitions`: the reader's partitions. A thread changes this field only while it holds
    `changed`. `polls`: the number of polls that the reader has made.
    """

    def __init__(self, settings: LogSettings, isolation: IsolationLevel) -> None:
        self.changed = threading.Condition()
        self.partitions: dict[TopicPartition, FetchedPartition] = {}
        self.error: BaseException | None = None
        self.polls = 0
        self._settings = settings
        self._read_committed = isolation is IsolationLevel.READ_COMMITTED
        self._leadership = Leadership(settings.client)
        self._waiting = Leadership(settings.client)
        self._aside = Leadership(settings.client)
        self._holding: list[tuple[Leadership, int]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failing_since: float | None = None
        self._backoff_s = _FIRST_BACKOFF_S
        self._turn = 0

    def connect(self) -> None:
        """Begin to open the connections before the first fetch needs them. Call `connect` on the event loop."""
        self._in_background(self._connect())

    def start(self, longest_wait_ms: int) -> None:
        """Send requests for every partition without fetched records. Call `start` on the event loop."""
        with self.changed:
            requests = self._new_requests(self._needed(), waits=longest_wait_ms > 0)
        if requests:
            over = (self._waiting, self._aside) if longest_wait_ms > 0 else (self._leadership,)
            self._in_background(self._fetch(requests, _Way(longest_wait_ms, over)))

    def start_next(self, empty_before: float) -> None:
        """Send the same requests as `start`. Called while the reader still has records to process. Leaves out each
        partition whose last answer had no records and arrived at `empty_before` or later. After two answers without
        records, the next request for the partition waits at the broker. Call `start_next` on the event loop.
        """
        with self.changed:
            requests = self._new_requests(
                [p for p in self._needed() if self.partitions[p].empty_at < empty_before], waits=False
            )
        if requests:
            self._in_background(self._fetch(requests, _Way(0, (self._leadership,), then_aside=True)))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for leadership in (self._leadership, self._waiting, self._aside):
            await leadership.close()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        # errors of connecting are ignored here, because the first request raises them again
        with contextlib.suppress(NotNow, KafkaRefused):
            await self._leadership.led(())
            await self._waiting.led(())

    def _needed(self) -> list[TopicPartition]:
        return [
            partition
            for partition, one in self.partitions.items()
            if one.position is not None and not one.is_paused and one.needs_records
        ]

    def _new_requests(self, partitions: Iterable[TopicPartition], *, waits: bool) -> dict[TopicPartition, _Request]:
        asked = {partition: self.partitions[partition] for partition in partitions}
        return {
            partition: _Request(one, one.ask(waits=waits), was_empty=one.empty_at > 0)
            for partition, one in asked.items()
        }

    async def _fetch(self, requests: Mapping[TopicPartition, _Request], way: _Way) -> None:
        """Send the requests to all leaders. Partitions that have no leader, or whose leader does not answer, do not
        delay other partitions.
        """
        reasons: list[BaseException] = []
        try:
            led = await way.over[0].led(requests)
            if led.failure is not None:
                reasons.append(led.failure)
            by_leader: dict[int, list[TopicPartition]] = {}
            # A broker fills its answer in the order of the request and may leave out the last partitions. So the order
            # changes from request to request.
            self._turn += 1
            for partition in rotated(list(led.leaders), self._turn):
                by_leader.setdefault(led.leaders[partition], []).append(partition)
            asked = [self._ask(leader, {p: requests[p] for p in of_it}, way) for leader, of_it in by_leader.items()]
            reasons += [each for each in await asyncio.gather(*asked, return_exceptions=True) if each is not None]
        except (NotNow, KafkaRefused) as reason:
            reasons.append(reason)
        if reasons:
            await self._failed(reasons)
        else:
            self._failing_since, self._backoff_s = None, _FIRST_BACKOFF_S
        with self.changed:
            left = [each for each in requests.values() if each.partition.in_flight == each.number]
            for sent in left:
                sent.partition.over(sent.number, is_answered=False)
            if left or reasons:
                self.changed.notify_all()

    async def _ask(self, leader: int, requests: Mapping[TopicPartition, _Request], way: _Way) -> None:
        """Send a request to one leader, over the connection that `way` selects. If another request has to be sent after
        the answer, start this request.
        """
        over = next((each for each in way.over if (each, leader) not in self._holding), None)
        if over is None:
            if way.is_optional:
                # The next request on this connection includes these partitions. This next request is sent as soon as
                # the waiting request ends.
                return
            over = way.over[0]
            with self.changed:
                for one, *_ in requests.values():
                    # the broker handles this request only after the waiting request on the same connection
                    one.end_is_kept = False
        if way.longest_wait_ms == 0:
            following = await self._ask_over(over, leader, requests, way)
        else:
            self._holding.append((over, leader))
            try:
                await over.led(requests)  # This call passes the broker's address to the connections in `over`.
                following = await self._ask_over(over, leader, requests, way)
            finally:
                self._holding.remove((over, leader))
        if following:
            others = (self._aside,) if way.longest_wait_ms == 0 else (over, *(x for x in way.over if x is not over))
            self._in_background(self._fetch(following, _Way(LONGEST_WAIT_MS, others, is_optional=True)))

    async def _ask_over(
        self, leadership: Leadership, leader: int, requests: Mapping[TopicPartition, _Request], way: _Way
    ) -> Mapping[TopicPartition, _Request]:
        """Send a request and handle its answer. Returns the requests that the caller should send at once."""
        settings, polls = self._settings, self.polls
        with self.changed:
            offsets = {p: one.fetch_offset() for p, (one, *_) in requests.items() if self._is_current(p, one)}
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for (topic, number), offset in offsets.items():
            topics.setdefault(topic, []).append((number, offset, settings.max_partition_fetch_bytes))
        if not topics:
            return {}
        request = FetchRequest(
            way.longest_wait_ms, 1, settings.fetch_max_bytes, int(self._read_committed), list(topics.items())
        )
        answer = await leadership.connections.send(request, leader)
        outside = await self._outside(offsets, answer)
        moved: NotNow | None = None
        # the whole answer is handled under the lock, so that one poll gets the records of all its partitions
        with self.changed:
            for topic, answers in answer.topics:
                for each in answers:
                    partition = TopicPartition(topic, each[0])
                    sent = requests[partition]
                    try:
                        self._take(partition, sent.partition, offsets[partition], each, outside)
                        sent.partition.over(sent.number, is_answered=True)
                    except NotNow as reason:
                        moved = reason
            following = {} if moved else self._following(leader, requests, way, still_polls=polls != self.polls)
            if way.longest_wait_ms == 0 or not following or not following.keys() <= requests.keys():
                # the reader is not notified if the answer has no records and a new waiting request follows
                self.changed.notify_all()
        if moved is not None:
            raise moved
        return following

    def _following(
        self, leader: int, requests: Mapping[TopicPartition, _Request], way: _Way, *, still_polls: bool
    ) -> dict[TopicPartition, _Request]:
        """Returns the requests to send after this answer. All these requests may wait at the broker."""
        idle = [p for p in self._needed() if self.partitions[p].empty_at > 0]
        if way.longest_wait_ms > 0:
            waited_long = still_polls and way.longest_wait_ms == LONGEST_WAIT_MS
            return self._new_requests(idle, waits=True) if waited_long and requests.keys() <= set(idle) else {}
        if not way.then_aside or (self._aside, leader) in self._holding:
            return {}
        return self._new_requests([p for p in idle if p in requests and requests[p].was_empty], waits=True)

    async def _outside(self, offsets: Mapping[TopicPartition, int], answer: Any) -> set[TopicPartition]:
        """Returns the partitions with an offset that is really out of range. While a leader changes, a broker may
        answer OFFSET_OUT_OF_RANGE for a valid offset. So the offsets are compared with the begin offsets and end
        offsets.
        """
        reported = [
            TopicPartition(topic, each[0])
            for topic, answers in answer.topics
            for each in answers
            if each[1] == _OFFSET_OUT_OF_RANGE
        ]
        if not reported:
            return set()
        begins, ends = [
            await LeaderRequest(self._leadership.connections, reported, {}).offsets(which, read_committed=False)
            for which in (EARLIEST, LATEST)
        ]
        return {partition for partition in reported if not begins[partition] <= offsets[partition] <= ends[partition]}

    def _take(
        self, partition: TopicPartition, one: FetchedPartition, offset: int, answer: Any, outside: set[TopicPartition]
    ) -> None:
        """Handle the answer for one partition. `answer`: a tuple that begins with the partition's number, the error
        code, the high watermark, the last stable offset, the first offset and the aborted transactions. The last entry
        of the tuple has the records.
        """
        code, high_watermark, stable, _, aborted = answer[1:6]
        records = answer[-1]
        if code == _OFFSET_OUT_OF_RANGE and partition not in outside:
            raise NotNow(f"{partition} has the offset {offset}, and its leader did not find it")
        if code != _OFFSET_OUT_OF_RANGE:
            check(code, f"fetching {partition}")
        if not self._is_current(partition, one) or one.fetch_offset() != offset:
            return
        if code == _OFFSET_OUT_OF_RANGE:
            one.is_outside = one.decoding is None
            return
        one.end = stable if self._read_committed else high_watermark
        one.empty_at = 0.0 if records else time.monotonic()
        kept = one.transaction
        if records or (kept is not None and kept.is_over_at(high_watermark)):
            hidden = aborted or () if self._read_committed else None
            one.completed.append(
                CompletedFetch(
                    partition, records or b"", offset, hidden, high_watermark=high_watermark, transaction=kept
                )
            )

    def _is_current(self, partition: TopicPartition, one: FetchedPartition) -> bool:
        return self.partitions.get(partition) is one and one.position is not None

    async def _failed(self, reasons: list[BaseException]) -> None:
        where = f"Kafka at {self._settings.client.bootstrap_servers}"
        for reason in reasons:
            if isinstance(reason, KafkaRefused):
                return self._fail(LogError(f"{where}: fetching: {reason}"))
            if not isinstance(reason, NotNow):
                return self._fail(reason)  # an unexpected error is a bug, and has to reach the reader, too
        for leadership in (self._leadership, self._waiting, self._aside):
            leadership.forget()
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
