"""The health of a group: which reasons it has, how they are ordered, and what they tell an operator."""

from dataclasses import replace
from typing import Any

import pytest

from assignor.types import AssignorErrorCode, Role, TaskId
from coordinator_api.group.events import LastJoin, MemberFailure
from coordinator_api.group.group_levers import Lever, LeverName, Levers, OperatorDecision
from coordinator_api.group.health import (
    GroupHealth,
    GroupObservation,
    HealthLevel,
    ObservedCluster,
    ObservedCopy,
    ObservedStore,
    ObservedWarmUp,
    ReasonCode,
    RefusedCalls,
)
from coordinator_api.group.health_rules import (
    BROKEN_AFTER_MS,
    ENDS_COUNT_MS,
    LONG_WARM_UP_MS,
    OWNERLESS_AFTER_MS,
    REFUSALS_COUNT_MS,
    SLOW_REBALANCE_MS,
    WARM_UP_STALLED_MS,
    health_of,
)
from coordinator_api.group.image import (
    ClassicGroupMember,
    ClassicGroupMembers,
    DefinitionOrigin,
    GroupImage,
    HeldRebalance,
    InstanceEnd,
    LastRebalance,
    PackedAssignments,
    RebalanceBasis,
    RebalanceEnd,
)
from coordinator_api.group.notices import GroupNotices, ProcessNotice
from coordinator_api.group.reported_flow import Flow, FlowHistory, FlowPoint
from coordinator_api.group.states import GroupState, RebalanceOutcome, RemovalReason
from streams_runtime.common.notices import NoticeCode

NOW_MS = 1_000_000


def members(*joined: str, late: tuple[str, ...] = (), away: tuple[str, ...] = ()) -> ClassicGroupMembers:
    """`joined`: members that take part in generation 5. `late`: members of generation 4."""
    found = ClassicGroupMembers()
    for member_id in (*joined, *late, *away):
        join = LastJoin(None, None, member_id, 45_000, 300_000, b"", 4 if member_id in late else 5)
        found = found.with_member(ClassicGroupMember(member_id, join, away_until_ms=9 if member_id in away else None))
    return found


def last(end: RebalanceEnd, **basis: Any) -> LastRebalance:
    return LastRebalance(4, None, 1, end, RebalanceBasis(**basis))


STABLE = GroupImage(
    state=GroupState.STABLE,
    generation_id=4,
    members=members("a", "b"),
    last_rebalance=last(RebalanceEnd(RebalanceOutcome.STABLE)),
)
FAILED = RebalanceEnd(
    RebalanceOutcome.ERROR, error="StreamsException: no", error_code=AssignorErrorCode.ASSIGNMENT_ERROR
)
EMPTY = replace(STABLE, state=GroupState.EMPTY, members=ClassicGroupMembers())
RUNNING = ObservedCopy("0_0", Role.ACTIVE, -2, None)


def health(image: GroupImage = STABLE, **seen: Any) -> GroupHealth:
    return health_of(GroupObservation("shop", image, **{"now_ms": NOW_MS, "copies": (RUNNING,), **seen}))


def only(found: GroupHealth) -> tuple[str, str]:
    (reason,) = found.reasons
    return reason.level, reason.code


def test_should_have_no_reasons_when_every_task_runs() -> None:
    assert health() == GroupHealth()
    assert (health().level, health().advice, health().condition) == (HealthLevel.OK, None, None)


