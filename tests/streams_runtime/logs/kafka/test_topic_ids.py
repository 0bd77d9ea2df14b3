"""The ids of the cluster and of topics, which a store keeps to know its log again."""

import uuid
from contextlib import closing

import pytest

from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.kafka import kafka_log
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from tests.oracle.broker import Broker


def test_should_go_on_without_ids_while_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_log, "_LONGEST_ID_LOOKUP_S", 0.05)
    with closing(KafkaLog("127.0.0.1:1")) as log:
        assert log.cluster_id() is None
        assert log.topic_ids(["topic"]) == {}
        assert log.cluster_id() is None


@pytest.mark.kafka
def test_should_ask_for_the_ids_of_an_assignment_once(
    kafka_broker: Broker, log: KafkaLog, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"ids-{uuid.uuid4().hex[:12]}-{number}" for number in range(2)]
    log.create_topics([NewTopic(name, 1) for name in names])
    with closing(KafkaLog(kafka_broker.bootstrap_servers)) as again:
        assert again.cluster_id() is None
        requests.clear()
        ids = [again.topic_ids([names[0], "none"]), again.topic_ids([names[1]]), again.topic_ids([*names, "none"])]
        assert requests == ["Metadata", "Metadata"]
        assert again.cluster_id() == log.cluster_id() == kafka_broker.cluster_id
        monkeypatch.setattr(kafka_log, "_IDS_FOR_S", 0.0)
        assert again.topic_ids(names) == {**ids[0], **ids[1]} == ids[2]
        assert requests == ["Metadata"] * 3
