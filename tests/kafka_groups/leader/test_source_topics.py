"""Changes of the source topics that start a rebalance, and the warning about members with another topology."""

import pytest

from assignor.protocol.consumer_protocol import Assignment, encode_assignment
from assignor.types import TopicPartition
from kafka_groups.leader.source_topics import change_text, mismatch_text, partitions_without_owner

TOPICS = ("a", "b")


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
    assert change_text({"a": 2, "b": 3}, after) == words


def test_should_count_partitions_that_nobody_is_assigned() -> None:
    assigned = encode_assignment(Assignment((TopicPartition("a", 0), TopicPartition("b", 1))))
    assert partitions_without_owner({"a": 2, "b": 2}, [assigned, b""]) == 2
    assert partitions_without_owner({"a": 1}, [assigned]) == 0


def test_should_say_nothing_of_members_that_read_what_the_topology_reads() -> None:
    assert mismatch_text(TOPICS, {}) == ""
    assert mismatch_text(TOPICS, {"one": ("b", "a"), "two": ("a", "b")}) == ""


def test_should_say_who_reads_more_and_who_less() -> None:
    subscribed = {"one": ("a", "b"), "two": ("a", "b", "c"), "three": ("a",)}
    assert mismatch_text(TOPICS, subscribed) == (
        "not all members run the topology given here: two subscribes to c, which it does not read and nobody is "
        "assigned; three does not subscribe to b, which it reads. Run one version on all instances, and lead with its "
        "topology"
    )


def test_should_not_name_everybody() -> None:
    words = mismatch_text((), {str(number): ("x", "y") for number in range(5)})
    assert "0, 1, 2 and 2 more subscribe to x, y, which it does not read" in words