@pytest.mark.parametrize(
    ("image", "seen", "level", "code"),
    [
        (replace(STABLE, last_rebalance=last(FAILED)), {}, "broken", "REBALANCE_FAILED"),
        (replace(STABLE, last_rebalance=last(FAILED, missing_topics=("t",))), {}, "broken", "MISSING_SOURCE_TOPICS"),
        (EMPTY, {"copies": ()}, "broken", "NO_INSTANCES"),
        (replace(EMPTY, generation_id=0), {"copies": ()}, "busy", "NO_INSTANCES"),
        (STABLE, {"copies": ()}, "broken", "NO_TASKS"),
        (STABLE, {"copies": None}, "ok", None),
        (STABLE, {"ownerless": 2, "ownerless_since_ms": NOW_MS - OWNERLESS_AFTER_MS}, "broken", "TASKS_WITHOUT_OWNER"),
        (STABLE, {"ownerless": 2, "ownerless_since_ms": NOW_MS - 1_000}, "busy", "TASKS_WITHOUT_OWNER"),
        (STABLE, {"cluster": ObservedCluster("k:1", "k:1 is down", 7)}, "degraded", "CLUSTER_UNREACHABLE"),
        (
            STABLE,
            {"cluster": ObservedCluster("k:1", None, None, "2 and 3 partitions")},
            "degraded",
            "TOPICS_DO_NOT_FIT",
        ),
        (
            replace(STABLE, state=GroupState.COMPLETING_REBALANCE),
            {"cluster": ObservedCluster("k:1", "k:1 is down", 7)},
            "broken",
            "CLUSTER_UNREACHABLE",
        ),
        (replace(STABLE, state=GroupState.COMPLETING_REBALANCE), {}, "busy", "REBALANCING"),
        (replace(STABLE, draining=True), {}, "busy", "DRAINING"),
        (STABLE, {"copies": (ObservedCopy("0_0", Role.ACTIVE, 5, None),)}, "busy", "RESTORING"),
        (STABLE, {"copies": (RUNNING, ObservedCopy("0_0", Role.WARM_UP, 5, None))}, "busy", "WARMING_UP"),
        (STABLE, {"copies": (RUNNING, ObservedCopy("0_0", Role.STANDBY, 10_000, None))}, "ok", None),
        (STABLE, {"copies": (RUNNING, ObservedCopy("0_0", Role.STANDBY, 10_001, 9))}, "busy", "STANDBYS_BEHIND"),
        (STABLE, {"copies": (RUNNING, ObservedCopy("0_0", Role.STANDBY, 10_001, None))}, "degraded", "STANDBYS_BEHIND"),
        (STABLE, {"copies": (RUNNING, ObservedCopy("0_0", Role.STANDBY, None, None))}, "ok", None),
        (STABLE, {"copies": (RUNNING, ObservedCopy("0_0", Role.STANDBY, -3, None))}, "ok", None),
    ],
)
def test_should_have_one_reason_for_one_thing_that_is_wrong(
    image: GroupImage, seen: dict[str, Any], level: str, code: str | None
) -> None:
    found = health(image, **seen)
    assert found.level == level
    assert [reason.code for reason in found.reasons] == ([] if code is None else [code])


def test_should_put_the_worst_level_first_and_then_the_kind_with_more_weight() -> None:
    image = replace(
        STABLE,
        last_rebalance=last(FAILED),
        levers=Levers(pause=Lever(LeverName.PAUSE, OperatorDecision("ada", 7, "a sale"))),
    )
    found = health(
        image, cluster=ObservedCluster("k:1", "k:1 is down", 7), copies=(ObservedCopy("0_0", Role.ACTIVE, 5, 9),)
    )
    assert [reason.code for reason in found.reasons] == [
        *(ReasonCode.REBALANCE_FAILED, ReasonCode.PAUSED, ReasonCode.CLUSTER_UNREACHABLE, ReasonCode.RESTORING),
    ]
    assert found.condition is ReasonCode.REBALANCE_FAILED
    assert found.advice is not None
    assert found.advice.startswith("The last rebalance failed: StreamsException: no. It is tried again when a member")
    assert found.reasons[1].what_to_do == "Nothing is processed until it is resumed: `assignor groups resume shop`."
    assert "because: a sale" in found.reasons[1].text


