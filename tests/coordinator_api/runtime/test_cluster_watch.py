"""A group and the cluster it names: what starts a rebalance, what waits, and what is not tried again and again."""

from pathlib import Path
from typing import Any

from assignor.pipeline import assign
from assignor.recording import parse_rebalance, rebalance_output
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import AssignorErrorCode, TaskId
from coordinator_api.group import events
from coordinator_api.group.states import GroupState, RebalanceOutcome
from coordinator_api.group.subscriptions import assigned_tasks, assignment_error
from coordinator_api.http.group_document import described_group
from coordinator_api.runtime.cluster_watch import Changelogs
from coordinator_api.runtime.definitions import read_definition, read_input
from tests.coordinator_api.fake_cluster import MOST_PARTITIONS, FakeCluster, OutOfReach, WatchedGroup, watched
from tests.coordinator_api.group_members import CHANGELOG, TOPIC, definition
from tests.known import known


async def described(group: WatchedGroup) -> dict[str, Any]:
    return (await described_group(group.runtime, group.clusters)).model_dump(mode="json")


async def asked_to_rejoin(group: WatchedGroup) -> None:
    await group.until(
        lambda: group.runtime.group.image.state is GroupState.PREPARING_REBALANCE, "a rebalance by itself"
    )


def placed_by(recorded: dict[str, Any]) -> str:
    """The assignor whose placement, run again, gives the recorded one; FallbackPrior has no target."""
    result = assign(parse_rebalance(recorded), recorded["now_ms"])
    assert rebalance_output(result)["assignments"] == recorded["output"]["assignments"]
    kinds = {decision.kind for decision in result.decisions}
    return "HighAvailabilityTaskAssignor" if DecisionKind.TARGET in kinds else "FallbackPriorTaskAssignor"


async def test_should_wait_for_a_missing_topic_and_start_a_rebalance_when_it_appears(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster()) as group:
        await group.declare()
        told = await group.fetch(await group.join())
        assert assignment_error(told.assignment) == AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA
        assert told.followup, "members are told that a rebalance comes by itself"
        assert told.error == f"Source topics are missing on the cluster: `{TOPIC}`."
        shown = await described(group)
        assert (shown["state"], shown["error"]) == ("Stable", "INCOMPLETE_SOURCE_TOPIC_METADATA")
        assert shown["condition"] == "MISSING_SOURCE_TOPICS"
        assert shown["last_rebalance"]["missing_topics"] == [TOPIC]
        assert shown["advice"] == (
            f"Source topics are missing on fake somewhere:9092: `{TOPIC}`. "
            "If the names are right, create them; the coordinator then starts a rebalance: "
            f"`assignor topics create {TOPIC}`."
        )
        await group.some_looks()
        assert group.runtime.group.image.generation_id == 1

        group.cluster.there[TOPIC] = 2
        await asked_to_rejoin(group)
        told = await group.fetch(await group.join())

        assert len(assigned_tasks(told.assignment).active) == 2
        shown = await described(group)
        assert shown["reason"] == f"topic {TOPIC} appeared, partitions 2"
        assert (shown["error"], shown["advice"], shown["condition"]) == (None, None, None)
        assert group.cluster.there == {TOPIC: 2, CHANGELOG: 2}
        await group.some_looks()
        assert group.runtime.group.image.generation_id == 2, "what the rebalance created is no change"


async def test_should_not_storm_when_the_new_partitions_do_not_fit_the_changelog(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(**{TOPIC: 2})) as group:
        await group.declare()
        await group.fetch(await group.join())
        group.cluster.there[TOPIC] = 4
        await asked_to_rejoin(group)
        generation = await group.join()
        told = await group.fetch(generation)

        assert assignment_error(told.assignment) == AssignorErrorCode.ASSIGNMENT_ERROR
        assert not told.followup
        assert f"the internal topic {CHANGELOG}, which has 2. Kafka's error: StreamsException: Existing" in known(
            told.error
        )
        shown = await described(group)
        assert shown["reason"] == f"partitions of {TOPIC}: 2 -> 4"
        assert shown["error"].startswith(
            f"StreamsException: Existing internal topic {CHANGELOG} has invalid partitions"
        )
        (reason,) = shown["health"]["reasons"]
        assert (reason["code"], reason["where"]) == ("REBALANCE_FAILED", [CHANGELOG])
        assert reason["command"] == "assignor reset --application-id g"
        assert f"`assignor topics alter {CHANGELOG} --partitions 4`" in shown["advice"]
        await group.some_looks(10)
        assert group.runtime.group.image.generation_id == generation, "the same failure is not repeated"

        del group.cluster.there[CHANGELOG]
        await asked_to_rejoin(group)
        told = await group.fetch(await group.join())
        assert len(assigned_tasks(told.assignment).active) == 4
        assert group.cluster.there[CHANGELOG] == 4


