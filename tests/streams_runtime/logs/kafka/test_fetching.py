"""When partitions are asked for, over which connection, and what is known of their ends.

How long an answer takes decides here, so that a mock gives the answers: a real broker gives them as soon as it can.
What both of them say together: `test_known_ends.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.logs.kafka import fetching
from streams_runtime.logs.kafka.fetching import EMPTY_REST_S, LONGEST_WAIT_MS, FetchedPartition, Fetcher
from streams_runtime.logs.kafka.leadership import Led
from streams_runtime.logs.kafka.log_settings import log_settings
from tests.kafka_client.record_batches.batches import TRANSACTIONAL, batch_of
from tests.known import known

EVENTS, TABLE, OTHER = (TopicPartition(topic, 0) for topic in ("events", "table", "other"))
STABLE, HIGH_WATERMARK = 5, 7
LONG_AGO_S = 2 * LONGEST_WAIT_MS / 1_000


class Asked(NamedTuple):
    """`over`: the number of the connection."""

    over: int
    wait_ms: int
    topics: frozenset[str]


class MockBroker:
    """Its partitions are empty until `records` has some. A request that waits is answered by `answer`."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked: list[Asked] = []
        self.records: dict[str, bytes] = {}
        self.waiting: list[tuple[Asked, asyncio.Future[None]]] = []

    def leadership(self, _settings: Any) -> MockLeadership:
        self.connections += 1
        return MockLeadership(self, self.connections - 1)

    def waiting_topics(self) -> list[tuple[int, set[str]]]:
        return [(asked.over, set(asked.topics)) for asked, answer in self.waiting if not answer.done()]

    def answer(self, topic: str) -> None:
        """The request that waits with this topic."""
        (answer,) = [each for asked, each in self.waiting if topic in asked.topics and not each.done()]
        answer.set_result(None)


class MockLeadership:
    def __init__(self, broker: MockBroker, number: int) -> None:
        self._broker = broker
        self._number = number
        self.connections = self

    async def led(self, partitions: Iterable[TopicPartition]) -> Led:
        return Led(dict.fromkeys(partitions, 0), None)

    async def send(self, request: Any, _leader: int) -> Any:
        broker = self._broker
        wait_ms, topics = request._max_wait_ms, [name for name, _ in request.topics]
        asked = Asked(self._number, wait_ms, frozenset(topics))
        broker.asked.append(asked)
        if wait_ms > 0:
            answer = asyncio.get_running_loop().create_future()
            broker.waiting.append((asked, answer))
            await answer
        given = {name: broker.records.pop(name, b"") for name in topics}
        return SimpleNamespace(
            topics=[(name, [(0, 0, HIGH_WATERMARK, STABLE, 0, [], found)]) for name, found in given.items()]
        )

    async def close(self) -> None:
        pass


class Reader:
    """A fetcher of partitions that are at their ends, in a loop."""

    def __init__(self, broker: MockBroker, *partitions: TopicPartition) -> None:
        self.broker = broker
        self.fetcher = Fetcher(log_settings("127.0.0.1:9"), IsolationLevel.READ_COMMITTED)
        for partition in partitions:
            self.fetcher.partitions[partition] = FetchedPartition()
            self.fetcher.partitions[partition].position = STABLE

    async def wait_at_the_broker(self) -> None:
        """As a poll does that has nothing to give."""
        self.fetcher.polls += 1
        self.fetcher.start(LONGEST_WAIT_MS)
        await settled()

    async def go_on(self) -> None:
        """As a poll does that gives records of some partition, after a while."""
        self.fetcher.polls += 1
        self.fetcher.start_next(time.monotonic())
        await settled()

    def known_end(self, partition: TopicPartition) -> int | None:
        return self.fetcher.partitions[partition].known_end()

    def later(self, partition: TopicPartition, seconds: float) -> None:
        self.fetcher.partitions[partition].empty_at -= seconds


