"""The whole rebalance: control flow, error assignments, and what must not change a byte."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError, StreamsError
from assignor.java.hash_codes import process_hash
from assignor.java.order import hash_set_order
from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member, RebalanceSnapshot
from assignor.recording import parse_rebalance
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.topology.cluster import TopicMetadata
from assignor.topology.group_topology import GroupTopology, RepartitionTopic, Subtopology, SubtopologyStore
from assignor.types import (
    JAVA_LONG_MAX,
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    AssignorErrorCode,
    ProcessId,
    TaskId,
    TopicPartition,
)
from tests.checkout import ROOT
from tests.group_model import LOG_END, NOW_MS, decode, member, process_id, topology_of
from tests.recorded import REBALANCES, documents

A, B = process_id(1), process_id(2)
TASK = TaskId(0, 0)


def snapshot_of(
    members: dict[str, Member], stateful: list[int] | None = None, assignor: str = "HighAvailabilityTaskAssignor"
) -> RebalanceSnapshot:
    """The changelogs are there and have LOG_END records each."""
    counts = [2] if stateful is None else stateful
    topology, cluster = topology_of(counts)
    changelogs = {f"app-store-{number}-changelog": count for number, count in enumerate(counts)}
    return RebalanceSnapshot(
        assignor=assignor,
        configs=AssignmentConfigs(),
        application_id="app",
        topology=topology,
        cluster=cluster,
        members=members,
        existing_internal_topics={name: TopicMetadata(count) for name, count in changelogs.items()},
        changelog_end_offsets={name: (LOG_END,) * count for name, count in changelogs.items()},
        leader_process_id=A,
    )


def test_should_refuse_a_group_without_members() -> None:
    with pytest.raises(InputError, match="at least one member"):
        assign(snapshot_of({}), NOW_MS)


class Recorder:
    """A user's own assignor: everything on the first client, and it keeps what it was asked."""

    def __init__(self, name: str = "Recorder") -> None:
        self.name = name
        self.asked: list[PlacementProblem] = []

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        self.asked.append(problem)
        first = min(problem.clients)
        return Placement(
            False,
            {
                each: ClientPlacement(frozenset(problem.tasks if each == first else ()), frozenset())
                for each in problem.clients
            },
        )


def test_should_ask_a_users_own_assignor_with_everything_it_needs() -> None:
    recorder = Recorder()
    members = {
        "a": member(A, owned=[TopicPartition("topic-0", 0)], offset_sums={TASK: LATEST_OFFSET}, tags={"zone": "z"}),
        "b": member(B, offset_sums={TASK: 40}, rack="r"),
    }
    result = assign(snapshot_of(members, assignor="my:Own"), NOW_MS, recorder)
    (problem,) = recorder.asked
    assert set(problem.tasks) == set(problem.stateful_tasks) == {TASK, TaskId(0, 1)}
    a, b = problem.clients[A], problem.clients[B]
    assert (a.consumers, a.capacity, a.rack, b.rack) == (("a",), 1, None, "r")
    assert (a.previous_active, b.previous_standby) == (frozenset([TASK]), frozenset([TASK]))
    assert a.tags == {"zone": "z"}
    assert [b.lags.lag_for(task) for task in sorted(problem.tasks)] == [LOG_END - 40, LOG_END]
    assert set(decode(result.assignments["a"])[1].active_tasks) == {TASK, TaskId(0, 1)}
    assert result.problem == problem


def test_should_never_load_a_class_that_only_the_snapshot_names() -> None:
    with pytest.raises(InputError, match="must pass an instance"):
        assign(snapshot_of({"a": member(A)}, assignor="tests.assignor.test_pipeline:Recorder"), NOW_MS)


def test_should_check_what_a_users_own_assignor_returned() -> None:
    class Forgetful(Recorder):
        def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
            return Placement(False, {each: ClientPlacement(frozenset(), frozenset()) for each in problem.clients})

    result = assign(snapshot_of({"a": member(A)}), NOW_MS, Forgetful())
    assert isinstance(result.error, StreamsError)
    assert "0_0" in str(result.error)


def test_should_fall_back_to_previous_owners_when_lags_are_not_known() -> None:
    members = {"a": member(A), "b": member(B, owned=[TopicPartition("topic-0", 0), TopicPartition("topic-0", 1)])}
    snapshot = replace(snapshot_of(members), changelog_end_offsets=None)
    result = assign(snapshot, NOW_MS)
    assert result.placement is not None
    assert result.placement.clients[B].active == {TASK, TaskId(0, 1)}
    assert result.placement.probing_rebalance_needed
    assert result.problem is not None
    assert result.problem.clients[A].lags.lag_for(TASK) == UNKNOWN_OFFSET_SUM

    recorder = Recorder()
    assign(snapshot, NOW_MS, recorder)
    assert recorder.asked == []


def test_should_not_fall_back_from_legacy_sticky_when_lags_are_not_known() -> None:
    sticky = Recorder("LegacyStickyTaskAssignor")
    assign(replace(snapshot_of({"a": member(A)}), changelog_end_offsets=None), NOW_MS, sticky)
    assert len(sticky.asked) == 1