def test_should_name_the_topic_of_another_number_of_partitions_and_our_commands() -> None:
    error = (
        "StreamsException: Existing internal topic shop-s-changelog has invalid partitions: expected: 4; actual: 2. "
        "Use 'org.apache.kafka.tools.StreamsResetter' tool to clean up invalid topics before processing."
    )
    end = replace(FAILED, error=error)
    (reason,) = health(replace(STABLE, last_rebalance=last(end)), cluster=ObservedCluster("k:1")).reasons
    assert (reason.where, reason.command) == (("shop-s-changelog",), "assignor reset --application-id shop")
    assert reason.text.startswith(
        "The last rebalance failed: its source topics need 4 partitions of the internal topic"
    )
    assert error.rstrip(".") in reason.text
    assert reason.action is not None
    assert "`assignor topics alter shop-s-changelog --partitions 4`" in reason.action
    shrunk = replace(end, error=error.replace("actual: 2", "actual: 8"))
    (reason,) = health(replace(STABLE, last_rebalance=last(shrunk)), cluster=ObservedCluster("k:1")).reasons
    assert "A topic cannot lose partitions." in str(reason.action)
    assert "`assignor topics alter SOURCE_TOPIC --partitions 8`" in str(reason.action)


def test_should_sum_up_the_notices_of_all_instances_by_code() -> None:
    notices = GroupNotices()
    notices.add(
        "p1", [ProcessNotice("RECORDS_DROPPED", "late: 3 at lines 0", 3, 50), ProcessNotice("MADE_UP", "x.", 1, 5)], 60
    )
    notices.add("p2", [ProcessNotice("RECORDS_DROPPED", "late: 4 at lines 1", 4, 70)], 80)
    notices.add("p1", [ProcessNotice("RECORDS_DROPPED", "late: 5 at lines 0", 5, 55)], 90)
    dropped, other = health(notices=notices.newest_first(NOW_MS), instances={"p2": "words-2"}).reasons
    assert (dropped.level, dropped.code, dropped.count) == (HealthLevel.DEGRADED, ReasonCode.RECORDS_DROPPED, 9)
    assert (dropped.since_ms, dropped.last_ms, dropped.where) == (60, 90, ("p1", "words-2"))
    assert dropped.text == (
        "Records were dropped: late: 5 at lines 0 (the newest of 2 instances, which report 9 together)."
    )
    assert (other.code, other.text) == (ReasonCode.OTHER_NOTICE, "An instance reports: x.")


def test_should_mark_the_instances_that_have_ended_since_their_notice() -> None:
    notices = GroupNotices()
    for process, count in (("p1", 3), ("p2", 4)):
        notices.add(process, [ProcessNotice("RECORDS_DROPPED", "late", count, 50)], 60)
    image = replace(STABLE, ends=(InstanceEnd("p1", "words-1", 70, RemovalReason.LEFT),))
    (dropped,) = health(image, notices=notices.newest_first(NOW_MS), instances={"p2": "words-2"}).reasons
    assert (dropped.where, dropped.count) == (("words-2", "words-1 (p1, ended)"), 7)


@pytest.mark.parametrize("code", list(NoticeCode))
def test_should_know_every_notice_that_an_instance_can_send(code: NoticeCode) -> None:
    notices = GroupNotices()
    notices.add("p1", [ProcessNotice(str(code), "x", 1, 5)], 60)
    assert only(health(notices=notices.newest_first(NOW_MS))) == (HealthLevel.DEGRADED, code)


def test_should_tell_which_members_a_slow_rebalance_waits_for() -> None:
    image = replace(STABLE, state=GroupState.PREPARING_REBALANCE, members=members("a", late=("b",)))
    assert only(health(image, rebalancing_since_ms=NOW_MS - 5)) == (HealthLevel.BUSY, ReasonCode.REBALANCING)
    (slow,) = health(image, rebalancing_since_ms=NOW_MS - SLOW_REBALANCE_MS).reasons
    assert (slow.code, slow.where) == (ReasonCode.SLOW_REBALANCE, ("b",))
    assert slow.text == "The rebalance waits for members: 1 of 2 members have rejoined. Not yet: b."


