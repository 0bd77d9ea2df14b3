"""TaskPairs answers as a plain set of all pairs that ever shared a client would, without keeping it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from assignor.task_assignors.client_queue import Client, ClientQueue, roomiest
from assignor.task_assignors.task_pairs import TaskPairs
from assignor.types import ProcessId, TaskId

CLIENTS = 4
TASKS = [TaskId(0, partition) for partition in range(7)]


def assert_knows(pairs: TaskPairs, held: Sequence[set[TaskId]], known: Collection[frozenset[TaskId]]) -> None:
    """`held`: by client, its tasks. `known`: pairs that were together on a client."""
    for task in TASKS:
        for number, tasks in enumerate(held):
            assert pairs.holds(task, number) == (task in tasks)
            if task not in tasks:
                is_new = any(frozenset((task, mate)) not in known for mate in tasks)
                assert pairs.has_new_pair(task, number) == is_new, (task, number, held)
        assert pairs.holder_count(task) == sum(task in tasks for tasks in held)


@given(st.lists(st.tuples(st.sampled_from(TASKS), st.integers(0, CLIENTS - 1)), max_size=30, unique=True))
def test_should_know_the_pairs_that_a_set_of_pairs_knows(given_out: list[tuple[TaskId, int]]) -> None:
    pairs = TaskPairs(CLIENTS)
    held: list[set[TaskId]] = [set() for _ in range(CLIENTS)]
    for task, client in given_out:
        pairs.add(task, client)
        held[client].add(task)
        known = {frozenset(pair) for tasks in held for pair in combinations(tasks, 2)}
        assert_knows(pairs, held, known)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=8), st.data())
def test_should_find_the_client_that_a_walk_over_all_finds(loads: list[tuple[int, int]], data: st.DataObject) -> None:
    """Loads rise behind the queue's back, as they do while tasks are given out."""
    clients = [Client(number, ProcessId(0, number), capacity) for number, (capacity, _) in enumerate(loads)]
    ranks = data.draw(st.permutations(range(len(clients))))
    queue = ClientQueue(clients, ranks)
    for client, (_, tasks) in zip(clients, loads, strict=True):
        for partition in range(tasks):
            client.assign_active(TaskId(client.number, partition))
        accepted = data.draw(st.sets(st.integers(0, len(clients) - 1)))
        expected = min(
            (other for other in clients if other.number in accepted),
            key=lambda other: (other.room, ranks[other.number]),
            default=None,
        )
        holders = sum(1 << other.number for other in clients if other.number not in accepted)
        assert queue.first_without(holders, prefers=lambda other: True) is expected
        preferred = data.draw(st.sets(st.integers(0, len(clients) - 1)))
        found = queue.first_without(holders, prefers=lambda other, preferred=preferred: other.number in preferred)  # type: ignore[misc]
        assert found is (
            min(
                (other for other in clients if other.number in accepted & preferred),
                key=lambda other: (other.room, ranks[other.number]),
                default=expected,
            )
        )
        assert queue.first() is min(clients, key=lambda other: (other.room, ranks[other.number]))


def test_should_prefer_more_threads_among_equally_loaded_and_none_among_empty_clients() -> None:
    small, large = Client(0, ProcessId(0, 0), 1), Client(1, ProcessId(0, 1), 2)
    assert roomiest([small, large], lambda client: True) is small
    small.assign_active(TaskId(0, 0))
    large.assign_active(TaskId(0, 1))
    large.assign_standby(TaskId(0, 0))
    assert roomiest([small, large], lambda client: True) is large
    assert roomiest([small, large], lambda client: client is small) is small
    assert roomiest([small, large], lambda client: False) is large
    assert roomiest([], lambda client: True) is None


@given(st.data())
def test_should_know_the_pairs_that_are_noted_when_active_tasks_are_swapped_without_a_note(data: st.DataObject) -> None:
    """Only what a task meets when it is given out is noted; a swap by a rack-aware strategy is not."""
    pairs = TaskPairs(CLIENTS)
    held: list[set[TaskId]] = [set() for _ in range(CLIENTS)]
    known: set[frozenset[TaskId]] = set()

    def give(task: TaskId, client: int) -> None:
        known.update(frozenset((task, mate)) for mate in held[client])
        held[client].add(task)
        pairs.add(task, client)

    owners = data.draw(st.lists(st.integers(0, CLIENTS - 1), min_size=len(TASKS), max_size=len(TASKS)))
    for task, client in zip(TASKS, owners, strict=True):
        give(task, client)
    after = data.draw(st.permutations(owners))
    moved = {task: client for task, was, client in zip(TASKS, owners, after, strict=True) if was != client}
    for task, was in zip(TASKS, owners, strict=True):
        held[was].remove(task)
        held[moved.get(task, was)].add(task)
    pairs.swap_active(moved)
    standbys = st.tuples(st.sampled_from(TASKS), st.integers(0, CLIENTS - 1))
    for task, client in data.draw(st.lists(standbys, max_size=12, unique=True)):
        if task not in held[client]:
            give(task, client)
        assert_knows(pairs, held, known)
