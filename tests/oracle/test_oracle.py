"""The Java programs that tests ask: they give what the committed vectors say Kafka gives, and what Python gives."""

from pathlib import Path

import pytest

from rebalance_analysis.rerun import run
from spark_jobs.demo.word_count import word_count
from tests.assignor.kafka_config_values import asked_of_kafka, in_kafka
from tests.oracle.generated_configs import has_defined_bytes
from tests.oracle.jars import RELEASES
from tests.oracle.oracle import Line, Oracle
from tests.oracle.streams_app import topology_description
from tests.recorded import CUSTOM_REBALANCES, OWN_CUSTOM_REBALANCES, PLACEMENTS, RACK_REBALANCES, REBALANCES, documents

pytestmark = pytest.mark.java

LINES_OF_EACH = 80
OF_4_3_1 = (REBALANCES, RACK_REBALANCES, CUSTOM_REBALANCES, OWN_CUSTOM_REBALANCES, *PLACEMENTS)
OF_EACH_RELEASE = [
    (f"kafka-4.4/{name}_{release}.jsonl.gz", release)
    for name in ("placements_sticky", "rebalances_sticky", "rebalances_errors")
    for release in RELEASES
]


@pytest.mark.parametrize(("name", "release"), [*((name, "4.3.1") for name in OF_4_3_1), *OF_EACH_RELEASE])
def test_should_give_what_the_vectors_have_from_kafka(oracle_jars: str, name: str, release: str) -> None:
    with Oracle(release=release) as oracle:
        for line in documents(name)[:LINES_OF_EACH]:
            asked = {key: value for key, value in line.items() if key != "output"}
            answered = oracle.ask(asked)
            if has_defined_bytes(line.get("assignor") or line["input"]["assignor"]):
                assert _without_refusals(answered) == _without_refusals(line)


def _without_refusals(line: Line) -> Line:
    """The harness that plays the broker chooses the text with which a broker refuses to describe or create topics."""
    output = dict(line["output"])
    if output.get("error_cause", "").startswith("ClusterAuthorizationException: "):
        del output["error_cause"]
    return {**line, "output": output}


def test_should_leave_a_line_as_it_is_when_it_is_asked_again(oracle_jars: str) -> None:
    """The orders that go back into a line are those that Java gives to a line that has them."""
    with Oracle() as oracle:
        for line in documents(REBALANCES)[-20:]:
            answered = oracle.ask(line)
            assert oracle.ask(answered) == answered
            assert run(answered).comparison() is not None


@pytest.mark.parametrize("release", RELEASES)
def test_should_be_given_the_committed_values_of_configs_again(oracle_jars: str, release: str) -> None:
    assert asked_of_kafka(release) == in_kafka()


@pytest.mark.parametrize("release", RELEASES)
def test_should_have_the_nodes_stores_and_topics_of_the_python_application(
    oracle_jars: str, tmp_path: Path, release: str
) -> None:
    application = word_count({"application.id": "same", "bootstrap.servers": "127.0.0.1:1"})
    assert topology_description("word-count", tmp_path, release=release) == application.topology.describe()
