"""The harness itself: it gives what the committed vectors say Kafka gives, and nothing that it is asked can hang it."""

from __future__ import annotations

import pytest

from rebalance_analysis.rerun import run
from tests.oracle.generated_configs import has_defined_bytes
from tests.oracle.oracle import Oracle, OracleFault
from tests.recorded import (
    CUSTOM_REBALANCES,
    OWN_CUSTOM_REBALANCES,
    PLACEMENTS,
    RACK_REBALANCES,
    REBALANCES,
    documents,
)

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


def test_should_name_a_line_that_it_cannot_serve_and_serve_the_next(oracle_jars: str) -> None:
    line = documents(PLACEMENTS[0])[0]
    with Oracle() as oracle:
        with pytest.raises(OracleFault, match=r"^odd: IllegalArgumentException: no such task assignor: Odd"):
            oracle.ask({**line, "id": "odd", "assignor": "Odd"})
        assert oracle.ask(line) == line


def test_should_end_a_process_that_does_not_answer_in_time(oracle_jars: str) -> None:
    with Oracle(longest_answer_s=0.01) as oracle:  # far less than a Java process takes to start
        for _ in range(2):
            with pytest.raises(OracleFault, match=r"^no answer within 0\.01 s"):
                oracle.ask(documents(PLACEMENTS[0])[0])