def test_should_tell_for_whom_tasks_are_kept() -> None:
    image = replace(STABLE, members=members("a", away=("b",)))
    (reason,) = health(image, ownerless=1, ownerless_since_ms=NOW_MS - OWNERLESS_AFTER_MS).reasons
    assert reason.text == "One task has no owner: kept for members that are away: b."
    assert (reason.command, reason.where) == ("assignor groups grace shop --off", ("b",))


def test_should_not_repeat_a_failed_rebalance_as_tasks_without_owner() -> None:
    image = replace(STABLE, last_rebalance=last(FAILED))
    found = health(image, ownerless=2, ownerless_since_ms=0)
    assert only(found) == (HealthLevel.BROKEN, ReasonCode.REBALANCE_FAILED)


def test_should_take_an_unmatched_pattern_for_the_cause_when_nothing_is_processed() -> None:
    image = replace(STABLE, last_rebalance=last(RebalanceEnd(RebalanceOutcome.STABLE), missing_topics=("event.*",)))
    assert only(health(image)) == (HealthLevel.DEGRADED, ReasonCode.NO_TOPIC_MATCHES)
    found = health(image, copies=())
    assert [reason.code for reason in found.reasons] == [ReasonCode.NO_TOPIC_MATCHES, ReasonCode.NO_TASKS]
    assert found.level is HealthLevel.BROKEN


def test_should_say_that_a_rebalance_waits_for_approval_since_when() -> None:
    held = HeldRebalance(70, RebalanceEnd(RebalanceOutcome.STABLE), PackedAssignments({}, b""))
    image = replace(STABLE, state=GroupState.COMPLETING_REBALANCE, held=held)
    (reason,) = health(image).reasons
    assert (reason.code, reason.since_ms) == (ReasonCode.HELD_REBALANCE, 70)
    assert reason.command == "assignor groups held shop"


def test_should_know_of_a_leader_elsewhere_what_it_reports() -> None:
    image = replace(EMPTY, led_by="a JVM", reported_at_ms=9)
    assert health(image, copies=()) == GroupHealth()
    failed = replace(image, last_rebalance=last(FAILED))
    (reason,) = health(failed, copies=()).reasons
    assert (reason.level, reason.since_ms, reason.text) == (
        *(HealthLevel.BROKEN, 9, "The last rebalance failed: StreamsException: no."),
    )


def test_should_name_at_most_five_places_in_a_text() -> None:
    topics = tuple(f"t{number}" for number in range(7))
    (reason,) = health(replace(STABLE, last_rebalance=last(FAILED, missing_topics=topics))).reasons
    assert reason.text == "Source topics are missing on the cluster: `t0`, `t1`, `t2`, `t3`, `t4` and 2 more."
    assert reason.where == topics


ORDERS_1 = InstanceEnd(
    "p1",
    "orders-1",
    70,
    RemovalReason.LEFT,
    MemberFailure("ValueError", "no amount", "orders.py:12, in to_amount", "0_1"),
)


def test_should_tell_the_error_of_an_instance_that_failed_and_of_which_instance_it_was() -> None:
    first = replace(ORDERS_1, process_id="p0", client_id="orders-0", at_ms=50, failure=MemberFailure("KeyError"))
    (reason,) = health(replace(STABLE, ends=(ORDERS_1,))).reasons
    assert (reason.level, reason.code, reason.since_ms, reason.count) == ("broken", "INSTANCE_FAILED", 70, 1)
    assert reason.text == "Instance orders-1 failed: ValueError: no amount (orders.py:12, in to_amount, task 0_1)."

    (reason,) = health(replace(STABLE, ends=(first, ORDERS_1))).reasons
    assert reason.text.endswith("task 0_1). It is the newest of 2.")
    assert (reason.where, reason.since_ms, reason.last_ms) == (("orders-1", "orders-0"), 50, 70)
    assert health(replace(STABLE, ends=(first,))).reasons[0].text == "Instance orders-0 failed: KeyError."


