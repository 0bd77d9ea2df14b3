"""Connections that nobody closes: what a script of one line leaves behind."""

import subprocess
import sys

import pytest

from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka

ONE_LINE = "from streams_runtime import NewTopic, open_log; open_log('{}').create_topics([NewTopic('one-line', 1)])"
KEPT = "from streams_runtime import open_log; log = open_log('{}'); log.topics(); producer = log.producer()"


@pytest.mark.parametrize("script", [ONE_LINE, KEPT])
def test_should_say_nothing_at_the_end_of_a_program_that_closes_nothing(kafka_broker: Broker, script: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", script.format(kafka_broker.bootstrap_servers)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == ("", "")
