"""Lines that flow into a topic all the while, with the words in them counted, and what an application made of them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams_runtime import open_log
from tests.oracle.topic_contents import contents

_WORDS = ("when", "will", "this", "group", "settle", "again", "nobody", "knows", "until", "tasks", "move", "around")
_LINES_A_TURN = 4
_TURN_S = 0.05
_LONGEST_START_S = 60.0
_LONGEST_CATCHING_UP_S = 30.0


def create_topics(bootstrap_servers: str, topics: Mapping[str, int]) -> None:
    """`topics`: name to partitions."""
    asyncio.run(_create(bootstrap_servers, [NewTopic(name, partitions, 1) for name, partitions in topics.items()]))


def create_topic_on(bootstrap_servers: str, topic: str, brokers: Sequence[int]) -> None:
    """`brokers`: the one that has it, of each partition."""
    replicas = {number: [broker] for number, broker in enumerate(brokers)}
    asyncio.run(_create(bootstrap_servers, [NewTopic(topic, -1, -1, replica_assignments=replicas)]))


async def _create(bootstrap_servers: str, topics: list[NewTopic]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics(topics)
    finally:
        await admin.close()


def write(bootstrap_servers: str, topic: str, records: Iterable[tuple[str, str]]) -> None:
    """Keys and values; on return all are acknowledged."""

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
            for key, value in records:
                await producer.send(topic, key=key.encode(), value=value.encode())
            await producer.flush()

    asyncio.run(send())


def last_counts(bootstrap_servers: str, topic: str) -> dict[str, int]:
    """The last committed value of each key."""
    log = open_log(bootstrap_servers)
    try:
        records = [record for of_partition in contents(log, topic).values() for record in of_partition]
    finally:
        log.close()
    return {(record.key or b"").decode(): int.from_bytes(record.value or b"", "big", signed=True) for record in records}


def wait_for_counts(bootstrap_servers: str, topic: str, expected: Mapping[str, int]) -> None:
    """Until the last counts are these. Raises AssertionError with what differs when they do not come to be."""
    deadline = time.monotonic() + _LONGEST_CATCHING_UP_S
    while (found := last_counts(bootstrap_servers, topic)) != expected and time.monotonic() < deadline:
        time.sleep(0.2)  # nobody tells when the last record is committed
    assert found == dict(expected), topic


class LineFeed:
    """Writes lines of three words, a few every 50 ms, from a thread of its own, until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.words: Counter[str] = Counter()
        """Of all lines that were acknowledged; complete after the end."""
        self.lines = 0
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._stop = threading.Event()
        self._flows = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> LineFeed:
        self._thread.start()
        assert self._flows.wait(_LONGEST_START_S), "no line could be written"
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """On return all lines are acknowledged. Raises AssertionError when one was not."""
        self._stop.set()
        self._thread.join(_LONGEST_START_S)
        if self._failure is not None:
            raise AssertionError("the feed failed") from self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._write())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._flows.set()

    async def _write(self) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self._bootstrap_servers, acks="all") as producer:
            while not self._stop.is_set():
                lines = [self._line(self.lines + number) for number in range(_LINES_A_TURN)]
                sent = [await producer.send(self._topic, key=key, value=line.encode()) for key, line in lines]
                await asyncio.gather(*sent)
                for _, line in lines:
                    self.words.update(line.split(" "))
                self.lines += len(lines)
                self._flows.set()
                await asyncio.sleep(_TURN_S)

    def _line(self, number: int) -> tuple[bytes, str]:
        words = (_WORDS[(number * step + step) % len(_WORDS)] for step in (1, 5, 7))
        return str(number).encode(), " ".join(words)
