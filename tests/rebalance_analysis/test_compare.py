"""Comparing with a recording: what counts as equal, and that nothing that differs is overlooked."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from assignor.errors import BrokersRefusal, IllegalStateError, StreamsError
from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceResult
from assignor.protocol.assignment_info import AssignmentInfo, encode_assignment_info
from assignor.protocol.assignment_packing import share
from assignor.protocol.consumer_protocol import Assignment, encode_assignment
from assignor.recording import RecordedOutput, parse_recorded_rebalance
from assignor.task_assignors.base import ClientPlacement, Placement
from assignor.types import HostInfo, TaskId
from rebalance_analysis.compare import compare_placement, compare_rebalance
from tests.group_model import decode, process_id
from tests.known import known
from tests.recorded import document


def ran() -> tuple[RebalanceResult, RecordedOutput]:
    recorded = parse_recorded_rebalance(document("recordings/smoke.jsonl.gz", "smoke.4"))
    return assign(recorded.snapshot, recorded.now_ms), known(recorded.output)


def changed(output: RecordedOutput, change: Callable[[AssignmentInfo], AssignmentInfo]) -> RecordedOutput:
    """The same recording with the AssignmentInfo of its first member changed."""
    member_id, raw = next(iter(output.assignments.items()))
    partitions, info = decode(raw)
    user_data = encode_assignment_info(change(info))
    return replace(
        output, assignments={**output.assignments, member_id: encode_assignment(Assignment(partitions, user_data))}
    )


def test_should_take_standby_tasks_and_host_maps_as_sets() -> None:
    result, output = ran()

    def reordered(info: AssignmentInfo) -> AssignmentInfo:
        return replace(
            info,
            standby_tasks={task: parts[::-1] for task, parts in reversed(list(info.standby_tasks.items()))},
            partitions_by_host={host: parts[::-1] for host, parts in reversed(list(info.partitions_by_host.items()))},
        )

    comparison = compare_rebalance(result, changed(output, reordered))
    assert (comparison.equal, comparison.bytes_equal) == (True, False)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("version", lambda info: replace(info, version=10)),
        ("commonly supported version", lambda info: replace(info, commonly_supported_version=10)),
        ("active tasks", lambda info: replace(info, active_tasks=info.active_tasks[::-1])),
        ("standby tasks", lambda info: replace(info, standby_tasks=dict(list(info.standby_tasks.items())[1:]))),
        ("hosts", lambda info: replace(info, partitions_by_host={HostInfo("h", 1): ()})),
        ("standby hosts", lambda info: replace(info, standby_partitions_by_host={})),
        ("error code", lambda info: replace(info, err_code=3)),
        ("next rebalance", lambda info: replace(info, next_rebalance_ms=0)),
    ],
)
def test_should_tell_every_field_that_differs(name: str, change: Callable[[AssignmentInfo], AssignmentInfo]) -> None:
    result, output = ran()
    comparison = compare_rebalance(result, changed(output, change))
    assert [f": {name} is " in difference for difference in comparison.differences] == [True]
    assert not comparison.bytes_equal


def test_should_tell_other_partitions_and_missing_or_unknown_members() -> None:
    result, output = ran()
    first, second = output.assignments
    partitions, info = decode(output.assignments[first])
    shortened = encode_assignment(Assignment(partitions[:-1], encode_assignment_info(info)))
    differences = compare_rebalance(result, replace(output, assignments={first: shortened, "new": b""})).differences
    assert [difference.partition(" is ")[0] for difference in differences] == [
        f"member {first}: partitions",
        "member new: not assigned",
        f"member {second}: assigned, but not in the recording",
    ]


@pytest.mark.parametrize(
    "output",
    [
        {"internal_topics": {"other": 1}},
        {"created_topics": None, "probing_rebalance_at_ms": 5},
        {"followup_rebalance": True},
        {"error": "StreamsException: no"},
    ],
)
def test_should_tell_differences_beside_the_assignments(output: dict[str, object]) -> None:
    result, recorded = ran()
    assert compare_rebalance(result, replace(recorded, **output)).differences  # type: ignore[arg-type]


def test_should_call_errors_equal_by_their_class_and_tell_apart_how_message_and_cause_differ() -> None:
    result, output = ran()
    error = StreamsError("one text", "our own hint")
    error.__cause__ = BrokersRefusal("TimeoutException: late: very")
    failed = replace(result, error=error, assignments=share({}))
    recorded = replace(output, error="StreamsException: one text", assignments=share({}))
    same = replace(recorded, error_cause="TimeoutException: late: very")
    assert (compare_rebalance(failed, same).equal, compare_rebalance(failed, same).error_differences) == (True, ())
    other = compare_rebalance(failed, replace(recorded, error="StreamsException: another text"))
    assert (other.equal, other.is_error) == (True, True)
    assert other.error_differences == (
        "error is StreamsException: one text, recorded is StreamsException: another text",
        "error_cause is TimeoutException: late: very, recorded is None",
    )
    for error_of_another_class in ("TopologyException: one text", None):
        comparison = compare_rebalance(failed, replace(recorded, error=error_of_another_class))
        assert not comparison.equal
        assert comparison.error_differences == ()


def test_should_not_compare_the_name_of_the_thread_that_led() -> None:
    result, output = ran()
    failed = replace(result, error=IllegalStateError("stream-thread [] Topic not found: a"), assignments=share({}))
    recorded = "IllegalStateException: stream-thread [app-1-StreamThread-1] Topic not found: a"
    assert compare_rebalance(failed, replace(output, error=recorded, assignments=share({}))).error_differences == ()


def test_should_tell_created_topics_that_differ() -> None:
    recorded = parse_recorded_rebalance(document("recordings/smoke.jsonl.gz", "smoke.1"))
    assert recorded.output is not None
    result = assign(recorded.snapshot, recorded.now_ms)
    topics = dict(known(recorded.output.created_topics))
    name = next(iter(topics))
    for change in ({"partitions": 99}, {"replication_factor": 9}, {"configs": {"cleanup.policy": "none"}}):
        output = replace(recorded.output, created_topics={**topics, name: replace(topics[name], **change)})
        assert len(compare_rebalance(result, output).differences) == 1
    del topics[name]
    assert compare_rebalance(result, replace(recorded.output, created_topics=topics)).differences == (
        f"created topic {name}: created, but not in the recording",
    )


def test_should_tell_bytes_that_cannot_be_read() -> None:
    result, output = ran()
    member_id = next(iter(output.assignments))
    output = replace(output, assignments={**output.assignments, member_id: b"\0"})
    (difference,) = compare_rebalance(result, output).differences
    assert difference.startswith(f"member {member_id}: ConsumerProtocolAssignment")


def test_should_compare_placements_by_client_and_role() -> None:
    a, b = process_id(1), process_id(2)
    task, other = TaskId(0, 0), TaskId(0, 1)
    placement = Placement(False, {a: ClientPlacement(frozenset([task]), frozenset([other]))})
    assert compare_placement(placement, placement).equal
    changes = {
        "probing_rebalance_needed is": Placement(True, placement.clients),
        f"client {a}: active is [0_0]": Placement(False, {a: ClientPlacement(frozenset(), frozenset([other]))}),
        f"client {a}: standby is [0_1]": Placement(False, {a: ClientPlacement(frozenset([task]), frozenset())}),
        f"client {b}: not placed": Placement(
            False, {**placement.clients, b: ClientPlacement(frozenset(), frozenset())}
        ),
    }
    for text, recorded in changes.items():
        (difference,) = compare_placement(placement, recorded).differences
        assert difference.startswith(text)
