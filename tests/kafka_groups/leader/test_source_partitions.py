"""What of the source topics sets off a rebalance."""

from __future__ import annotations

import pytest

from assignor.protocol.consumer_protocol import Assignment, encode_assignment
from assignor.types import TopicPartition
from kafka_groups.leader.source_partitions import change_in_words, without_owner


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({"a": 2, "b": 3}, None),
        ({"a": 2, "b": 4}, "source topic b went from 3 to 4 partitions"),
        ({"b": 3}, "source topic a is gone"),
        ({"a": 2, "b": 3, "c": 1}, "source topic c appeared"),
        ({"c": 1, "d": 1}, "source topic a is gone; source topic b is gone; source topic c appeared and 1 more"),
    ],
)
def test_should_say_what_changed(after: dict[str, int], words: str | None) -> None:
    assert change_in_words({"a": 2, "b": 3}, after) == words


def test_should_count_partitions_that_nobody_is_assigned() -> None:
    assigned = encode_assignment(Assignment((TopicPartition("a", 0), TopicPartition("b", 1))))
    assert without_owner({"a": 2, "b": 2}, [assigned, b""]) == 2
    assert without_owner({"a": 1}, [assigned]) == 0