def test_should_not_repeat_the_error_of_the_rebalance_that_ended_an_instance() -> None:
    """The third instance joined and failed later, for a reason of its own."""
    why = MemberFailure("AssignmentFailed", "the leader answered ASSIGNMENT_ERROR: StreamsException: no")
    ends = (replace(ORDERS_1, failure=why), replace(ORDERS_1, process_id="p2", client_id="orders-2", failure=why))
    image = replace(EMPTY, ends=ends, last_rebalance=last(FAILED))
    texts = [reason.text for reason in health(image, copies=()).reasons]
    assert texts[1] == "Instance orders-2 ended, because the last rebalance failed. It is the newest of 2."
    later = health(replace(image, ends=(*ends, replace(ORDERS_1, process_id="p3"))), copies=())
    assert later.reasons[1].text.startswith("Instance orders-1 (p3) failed: ValueError: no amount")
    succeeded = health(replace(image, last_rebalance=STABLE.last_rebalance), copies=())
    assert succeeded.reasons[0].text.startswith("Instance orders-2 failed: AssignmentFailed: ")


def test_should_call_instances_and_threads_as_the_pages_do() -> None:
    uuid = "eda0ab31-72f4-43b5-8513-0428feea9ddd"
    ended = replace(ORDERS_1, process_id=uuid, client_id=f"orders-{uuid}")
    (reason,) = health(replace(STABLE, ends=(ended,))).reasons
    assert reason.text.startswith("Instance eda0ab31 failed: ")
    broken = (f"orders-p0-t0-{uuid}", f"orders-{uuid}-StreamThread-1-{uuid}")
    (reason,) = health(disconnected=broken, disconnected_since_ms=0).reasons
    assert reason.where == ("orders-p0-t0", "orders-eda0ab31-StreamThread-1")


def test_should_forget_an_end_when_another_instance_took_its_place_or_after_a_day() -> None:
    assert health(replace(STABLE, ends=(replace(ORDERS_1, replaced_by="p2"),))) == GroupHealth()
    assert health(replace(STABLE, ends=(ORDERS_1,)), now_ms=70 + ENDS_COUNT_MS).level is HealthLevel.BROKEN
    assert health(replace(STABLE, ends=(ORDERS_1,)), now_ms=71 + ENDS_COUNT_MS) == GroupHealth()


@pytest.mark.parametrize(
    "lost", [each for each in RemovalReason if each not in (RemovalReason.LEFT, RemovalReason.GRACE_ENDED)]
)
def test_should_say_that_an_instance_ended_without_a_goodbye_and_what_it_may_have_been(lost: RemovalReason) -> None:
    ends = (InstanceEnd("p1", None, 70, lost),)
    assert only(health(replace(STABLE, ends=ends))) == (HealthLevel.DEGRADED, ReasonCode.INSTANCE_LOST)
    found = health(replace(EMPTY, ends=ends), copies=())
    assert [(reason.level, reason.code) for reason in found.reasons] == [
        (HealthLevel.BROKEN, ReasonCode.INSTANCE_LOST),
        (HealthLevel.BROKEN, ReasonCode.NO_INSTANCES),
    ]
    assert found.reasons[0].text.startswith("Instance p1 ended without a goodbye. ")


def test_should_tell_a_group_that_was_stopped_from_one_that_failed() -> None:
    stopped = health(replace(EMPTY, ends=(replace(ORDERS_1, failure=None),)), copies=())
    assert only(stopped) == (HealthLevel.DEGRADED, ReasonCode.NO_INSTANCES)
    assert stopped.advice == (
        "No instance is left, so nothing is processed: orders-1 was the last, and was stopped. "
        "Start instances to go on."
    )
    failed = health(replace(EMPTY, ends=(ORDERS_1,)), copies=())
    assert [reason.code for reason in failed.reasons] == [ReasonCode.INSTANCE_FAILED, ReasonCode.NO_INSTANCES]


