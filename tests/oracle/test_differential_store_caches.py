"""Freshly generated scripts for stores with a record cache, run by Kafka's stores and by those here."""

import pytest

from tests.oracle.differential_run import cases_of_this_run, fresh_cases
from tests.oracle.generated_store_caches import store_caches_case
from tests.oracle.oracle import STORE_CACHES, Oracle
from tests.streams_runtime.golden.cached_stores import written_here
from tests.streams_runtime.golden.recorded import recorded
from tests.told import Tell

pytestmark = pytest.mark.java


def test_should_flush_and_evict_what_kafka_does_in_fresh_cases(oracle_jars: str, tell: Tell) -> None:
    """By record: what was written to the output topic and to each changelog."""
    with fresh_cases("store caches", tell, STORE_CACHES) as fresh:
        for number in range(cases_of_this_run() // 10):
            line = fresh.ask(store_caches_case(f"{fresh.seed}-{number}", windows=number % 2 == 0))
            fresh.compared += 1
            fresh.features[line["flavour"]] += 1
            here = written_here(line)
            if here != line["output"]:
                at = next(each for each, other in enumerate(line["output"]) if here[each] != other)
                fresh.failed(line, f"record {at}: here {here[at]}, in Kafka {line['output'][at]}")


def test_should_be_given_the_committed_cases_again(oracle_jars: str) -> None:
    with Oracle(harness=STORE_CACHES) as oracle:
        for one in recorded("record_caches") + recorded("window_caches"):
            assert oracle.ask(one.case)["output"] == one.kafka, one.label()