async def test_should_fail_a_rebalance_of_more_tasks_than_a_group_may_have(tmp_path: Path) -> None:
    """The cluster has grown since the group was declared."""
    async with watched(tmp_path, FakeCluster(**{TOPIC: MOST_PARTITIONS + 1})) as group:
        await group.declare()
        await group.fetch(await group.join())

        shown = await described(group)
        assert shown["error"] == "InputError: cluster: 1001 partitions are more than group.max.partitions, 1000"


async def test_should_describe_a_group_whose_cluster_fails_with_a_path_that_is_no_text(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster()) as group:
        await group.declare()
        group.cluster.error = OutOfReach("no file /data/\udcff")

        shown = await described(group)

        assert shown["cluster"]["error"].endswith("no file /data/\\udcff")


async def test_should_let_a_rebalance_wait_for_a_cluster_that_is_out_of_reach(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(**{TOPIC: 2})) as group:
        await group.declare()
        group.cluster.error = OutOfReach("nobody answers")
        generation = await group.join()
        await group.until(lambda: group.runtime.cluster.error, "the first failed look")

        shown = await described(group)
        assert (shown["state"], shown["error"]) == ("CompletingRebalance", None)
        assert shown["cluster"]["error"] == "fake somewhere:9092 is out of reach: nobody answers"
        assert shown["cluster"]["failing_since_ms"] is not None
        assert shown["advice"].startswith("The rebalance waits for the cluster: fake somewhere:9092 is out of reach")

        group.cluster.error = None
        told = await group.fetch(generation)
        assert len(assigned_tasks(told.assignment).active) == 2
        shown = await described(group)
        assert (shown["cluster"]["error"], shown["cluster"]["failing_since_ms"], shown["advice"]) == (None, None, None)
        assert group.runtime.group.image.generation_id == 1, "it is the same rebalance"


async def test_should_give_up_a_waiting_rebalance_when_everybody_left(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(**{TOPIC: 2})) as group:
        await group.declare()
        group.cluster.error = OutOfReach("nobody answers")
        await group.join()
        await group.until(lambda: group.runtime.cluster.error, "the first failed look")
        await group.runtime.handle(events.Leave(group.member_id))
        await group.until(lambda: not group.runtime.is_polling_its_cluster(), "the rebalance to be given up")
        assert group.runtime.group.image.state is GroupState.EMPTY


async def test_should_say_that_the_cluster_of_a_stable_group_does_not_answer(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(**{TOPIC: 2})) as group:
        await group.declare()
        await group.fetch(await group.join())
        group.cluster.error = OutOfReach("nobody answers")
        await group.until(lambda: group.runtime.cluster.error, "a failed look")
        shown = await described(group)
        assert (shown["state"], shown["generation_id"]) == ("Stable", 1)
        assert shown["advice"].startswith("The cluster does not answer: fake somewhere:9092 is out of reach")
        assert [task["task"] for task in shown["tasks"]] == ["0_0", "0_1"], "all but the lags is known"

        group.cluster.error = None
        group.cluster.there[TOPIC] = 0
        await group.until(lambda: group.runtime.cluster.error is None, "a look that is answered")


async def test_should_not_wait_for_ever_for_a_cluster_that_holds_the_line(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(**{TOPIC: 2}), timeout_ms=50) as group:
        await group.declare()
        group.cluster.held.clear()
        generation = await group.join()
        await group.until(lambda: group.runtime.cluster.error, "the time-out")
        assert group.runtime.cluster.error == (
            "fake somewhere:9092 did not answer within 50 ms (cluster.request.timeout.ms)"
        )
        group.cluster.held.set()
        assert assigned_tasks((await group.fetch(generation)).assignment).active