@pytest.mark.parametrize(
    ("failure", "text", "action"),
    [
        (
            MemberFailure("OSError", "[Errno 28] No space left on device: 'x'"),
            "Instance orders-1 failed, because its disk is full: OSError: [Errno 28] No space left on device: 'x'.",
            "Free space on the disk of its state.dir or of the log that it writes, and start it again.",
        ),
        (
            MemberFailure("MemoryError", "the record is orders-0 at offset 7"),
            "Instance orders-1 failed, because its memory ran out: MemoryError: the record is orders-0 at offset 7.",
            "Give it more memory, or fewer threads or smaller caches, and start it again. If it fails at the same "
            "record again, mend the code.",
        ),
        (
            MemberFailure("KeyError", "'amount'; the record is orders-0 at offset 7"),
            "Instance orders-1 failed: KeyError: 'amount'; the record is orders-0 at offset 7.",
            "Mend the code or the record, and start it again: it fails at the same record until then. To go on without "
            "such records, set its exception handler to dead_letter or log_and_continue.",
        ),
        (
            MemberFailure(
                "SerializationError", "schema registry r: schema 7 is not known; the record is o-0 at offset 7"
            ),
            "Instance orders-1 failed: SerializationError: schema registry r: schema 7 is not known; the record is o-0 "
            "at offset 7.",
            "See whether the schema registry is the right one and has the schema. Else mend the code or the record, "
            "and start it again: it fails at the same record until then. To go on without such records, set its "
            "exception handler to dead_letter or log_and_continue.",
        ),
    ],
)
def test_should_name_the_cause_that_an_error_shows(failure: MemberFailure, text: str, action: str) -> None:
    (reason,) = health(replace(STABLE, ends=(replace(ORDERS_1, failure=failure),))).reasons
    assert (reason.text, reason.what_to_do) == (text, action)


def test_should_show_a_store_that_takes_no_changes_as_broken_when_a_rebalance_waits_for_it() -> None:
    full = ObservedStore("its disk is full", 7)
    (reason,) = health(store=full).reasons
    assert (reason.level, reason.code, reason.since_ms) == (HealthLevel.DEGRADED, ReasonCode.STORE_FAILS, 7)
    waiting = replace(STABLE, state=GroupState.COMPLETING_REBALANCE)
    assert health(waiting, store=full).level is HealthLevel.BROKEN


def test_should_show_members_with_broken_connections_that_are_not_removed_yet() -> None:
    broken: dict[str, Any] = {"disconnected": ("a",), "disconnected_since_ms": NOW_MS - BROKEN_AFTER_MS}
    (reason,) = health(**broken).reasons
    assert (reason.level, reason.code, reason.where) == ("degraded", "CONNECTIONS_BROKEN", ("a",))
    assert health(**broken, now_ms=NOW_MS - 1) == GroupHealth()


def test_should_show_an_expired_token_while_it_is_used_and_while_it_explains_a_lost_instance() -> None:
    expired = RefusedCalls("assignor/1.0", "their token shop expired at noon", 3, 60, 80)
    lost = (InstanceEnd("p1", "orders-1", 70, RemovalReason.SESSION_EXPIRED),)
    later_ms = 81 + REFUSALS_COUNT_MS
    assert only(health(refused_tokens=expired, now_ms=90)) == (HealthLevel.DEGRADED, ReasonCode.TOKEN_EXPIRED)
    assert health(refused_tokens=expired, now_ms=later_ms) == GroupHealth()
    found = health(replace(EMPTY, ends=lost), refused_tokens=expired, copies=(), now_ms=later_ms)
    assert [(reason.level, reason.code) for reason in found.reasons] == [
        (HealthLevel.BROKEN, ReasonCode.TOKEN_EXPIRED),
        (HealthLevel.BROKEN, ReasonCode.INSTANCE_LOST),
        (HealthLevel.BROKEN, ReasonCode.NO_INSTANCES),
    ]


