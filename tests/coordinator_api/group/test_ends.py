"""The ends of instances that a group remembers. `RecordedGroup` checks that replay and snapshot lead to this state."""

from dataclasses import replace

import pytest

from coordinator_api.group.events import Event, Join, Leave, SetLever, Tick
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.image import KEPT_ENDS, InstanceEnd, MemberFailure
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.record_codec import decode_record
from coordinator_api.group.records import EndsRestored, MemberRemoved
from coordinator_api.group.snapshot import log_after_a_loss, snapshot_records
from coordinator_api.group.states import RemovalReason
from tests.coordinator_api.group.declarations import declared
from tests.coordinator_api.group.member_bytes import (
    SESSION_MS,
    MemberState,
    assignment,
    decided,
    process_named,
    subscription,
)
from tests.coordinator_api.group.recorded_group import RecordedGroup

FAILURE = MemberFailure("ValueError", "no amount in 'x'", "orders.py:12, in to_amount", "0_1")
OTHER = replace(FAILURE, message="no amount in 'y'")


def thread(instance: str, number: int) -> Join:
    name = f"{instance}-StreamThread-{number}"
    return Join(subscription(MemberState(instance)), SESSION_MS, 60_000, f"{name}-id", client_id=name)


def running(*joins: Join) -> RecordedGroup:
    recorded = RecordedGroup(GroupLimits(initial_rebalance_delay_ms=0))
    sent: tuple[Event, ...] = (declared("v1"), *joins, Tick())
    for event in sent:
        recorded.send(event)
    return recorded


def leave_at(recorded: RecordedGroup, now_ms: int, join: Join, failure: MemberFailure | None = None) -> None:
    recorded.now_ms = now_ms
    recorded.send(Leave(join.new_member_id, failure=failure))


def end(instance: str, at_ms: int, reason: RemovalReason, failure: MemberFailure | None = None) -> InstanceEnd:
    return InstanceEnd(str(process_named(instance)), instance, at_ms, reason, failure)


def test_should_remember_the_failure_of_an_instance_when_its_other_threads_leave_in_good_order() -> None:
    first, second, stopped = thread("words-1", 1), thread("words-1", 2), thread("words-2", 1)
    recorded = running(first, second, stopped)

    leave_at(recorded, 7, first, FAILURE)
    leave_at(recorded, 8, stopped)
    assert recorded.group.image.ends == (
        end("words-1", 7, RemovalReason.LEFT, FAILURE),
        end("words-2", 8, RemovalReason.LEFT),
    )

    leave_at(recorded, 9, second)
    assert recorded.group.image.ends == (
        end("words-2", 8, RemovalReason.LEFT),
        end("words-1", 9, RemovalReason.LEFT, FAILURE),
    )


def test_should_remember_the_last_failure_of_an_instance() -> None:
    first, second = thread("words-1", 1), thread("words-1", 2)
    recorded = running(first, second)
    leave_at(recorded, 7, first, FAILURE)
    leave_at(recorded, 8, second, OTHER)
    assert recorded.group.image.ends == (end("words-1", 8, RemovalReason.LEFT, OTHER),)


def test_should_forget_the_failure_of_an_instance_that_came_back_and_was_stopped_then() -> None:
    failed = thread("words-1", 1)
    recorded = running(failed, thread("words-2", 1))
    leave_at(recorded, 7, failed, FAILURE)

    again = replace(failed, new_member_id="again")
    recorded.send(again)
    assert successors(recorded) == ["words-1"]

    leave_at(recorded, 9, again)
    assert recorded.group.image.ends == (end("words-1", 9, RemovalReason.LEFT),)


def test_should_remember_an_instance_that_was_lost_without_a_word() -> None:
    recorded = running(thread("words-1", 1))
    recorded.now_ms = SESSION_MS + 1
    recorded.send(Tick())
    assert recorded.group.image.ends == (end("words-1", SESSION_MS + 1, RemovalReason.NO_REQUEST_SINCE_JOIN),)


def test_should_remember_an_instance_when_it_goes_away_and_not_again_when_its_grace_ends() -> None:
    member, other = thread("words-1", 1), thread("words-2", 1)
    recorded = running(member, other)
    assigned = {each.new_member_id: assignment(()) for each in (member, other)}
    recorded.send(recorded.computed(1, decided(assigned)))
    recorded.send(SetLever(LeverName.REJOIN_GRACE, is_on=True, value_ms=1_000))

    leave_at(recorded, 7, member, FAILURE)
    assert member.new_member_id in recorded.group.image.members
    assert recorded.group.image.ends == (end("words-1", 7, RemovalReason.LEFT, FAILURE),)

    leave_at(recorded, 8, other)
    recorded.send(replace(other, new_member_id="back"))
    before = recorded.group.image.ends
    assert successors(recorded) == [None, "words-2"]

    recorded.now_ms = 1_007
    recorded.send(Tick())
    assert member.new_member_id not in recorded.group.image.members
    assert recorded.group.image.ends == before


