"""Tasks to the threads of one process."""

from collections.abc import Collection, Sequence

import pytest

from assignor.errors import TaskAssignmentError
from assignor.pipeline.tasks_to_threads import ThreadDecisions, ThreadTasks, assign_tasks_to_threads
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import TaskId


def tasks(*numbers: int) -> list[TaskId]:
    return [TaskId(0, number) for number in numbers]


def assign(
    to_assign: Sequence[TaskId],
    previous: dict[str, list[TaskId]],
    consumers: Sequence[str],
    load: dict[str, int] | None = None,
) -> ThreadTasks:
    """Of every consumer, also of those that get none."""
    assigned = assign_tasks_to_threads(to_assign, previous, consumers, {} if load is None else load, [])
    assert set(assigned) <= set(consumers)
    return {consumer: assigned.get(consumer, []) for consumer in consumers}


def test_should_take_turns_when_nobody_had_anything() -> None:
    assert assign(tasks(5, 3, 1, 4, 0, 2), {}, ["a", "b"]) == {"a": tasks(0, 2, 4), "b": tasks(1, 3, 5)}


def test_should_ask_for_the_order_of_javas_collection_only_where_it_shows() -> None:
    asked: list[Collection[TaskId]] = []

    def backwards(given: Collection[TaskId]) -> list[TaskId]:
        asked.append(given)
        return sorted(given, reverse=True)

    many = [f"c{number}" for number in range(9)]
    everything_stays = {"c1": tasks(0), "c2": tasks(1), "c3": tasks(2), "c4": tasks(3)}
    assert assign_tasks_to_threads(tasks(0, 1, 2, 3), everything_stays, many, {}, [], backwards) == everything_stays
    assert asked == []
    # the array of Java's queue after 3, 2, 1, 0 were put into it
    rest = assign_tasks_to_threads(tasks(0, 1, 2, 3), {}, many, {}, [], backwards)
    assert rest == {"c0": tasks(0), "c1": tasks(2), "c2": tasks(1), "c3": tasks(3)}
    assert asked == [tasks(0, 1, 2, 3)]


def test_should_say_who_kept_a_task_and_who_had_room() -> None:
    decided: ThreadDecisions = []
    assign_tasks_to_threads(tasks(0, 1, 2), {"a": tasks(2)}, ["a", "b"], {}, decided)
    choices = [(kind, task, by) for kind, of_kind, each in decided for task, by in zip(of_kind, each, strict=True)]
    assert sorted(choices, key=lambda choice: choice[1]) == [
        (DecisionKind.THREAD_BALANCED, TaskId(0, 0), "b"),
        (DecisionKind.THREAD_BALANCED, TaskId(0, 1), "a"),
        (DecisionKind.THREAD_PREVIOUS_OWNER, TaskId(0, 2), "a"),
    ]


def test_should_refuse_loads_so_uneven_that_the_tasks_cannot_fill_them() -> None:
    with pytest.raises(TaskAssignmentError, match="Ran out of unassigned stateful tasks"):
        assign(tasks(0), {}, ["a", "b", "c"], {"a": 9, "b": 0, "c": 0})


def test_should_assign_as_many_tasks_as_a_large_process_has_in_little_time() -> None:
    """Java's remove and contains scan the queue, which is quadratic; 50,000 tasks would take minutes."""
    many = tasks(*range(50_000))
    previous = {f"c{number}": many[-number * 6_000 :] for number in range(1, 9)}
    assignment = assign(many, previous, sorted(previous))
    assert sorted(task for assigned in assignment.values() for task in assigned) == many
    assert {len(assigned) for assigned in assignment.values()} == {6_250}