def test_should_show_a_refused_application_until_its_definition_is_taken_or_for_ten_minutes() -> None:
    refused = RefusedCalls("assignor/1.0 (ada@host)", "subtopology 0 reads other topics", 2, 60, 80)
    assert only(health(refused_definitions=refused, now_ms=90)) == (HealthLevel.DEGRADED, ReasonCode.OTHER_APPLICATION)
    assert health(refused_definitions=refused, now_ms=81 + REFUSALS_COUNT_MS) == GroupHealth()
    taken = replace(STABLE, origin=DefinitionOrigin("ada", 85))
    assert health(taken, refused_definitions=refused, now_ms=90) == GroupHealth()


def test_should_show_a_warm_up_that_has_read_nothing_since_the_rebalance_or_lasts_very_long() -> None:
    task, now_ms = TaskId(0, 1), 10_000_000
    at_ms = now_ms - WARM_UP_STALLED_MS

    def found(since_ms: int, progress_ms: int | None, rebalanced_at_ms: int = at_ms) -> list[str]:
        warm_up = ObservedWarmUp(task, "b", since_ms, progress_ms)
        reasons = health(warm_ups=(warm_up,), rebalanced_at_ms=rebalanced_at_ms, now_ms=now_ms).reasons
        return [f"{reason.code} {reason.text.partition(':')[0]}" for reason in reasons]

    assert found(at_ms, None) == ["WARM_UP_STALLED Warm-ups make no progress"]
    assert found(at_ms, at_ms) == ["WARM_UP_STALLED Warm-ups make no progress"]
    assert found(at_ms, at_ms + 1) == []
    assert found(at_ms + 1, None, at_ms + 1) == []
    assert found(now_ms - LONG_WARM_UP_MS, at_ms + 1) == ["WARM_UP_STALLED Warm-ups do not end"]


def test_should_count_the_instances_of_each_release() -> None:
    image = replace(STABLE, members=members("a-1-t1", "a-1-t2", "b"))
    (reason,) = health(image, releases={"a-1-t1": "1.1", "a-1-t2": "1.1", "b": "1.0"}, mixed_since_ms=7).reasons
    assert (reason.code, reason.since_ms, reason.where) == (ReasonCode.MIXED_RELEASES, 7, ("b",))
    assert "1.1 on 2, 1.0 on 1" in reason.text


def test_should_wait_for_members_that_are_silent_since_the_coordinator_was_started() -> None:
    (reason,) = health(silent_members=("a",), opened_at_ms=7).reasons
    assert (reason.level, reason.code, reason.since_ms, reason.where) == ("busy", "COORDINATOR_RESTARTED", 7, ("a",))
    assert "1 of 2 members have not sent a request since" in reason.text


def test_should_tell_one_hot_task_from_a_lag_of_all_tasks() -> None:
    flow = FlowHistory(tuple(FlowPoint(10_000 * at, 100 * at, 0, 850.4) for at in range(8)))

    def found(*lags: int) -> tuple[str, tuple[str, ...]]:
        flows = {TaskId(0, number): Flow(lag, 0, 5.0, None) for number, lag in enumerate(lags)}
        (reason,) = health(flow=flow, task_flows=flows).reasons
        return reason.code, reason.where

    assert found(100, 600) == (ReasonCode.HOT_PARTITION, ("0_1",))
    assert found(300, 400) == (ReasonCode.LAG_GROWS, ())
    assert found(700) == (ReasonCode.LAG_GROWS, ()), "there is no other task"


def test_should_say_that_the_input_lag_grows() -> None:
    points = tuple(FlowPoint(10_000 * at, 100 * at, 0, 850.4) for at in range(8))
    (reason,) = health(STABLE, flow=FlowHistory(points)).reasons
    assert (reason.level, reason.code, reason.since_ms, reason.count) == ("degraded", "LAG_GROWS", 0, 700)
    assert reason.text == "The input lag grows: 700 records wait, 860 a second arrive, and 850 a second are processed."
    assert reason.command == "assignor groups lag shop"
    assert health(STABLE, flow=FlowHistory(points[:6])) == GroupHealth()