async def test_should_fail_when_the_cluster_refuses_and_try_again_when_its_topics_change(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(**{TOPIC: 2})) as group:
        await group.declare()
        group.cluster.create_error = PermissionError("CREATE is not allowed")
        generation = await group.join()
        told = await group.fetch(generation)
        assert assignment_error(told.assignment) == AssignorErrorCode.ASSIGNMENT_ERROR
        shown = await described(group)
        assert shown["error"] == "PermissionError: CREATE is not allowed"
        assert shown["advice"].startswith(
            "The last rebalance failed: PermissionError: CREATE is not allowed. It is tried again when a member joins"
        )
        assert shown["condition"] == "REBALANCE_FAILED"
        await group.some_looks()
        assert group.runtime.group.image.generation_id == generation

        group.cluster.there[CHANGELOG] = 2  # the operator created it
        await asked_to_rejoin(group)
        assert assigned_tasks((await group.fetch(await group.join())).assignment).active


async def test_should_not_take_a_topic_for_gone_that_one_look_did_not_find(tmp_path: Path) -> None:
    class Flickering(FakeCluster):
        def topics(self, definition: Any) -> Any:
            found = super().topics(definition)
            return {} if self.looks == 2 else found

    async with watched(tmp_path, Flickering(**{TOPIC: 2})) as group:
        await group.declare()
        await group.fetch(await group.join())
        await group.some_looks(5)
        assert (group.runtime.group.image.state, group.runtime.group.image.generation_id) == (GroupState.STABLE, 1)

        del group.cluster.there[TOPIC]
        await asked_to_rejoin(group)
        told = await group.fetch(await group.join())
        assert assignment_error(told.assignment) == AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA
        assert (await described(group))["reason"] == f"topic {TOPIC} is gone"


async def test_should_place_without_lags_when_end_offsets_cannot_be_had_and_with_them_later(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(**{TOPIC: 2, CHANGELOG: 2})) as group:
        await group.declare()
        await group.fetch(await group.join())
        group.cluster.offsets_known = False
        await group.fetch(await group.join())
        without = await group.recorded(2)
        group.cluster.offsets_known = True
        await group.fetch(await group.join())
        again = await group.recorded(3)

        assert without["input"]["changelog_end_offsets"] is None
        assert again["input"]["changelog_end_offsets"] == {CHANGELOG: [0, 0]}
        assert (placed_by(without), placed_by(again)) == ("FallbackPriorTaskAssignor", "HighAvailabilityTaskAssignor")
        assert known(group.runtime.image.present_end).outcome is RebalanceOutcome.STABLE


async def test_should_go_on_watching_after_a_restart(tmp_path: Path) -> None:
    cluster = FakeCluster()
    async with watched(tmp_path, cluster) as group:
        await group.declare()
        await group.fetch(await group.join())

    async with watched(tmp_path, cluster) as group:
        group.member_id = "m1"
        await group.runtime.handle(events.Recovered())
        cluster.there[TOPIC] = 2
        await asked_to_rejoin(group)
        assert assigned_tasks((await group.fetch(await group.join())).assignment).active


async def test_should_not_look_at_a_cluster_for_a_group_that_describes_its_own(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster()) as group:
        await group.runtime.handle(events.DeclareGroup(read_definition(definition(), "g", 1_000)))
        told = await group.fetch(await group.join())
        assert assigned_tasks(told.assignment).active
        assert not group.runtime.is_polling_its_cluster()
        shown = await described(group)
        assert (shown["cluster"], shown["advice"], group.cluster.looks) == (None, None, 0)


def test_should_count_the_lag_of_a_source_topic_that_serves_as_a_changelog() -> None:
    document = definition(2, existing_internal_topics={}, changelog_end_offsets={}, committed_offsets={TOPIC: [5, 7]})
    (subtopology,) = document["topology"]["subtopologies"]
    subtopology["stores"] = [{"name": "table", "source_topic_as_changelog": TOPIC}]
    changelogs = Changelogs(read_input(read_definition(document, "g", 100)).snapshot)
    first, second = TaskId(0, 0), TaskId(0, 1)
    assert changelogs.lags_of([first, second], {first: 3}) == {first: (2, 5), second: (7, 7)}


