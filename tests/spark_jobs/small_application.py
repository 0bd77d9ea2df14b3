"""An application with all that tests of whole groups need: three subtopologies with a logged store each.

    orders --> customers (store) --> repartition topic --> totals (store)
    clicks --> pages (store)

Each store counts records by key, so the counts of a store add up to the records written to the topic it comes from.
"""

import functools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from assignor.types import TopicPartition
from streams_runtime.common.records import Record
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.logs.topic_reading import read_topic
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import BYTES, LONG, STRING
from streams_runtime.state_stores.builders import key_value_store

ORDERS, CLICKS, REPARTITION = "orders", "clicks", "values"
STORES = ("customers", "totals", "pages")
PARTITIONS = 8
TASKS = frozenset(f"{subtopology}_{partition}" for subtopology in range(len(STORES)) for partition in range(PARTITIONS))
POISON = "poison"
_KEYS = 4
_FIRST_TIME_MS = 1_000
_KEPT = {"retention.ms": "-1"}  # by their timestamps, these records are more than fifty years old


class CountKey(Processor[str, str]):
    """Counts records by key in the store of its subtopology, and hands them on."""

    def __init__(self, store: str) -> None:
        self._store = store

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._counts = context.state_store(self._store)

    def process(self, record: Record[str, str]) -> None:
        if record.value == POISON:
            raise ValueError("a poisoned record")
        self._counts.put(record.key, (self._counts.get(record.key) or 0) + 1)
        self._context.forward(record)


def small_application(application_id: str, directory: Path, **configs: object) -> Application:
    """`directory`: of the embedded log. `configs`: dotted names with underscores for dots; None leaves the default."""
    topology = Topology()
    topology.add_source("orders", ORDERS, key_serde=STRING, value_serde=STRING)
    topology.add_processor("by-customer", functools.partial(CountKey, "customers"), "orders")
    topology.add_repartition_topic(REPARTITION)
    topology.add_sink("to-values", REPARTITION, "by-customer", key_serde=STRING, value_serde=STRING)
    topology.add_source("values", REPARTITION, key_serde=STRING, value_serde=STRING)
    topology.add_processor("sum", functools.partial(CountKey, "totals"), "values")
    topology.add_source("clicks", CLICKS, key_serde=STRING, value_serde=STRING)
    topology.add_processor("by-page", functools.partial(CountKey, "pages"), "clicks")
    for store, processor in zip(STORES, ("by-customer", "sum", "by-page"), strict=True):
        topology.add_state_store(key_value_store(store, STRING, LONG), processor)
    named = {
        "application.id": application_id,
        "bootstrap.servers": address(directory),
        "processing.guarantee": "exactly_once_v2",
        "num.standby.replicas": 1,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 200,
        **{name.replace("_", "."): value for name, value in configs.items()},
    }
    return Application(topology, {name: value for name, value in named.items() if value is not None})


def address(directory: Path) -> str:
    """What the application has as bootstrap.servers, and what the coordinator has to allow."""
    return f"embedded:{directory}"


def write_records(directory: Path, each: int, *, value: str = "") -> None:
    """`each` records to every partition of both topics, which are made if they are not there."""
    with _opened(directory) as log:
        log.create_topics(NewTopic(topic, PARTITIONS, _KEPT) for topic in (ORDERS, CLICKS))
        producer = log.producer()
        for topic in (ORDERS, CLICKS):
            for partition in range(PARTITIONS):
                for number in range(each):
                    key = f"{partition}-{number % _KEYS}".encode()
                    producer.send(TopicPartition(topic, partition), key, value.encode(), _FIRST_TIME_MS + number)
        producer.flush()
        producer.close()


def counted(directory: Path, application_id: str) -> dict[str, int]:
    """Store to the sum of its counts, by its changelog."""
    with _opened(directory) as log:
        return {store: sum(_last_values(log, f"{application_id}-{store}-changelog").values()) for store in STORES}


def _last_values(log: Log, topic: str) -> dict[bytes | None, int]:
    if topic not in log.topics():
        return {}
    last: dict[bytes | None, int] = {}
    for record in read_topic(log, topic, BYTES, LONG):
        assert record.value is not None, "a count is never deleted"
        last[record.key] = record.value
    return last


@contextmanager
def _opened(directory: Path) -> Iterator[Log]:
    with closing(open_log(address(directory))) as log:
        yield log
