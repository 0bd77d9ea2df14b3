"""What scenarios cannot show: whole values, failed commits, warm-ups, errors with their history."""

from dataclasses import replace

import pytest

from assignor.errors import StreamsError
from assignor.pipeline.snapshot import Member, RebalanceResult
from assignor.task_assignors.base import ClientPlacement, Placement
from assignor.types import AssignorErrorCode, Role, TaskId
from coordinator_api.group.description import DescribedTask
from coordinator_api.group.events import Event, FetchAssignment, Heartbeat, Join, Leave, ReportRebalance, Tick
from coordinator_api.group.group import Group
from coordinator_api.group.image import GroupImage, RebalanceCause, RebalanceEnd
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import (
    AssignmentReady,
    AssignmentStored,
    HeartbeatAnswered,
    Outcome,
    Rejected,
    RunRebalance,
)
from coordinator_api.group.records import (
    CoordinatorRecord,
    GroupEmptied,
    IllegalTransition,
    MemberRemoved,
    MemberSubscribed,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator_api.group.reporting import reported_end
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RejectionCode, RemovalReason
from coordinator_api.group.subscriptions import error_assignment
from tests.coordinator_api.group.declarations import declared, definition_text
from tests.coordinator_api.group.member_bytes import MemberState, assignment, decided, process_named, subscription
from tests.coordinator_api.group.recorded_group import RecordedGroup

A, B, C = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)


def join(name: str) -> Join:
    return Join(subscription(MemberState(name)), 10_000, 60_000, new_member_id=name, client_id=f"client-{name}")


def rejoin(name: str, state: MemberState) -> Join:
    return replace(join(name), subscription=subscription(state), member_id=name)


def static_join(name: str, incarnation: int) -> Join:
    return replace(join(name), group_instance_id="i", incarnation=incarnation)


def computing(*names: str) -> tuple[RecordedGroup, Outcome]:
    """A group in its first rebalance."""
    recorded = RecordedGroup(GroupLimits(initial_rebalance_delay_ms=0))
    recorded.send(declared("v1"))
    for name in names:
        recorded.send(join(name))
    return recorded, recorded.send(Tick())


def stable(result: RebalanceResult) -> RecordedGroup:
    recorded, _ = computing(*result.assignments)
    recorded.send(recorded.computed(1, result))
    return recorded


def test_should_ask_for_a_rebalance_with_everything_it_needs() -> None:
    _, outcome = computing("a", "b")
    members = {
        "a": Member(subscription(MemberState("a")), "client-a"),
        "b": Member(subscription(MemberState("b")), "client-b"),
    }
    assert outcome.rebalance == RunRebalance(1, 1, definition_text("v1"), members, RebalanceReason.MEMBER_JOINED)


