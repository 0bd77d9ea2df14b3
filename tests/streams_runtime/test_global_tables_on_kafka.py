"""Instances with a global table on a real broker, exactly once: the topology itself writes to the global topic."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.types import TopicPartition
from streams_runtime import STRING, Application, LocalRun, NewTopic, RecordProducer, StreamsBuilder, read_topic
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.logs.base import Log
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from tests.oracle.broker import Broker
from tests.streams_runtime.word_counting import TIMEOUT_S, wait_for

pytestmark = pytest.mark.kafka

USERS = 30


@pytest.fixture
def log(kafka_broker: Broker) -> Iterator[Log]:
    with closing(KafkaLog(kafka_broker.bootstrap_servers)) as opened:
        yield opened


class Restored(SilentRestoreListener):
    records = 0

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        Restored.records += count


def test_should_give_every_instance_the_whole_table_and_continue_at_its_offsets(
    kafka_broker: Broker, coordinator_url: str, log: Log, tmp_path: Path
) -> None:
    name = f"global-{uuid.uuid4().hex[:8]}"
    users, orders, out = f"{name}-users", f"{name}-orders", f"{name}-out"
    log.create_topics([NewTopic(users, 3, {"cleanup.policy": "compact"}), NewTopic(orders, 2), NewTopic(out, 2)])
    builder = StreamsBuilder()
    table = builder.global_table(users, STRING, STRING, store="users")
    named = builder.stream(orders, STRING, STRING).left_join(
        table, "{}+{}".format, key_selector=lambda _key, value: value
    )
    named.to(out, value_serde=STRING)
    named.filter(lambda _key, value: value.endswith("+None")).to(users, value_serde=STRING)  # in a transaction
    configs = {
        "application.id": name,
        "bootstrap.servers": kafka_broker.bootstrap_servers,
        "state.dir": tmp_path,
        "processing.guarantee": "exactly_once_v2",
        "session.timeout.ms": 10_000,
    }
    app = Application(builder.build(), configs, restore_listener_factory=Restored)

    def write(topic: str, *records: tuple[str, str]) -> None:
        with RecordProducer(log, STRING, STRING) as producer:
            for key, value in records:
                producer.send(topic, key, value)

    def results() -> list[str]:
        return sorted(str(record.value) for record in read_topic(log, out, STRING, STRING))

    def value_at(endpoint: str, key: str) -> Any:
        return httpx.get(f"{endpoint}/v1/stores/users/key", params={"key": key}).json().get("value")

    write(users, *((f"u{number}", "known") for number in range(USERS)))
    expected = [f"u{number}+known" for number in range(USERS)]
    write(orders, *((f"o{number}", f"u{number}") for number in range(USERS)))
    with LocalRun(app, instances=2, coordinator=coordinator_url) as run:
        run.wait_until_caught_up(TIMEOUT_S)
        assert results() == sorted(expected)
        assert Restored.records == 2 * USERS
        write(orders, ("new", "nobody"))
        wait_for(lambda: all(value_at(each, "new") == "nobody+None" for each in run.endpoints), results)
    write(users, ("u1", "later"))
    Restored.records = 0
    with LocalRun(app, instances=2, coordinator=coordinator_url) as run:
        run.wait_until_running(TIMEOUT_S)
        assert Restored.records == 2, "one record for each instance"
        write(orders, ("o", "u1"))
        wait_for(lambda: "u1+later" in results(), results)
        assert results() == sorted([*expected, "nobody+None", "u1+later"])
