"""What counts as the same subscription: for a round, and for a static member that came back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.types import AssignorErrorCode, TaskId
from coordinator_api.group.subscriptions import (
    TasksByRole,
    assigned_tasks,
    claims_tasks,
    error_assignment,
    held_generation,
    process_of,
    rebalance_input,
    running_tasks,
    static_identity,
)
from tests.coordinator_api.group.member_bytes import Told, assigned, assignment, process_named, subscription

TASK, OTHER = TaskId(0, 0), TaskId(0, 1)
TOLD = Told("p", running=(TASK,), state={OTHER: 7}, unique=1, generation=4, tags={"zone": "a", "rack": "r"})

SAME_ROUND = {
    "unique field": replace(TOLD, unique=2),
    "generation": replace(TOLD, generation=5),
    "no generation": replace(TOLD, generation=None),
    "order of tags": replace(TOLD, tags={"rack": "r", "zone": "a"}),
}
SAME_PLACE = {
    "runs nothing yet": replace(TOLD, running=()),
    "state further on": replace(TOLD, state={OTHER: 8}),
    "state lost": replace(TOLD, running=(), state={}),
}
ANOTHER = {"process": replace(TOLD, process="q"), "tags": replace(TOLD, tags={"zone": "b", "rack": "r"})}


@pytest.mark.parametrize("told", SAME_ROUND.values(), ids=SAME_ROUND)
def test_should_be_the_same_input_when_only_the_unique_field_or_generation_differ(told: Told) -> None:
    assert rebalance_input(subscription(told)) == rebalance_input(subscription(TOLD))


@pytest.mark.parametrize("told", [*SAME_PLACE.values(), *ANOTHER.values()], ids=[*SAME_PLACE, *ANOTHER])
def test_should_be_another_input_when_anything_else_differs(told: Told) -> None:
    assert rebalance_input(subscription(told)) != rebalance_input(subscription(TOLD))


@pytest.mark.parametrize("told", [*SAME_ROUND.values(), *SAME_PLACE.values()], ids=[*SAME_ROUND, *SAME_PLACE])
def test_should_be_the_same_static_member_when_it_was_only_started_anew(told: Told) -> None:
    assert static_identity(subscription(told)) == static_identity(subscription(TOLD))


@pytest.mark.parametrize("told", ANOTHER.values(), ids=ANOTHER)
def test_should_be_another_static_member_when_it_is_in_another_place(told: Told) -> None:
    assert static_identity(subscription(told)) != static_identity(subscription(TOLD))


@pytest.mark.parametrize(
    "data",
    [b"", b"nonsense", encode_subscription(Subscription(("orders",), b"\x00\x00\x00\x0c\x00\x00\x00\x0c"))],
    ids=["nothing", "nonsense", "a future version"],
)
def test_should_take_bytes_as_they_are_when_they_cannot_be_read(data: bytes) -> None:
    assert (
        rebalance_input(data),
        static_identity(data),
        process_of(data),
        running_tasks(data),
        claims_tasks(data),
    ) == (
        data,
        data,
        None,
        (),
        False,
    )


def test_should_read_what_a_member_holds() -> None:
    data = subscription(TOLD)
    assert (process_of(data), running_tasks(data), claims_tasks(data), held_generation(data)) == (
        process_named("p"),
        (TASK,),
        True,
        4,
    )
    assert held_generation(subscription(replace(TOLD, generation=None))) is None
    assert held_generation(b"") is None


def test_should_read_assigned_tasks_and_find_none_in_anything_else() -> None:
    assert assigned_tasks(assignment((TASK,), (OTHER,))) == TasksByRole((TASK,), (OTHER,))
    assert assigned_tasks(b"nonsense") == TasksByRole()


def test_should_give_an_error_without_tasks() -> None:
    info = assigned(error_assignment(AssignorErrorCode.ASSIGNMENT_ERROR))
    assert (info.err_code, info.active_tasks, info.standby_tasks) == (AssignorErrorCode.ASSIGNMENT_ERROR, (), {})