def test_should_name_the_member_when_its_process_or_its_instance_is_not_known() -> None:
    recorded = running(Join(b"unreadable", SESSION_MS, 60_000, "m1", client_id="c"))
    recorded.send(Leave("m1"))
    assert recorded.group.image.ends == (InstanceEnd("m1", "c", 0, RemovalReason.LEFT),)


@pytest.mark.parametrize(
    ("client_id", "named"), [("a-p0-t1", "a-p0"), ("a-StreamThread-2", "a"), ("a-t1", "a-t1"), (None, None)]
)
def test_should_name_the_instance_and_not_its_thread(client_id: str | None, named: str | None) -> None:
    recorded = running(replace(thread("words-1", 1), client_id=client_id))
    leave_at(recorded, 7, thread("words-1", 1))
    assert [each.client_id for each in recorded.group.image.ends] == [named]


def test_should_remember_the_last_hundred_instances() -> None:
    joins = [thread(f"words-{number}", 1) for number in range(KEPT_ENDS + 2)]
    image = running(*joins).group.image
    for at_ms, each in enumerate(joins):
        image = MemberRemoved(each.new_member_id, RemovalReason.LEFT, at_ms).apply(image)
    assert [each.at_ms for each in image.ends] == list(range(2, KEPT_ENDS + 2))


def test_should_keep_the_ends_when_the_newest_records_are_lost() -> None:
    recorded = running(thread("words-1", 1))
    leave_at(recorded, 7, thread("words-1", 1), FAILURE)
    (restored,) = (
        each for each in map(decode_record, log_after_a_loss(recorded.log)) if isinstance(each, EndsRestored)
    )
    assert restored.ends == recorded.group.image.ends
    assert restored.as_text() == "EndsRestored instances=1"


def test_should_remember_nothing_of_records_that_have_no_time() -> None:
    """Releases that did not remember ends wrote them."""
    image = running(thread("words-1", 1)).group.image
    after = MemberRemoved("words-1-StreamThread-1-id", RemovalReason.LEFT).apply(image)
    assert after.ends == ()
    assert not any(isinstance(each, EndsRestored) for each in snapshot_records(after))


@pytest.mark.parametrize("message", ["", "m" * 1_000])
def test_should_show_the_failure_without_its_text_in_the_history(message: str) -> None:
    removed = MemberRemoved("m1", RemovalReason.LEFT, 7, replace(FAILURE, message=message))
    assert removed.as_text() == (
        "MemberRemoved member_id=m1 reason=left at_ms=7 error=ValueError place=orders.py:12, in to_amount task=0_1"
    )


def test_should_give_the_place_of_an_instance_that_failed_to_the_next_one_that_joins() -> None:
    stopped, failed, lost, stays = (thread(f"words-{number}", 1) for number in range(4))
    recorded = running(stopped, failed, lost, stays)
    leave_at(recorded, 7, stopped)
    leave_at(recorded, 8, failed, FAILURE)
    leave_at(recorded, 9, lost, OTHER)

    for join in (thread("words-9", 1), thread("words-9", 2)):
        recorded.send(join)
    assert successors(recorded) == [None, "words-9", None]

    recorded.send(thread("words-10", 1))
    assert successors(recorded) == [None, "words-9", "words-10"]


def test_should_give_an_instance_that_comes_back_its_own_place() -> None:
    failed, back, stays = thread("words-1", 1), thread("words-2", 1), thread("words-3", 1)
    recorded = running(failed, back, stays)
    leave_at(recorded, 7, failed, FAILURE)
    leave_at(recorded, 8, back)
    recorded.send(thread("words-2", 2))
    assert successors(recorded) == [None, "words-2"]

    leave_at(recorded, 9, thread("words-2", 2), OTHER)
    assert successors(recorded) == [None, None]


def successors(recorded: RecordedGroup) -> list[str | None]:
    names = {str(process_named(f"words-{number}")): f"words-{number}" for number in range(11)}
    return [None if each.replaced_by is None else names[each.replaced_by] for each in recorded.group.image.ends]
