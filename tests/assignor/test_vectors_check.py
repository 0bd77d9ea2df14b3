"""Every recorded round is what Kafka Streams 4.3.1 or 4.4.0 decided; run again here, all must come out the same."""

import pytest

from assignor.task_assignors.registry import task_assignor_named
from rebalance_analysis.rerun import RerunRebalance, run
from tests.recorded import (
    CUSTOM_REBALANCES,
    FRESH_REBALANCES,
    OWN_CUSTOM_REBALANCES,
    PLACEMENTS,
    RACK_REBALANCES,
    REBALANCES,
    RECORDINGS,
    documents,
)
from tests.told import Tell

LINES = {
    REBALANCES: 1166,
    FRESH_REBALANCES: 153,
    RACK_REBALANCES: 395,
    CUSTOM_REBALANCES: 239,
    OWN_CUSTOM_REBALANCES: 80,
    "placements.jsonl.gz": 2027,
    "placements_sticky.jsonl.gz": 73,
    "placements_tags.jsonl.gz": 430,
    "placements_heap.jsonl.gz": 186,
    "placements_rack.jsonl.gz": 1146,
    "placements_custom.jsonl.gz": 372,
    "kafka-4.4/placements_sticky_4.3.1.jsonl.gz": 691,
    "kafka-4.4/placements_sticky_4.4.0.jsonl.gz": 691,
    "kafka-4.4/rebalances_sticky_4.3.1.jsonl.gz": 500,
    "kafka-4.4/rebalances_sticky_4.4.0.jsonl.gz": 500,
    "kafka-4.4/rebalances_errors_4.3.1.jsonl.gz": 94,
    "kafka-4.4/rebalances_errors_4.4.0.jsonl.gz": 94,
    "recordings/smoke.jsonl.gz": 4,
    "recordings/static.jsonl.gz": 9,
    "recordings/threads2.jsonl.gz": 14,
    "recordings/optimized.jsonl.gz": 5,
    "recordings/upgrade.jsonl.gz": 16,
    "recordings/wcflow.jsonl.gz": 12,
    "recordings/bridge1.jsonl.gz": 1,  # and five that Python led
    "recordings/racks.jsonl.gz": 6,
}

ERRORS = {
    REBALANCES: 62,
    FRESH_REBALANCES: 49,
    RACK_REBALANCES: 23,
    CUSTOM_REBALANCES: 7,
    OWN_CUSTOM_REBALANCES: 16,
    "kafka-4.4/rebalances_sticky_4.3.1.jsonl.gz": 17,
    "kafka-4.4/rebalances_sticky_4.4.0.jsonl.gz": 17,
    "kafka-4.4/rebalances_errors_4.3.1.jsonl.gz": 94,
    "kafka-4.4/rebalances_errors_4.4.0.jsonl.gz": 82,
}
"""Lines on which Kafka's leader threw."""


@pytest.mark.parametrize("name", LINES)
def test_should_decide_what_kafka_decided(name: str, tell: Tell) -> None:
    """Errors included: class, message and cause. What the brokers answered is part of the line, as the cause."""
    compared = errors = 0
    different, other_bytes, other_texts = [], [], []
    for document in documents(name):
        ran = run(document, task_assignor_named)
        comparison = ran.comparison()
        if comparison is None:
            continue
        compared += 1
        errors += comparison.is_error
        if not comparison.equal:
            different.append((ran.id, comparison.differences[:3]))
        elif isinstance(ran, RerunRebalance) and not comparison.bytes_equal:
            other_bytes.append(ran.id)
        if comparison.error_differences:
            other_texts.append((ran.id, comparison.error_differences))
    if errors:
        equal = errors - len(other_texts)
        tell(f"{name}: {equal} of {errors} errors are equal in class, message and cause")
    assert different[:5] == [], f"{len(different)} of {compared} differ"
    assert other_bytes[:5] == [], f"{len(other_bytes)} of {compared} are equal only after decoding"
    assert other_texts[:5] == [], f"{len(other_texts)} of {errors} errors differ in message or cause"
    assert (compared, errors) == (LINES[name], ERRORS.get(name, 0))


def test_should_run_every_file_that_other_tests_read() -> None:
    assert {*PLACEMENTS, *RECORDINGS} <= LINES.keys()
