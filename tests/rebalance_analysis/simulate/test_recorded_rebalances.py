"""Forecasts of rounds recorded from Kafka, beside what the group did next, and the bytes that members would send."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from assignor.pipeline import assign
from assignor.protocol.assignment_info import decode_assigned_tasks, decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment, decode_subscription
from assignor.protocol.subscription_info import decode_subscription_info
from assignor.recording import RecordedPlacement, RecordedRebalance, parse_recorded_rebalance
from assignor.topology.cluster import TopicMetadata
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.types import TaskId
from rebalance_analysis.rerun import RerunPlacement, run_recorded
from rebalance_analysis.simulate import ForecastModel, forecast
from rebalance_analysis.simulate.model import End, ForecastTrigger
from rebalance_analysis.simulate.modelled_thread import ChangelogEnds, TaskRuns
from rebalance_analysis.simulate.rebalance_leader import RebalanceLeader, recorded_members, with_appended, with_created
from rebalance_analysis.what_if import Changes, changed
from tests.checkout import RECORDINGS
from tests.known import known
from tests.rebalance_analysis.simulate.recorded_groups import as_placement, settled_group

T0, T1 = TaskId(0, 0), TaskId(0, 1)


def recording(name: str) -> dict[str, RecordedRebalance]:
    with gzip.open(RECORDINGS / f"{name}.jsonl.gz") as stream:
        rounds = [parse_recorded_rebalance(json.loads(line)) for line in stream]
    return {each.id: each for each in rounds}


def placed(recorded: RecordedRebalance) -> dict[TaskId, object]:
    placement = assign(recorded.snapshot, recorded.now_ms).placement
    return {task: process for process, client in known(placement).clients.items() for task in client.active}


@pytest.mark.parametrize("number", [3, 5, 7, 9, 11])
def test_should_end_where_kafkas_group_was_after_its_follow_up(number: int) -> None:
    rounds = recording("threads2")
    recorded, next_one = rounds[f"threads2.{number}"], rounds[f"threads2.{number + 1}"]

    ahead = forecast(recorded)

    assert (ahead.end, [each.trigger for each in ahead.rebalances]) == (
        End.STABLE,
        [ForecastTrigger.RECORDED, ForecastTrigger.FOLLOW_UP],
    )
    assert dict(ahead.owners) == placed(next_one)


def test_should_count_down_the_probing_rounds_that_kafkas_group_went_through() -> None:
    """wcflow.3 to wcflow.10 are four times a round and its follow-up, a minute apart; then an instance leaves."""
    rounds = recording("wcflow")
    ahead = forecast(rounds["wcflow.3"])

    kafkas = [rounds[f"wcflow.{number}"] for number in range(3, 11)]
    kafkas_ms = [each.now_ms - kafkas[0].now_ms for each in kafkas]
    ours_ms = [each.at_ms for each in ahead.rebalances[:8]]
    assert [abs(ours - theirs) < 5000 for ours, theirs in zip(ours_ms, kafkas_ms, strict=True)] == [True] * 8
    assert ahead.end is End.STABLE
    assert ahead.probing_rounds == 9


@pytest.mark.parametrize("name", ["bridge1", "optimized", "smoke", "static", "threads2", "upgrade", "wcflow"])
def test_should_settle_every_group_that_was_recorded(name: str) -> None:
    for recorded in recording(name).values():
        ahead = forecast(recorded)

        assert (ahead.end, ahead.error) == (End.STABLE, None)
        assert ahead.restored_after_ms is not None


@pytest.mark.parametrize("name", ["optimized", "smoke", "static", "threads2", "upgrade", "wcflow"])
def test_should_ask_for_a_round_again_when_the_leader_created_topics_that_the_group_reads(name: str) -> None:
    """As Kafka's groups did: round 2 of each of these recordings has the members of round 1."""
    rounds = recording(name)
    first, second = rounds[f"{name}.1"], rounds[f"{name}.2"]
    assert first.snapshot.members.keys() == second.snapshot.members.keys()

    ahead = forecast(first)

    assert [(each.trigger, each.moved) for each in ahead.rebalances] == [
        (ForecastTrigger.RECORDED, ()),
        (ForecastTrigger.FOLLOW_UP, ()),
    ]
    assert dict(ahead.owners) == placed(second)


def test_should_not_ask_for_a_round_again_when_the_leader_has_no_consumer() -> None:
    recorded = recording("smoke")["smoke.1"]
    out_of_process = replace(recorded, snapshot=replace(recorded.snapshot, leader_process_id=None))

    assert [each.trigger for each in forecast(out_of_process).rebalances] == [ForecastTrigger.RECORDED]


def test_should_report_closed_state_by_the_thread_that_closed_it() -> None:
    """When b joins, a's second thread gives up 1_1 and 1_3, and tells of them in the follow-up, as Kafka's did."""
    rounds = recording("optimized")
    leader = RebalanceLeader(rounds["optimized.3"], ForecastModel(), None, rounds["optimized.3"])
    decided, members = leader.recorded_rebalance()
    members.hand_out(decided.handed_out, 500)

    sums = members.offset_sums(500)

    ours, kafkas = {}, {}
    for member_id, member in rounds["optimized.4"].snapshot.members.items():
        closed = {TaskId(1, 1), TaskId(1, 3)}.intersection
        info = decode_subscription_info(decode_subscription(member.subscription).user_data or b"")
        ours[member.client_id] = closed(sums[member_id])
        kafkas[member.client_id] = closed(info.task_offset_sums)
    assert ours == kafkas
    assert ours["a-StreamThread-2-consumer"] == {TaskId(1, 1), TaskId(1, 3)}


