"""What counts as the same subscription: for a rebalance, and for a static member that came back."""

from dataclasses import replace

import pytest

from assignor.protocol.assignment_info import TasksOfMember
from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import LATEST_OFFSET, AssignorErrorCode, TaskId
from coordinator_api.group import subscriptions
from tests.coordinator_api.group.member_bytes import MemberState, assigned, assignment, process_named, subscription

TASK, OTHER = TaskId(0, 0), TaskId(0, 1)
STATE = MemberState("p", running=(TASK,), on_disk={OTHER: 7}, unique=1, generation=4, tags={"zone": "a", "rack": "r"})

SAME_INPUT = {
    "unique field": replace(STATE, unique=2),
    "generation": replace(STATE, generation=5),
    "no generation": replace(STATE, generation=None),
    "order of tags": replace(STATE, tags={"rack": "r", "zone": "a"}),
}
SAME_PLACE = {
    "runs nothing yet": replace(STATE, running=()),
    "state further on": replace(STATE, on_disk={OTHER: 8}),
    "state lost": replace(STATE, running=(), on_disk={}),
}
ANOTHER = {"process": replace(STATE, process="q"), "tags": replace(STATE, tags={"zone": "b", "rack": "r"})}


@pytest.mark.parametrize("state", SAME_INPUT.values(), ids=SAME_INPUT)
def test_should_be_the_same_input_when_only_the_unique_field_or_generation_differ(state: MemberState) -> None:
    assert subscriptions.rebalance_input(subscription(state)) == subscriptions.rebalance_input(subscription(STATE))


@pytest.mark.parametrize("state", [*SAME_PLACE.values(), *ANOTHER.values()], ids=[*SAME_PLACE, *ANOTHER])
def test_should_be_another_input_when_anything_else_differs(state: MemberState) -> None:
    assert subscriptions.rebalance_input(subscription(state)) != subscriptions.rebalance_input(subscription(STATE))


@pytest.mark.parametrize("state", [*SAME_INPUT.values(), *SAME_PLACE.values()], ids=[*SAME_INPUT, *SAME_PLACE])
def test_should_be_the_same_static_member_when_it_was_only_started_anew(state: MemberState) -> None:
    assert subscriptions.static_identity(subscription(state)) == subscriptions.static_identity(subscription(STATE))


@pytest.mark.parametrize("state", ANOTHER.values(), ids=ANOTHER)
def test_should_be_another_static_member_when_it_is_in_another_place(state: MemberState) -> None:
    assert subscriptions.static_identity(subscription(state)) != subscriptions.static_identity(subscription(STATE))


@pytest.mark.parametrize(
    "data",
    [b"", b"nonsense", encode_subscription(Subscription(("orders",), b"\x00\x00\x00\x0c\x00\x00\x00\x0c"))],
    ids=["nothing", "nonsense", "a future version"],
)
def test_should_take_bytes_as_they_are_when_they_cannot_be_read(data: bytes) -> None:
    assert (
        subscriptions.rebalance_input(data),
        subscriptions.static_identity(data),
        subscriptions.process_of(data),
        subscriptions.running_tasks(data),
        subscriptions.claims_tasks(data),
    ) == (
        data,
        data,
        None,
        (),
        False,
    )


def test_should_read_what_a_member_holds() -> None:
    data = subscription(STATE)
    assert (
        subscriptions.process_of(data),
        subscriptions.running_tasks(data),
        subscriptions.claims_tasks(data),
        subscriptions.held_generation(data),
    ) == (
        process_named("p"),
        (TASK,),
        True,
        4,
    )
    assert subscriptions.held_generation(subscription(replace(STATE, generation=None))) is None
    assert subscriptions.held_generation(b"") is None


def test_should_read_assigned_tasks_and_find_none_in_anything_else() -> None:
    assert subscriptions.assigned_tasks(assignment((TASK,), (OTHER,))) == TasksOfMember((TASK,), (OTHER,))
    assert subscriptions.assigned_tasks(b"nonsense") == TasksOfMember()


def test_should_give_an_error_without_tasks() -> None:
    info = assigned(subscriptions.error_assignment(AssignorErrorCode.ASSIGNMENT_ERROR))
    assert (info.err_code, info.active_tasks, info.standby_tasks) == (AssignorErrorCode.ASSIGNMENT_ERROR, (), {})


def test_should_let_who_is_away_claim_what_it_was_assigned_and_no_more() -> None:
    moved, kept = TaskId(0, 2), TaskId(0, 3)
    last = subscription(replace(STATE, running=(moved,), on_disk={OTHER: 7, kept: 9}))

    away = subscriptions.subscription_now(last, AssignmentParts(assignment((TASK,), (OTHER,))), {})

    info = subscriptions.subscription_info(away)
    assert info is not None
    assert info.task_offset_sums == {TASK: LATEST_OFFSET, OTHER: 7}
    assert subscriptions.static_identity(away) == subscriptions.static_identity(last)
    assert subscriptions.claims_tasks(away)


def test_should_leave_a_subscription_as_it_is_that_nothing_can_be_read_of() -> None:
    last = subscription(STATE)

    assert subscriptions.subscription_now(b"", AssignmentParts(assignment((TASK,), ())), {}) == b""
    assert subscriptions.subscription_now(last, None, {}) == last
    assert subscriptions.subscription_now(last, AssignmentParts(b"x"), {}) == last
