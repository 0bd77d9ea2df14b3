"""Kafka's own StreamsConfig reads the values of the committed file as that says."""

from __future__ import annotations

import pytest

from tests.assignor.kafka_config_values import asked_of_kafka, in_kafka

pytestmark = pytest.mark.java


def test_should_be_given_the_committed_values_again(oracle_jars: str) -> None:
    assert asked_of_kafka() == in_kafka()