@pytest.mark.parametrize("as_format", [lambda recorded: recorded, as_placement], ids=["rebalance/1", "placement/1"])
def test_should_not_change_the_past_when_other_standbys_are_asked_for(
    as_format: Callable[[RecordedRebalance], RecordedRebalance | RecordedPlacement],
) -> None:
    recorded = as_format(recording("threads2")["threads2.5"])
    longest_ms = forecast(recorded).unowned_longest_ms
    assert longest_ms > 45_000, "of an instance that was killed"

    for standbys in range(3):
        asked = changed(recorded, Changes(configs={"num.standby.replicas": standbys, "acceptable.recovery.lag": 0}))
        assert forecast(asked, as_recorded=recorded).unowned_longest_ms == longest_ms


@pytest.mark.parametrize("as_format", [lambda recorded: recorded, as_placement], ids=["rebalance/1", "placement/1"])
def test_should_count_the_session_timeout_for_all_tasks_of_an_instance_that_a_what_if_removes(
    as_format: Callable[[RecordedRebalance], RecordedRebalance | RecordedPlacement],
) -> None:
    """Though other disks have closed state besides the standby, as after a task was given up."""
    recorded = as_format(recording("threads2")["threads2.9"])
    ran = run_recorded(recorded)
    problem = ran.recorded.problem if isinstance(ran, RerunPlacement) else ran.result.problem
    removed = next(iter(known(problem).clients.values()))
    asked = changed(recorded, Changes(remove=(str(removed.process_id),)))

    ours, others = (
        forecast(asked, ForecastModel(session_timeout_ms=ms), as_recorded=recorded).unowned_ms for ms in (45_000, 0)
    )

    assert ours - others == 45_000 * len(removed.previous_active)


def test_should_send_what_the_member_sent_when_nothing_is_different() -> None:
    for recorded in recording("threads2").values():
        for member_id, member in recorded_members(recorded.snapshot.members).items():
            before = decode_subscription(recorded.snapshot.members[member_id].subscription)
            info = decode_subscription_info(before.user_data or b"")

            sent = decode_subscription(member.joins(info.task_offset_sums).subscription)

            generation = None if before.generation_id is None else before.generation_id + 1
            assert replace(sent, user_data=None) == replace(before, user_data=None, generation_id=generation)
            assert decode_subscription_info(sent.user_data or b"") == replace(info, unique_field=info.unique_field + 1)


def test_should_wrap_the_unique_field_like_a_byte() -> None:
    members = recorded_members(settled_group(1, 1).snapshot().members)
    member = next(iter(members.values()))

    seen = []
    for _ in range(300):
        sent = decode_subscription(member.joins({}).subscription)
        seen.append(decode_subscription_info(sent.user_data or b"").unique_field)

    assert (seen[0], seen[126], seen[127], seen[299]) == (1, 127, -128, 44)


def test_should_read_the_same_tasks_as_the_whole_assignment_has() -> None:
    for recorded in recording("threads2").values():
        for assignment in known(recorded.output).assignments.values():
            raw = decode_assignment(assignment).user_data or b""
            whole, tasks = decode_assignment_info(raw), decode_assigned_tasks(raw)
            assert tasks == (
                whole.version,
                whole.commonly_supported_version,
                whole.active_tasks,
                tuple(whole.standby_tasks),
            )


def test_should_give_up_what_is_not_in_the_assignment() -> None:
    recorded = recording("threads2")["threads2.7"]
    result = assign(recorded.snapshot, recorded.now_ms)
    owned = {member_id: member.owned for member_id, member in recorded_members(recorded.snapshot.members).items()}

    for member_id, member in recorded_members(recorded.snapshot.members).items():
        _, at_once = member.receives(result.assignments[member_id])
        partitions = decode_assignment(result.assignments[member_id]).partitions
        assert at_once is not set(owned[member_id]).issubset(partitions)
        assert member.owned == partitions


def test_should_spread_what_is_appended_over_the_changelogs_of_a_task() -> None:
    stores = (
        SubtopologyStore("one", "one-changelog"),
        SubtopologyStore("two", None, "topic"),
        SubtopologyStore("three", "x-changelog"),
    )
    snapshot = replace(
        settled_group(1, 2).snapshot(),
        topology=GroupTopology((Subtopology(0, ("topic",), stores=stores),)),
        existing_internal_topics={"one-changelog": TopicMetadata(2), "x-changelog": TopicMetadata(2)},
        changelog_end_offsets={"one-changelog": (10, 20), "x-changelog": (0, 0)},
        committed_offsets={"topic": (7,), "another": (1, None)},
    )
    runs = TaskRuns({})
    runs.starts(T0, 0)

    grown = with_appended(snapshot, ChangelogEnds({T0: 17, T1: 20}, 1, runs), now_ms=5000)

    assert grown.changelog_end_offsets == {"one-changelog": (12, 20), "x-changelog": (1, 0)}
    assert grown.committed_offsets == {"topic": (9, None), "another": (1, None)}


def test_should_keep_the_brokers_of_topics_that_the_first_rebalance_created() -> None:
    """Otherwise a rack-aware strategy could not work in the rebalances that follow."""
    line = recording("racks")["racks.1"]
    created = line.snapshot.created_internal_topics
    assert created

    later = with_created(line.snapshot, assign(line.snapshot, line.now_ms).created_topics)

    assert {topic: later.existing_internal_topics[topic] for topic in created} == created


def test_should_let_the_thread_report_closed_state_that_reported_it_in_the_recording() -> None:
    recorded = recording("optimized")["optimized.4"]
    reported = {
        name: member.info.task_offset_sums for name, member in recorded_members(recorded.snapshot.members).items()
    }

    _, members = RebalanceLeader(recorded, ForecastModel(), None, recorded).recorded_rebalance()

    assert members.closed
    assert all(task in reported[state.reporter] for (_, task), state in members.closed.items())
