"""Members that read other topics than the topology of the leader."""

from __future__ import annotations

from kafka_groups.leader.subscribed_topics import mismatch_in_words

TOPICS = ("a", "b")


def test_should_say_nothing_of_members_that_read_what_the_topology_reads() -> None:
    assert mismatch_in_words(TOPICS, {}) == ""
    assert mismatch_in_words(TOPICS, {"one": ("b", "a"), "two": ("a", "b")}) == ""


def test_should_say_who_reads_more_and_who_less() -> None:
    subscribed = {"one": ("a", "b"), "two": ("a", "b", "c"), "three": ("a",)}
    assert mismatch_in_words(TOPICS, subscribed) == (
        "not all members run the topology that was given here: c of the subscription of two is not in it, and given to "
        "nobody; three does not subscribe to b of it. Let all instances run one version, and lead with its topology"
    )


def test_should_not_name_everybody() -> None:
    words = mismatch_in_words((), {str(number): ("x", "y") for number in range(5)})
    assert "x, y of the subscription of 0, 1, 2 and 2 more are not in it" in words
