"""How many tasks a group has, whether or not anybody runs them."""

from __future__ import annotations

from assignor.recording import parse_rebalance_input
from assignor.snapshot import RebalanceSnapshot
from coordinator_api.clusters import ProviderAddress
from coordinator_api.group.image import GroupImage, LastRebalance, RebalanceBasis, RebalanceEnd
from coordinator_api.group.states import RebalanceOutcome
from coordinator_api.runtime.definitions import Definition
from coordinator_api.web.group_documents import task_total
from tests.coordinator_api.group_members import CHANGELOG, TOPIC, definition
from tests.coordinator_api.reported_rebalances import FIRST

NO_CLUSTER: dict[str, object] = {"brokers": [{"id": 0, "rack": None}], "topics": {}}
KAFKA = ProviderAddress("kafka", "broker:9092")


def snapshot(**changes: object) -> RebalanceSnapshot:
    document = definition(partitions=6)
    return parse_rebalance_input({**document, **changes, "leader_process_id": FIRST, "members": {}})


def after(topics: dict[str, int]) -> GroupImage:
    end = RebalanceEnd(RebalanceOutcome.STABLE)
    return GroupImage(last_rebalance=LastRebalance(1, None, 1, end, RebalanceBasis("", topics)))


def test_should_count_the_tasks_over_the_topics_of_a_definition() -> None:
    assert task_total(Definition(snapshot(), None), GroupImage()) == 6


def test_should_know_nothing_while_topics_are_missing() -> None:
    assert task_total(Definition(snapshot(cluster=NO_CLUSTER), None), GroupImage()) is None
    assert task_total(Definition(snapshot(cluster=NO_CLUSTER), KAFKA), after({TOPIC: 0, CHANGELOG: 0})) is None


def test_should_count_over_the_topics_of_the_last_rebalance_when_the_cluster_is_elsewhere() -> None:
    elsewhere = Definition(snapshot(cluster=NO_CLUSTER, existing_internal_topics={}), KAFKA)

    assert task_total(elsewhere, GroupImage()) is None
    assert task_total(elsewhere, after({TOPIC: 5, CHANGELOG: 5})) == 5