def topics_of(recorded: dict[str, Any]) -> list[list[str]]:
    return [each["source_topics"] for each in recorded["input"]["topology"]["subtopologies"]]


async def test_should_start_a_rebalance_when_other_topics_match_a_source_pattern(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(other=1)) as group:
        await group.declare(["event.*"])
        generation = await group.join()
        assert not assigned_tasks((await group.fetch(generation)).assignment).active
        assert topics_of(await group.recorded(generation)) == []
        shown = await described(group)
        assert (shown["state"], shown["error"], shown["last_rebalance"]["missing_topics"]) == (
            "Stable",
            None,
            ["event.*"],
        )
        assert shown["advice"] == (
            "No topic matches the pattern event.*, so there are no tasks that read it. The coordinator starts a "
            "rebalance when a topic that matches is created."
        )
        await group.some_looks()
        assert group.runtime.group.image.generation_id == generation

        group.cluster.there |= {"event-1": 2, "an-event": 9, "app-event-changelog": 3}
        await asked_to_rejoin(group)
        generation = await group.join()
        assert len(assigned_tasks((await group.fetch(generation)).assignment).active) == 2
        recorded = await group.recorded(generation)
        assert topics_of(recorded) == [["event-1"]]
        assert "source_patterns" not in recorded["input"]["topology"]["subtopologies"][0]
        assert placed_by(recorded), "the recording needs no cluster"
        shown = await described(group)
        assert (shown["reason"], shown["advice"]) == ("topic event-1 appeared, partitions 2", None)

        group.cluster.there["event-2"] = 2
        await asked_to_rejoin(group)
        generation = await group.join()
        active = assigned_tasks((await group.fetch(generation)).assignment).active
        assert {TaskId(0, 0), TaskId(0, 1)} == set(active)
        assert sorted(topics_of(await group.recorded(generation))[0]) == ["event-1", "event-2"]
        now = await group.runtime.seen_now(group.runtime.image)
        assert now.topology.source_topics == now.cluster.topics.keys() == {"event-1", "event-2"}

        del group.cluster.there["event-1"]
        await asked_to_rejoin(group)
        generation = await group.join()
        await group.fetch(generation)
        assert topics_of(await group.recorded(generation)) == [["event-2"]]
        assert (await described(group))["reason"] == "topic event-1 is gone"
        await group.some_looks()
        assert group.runtime.group.image.generation_id == generation


async def test_should_fail_the_rebalance_when_a_topic_matches_two_source_patterns(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(event=1)) as group:
        await group.declare(["e.*", ".*t"])
        told = await group.fetch(await group.join())
        assert assignment_error(told.assignment) == AssignorErrorCode.ASSIGNMENT_ERROR
        assert (await described(group))["error"] == (
            "TopologyError: Invalid topology: Topic event matches the pattern .*t and the pattern e.*; change one of "
            "them, because a topic has one source."
        )


async def test_should_keep_the_assignment_while_a_new_topic_matches_two_source_patterns(tmp_path: Path) -> None:
    async with watched(tmp_path, FakeCluster(event=1)) as group:
        await group.declare(["e.*", ".*s"])
        generation = await group.join()
        assert assigned_tasks((await group.fetch(generation)).assignment).active
        group.cluster.there |= {"events": 1, "names": 1}
        await group.until(lambda: group.runtime.cluster.topology_error is not None, "the error of the topology")
        await group.some_looks()
        shown = await described(group)
        assert (shown["state"], shown["error"], shown["cluster"]["error"]) == ("Stable", None, None)
        assert shown["advice"] == (
            "Invalid topology: Topic events matches the pattern .*s and the pattern e.*; change one of them, because a "
            "topic has one source. Until then, new topics are not read, and a rebalance would fail."
        )
        assert all(copy["lag"] is not None for copy in shown["tasks"])
        assert group.runtime.group.image.generation_id == generation

        del group.cluster.there["events"]
        await asked_to_rejoin(group)
        generation = await group.join()
        assert assigned_tasks((await group.fetch(generation)).assignment).active
        shown = await described(group)
        assert (shown["reason"], shown["advice"]) == ("topic names appeared, partitions 1", None)
