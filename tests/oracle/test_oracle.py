"""The Java programs that tests ask: they give what the committed vectors say Kafka gives, and what Python gives."""

from pathlib import Path

import pytest

from rebalance_analysis.rerun import run
from spark_jobs.demo.word_count import word_count
from tests.assignor.kafka_config_values import asked_of_kafka, in_kafka
from tests.oracle.generated_configs import has_defined_bytes
from tests.oracle.oracle import Oracle
from tests.oracle.streams_app import topology_description
from tests.recorded import CUSTOM_REBALANCES, OWN_CUSTOM_REBALANCES, PLACEMENTS, RACK_REBALANCES, REBALANCES, documents

pytestmark = pytest.mark.java

LINES_OF_EACH = 80


@pytest.mark.parametrize("name", [REBALANCES, RACK_REBALANCES, CUSTOM_REBALANCES, OWN_CUSTOM_REBALANCES, *PLACEMENTS])
def test_should_give_what_the_vectors_have_from_kafka(oracle_jars: str, name: str) -> None:
    with Oracle() as oracle:
        for line in documents(name)[:LINES_OF_EACH]:
            asked = {key: value for key, value in line.items() if key != "output"}
            answered = oracle.ask(asked)
            if has_defined_bytes(line.get("assignor") or line["input"]["assignor"]):
                assert answered == line


def test_should_leave_a_line_as_it_is_when_it_is_asked_again(oracle_jars: str) -> None:
    """The orders that go back into a line are those that Java gives to a line that has them."""
    with Oracle() as oracle:
        for line in documents(REBALANCES)[-20:]:
            answered = oracle.ask(line)
            assert oracle.ask(answered) == answered
            assert run(answered).comparison() is not None


def test_should_be_given_the_committed_values_of_configs_again(oracle_jars: str) -> None:
    assert asked_of_kafka() == in_kafka()


def test_should_have_the_nodes_stores_and_topics_of_the_python_application(oracle_jars: str, tmp_path: Path) -> None:
    application = word_count({"application.id": "same", "bootstrap.servers": "127.0.0.1:1"})
    assert topology_description("word-count", tmp_path) == application.topology.describe()
