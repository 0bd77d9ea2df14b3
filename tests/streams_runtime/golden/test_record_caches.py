"""Stores with a record cache answer, write, log and forward exactly as Kafka's do, commit by commit."""

import pytest

from tests.examples import every_other_long
from tests.streams_runtime.golden.cached_stores import written_here
from tests.streams_runtime.golden.recorded import Recorded, recorded

CASES = [*recorded("record_caches"), *recorded("window_caches")]


@pytest.mark.parametrize("one", every_other_long(CASES), ids=Recorded.label)
def test_should_flush_and_evict_exactly_what_kafka_does(one: Recorded) -> None:
    for number, (written, expected) in enumerate(zip(written_here(one.case), one.kafka, strict=True)):
        assert written == expected, f"after record {number}"


def test_should_have_cases_with_and_without_evictions() -> None:
    assert {one.case["flavour"] for one in CASES} == {"evicting", "roomy", "evicting windows", "roomy windows"}
    assert sum(len(records) for one in CASES for said in one.kafka for records in said.values()) > 5_000
