"""Other partition counts and another topology: which tasks there are, and what is left of those that are gone."""

from dataclasses import replace

import pytest

from assignor.errors import InputError
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.types import TaskId, TopicPartition
from rebalance_analysis.what_if import Changes, changed
from tests.known import known
from tests.rebalance_analysis.what_if.groups import problem_of, recorded, run_snapshot, said, what_if

ROUND = "wcflow.8"
BOTH = {"wcflow-text": 8, "wcflow-users": 8}
FEWER = {"wcflow-text": 4, "wcflow-users": 4}


def tasks(*counts: int) -> set[TaskId]:
    """So many of each subtopology."""
    return {TaskId(subtopology, partition) for subtopology, count in enumerate(counts) for partition in range(count)}


def test_should_make_new_tasks_with_empty_changelogs() -> None:
    before, after = recorded(ROUND).snapshot, what_if(ROUND, Changes(partitions=BOTH))
    topic = after.cluster.topics["wcflow-text"]
    assert (topic.partitions, topic.replicas, topic.leaders) == (8, ((1,),) * 8, (1,) * 8)
    assert {name: each.partitions for name, each in after.existing_internal_topics.items()} == {
        "wcflow-by-word-repartition": 8,
        "wcflow-counts-store-changelog": 8,
        "wcflow-users-store-changelog": 8,
    }
    assert after.changelog_end_offsets == {
        topic: (*ends, 0, 0) for topic, ends in known(before.changelog_end_offsets).items()
    }
    assert after.members == before.members
    ran = run_snapshot(ROUND, Changes(partitions=BOTH))
    assert set(problem_of(ran).tasks) == tasks(8, 8, 8)
    assert ran.result.created_topics == {}
    assert {client.lags.lag_for(TaskId(2, 7)) for client in problem_of(ran).clients.values()} == {0}


def test_should_forget_what_was_owned_and_reported_of_tasks_that_are_gone() -> None:
    after = what_if(ROUND, Changes(partitions=FEWER))
    for subscription, info in said(after).values():
        assert all(owned.partition < 4 for owned in subscription.owned_partitions)
        assert all(task.partition < 4 for task in info.task_offset_sums)
    assert after.changelog_end_offsets == {
        "wcflow-counts-store-changelog": (31839, 33956, 29549, 37458),
        "wcflow-users-store-changelog": (2244, 733, 3250, 1476),
    }
    assert set(problem_of(run_snapshot(ROUND, Changes(partitions=FEWER))).tasks) == tasks(4, 4, 4)


def test_should_change_only_what_depends_on_the_topic() -> None:
    after = what_if(ROUND, Changes(partitions={"wcflow-text": 9}))
    assert {name: each.partitions for name, each in after.existing_internal_topics.items()} == {
        "wcflow-by-word-repartition": 9,
        "wcflow-counts-store-changelog": 9,
        "wcflow-users-store-changelog": 6,
    }
    assert set(problem_of(run_snapshot(ROUND, Changes(partitions={"wcflow-text": 9}))).tasks) == tasks(9, 6, 9)


def test_should_fix_the_count_of_a_repartition_topic() -> None:
    """Subtopology 2 reads it; what writes to it stays as it is."""
    ran = run_snapshot(ROUND, Changes(partitions={"wcflow-by-word-repartition": 2}))
    assert set(problem_of(ran).tasks) == tasks(6, 6, 2)
    assert ran.result.internal_topics["wcflow-counts-store-changelog"] == 2


def test_should_lead_to_kafkas_own_error_when_topics_do_not_fit() -> None:
    line = recorded(ROUND)
    groups = (("wcflow-text", "wcflow-users", "wcflow-by-word-repartition"),)
    joined = replace(
        line, snapshot=replace(line.snapshot, topology=replace(line.snapshot.topology, copartition_groups=groups))
    )
    after = changed(joined, Changes(partitions={"wcflow-text": 9}))
    assert after.snapshot.existing_internal_topics == line.snapshot.existing_internal_topics
    assert after.snapshot.cluster.topics["wcflow-text"].partitions == 9


def test_should_bring_a_missing_input_topic() -> None:
    line = recorded(ROUND)
    topics = {name: topic for name, topic in line.snapshot.cluster.topics.items() if name != "wcflow-users"}
    missing = replace(line, snapshot=replace(line.snapshot, cluster=replace(line.snapshot.cluster, topics=topics)))
    after = changed(missing, Changes(partitions={"wcflow-users": 6}))
    assert after.snapshot.cluster.topics["wcflow-users"].partitions == 6


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (
            "wcflow-clicks",
            "partitions: the topology does not read 'wcflow-clicks'; it reads wcflow-by-word-repartition, wcflow-t",
        ),
        ("wcflow-users-store-changelog", "partitions: 'wcflow-users-store-changelog' is a changelog; it has as many"),
    ],
)
def test_should_refuse_a_topic_that_makes_no_tasks(topic: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        what_if(ROUND, Changes(partitions={topic: 3}))


def test_should_take_another_topology_and_drop_what_it_does_not_have() -> None:
    store = SubtopologyStore("users-store", "wcflow-users-store-changelog")
    topology = GroupTopology((Subtopology(1, ("wcflow-users",), stores=(store,)),))
    changes = Changes(topology=topology)
    after = what_if(ROUND, changes)
    assert after.topology == topology
    assert {task.subtopology for _, info in said(after).values() for task in info.task_offset_sums} == {1}
    owned = {each for subscription, _ in said(after).values() for each in subscription.owned_partitions}
    assert owned == {TopicPartition("wcflow-users", partition) for partition in range(6)}
    ran = run_snapshot(ROUND, changes)
    assert ran.result.error is None
    assert set(problem_of(ran).tasks) == tasks(0, 6)
    assert set(problem_of(ran).stateful_tasks) == tasks(0, 6)
