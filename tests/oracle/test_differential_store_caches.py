"""Freshly generated scripts for stores with a record cache, run by Kafka's stores and by those here."""

import pytest

from tests.oracle.differential_run import cases_of_this_run, fresh_cases
from tests.oracle.generated_store_caches import store_caches_case
from tests.oracle.jars import RELEASES
from tests.oracle.oracle import STORE_CACHES, Oracle
from tests.streams_runtime.golden.cached_stores import written_here
from tests.streams_runtime.golden.recorded import recorded
from tests.told import Tell

pytestmark = pytest.mark.java


def test_should_flush_and_evict_what_kafka_does_in_fresh_cases(oracle_jars: str, tell: Tell) -> None:
    """By record: what was written to the output topic and to each changelog."""
    with fresh_cases("store caches", tell, STORE_CACHES) as fresh:
        cases = [store_caches_case(f"{fresh.seed}-{n}", windows=n % 2 == 0) for n in range(cases_of_this_run())]
        for answers in fresh.answers([{**case, "id": case["seed"]} for case in cases]):
            here = written_here(answers[0])  # no version has rules of its own for caches
            fresh.features[answers[0]["flavour"]] += 1
            for line in answers:
                fresh.figures_of(line).compared += 1
                if here != line["output"]:
                    at = next(each for each, other in enumerate(line["output"]) if here[each] != other)
                    fresh.failed(line, f"record {at}: here {here[at]}, in Kafka {line['output'][at]}")


@pytest.mark.parametrize("release", RELEASES)
def test_should_be_given_the_committed_cases_again(oracle_jars: str, release: str) -> None:
    with Oracle(harness=STORE_CACHES, release=release) as oracle:
        for one in recorded("record_caches") + recorded("window_caches"):
            assert oracle.ask(one.case)["output"] == one.kafka, one.label()