def test_should_adopt_what_was_worked_out_when_the_event_was_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image of a new assignment for thousands of members takes tens of milliseconds to make."""
    group = Group("g", GroupLimits())
    applied: list[CoordinatorRecord] = []
    original = MemberSubscribed.apply

    def counted(record: MemberSubscribed, image: GroupImage) -> GroupImage:
        applied.append(record)
        return original(record, image)

    monkeypatch.setattr(MemberSubscribed, "apply", counted)
    records = [each for event in (declared("v1"), join("m1")) for each in taken(group, event)]

    assert applied == [record for record in records if isinstance(record, MemberSubscribed)]
    assert group.image == Group.replay("g", GroupLimits(), records, 0).image


def test_should_work_out_again_what_was_decided_before_something_else_came_between() -> None:
    group = Group("g", GroupLimits())
    taken(group, declared("v1"))
    decided = group.handle(join("m1"), 0).records
    taken(group, join("m2"))
    joined = [record for record in decided if isinstance(record, MemberSubscribed)]
    group.apply(joined, 0)

    assert set(group.image.members) == {"m1", "m2"}


def test_should_adopt_nothing_twice() -> None:
    group = Group("g", GroupLimits())
    outcome = group.handle(declared("v1"), 0)
    group.apply(outcome.records, 0)
    once = group.image
    with pytest.raises(IllegalTransition):
        group.apply(outcome.records, 0)  # the first revision a second time

    assert group.image is once


def taken(group: Group, event: Event) -> tuple[CoordinatorRecord, ...]:
    records = group.handle(event, 0).records
    group.apply(records, 0)
    return records


def test_should_leave_everything_as_it_was_when_the_commit_failed() -> None:
    recorded = stable(decided({"a": assignment((A,)), "b": assignment((B,))}))
    for event in (join("c"), Leave("a"), declared("v2"), rejoin("a", MemberState("a", unique=1))):
        assert recorded.decide(event).records
        recorded.group.validate_state()
    assert recorded.ask(Heartbeat("a", 1)) == HeartbeatAnswered(
        GroupState.STABLE, rejoin=False, stop=False, generation_id=1
    )


def test_should_start_the_followup_later_when_its_commit_failed() -> None:
    recorded = stable(decided({"a": assignment((A,))}, followup_rebalance=True))
    assert recorded.decide(FetchAssignment("a", 1)).records
    answer = recorded.ask(Heartbeat("a", 1))
    assert answer == HeartbeatAnswered(GroupState.PREPARING_REBALANCE, rejoin=True, stop=False, generation_id=1)


def test_should_start_the_followup_at_the_next_tick_when_its_commit_failed() -> None:
    recorded = stable(decided({"a": assignment((A,))}, followup_rebalance=True))
    assert recorded.decide(FetchAssignment("a", 1)).records
    recorded.send(Tick())
    assert recorded.group.image.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("before", "outcome"),
    [
        (decided({"a": assignment((A,))}, followup_rebalance=True), RebalanceOutcome.SETTLED),
        (decided({"a": assignment((A, B))}, followup_rebalance=True), RebalanceOutcome.FOLLOW_UP),
        (decided({"a": assignment((A,))}), RebalanceOutcome.FOLLOW_UP),
    ],
    ids=["the same twice", "another decision before", "no follow-up asked for before"],
)
def test_should_be_settled_after_two_equal_followups(before: RebalanceResult, outcome: RebalanceOutcome) -> None:
    recorded = stable(before)
    recorded.send(rejoin("a", MemberState("a", unique=1, generation=1)))
    again = decided({"a": assignment((A,))}, followup_rebalance=True)
    assert recorded.ask(recorded.computed(2, again)) == AssignmentStored(2, outcome)


def test_should_take_the_error_code_that_a_leader_sent_for_the_error_of_the_rebalance() -> None:
    sent = error_assignment(AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA)
    report = ReportRebalance("kafka", 1, "v1", {"a": Member(b"")}, {"a": sent})
    assert reported_end(report) == RebalanceEnd(
        RebalanceOutcome.ERROR, error="INCOMPLETE_SOURCE_TOPIC_METADATA", error_code=1
    )


def test_should_not_hand_out_the_last_assignment_when_the_member_has_rejoined_without_it() -> None:
    """It would run what its new subscription does not claim, and the rebalance may give that to another member."""
    recorded = stable(decided({"a": assignment((A,)), "b": assignment((B,))}))
    recorded.send(rejoin("a", MemberState("a", unique=1)))
    assert not isinstance(recorded.ask(FetchAssignment("a", 0)), AssignmentReady)
    assert isinstance(recorded.ask(FetchAssignment("b", 0)), AssignmentReady)


def test_should_tell_warm_ups_from_standbys_and_how_far_each_copy_is() -> None:
    placement = Placement(
        probing_rebalance_needed=True,
        clients={
            process_named("a"): ClientPlacement(frozenset({A}), frozenset({B, C}), warm_ups=frozenset({C})),
            process_named("b"): ClientPlacement(frozenset({B, C}), frozenset({A})),
        },
    )
    recorded = stable(decided({"a": assignment((A,), (B, C)), "b": assignment((C, B), (A,))}, placement=placement))
    recorded.send(Heartbeat("a", 1, {A: 12, C: 3}))

    first, second = recorded.group.describe().members

    assert first.tasks == (
        DescribedTask(A, Role.ACTIVE, 12),
        DescribedTask(B, Role.STANDBY, None),
        DescribedTask(C, Role.WARM_UP, 3),
    )
    assert [(each.task_id, each.role) for each in second.tasks] == [
        *((B, Role.ACTIVE), (C, Role.ACTIVE)),
        (A, Role.STANDBY),
    ]
    assert recorded.group.reported_offset_sums() == {"a": {A: 12, C: 3}, "b": {}}


def test_should_keep_the_error_of_the_pipeline_as_it_was_thrown() -> None:
    recorded, _ = computing("a")
    outcome = recorded.send(recorded.computed(1, decided({}, error=StreamsError("broken"))))
    (record,) = outcome.records
    assert isinstance(record, RebalanceCompleted)
    assert record.end == RebalanceEnd(RebalanceOutcome.ERROR, error="StreamsException: broken", error_code=3)


def test_should_refuse_a_proposed_member_id_that_is_in_use() -> None:
    recorded, _ = computing("a")
    refused = recorded.ask(join("a"))
    assert isinstance(refused, Rejected)
    assert refused.code is RejectionCode.INVALID_REQUEST


def test_should_remember_only_the_last_fenced_member_ids() -> None:
    recorded = RecordedGroup(GroupLimits(initial_rebalance_delay_ms=0))
    recorded.send(declared("v1"))
    for incarnation in range(12):
        recorded.send(static_join(f"s{incarnation}", incarnation))
    codes = [recorded.ask(Leave(f"s{incarnation}")) for incarnation in range(11)]
    assert [code.code for code in codes if isinstance(code, Rejected)] == (
        [RejectionCode.UNKNOWN_MEMBER_ID] * 3 + [RejectionCode.FENCED_INSTANCE_ID] * 8
    )


def test_should_tell_the_history_when_a_record_does_not_fit() -> None:
    recorded, _ = computing("a")
    with pytest.raises(IllegalTransition) as broken:
        recorded.group.apply((GroupEmptied(2),), 7)
    assert str(broken.value).splitlines() == [
        "group shop: GroupEmptied(generation_id=2) does not fit CompletingRebalance at generation 1",
        "  0 DefinitionChanged revision=1 declared_at_ms=0 -> Empty generation 0",
        "  0 MemberSubscribed member_id=a generation_id=1 -> Empty generation 0",
        "  0 RebalanceStarted reason=member-joined initial=True -> PreparingRebalance generation 0",
        "  0 GenerationStarted generation_id=1 definition_revision=1 -> CompletingRebalance generation 1",
    ]


def test_should_name_members_and_reasons_of_any_length_in_the_history() -> None:
    member_id = f"orders-{'9638c027' * 4}-StreamThread-1-consumer-{'d0bfcb47' * 4}"
    cause = RebalanceCause(RebalanceReason.INSTANCE_DRAINED, f"member {member_id} is drained")
    removed, started = MemberRemoved(member_id, RemovalReason.LEFT), RebalanceStarted(cause, initial=False)
    assert removed.as_text() == f"MemberRemoved member_id={member_id} reason=left"
    assert started.as_text() == f"RebalanceStarted reason=instance-drained detail={cause.detail} initial=False"


def test_should_tell_the_history_when_an_invariant_is_broken() -> None:
    recorded = stable(decided({"a": assignment((A,))}))
    recorded.group.apply((MemberRemoved("a", RemovalReason.LEFT),), 7)
    last = "  7 MemberRemoved member_id=a reason=left"
    with pytest.raises(IllegalTransition, match=rf"a group that is Stable has no members\n(.*\n)*{last}"):
        recorded.group.validate_state()


def test_should_remove_each_of_two_members_that_joined_under_one_join_id() -> None:
    """A first join that names a higher incarnation is no repetition, also without an instance id."""
    group = Group("words", GroupLimits(initial_rebalance_delay_ms=0))
    first = Join(b"first", 1_000, 1_000, "m1", join_id="j")
    sent: list[Event] = [declared("words"), first, replace(first, new_member_id="m2", incarnation=1)]
    for now_ms, event in enumerate(sent):
        group.apply(group.handle(event, now_ms).records, now_ms)
    assert list(group.image.members) == ["m1", "m2"]
    for left in (("m1", "m2"), ("m2", "m1")):
        image = group.image
        for member_id in left:
            image = MemberRemoved(member_id, RemovalReason.LEFT).apply(image)
        assert not image.members
    assert MemberRemoved("m1", RemovalReason.LEFT).apply(group.image).members.with_join_id("j") is not None
    group.apply(group.handle(Tick(), 60_000).records, 60_000)
    assert not group.image.members
