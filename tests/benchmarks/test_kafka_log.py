"""The benchmark of the log on Kafka runs through at its smallest size, and prints the figures that it promises."""

import re

import pytest

from benchmarks.kafka_log import measure
from tests.benchmarks.printing import printed_by
from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka


def test_should_print_how_fast_the_log_reads_and_writes_beside_aiokafka(kafka_broker: Broker) -> None:
    text = printed_by(lambda console: measure(console, kafka_broker.bootstrap_servers, quick=True))
    rows = {line.split("│")[1].strip(): re.findall(r"[\d,.]+", line) for line in text.splitlines() if line[0] == "│"}
    assert {name.partition(" of ")[0]: len(numbers) for name, numbers in rows.items()} == {
        "write": 5,
        "write in transactions": 3,
        "read": 5,
    }
    assert re.search(r"one transaction of one record and one offset: \d+\.\d ms", text)
