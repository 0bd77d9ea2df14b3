"""A line says what the bytes of the record say, for every rebalance of the real groups that were recorded before."""

from dataclasses import replace

import pytest

from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.protocol.group_metadata import GroupMetadataValue, MemberMetadata
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from kafka_groups.leader.led_rebalance import own_assignment, own_subscription
from kafka_groups.recorder.generations import GroupGenerations
from kafka_groups.recorder.rebalance_line import (
    DecodedRebalance,
    LineComparison,
    decoded_rebalance,
    interrupted_documents,
    recorded_document,
    recorded_output,
    snapshot_of,
)
from rebalance_analysis.rerun import RerunRebalance, run
from tests.kafka_groups.recorder.group_records import record, value_of
from tests.known import known
from tests.recorded import RECORDINGS, documents

SMOKE = documents("recordings/smoke.jsonl.gz")
LINES = [
    pytest.param(document, id=document["id"])
    for name in RECORDINGS
    for document in documents(name)
    if "led_by" not in document
]


def decoded(group: str, value: GroupMetadataValue, at_ms: int = 0) -> DecodedRebalance:
    rebalance = known(GroupGenerations(group).take(record(group, 12, value, at_ms)))
    return decoded_rebalance(rebalance)


@pytest.mark.parametrize("document", LINES)
def test_should_write_what_was_recorded(document: dict[str, object]) -> None:
    recorded = parse_recorded_rebalance(document)
    output = known(recorded.output)
    of_record = decoded(recorded.group_id, value_of(document), recorded.now_ms)
    snapshot = snapshot_of(of_record, recorded.snapshot)
    assert snapshot.members == recorded.snapshot.members
    assert list(snapshot.members) == list(recorded.snapshot.members)
    assert snapshot.leader_process_id == recorded.snapshot.leader_process_id
    now_ms = of_record.now_ms(snapshot.configs)
    line = recorded_document(
        of_record, recorded.snapshot, recorded_output(of_record, output.internal_topics, None), now_ms, "a note"
    )
    written = parse_recorded_rebalance(line)
    assert written.id == f"{recorded.group_id}.{recorded.generation_id}@3:12"
    assert written.generation_id == recorded.generation_id
    assert (written.source, written.led_by, written.note) == ("kafka", None, "a note")
    assert written.output == replace(output, created_topics=None)
    assert known(run(line).comparison()).differences == ()


def test_should_write_a_line_for_each_generation_that_never_got_an_assignment() -> None:
    document = documents("recordings/static.jsonl.gz")[0]
    recorded = parse_recorded_rebalance(document)
    generations = GroupGenerations("g")
    value = value_of(document, 1)
    assert generations.take(record("g", 1, value)) is not None
    members = tuple(replace(each, member_id=f"{each.member_id}-back") for each in value.members)
    rebalance = known(generations.take(record("g", 2, replace(value, generation=4, members=members))))
    of_record = decoded_rebalance(rebalance)
    snapshot = snapshot_of(of_record, recorded.snapshot)
    line = recorded_document(of_record, snapshot, recorded_output(of_record, {}, None), 5, "a note")
    ran = [run(each) for each in interrupted_documents(rebalance, line)]
    lines = [each.recorded for each in ran if isinstance(each, RerunRebalance) and each.comparison() is None]
    assert [(each.id, each.generation_id, each.interrupted) for each in lines] == [
        ("g.2@3:2-interrupted", 2, True),
        ("g.3@3:2-interrupted", 3, True),
    ]
    assert lines[0].note == (
        f"this generation never got an assignment: {value.leader}, which led generation 1, is gone; the input is that "
        "of generation 4, which came next"
    )


def test_should_take_the_time_from_the_probing_deadline_that_the_leader_added_up() -> None:
    document, recorded = _with_deadline()
    later = decoded("g", value_of(document), recorded.now_ms + 777)
    configs = recorded.snapshot.configs
    assert later.probing_rebalance_at_ms == known(recorded.output).probing_rebalance_at_ms
    assert later.now_ms(configs) + configs.probing_rebalance_interval_ms == later.probing_rebalance_at_ms


def test_should_leave_out_a_leader_of_our_own_and_say_so() -> None:
    value = value_of(documents("recordings/static.jsonl.gz")[0])
    own = MemberMetadata(
        member_id="lead-1",
        client_id="lead",
        client_host="/127.0.0.1",
        session_timeout_ms=45_000,
        subscription=own_subscription("g", "g-assignor-leader", ("lines",), 11),
        assignment=own_assignment(11),
        group_instance_id="g-assignor-leader",
    )
    led = GroupMetadataValue("consumer", 9, "stream", "lead-1", (own, *value.members))
    of_record = decoded("g", led)
    assert of_record.members == value.members
    assert (of_record.led_by, of_record.leader_process_id) == ("assignor", None)


def test_should_keep_a_member_of_our_own_that_a_jvm_member_led() -> None:
    value = value_of(documents("recordings/static.jsonl.gz")[0])
    own = MemberMetadata("lead-1", "lead", "/", 1, own_subscription("g", "g-x", ("lines",), 11), own_assignment(11))
    of_record = decoded("g", GroupMetadataValue("consumer", 9, "stream", value.leader, (own, *value.members)))
    assert (len(of_record.members), of_record.led_by) == (len(value.members) + 1, None)


def test_should_say_that_an_old_leader_is_not_4_3_1() -> None:
    value = value_of(documents("recordings/static.jsonl.gz")[0])
    old = encode_subscription_info(SubscriptionInfo(8, latest_supported_version=8))
    leader = next(member for member in value.members if member.member_id == value.leader)
    members = (replace(leader, subscription=encode_subscription(Subscription(("lines",), old))),)
    assert decoded("g", replace(value, members=members)).led_by == "a Kafka Streams of subscription version 8"


def test_should_say_what_moves_and_because_of_what() -> None:
    comparison = LineComparison()
    assert [comparison.compare_with_last(line).text() for line in SMOKE] == [
        "12 active tasks",
        "no task moves; because the leader saw smoke-by-word-repartition appear, which the rebalance before created",
        "6 tasks move; because b joined with 1 thread",
        "no task moves; because follow-up: 0_1, 0_3, 1_1, 1_3 and 2 more waited to be given up",
    ]


def test_should_count_the_tasks_of_an_instance_that_is_gone() -> None:
    comparison = LineComparison()
    texts = [comparison.compare_with_last(line).text() for line in documents("recordings/optimized.jsonl.gz")]

    assert texts[-1] == "6 tasks move; because a is gone with 2 threads"


def test_should_say_nothing_of_a_line_that_cannot_be_run_again() -> None:
    comparison = LineComparison()
    comparison.compare_with_last(SMOKE[0])
    nobody = {**SMOKE[1], "input": {**SMOKE[1]["input"], "members": {}}}

    assert comparison.compare_with_last(nobody).text() == ""
    assert comparison.compare_with_last(SMOKE[2]).text() == "12 active tasks"


def _with_deadline() -> tuple[dict[str, object], RecordedRebalance]:
    for name in RECORDINGS:
        for document in documents(name):
            recorded = parse_recorded_rebalance(document)
            if recorded.output is not None and recorded.output.probing_rebalance_at_ms and recorded.led_by is None:
                return document, recorded
    raise AssertionError("no recorded rebalance has a probing deadline")
