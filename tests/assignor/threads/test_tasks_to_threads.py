"""Tasks to the threads of one process."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.decisions import DecisionKind
from assignor.errors import TaskAssignmentError
from assignor.threads.tasks_to_threads import ThreadDecisions, ThreadTasks, assign_tasks_to_threads
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


def test_should_leave_everybody_as_they_are_when_there_are_no_tasks() -> None:
    load = {"a": 2}
    assert assign([], {"a": tasks(1)}, ["a", "b"], load) == {"a": [], "b": []}
    assert {consumer: count for consumer, count in load.items() if count} == {"a": 2}


def test_should_keep_tasks_with_their_previous_owner_up_to_the_fair_share() -> None:
    previous = {"a": tasks(3, 2, 1, 0), "b": []}
    assert assign(tasks(0, 1, 2, 3), previous, ["a", "b"]) == {"a": tasks(3, 2), "b": tasks(0, 1)}


def test_should_give_the_one_task_more_to_its_previous_owner() -> None:
    previous = {"a": tasks(0), "b": tasks(1, 2)}
    assert assign(tasks(0, 1, 2), previous, ["a", "b"]) == {"a": tasks(0), "b": tasks(1, 2)}


def test_should_count_what_the_threads_have_already() -> None:
    load = {"a": 3, "b": 1}
    assert assign(tasks(7, 8), {}, ["a", "b"], load) == {"a": [], "b": tasks(7, 8)}
    assert load == {"a": 3, "b": 3}


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


class PlainQueue:
    """`java.util.PriorityQueue` in its simplest form, one array and nothing else, to compare with."""

    def __init__(self, items: Sequence[TaskId]) -> None:
        self.array = list(items)
        for place in reversed(range(len(self.array) // 2)):
            self.down(place)

    def down(self, place: int) -> None:
        while 2 * place + 1 < len(self.array):
            children = [child for child in (2 * place + 1, 2 * place + 2) if child < len(self.array)]
            smallest = min(children, key=lambda child: self.array[child])
            if self.array[place] <= self.array[smallest]:
                return
            self.array[place], self.array[smallest] = self.array[smallest], self.array[place]
            place = smallest

    def up(self, place: int) -> None:
        while place and self.array[place] < self.array[(place - 1) // 2]:
            parent = (place - 1) // 2
            self.array[place], self.array[parent] = self.array[parent], self.array[place]
            place = parent

    def remove_at(self, place: int) -> TaskId:
        removed = self.array[place]
        last = self.array.pop()
        if place < len(self.array):
            self.array[place] = last
            self.down(place)
            if self.array[place] == last:
                self.up(place)
        return removed


def plainly(
    to_assign: Sequence[TaskId], previous: dict[str, list[TaskId]], consumers: Sequence[str], load: dict[str, int]
) -> ThreadTasks:
    """The rule read off Kafka's, one pass after the other, without any regard for time."""
    queue = PlainQueue(to_assign)
    assigned: ThreadTasks = {consumer: [] for consumer in consumers}
    if not to_assign:
        return assigned
    share = (len(to_assign) + sum(load.values())) // len(consumers)
    skipped: dict[TaskId, str] = {}
    for consumer in consumers:
        for task in previous.get(consumer, []):
            if task in queue.array and len(assigned[consumer]) < share - load.get(consumer, 0):
                assigned[consumer].append(queue.remove_at(queue.array.index(task)))
            elif task in queue.array:
                skipped[task] = consumer
    below = [consumer for consumer in consumers if len(assigned[consumer]) < share - load.get(consumer, 0)]
    while below:
        consumer = below.pop(0)
        assigned[consumer].append(queue.remove_at(0))
        if len(assigned[consumer]) + load.get(consumer, 0) < share:
            below.append(consumer)
    at_share = [consumer for consumer in consumers if len(assigned[consumer]) + load.get(consumer, 0) == share]
    for task in sorted(skipped):
        if queue.array and skipped[task] in at_share and task in queue.array:
            assigned[skipped[task]].append(queue.remove_at(queue.array.index(task)))
            at_share.remove(skipped[task])
    for task in queue.array:
        assigned[at_share.pop(0)].append(task)
    return assigned


@given(st.data())
def test_should_decide_as_the_plain_rule_does_including_the_layout_of_javas_heap(data: st.DataObject) -> None:
    every = [TaskId(subtopology, number) for subtopology in range(3) for number in range(12)]
    consumers = [f"c{number}" for number in range(data.draw(st.integers(1, 7)))]
    ours: dict[str, int] = {}
    plain_load: dict[str, int] = {}
    left = data.draw(st.permutations(every))
    for size in data.draw(st.lists(st.integers(0, 14), min_size=1, max_size=3)):
        to_assign, left = left[:size], left[size:]
        previous = {
            consumer: data.draw(st.lists(st.sampled_from(every), unique=True, max_size=10)) for consumer in consumers
        }
        expected = plainly(to_assign, previous, consumers, plain_load)
        assert assign(to_assign, previous, consumers, ours) == expected
        plain_load = {consumer: plain_load.get(consumer, 0) + len(expected[consumer]) for consumer in consumers}
        loads = [ours.get(consumer, 0) for consumer in consumers]
        assert loads == [plain_load[consumer] for consumer in consumers]
        assert max(loads) - min(loads) <= 1
