"""Answers of brokers that are retried: those that Kafka's own clients retry."""

import pytest

from kafka_client.error_codes import check
from kafka_client.errors import KafkaRefused, NotNow


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(6, id="NOT_LEADER_OR_FOLLOWER"),
        pytest.param(19, id="NOT_ENOUGH_REPLICAS"),
        pytest.param(20, id="NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        pytest.param(72, id="LISTENER_NOT_FOUND"),
        pytest.param(103, id="INCONSISTENT_TOPIC_ID"),
    ],
)
def test_should_ask_again_when_a_replica_or_a_leader_is_away(code: int, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id

    with pytest.raises(NotNow, match=f"writing to orders-0: {name}$"):
        check(code, "writing to orders-0")


def test_should_not_ask_again_what_is_final() -> None:
    with pytest.raises(KafkaRefused, match="writing to orders-0: InvalidRequiredAcks"):
        check(21, "writing to orders-0")
