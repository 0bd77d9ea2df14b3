"""Since when a task has no owner, told from the records of a real group."""

from dataclasses import replace

import pytest

from assignor.types import AssignorErrorCode, TaskId
from coordinator_api.group.events import Event, Leave, SetLever, Tick
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.records import GroupDeleted, RebalanceCompleted
from coordinator_api.group.states import GroupState
from coordinator_api.runtime.telemetry import OwnerlessTasks, takes_long
from tests.coordinator_api.group.declarations import declared
from tests.coordinator_api.group.member_bytes import SESSION_MS, assignment, decided, join
from tests.coordinator_api.group.recorded_group import RecordedGroup

A, B = TaskId(0, 0), TaskId(0, 1)


class Followed:
    """A group whose members a and b have a task each, and what is said of its tasks."""

    def __init__(self) -> None:
        self.group = RecordedGroup(GroupLimits(initial_rebalance_delay_ms=0))
        self.owners = OwnerlessTasks(self.group.group.image, 0)
        for event in (declared("v1"), join("a"), join("b"), Tick()):
            self.send(event)
        self.complete(a=(A,), b=(B,))

    def send(self, event: Event, at_ms: int | None = None) -> None:
        self.group.now_ms = self.group.now_ms if at_ms is None else at_ms
        for record in self.group.send(event).records:
            self.owners.note(record, self.group.now_ms)

    def complete(self, *, followup: bool = False, **active: tuple[TaskId, ...]) -> None:
        given = {name: assignment(tasks) for name, tasks in active.items()}
        result = decided(given, followup_rebalance=followup)
        self.send(self.group.computed(self.group.group.image.generation_id, result))

    def rejoin(self, name: str, running: TaskId, at_ms: int) -> None:
        self.send(join(name, name, running=(running,), unique=1), at_ms)

    @property
    def since_ms(self) -> dict[TaskId, int]:
        return dict(self.owners.since_ms)


def test_should_say_nothing_of_a_group_whose_members_have_all_tasks() -> None:
    assert Followed().since_ms == {}


def test_should_count_the_tasks_of_a_member_that_left_until_another_one_has_them() -> None:
    followed = Followed()
    followed.send(Leave("b"), at_ms=1_000)
    assert followed.since_ms == {B: 1_000}
    followed.rejoin("a", A, at_ms=1_500)
    assert followed.since_ms == {B: 1_000}
    followed.complete(a=(A, B))
    assert followed.since_ms == {}


def test_should_count_from_the_removal_of_a_member_that_died() -> None:
    followed = Followed()
    followed.send(Tick(), at_ms=SESSION_MS - 1)
    assert followed.since_ms == {}
    followed.send(Tick(), at_ms=SESSION_MS)
    assert followed.since_ms == {A: SESSION_MS, B: SESSION_MS}
    assert followed.group.group.image.state is GroupState.EMPTY


def test_should_count_no_task_of_an_application_that_was_stopped() -> None:
    followed = Followed()
    followed.send(Leave("a"), at_ms=1_000)
    followed.send(Leave("b"), at_ms=2_000)
    assert followed.since_ms == {}


def test_should_count_a_task_that_is_held_back_from_a_followup_on() -> None:
    followed = Followed()
    followed.send(join("c"), at_ms=500)
    followed.rejoin("a", A, at_ms=600)
    followed.rejoin("b", B, at_ms=700)
    followed.complete(followup=True, a=(A,), b=(), c=())
    assert followed.since_ms == {B: 700}


def test_should_count_the_tasks_of_a_member_that_is_away_until_its_grace_is_over_and_they_are_given_on() -> None:
    followed = Followed()
    followed.send(SetLever(LeverName.REJOIN_GRACE, True, "ops", value_ms=60_000))
    followed.send(Leave("b"), at_ms=1_000)
    assert (followed.since_ms, followed.group.group.image.state) == ({B: 1_000}, GroupState.STABLE)
    followed.send(join("b-2"), at_ms=2_000)
    assert followed.since_ms == {B: 1_000}  # another process
    followed.send(Tick(), at_ms=61_000)
    assert "b" not in followed.group.group.image.members
    assert followed.since_ms[B] == 1_000


def test_should_count_a_task_no_more_when_its_process_is_back() -> None:
    followed = Followed()
    followed.send(SetLever(LeverName.REJOIN_GRACE, True, "ops", value_ms=60_000))
    followed.send(Leave("b"), at_ms=1_000)
    followed.send(replace(join("b"), new_member_id="b-again"), at_ms=2_000)
    assert followed.since_ms == {}
    followed.send(Leave("b-again"), at_ms=3_000)
    assert followed.since_ms == {B: 3_000}


def test_should_count_all_tasks_of_a_rebalance_that_failed() -> None:
    followed = Followed()
    followed.send(declared("v2"), at_ms=100)
    followed.rejoin("a", A, at_ms=200)
    followed.rejoin("b", B, at_ms=300)
    nothing = {"a": assignment(()), "b": assignment(())}
    failed = decided(nothing, error_code=AssignorErrorCode.ASSIGNMENT_ERROR)
    followed.send(followed.group.computed(2, failed))
    assert followed.since_ms == {A: 300, B: 300}


def test_should_add_up_the_time_of_each_task_and_never_go_back() -> None:
    followed = Followed()
    followed.owners.passed_ms(0)
    followed.send(Leave("b"), at_ms=1_000)
    assert followed.owners.passed_ms(3_000) == 3_000  # who follows a group asks before it gives the next record
    assert (followed.owners.passed_ms(2_000), followed.owners.passed_ms(3_500)) == (0, 500)


def test_should_forget_a_group_that_was_deleted() -> None:
    followed = Followed()
    followed.send(Leave("b"), at_ms=1_000)
    followed.owners.note(GroupDeleted(), 2_000)
    assert followed.since_ms == {}


def test_should_know_after_a_restart_who_is_away() -> None:
    followed = Followed()
    followed.send(SetLever(LeverName.REJOIN_GRACE, True, "ops", value_ms=60_000))
    followed.send(Leave("b"), at_ms=1_000)
    assert dict(OwnerlessTasks(followed.group.group.image, 5_000).since_ms) == {B: 5_000}


def test_should_keep_tasks_that_are_held_back_when_the_group_is_read_again() -> None:
    followed = Followed()
    stable = followed.group.group.image
    followed.send(join("c"), at_ms=500)
    followed.rejoin("a", A, at_ms=600)
    followed.rejoin("b", B, at_ms=700)
    followed.complete(followup=True, a=(A,), b=(), c=())
    followed.owners.read_again(followed.group.group.image, 900)
    assert followed.since_ms == {B: 700}
    followed.owners.read_again(stable, 900)
    assert followed.since_ms == {}


@pytest.mark.parametrize("followup", [True, False])
def test_should_read_all_assignments_only_when_a_task_may_be_held_back(followup: bool) -> None:
    followed = Followed()
    followed.send(join("c"))
    followed.rejoin("a", A, at_ms=1)
    followed.rejoin("b", B, at_ms=2)
    given = {"a": assignment((A,)), "b": assignment(() if followup else (B,)), "c": assignment(())}
    outcome = followed.group.send(followed.group.computed(2, decided(given, followup_rebalance=followup)))
    completed = [record for record in outcome.records if isinstance(record, RebalanceCompleted)]
    assert [takes_long(record) for record in completed] == [followup]