async def settled() -> None:
    """Until everybody waits for an answer."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> MockBroker:
    opened = MockBroker()
    monkeypatch.setattr(fetching, "Leadership", opened.leadership)
    return opened


AT_ONCE, WAITING, ASIDE = range(3)


async def test_should_have_a_partition_wait_aside_that_is_empty_while_others_are_not(
    broker: MockBroker,
) -> None:
    reader = Reader(broker, EVENTS, TABLE)
    await reader.go_on()
    assert broker.waiting_topics() == []
    broker.records["events"] = one_record(STABLE)
    await reader.go_on()
    assert broker.waiting_topics() == [(ASIDE, {"table"})]
    await reader.go_on()
    assert [asked.wait_ms for asked in broker.asked] == [0, 0, LONGEST_WAIT_MS]  # nobody needs any
    await reader.fetcher.close()


async def test_should_not_make_a_partition_wait_behind_others_that_wait(broker: MockBroker) -> None:
    """A broker answers the requests of one connection in their order."""

    reader = Reader(broker, EVENTS, TABLE)
    for _ in range(2):
        broker.records["events"] = one_record(STABLE)
        await reader.go_on()
        reader.fetcher.partitions[EVENTS].completed.clear()
    assert broker.waiting_topics() == [(ASIDE, {"table"})]
    await reader.wait_at_the_broker()
    assert broker.waiting_topics() == [(ASIDE, {"table"}), (WAITING, {"events"})]
    broker.answer("table")
    await settled()
    assert broker.waiting_topics() == [(WAITING, {"events"}), (ASIDE, {"table"})]
    await reader.fetcher.close()


async def test_should_wait_again_at_once_with_all_that_have_nothing_when_nothing_came(broker: MockBroker) -> None:
    reader = Reader(broker, TABLE)
    await reader.wait_at_the_broker()
    reader.fetcher.partitions[OTHER] = FetchedPartition()
    reader.fetcher.partitions[OTHER].position = STABLE
    reader.fetcher.partitions[OTHER].empty_at = time.monotonic()
    reader.fetcher.polls += 1
    broker.answer("table")
    await settled()
    assert broker.waiting_topics() == [(WAITING, {"table", "other"})]
    await reader.fetcher.close()


@pytest.mark.parametrize("what", ["records", "nobody polls", "paused", "not assigned"])
async def test_should_leave_it_to_the_reader_to_wait_again(broker: MockBroker, what: str) -> None:
    reader = Reader(broker, TABLE, OTHER)
    await reader.wait_at_the_broker()
    if what != "nobody polls":
        reader.fetcher.polls += 1
    changes: dict[str, Callable[[], object]] = {
        "records": lambda: broker.records.update(table=one_record(STABLE)),
        "paused": lambda: setattr(reader.fetcher.partitions[TABLE], "is_paused", True),
        "not assigned": lambda: reader.fetcher.partitions.pop(TABLE),
    }
    changes.get(what, lambda: None)()
    broker.answer("table")
    await settled()
    assert broker.waiting_topics() == []
    await reader.fetcher.close()


async def test_should_know_the_end_while_records_are_left_or_nothing_can_have_come(
    broker: MockBroker,
) -> None:
    reader = Reader(broker, TABLE)
    assert reader.known_end(TABLE) is None  # nobody has told it
    await reader.go_on()
    assert reader.known_end(TABLE) == STABLE  # of what is committed
    reader.later(TABLE, EMPTY_REST_S)
    assert reader.known_end(TABLE) is None
    await reader.go_on()  # has it wait from now on, right after an answer
    reader.later(TABLE, LONGEST_WAIT_MS / 1_000)
    assert reader.known_end(TABLE) == STABLE
    reader.later(TABLE, LONG_AGO_S)
    assert reader.known_end(TABLE) is None  # the broker should have answered long ago
    reader.fetcher.partitions[TABLE].position = STABLE - 1
    assert reader.known_end(TABLE) == STABLE
    await reader.fetcher.close()


async def test_should_not_know_the_end_of_a_waiting_partition_when_something_may_have_come(
    broker: MockBroker,
) -> None:
    reader = Reader(broker, TABLE)
    await reader.go_on()
    reader.later(TABLE, EMPTY_REST_S)
    await reader.wait_at_the_broker()
    assert broker.waiting_topics() == [(WAITING, {"table"})]
    assert reader.known_end(TABLE) is None
    reader.fetcher.polls += 1
    broker.answer("table")
    await settled()
    reader.later(TABLE, LONGEST_WAIT_MS / 1_000)
    assert reader.known_end(TABLE) == STABLE
    await reader.fetcher.close()


async def test_should_forget_the_end_when_the_reader_goes_elsewhere(broker: MockBroker) -> None:
    reader = Reader(broker, TABLE)
    await reader.go_on()
    reader.fetcher.partitions[TABLE].drop()
    assert reader.known_end(TABLE) is None
    await reader.fetcher.close()


async def test_should_end_a_kept_transaction_when_an_empty_answer_shows_that_its_marker_is_gone(
    broker: MockBroker,
) -> None:
    reader = Reader(broker)
    table = reader.fetcher.partitions[TABLE] = FetchedPartition(whole_transactions=True)
    table.position = STABLE
    rows = [(at, 0, b"k", b"v", ()) for at in range(HIGH_WATERMARK - STABLE)]
    broker.records["table"] = batch_of(rows, base_offset=STABLE, attributes=TRANSACTIONAL, producer_id=1)
    await reader.go_on()
    assert (table.completed.popleft().read(), table.fetch_offset()) == (None, HIGH_WATERMARK)
    reader.fetcher.start(0)
    await settled()
    assert known(table.completed.popleft().read()).offsets == range(STABLE, HIGH_WATERMARK)
    reader.fetcher.start(0)
    await settled()
    assert not table.completed  # an empty answer is none for the reader while nothing is kept
    await reader.fetcher.close()


def one_record(offset: int) -> bytes:
    return batch_of([(0, 0, b"k", b"v", ())], base_offset=offset)
