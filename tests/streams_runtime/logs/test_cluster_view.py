"""What a leader learns from a log (topics, changelog end offsets, committed offsets), and what it creates there."""

import uuid
from collections.abc import Callable, Iterable
from typing import NoReturn

import pytest

from assignor.configs import AssignmentConfigs
from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.builder import TopologyBuilder
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from assignor.types import TopicPartition
from coordinator_api.runtime.clusters import is_retriable
from streams_runtime.logs.base import IsolationLevel, NewTopic, TopicDescription
from streams_runtime.logs.cluster_view import LogClusterProvider, log_cluster_provider
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.log_errors import LogTimeout, TopicExists
from tests.streams_runtime.logs.reading_and_writing import commit, write


def definition() -> RebalanceSnapshot:
    """Subtopology 0 reads orders and a table that is its own changelog; subtopology 1 counts behind a repartition."""
    builder = TopologyBuilder()
    builder.add_repartition_topic("totals-repartition")
    builder.add_source("orders", "orders")
    builder.add_source("prices", "prices")
    builder.add_processor("join", ["orders", "prices"])
    builder.add_state_store("price-store", "join")
    builder.use_source_topic_as_changelog("price-store", "prices")
    builder.add_sink("to-totals", "totals-repartition", "join")
    builder.add_source("totals", "totals-repartition")
    builder.add_processor("count", "totals")
    builder.add_state_store("counts", "count")
    return RebalanceSnapshot(
        assignor="HighAvailabilityTaskAssignor",
        configs=AssignmentConfigs(),
        application_id="app",
        topology=builder.build("app"),
        cluster=Cluster((), {}),
        members={},
    )


def metadata(partitions: int) -> TopicMetadata:
    return TopicMetadata(partitions, replicas=((1,),) * partitions, leaders=(1,) * partitions)


def test_should_tell_the_leader_topics_changelog_ends_and_committed_offsets_as_they_are_now() -> None:
    log = InMemoryLog()
    log.create_topics(
        [
            NewTopic("orders", 2),
            NewTopic("prices", 2),
            NewTopic("elsewhere", 7),
            NewTopic("app-totals-repartition", 2),
            NewTopic("app-counts-changelog", 2, {"cleanup.policy": "compact"}),
        ]
    )
    write(log, TopicPartition("app-counts-changelog", 1), b"1", b"2", b"3")
    commit(log, "app", {TopicPartition("prices", 0): 5})

    assert LogClusterProvider(log).view("group", definition()) == ClusterView(
        Cluster((Broker(1),), {"orders": metadata(2), "prices": metadata(2)}),
        {"app-totals-repartition": metadata(2), "app-counts-changelog": metadata(2)},
        {"app-counts-changelog": (0, 3)},
        {"prices": (5, None)},
    )


def test_should_leave_out_what_is_not_there_when_the_group_is_new() -> None:
    log = InMemoryLog()
    log.create_topics([NewTopic("orders", 2)])

    assert LogClusterProvider(log).view("group", definition()) == ClusterView(
        Cluster((Broker(1),), {"orders": metadata(2)}), {}, {}, {}
    )


class SlowLog(InMemoryLog):
    """Does not answer in time when it is asked for offsets."""

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        raise LogTimeout("busy")


def test_should_let_the_leader_do_without_lags_when_end_offsets_cannot_be_had() -> None:
    log = SlowLog()
    log.create_topics([NewTopic("orders", 2)])

    view = LogClusterProvider(log).view("group", definition())

    assert view == ClusterView(Cluster((Broker(1),), {"orders": metadata(2)}), {}, changelog_end_offsets=None)


def test_should_say_that_asking_again_may_help_when_the_log_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> NoReturn:
        raise LogTimeout("busy")

    monkeypatch.setattr(InMemoryLog, "topics", busy)
    monkeypatch.setattr(InMemoryLog, "create_topics", busy)
    provider = LogClusterProvider(InMemoryLog())
    calls: list[Callable[[], object]] = [
        lambda: provider.view("group", definition()),
        lambda: provider.topics(definition()),
        lambda: provider.create_topics({}),
    ]

    for call in calls:
        with pytest.raises(LogTimeout, match="busy") as raised:
            call()
        assert is_retriable(raised.value)


def test_should_create_internal_topics_with_their_configs_and_accept_those_that_are_there() -> None:
    log = InMemoryLog()
    provider = LogClusterProvider(log)
    created = {"app-counts-changelog": CreatedTopic(2, -1, {"cleanup.policy": "compact"})}

    provider.create_topics(created)
    provider.create_topics(created)

    assert dict(log.topics()) == {
        "app-counts-changelog": TopicDescription("app-counts-changelog", 2, {"cleanup.policy": "compact"})
    }
    with pytest.raises(TopicExists):
        provider.create_topics({"app-counts-changelog": CreatedTopic(3, -1, {})})


def test_should_open_the_log_that_the_address_names() -> None:
    provider = log_cluster_provider(f"memory:{uuid.uuid4()}")
    provider.create_topics({"orders": CreatedTopic(1, -1, {})})

    assert provider.view("group", definition()).cluster.topics == {"orders": metadata(1)}
    provider.close()
