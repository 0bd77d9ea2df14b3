"""Which count a co-partitioned group gets, and when it cannot have one."""

from __future__ import annotations

import pytest

from assignor.cluster import Cluster, TopicMetadata
from assignor.errors import IllegalStateError, TopologyError
from assignor.topology.internal_topics import InternalTopic, enforce_copartitioning

_CLUSTER = Cluster((), {"orders": TopicMetadata(6), "payments": TopicMetadata(6), "users": TopicMetadata(4)})


def _repartition(**counts: int | None) -> dict[str, InternalTopic]:
    return {name: InternalTopic(name, count) for name, count in counts.items()}


def _fixed(**counts: int) -> dict[str, InternalTopic]:
    return {name: InternalTopic(name, count, fixed_partitions=True) for name, count in counts.items()}


def test_should_fail_when_outside_topics_differ() -> None:
    with pytest.raises(TopologyError, match=r"Topics not co-partitioned: \[\{orders=6, users=4\}\]"):
        enforce_copartitioning(["users", "orders", "a"], _repartition(a=6), _CLUSTER)


def test_should_fail_when_fixed_counts_differ() -> None:
    with pytest.raises(TopologyError, match=r"do not have the same number of partitions: \[\{a=3, b=4, c=5\}\]"):
        enforce_copartitioning(["c", "b", "a"], {**_fixed(a=3, b=4), **_repartition(c=5)}, _CLUSTER)


def test_should_fail_when_a_fixed_count_is_not_that_of_the_outside_topic() -> None:
    with pytest.raises(
        TopologyError, match=r"Number of partitions \[3\] of repartition topic \[a\] doesn't match number of .*\[6\]"
    ):
        enforce_copartitioning(["a", "orders"], _fixed(a=3), _CLUSTER)


def test_should_fail_when_a_topic_is_nowhere() -> None:
    with pytest.raises(IllegalStateError, match="Topic not found: nowhere"):
        enforce_copartitioning(["nowhere", "a"], _repartition(a=3), _CLUSTER)


def test_should_fail_when_no_count_is_known() -> None:
    with pytest.raises(IllegalStateError, match="Could not validate the copartitioning"):
        enforce_copartitioning(["a"], _repartition(a=None), _CLUSTER)
