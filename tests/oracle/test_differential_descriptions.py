"""Freshly drawn programs that Kafka describes: what the reader of the text makes of it, beside what Kafka does."""

from contextlib import closing

import pytest

from tests.kafka_groups.described import described_programs as programs
from tests.oracle.differential_run import DifferentialRun, cases_of_this_run, fresh_cases
from tests.oracle.jars import RELEASES
from tests.oracle.oracle import DESCRIBED_TOPOLOGIES, Line, Oracle
from tests.told import Tell

pytestmark = pytest.mark.java


def test_should_count_repartition_topics_as_kafka_does_or_ask(oracle_jars: str, tell: Tell) -> None:
    """What is asked is answered as Kafka did it."""
    with fresh_cases("descriptions", tell, DESCRIBED_TOPOLOGIES) as fresh:
        drawn = [{"id": f"described-{n}", "seed": fresh.seed * 1_000_000 + n} for n in range(2 * cases_of_this_run())]
        with closing(fresh.answers(drawn)) as answers:
            while not fresh.has_compared(cases_of_this_run()):
                for program in next(answers):
                    if "describe" in program["output"] and not programs.has_fixed_counts(program):
                        _compare(fresh, program)


@pytest.mark.parametrize("release", RELEASES)
def test_should_be_given_the_committed_programs_again(oracle_jars: str, release: str) -> None:
    with Oracle(harness=DESCRIBED_TOPOLOGIES, release=release) as oracle:
        for program in programs.described_programs():
            assert oracle.ask({"id": program["id"], "seed": program["seed"]}) == program


def _compare(fresh: DifferentialRun, program: Line) -> None:
    fresh.figures_of(program).compared += 1
    fresh.features["ask for co-partitioned topics"] += "--copartitioned" in (programs.asked(program) or "")
    facts = programs.answered(program)
    if facts is None:
        fresh.failed(program, f"no answer fits: {programs.asked(program)}")
    elif programs.asked(program, facts) is not None:
        fresh.features["ask what their stores are"] += 1
    elif programs.here(program, facts) != programs.in_kafka(program):
        fresh.failed(program, f"here {programs.here(program, facts)}, in Kafka {programs.in_kafka(program)}")
