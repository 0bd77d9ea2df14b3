"""On which racks partitions are: which topics are described for that, and what makes an answer useless."""

import pytest

from assignor.pipeline.snapshot import ClusterView
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.topic_racks import TopicRacks

BROKERS = (Broker(1, "a"), Broker(2, "b"), Broker(3))
CLUSTER = Cluster(
    BROKERS,
    {
        "in": TopicMetadata(2, ((1, 2), (2,))),
        "bare": TopicMetadata(1, ((3,),)),
        "unknown": TopicMetadata(1),
        "half": TopicMetadata(2, ((1,), ())),
    },
)
A, B, AB = frozenset("a"), frozenset("b"), frozenset("ab")


def test_should_take_source_topics_from_the_metadata() -> None:
    assert TopicRacks(CLUSTER, {}).of(["in"], {}, []) == {"in": (AB, B)}
    assert TopicRacks(CLUSTER, {}, fails=True).of(["in"], {}, []) == {"in": (AB, B)}


def test_should_keep_that_a_broker_of_a_source_topic_has_no_rack() -> None:
    assert TopicRacks(CLUSTER, {}).of(["bare"], {}, []) == {"bare": (frozenset([None]),)}


def test_should_describe_repartition_topics_and_changelogs() -> None:
    described = {"again": TopicMetadata(1, ((2,),)), "log": TopicMetadata(1, ((1,),))}
    assert TopicRacks(CLUSTER, described).of(["in", "again"], {"again": 1}, ["log"]) == {
        "in": (AB, B),
        "again": (B,),
        "log": (A,),
    }


def test_should_describe_a_source_topic_whose_replicas_are_not_known() -> None:
    described = {"unknown": TopicMetadata(1, ((2,),)), "half": TopicMetadata(2, ((2,), (2,)))}
    assert TopicRacks(CLUSTER, described).of(["unknown", "half"], {}, []) == {"unknown": (B,), "half": (AB, B)}


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"log": TopicMetadata(2)},
        {"log": TopicMetadata(2, ((1,), ()))},
        {"log": TopicMetadata(2, ((1,), (3,)))},
        {"log": TopicMetadata(2, ((1,), (9,)))},
    ],
    ids=["no such topic", "no replicas", "a partition without", "a broker without a rack", "a broker not known"],
)
def test_should_know_nothing_of_a_topic_whose_description_is_of_no_use(described: dict[str, TopicMetadata]) -> None:
    assert TopicRacks(CLUSTER, described).of(["in"], {}, ["log"]) == {"in": (AB, B)}


def test_should_know_nothing_of_topics_when_describing_them_fails() -> None:
    described = {"log": TopicMetadata(1, ((1,),)), "again": TopicMetadata(1, ((1,),))}
    found = TopicRacks(CLUSTER, described, fails=True).of(["in", "again"], {"again": 1}, ["log"])
    assert found == {"in": (AB, B)}


def test_should_describe_a_source_topic_that_serves_as_a_changelog() -> None:
    assert TopicRacks(CLUSTER, {}).of(["in"], {}, ["in"]) == {"in": (AB, B)}
    assert TopicRacks(CLUSTER, {}, fails=True).of(["in"], {}, ["in"]) == {}


def test_should_keep_what_the_metadata_says_of_more_partitions_than_a_repartition_topic_has() -> None:
    """Kafka puts the partitions that a repartition topic needs into the metadata, and removes none."""
    cluster = Cluster(BROKERS, {"again": TopicMetadata(3, ((1,), (1,), (1,)))})
    described = {"again": TopicMetadata(2, ((2,), (2,)))}
    assert TopicRacks(cluster, described).of(["again"], {"again": 2}, []) == {"again": (B, B, A)}


def test_should_count_topics_as_created_whose_brokers_a_leader_asks_for_after_it_created_them() -> None:
    made = TopicMetadata(1, ((2,),))
    before = ClusterView(CLUSTER, {"old": TopicMetadata(1, ((1,),))})
    after = ClusterView(CLUSTER, {**before.existing_internal_topics, "log": made, "another": made})
    described = before.with_created(["log", "lost"], after)
    assert described.existing_internal_topics == before.existing_internal_topics
    assert described.created_internal_topics == {"log": made}