HASH_SEED_PROGRAM = """
import hashlib, json, sys
from dataclasses import replace
from assignor.explain import explain_rebalance
from assignor.configs.pins import Pin, TaskPattern
from assignor.pipeline import assign
from assignor.recording import parse_recorded_rebalance, rebalance_output
from assignor.task_assignors.minimal.movement import MinimalMovementTaskAssignor
pins = (Pin((TaskPattern(0, None),), tags=(("zone", "a"),)), Pin((TaskPattern(1, None),), apart="cluster"))
digest = hashlib.sha256()
for line in sys.stdin:
    recorded = parse_recorded_rebalance(json.loads(line))
    configs = replace(recorded.snapshot.configs, minimal_movement_pins=pins)
    snapshot = replace(recorded.snapshot, configs=configs)
    for assignor in (None, MinimalMovementTaskAssignor()):
        result = assign(snapshot, recorded.now_ms, assignor)
        digest.update(json.dumps(rebalance_output(result)).encode())
        digest.update("".join(each.text for each in explain_rebalance(result)).encode())
print(digest.hexdigest())
"""


def test_should_not_let_pythons_hash_seed_change_a_byte_or_a_word() -> None:
    lines = "\n".join(json.dumps(line) for line in documents(REBALANCES)[::8])

    def digest(seed: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", HASH_SEED_PROGRAM],
            input=lines,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        return ran.stdout.strip()

    (same,) = {digest(seed) for seed in ("0", "4242")}
    assert len(same) == len(hashlib.sha256().hexdigest())


def test_should_answer_in_the_order_in_which_members_came() -> None:
    snapshot = parse_rebalance(documents(REBALANCES)[0])
    members = dict(reversed(list(snapshot.members.items())))
    assert list(assign(replace(snapshot, members=members), NOW_MS).assignments) == list(members)


@pytest.mark.parametrize(
    ("interval_ms", "told_ms", "kept_ms"),
    [
        (600_000, NOW_MS + 600_000, NOW_MS + 600_000),
        (JAVA_LONG_MAX - NOW_MS, JAVA_LONG_MAX, JAVA_LONG_MAX - 1),
        (JAVA_LONG_MAX, NOW_MS - 2**63 - 1, JAVA_LONG_MAX - 1),
    ],
)
def test_should_wrap_a_probing_deadline_as_java_does_unless_the_leader_keeps_it_itself(
    interval_ms: int, told_ms: int, kept_ms: int
) -> None:
    members = {"a": member(A), "b": member(B, owned=[TopicPartition("topic-0", 0), TopicPartition("topic-0", 1)])}
    configs = AssignmentConfigs(probing_rebalance_interval_ms=interval_ms)
    snapshot = replace(snapshot_of(members), changelog_end_offsets=None, configs=configs)
    inside, outside = assign(snapshot, NOW_MS), assign(replace(snapshot, leader_process_id=None), NOW_MS)
    assert decode(inside.assignments["a"])[1].next_rebalance_ms == told_ms
    assert inside.probing_rebalance_at_ms == (told_ms if 0 < told_ms < JAVA_LONG_MAX else None)
    assert decode(outside.assignments["a"])[1].next_rebalance_ms == JAVA_LONG_MAX
    assert outside.probing_rebalance_at_ms == kept_ms


def test_should_fill_a_second_hash_map_of_processes_in_the_order_of_the_first() -> None:
    """With more than eight process ids in one bucket the two maps are walked in different orders."""
    ids = [ProcessId(number << 32, 0) for number in range(0, 64 * 1024, 1024)]
    members = {f"member-{number}": member(process) for number, process in enumerate(ids)}
    result = assign(snapshot_of(members), NOW_MS)
    assert result.problem is not None
    first = hash_set_order(
        dict.fromkeys(ids[int(each.partition("-")[2])] for each in hash_set_order(members)), process_hash
    )
    second = hash_set_order(first, process_hash)
    assert list(result.problem.clients) == second
    assert first != second


def test_should_not_create_a_changelog_that_is_a_repartition_topic_of_this_round() -> None:
    topology = GroupTopology(
        (
            Subtopology(
                0,
                ("topic-0",),
                sink_topics=("app-r",),
                repartition_sink_topics=("app-r",),
                stores=(SubtopologyStore("s", "app-r"),),
            ),
            Subtopology(1, ("app-r",), (RepartitionTopic("app-r"),)),
        )
    )
    snapshot = replace(snapshot_of({"a": member(A)}), topology=topology, existing_internal_topics={})
    result = assign(snapshot, NOW_MS)
    assert result.error is None
    assert [topic.configs["cleanup.policy"] for topic in result.created_topics.values()] == ["delete"]


@pytest.mark.parametrize(
    ("length", "code"), [(65_535, AssignorErrorCode.NONE), (65_536, AssignorErrorCode.ASSIGNMENT_ERROR)]
)
def test_should_answer_every_member_with_an_error_when_an_endpoint_does_not_fit(
    length: int, code: AssignorErrorCode
) -> None:
    """As Kafka does, whose `writeUTF` throws."""
    result = assign(snapshot_of({"a": member(A, endpoint=f"{'h' * length}:9"), "b": member(B)}), NOW_MS)

    assert result.error is None
    assert result.error_code is code
    assert {decode(result.assignments[name])[1].err_code for name in ("a", "b")} == {code}
