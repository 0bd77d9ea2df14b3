"""Within one process: which of its stream threads runs which task.

Three passes share one load per thread: stateful active, standby, stateless active tasks. In each pass a thread first
keeps what it had, smallest lag first, up to the fair share. Then threads below the fair share take turns with the
tasks in order. The tasks left over go to threads at exactly the fair share, previous owners first. The last tasks come
in the order in which they lie in the array of a `java.util.PriorityQueue`, so that array is kept exactly as Java would
keep it. Source: `StreamsPartitionAssignor.assignTasksToThreads`, KIP-441.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop

from assignor.decisions import DecisionKind
from assignor.errors import TaskAssignmentError
from assignor.types import TaskId

ThreadTasks = dict[str, list[TaskId]]
"""Member id to its tasks, in the order assigned; a member that gets none may be missing."""

Said = list[tuple[DecisionKind, Sequence[TaskId], Sequence[str]]]
"""Choices of one kind each: tasks, each with its consumer."""


def assign_tasks_to_threads(
    tasks: Iterable[TaskId],
    previous_tasks_by_lag: Mapping[str, Sequence[TaskId]],
    consumers: Sequence[str],
    thread_load: dict[str, int],
    said: Said,
) -> ThreadTasks:
    """`tasks`: in the iteration order of the leader's Java collection; in any order for a single consumer.
    `previous_tasks_by_lag`: by consumer, for those that had any, in the order of `consumers`, which are sorted; empty
    for stateless tasks. `thread_load`: tasks by consumer so far; updated here.
    """
    if len(consumers) == 1:
        return {consumers[0]: _all_to_one(tasks, previous_tasks_by_lag, consumers[0], thread_load, said)}
    queue = _TaskQueue(tasks)
    assignment: ThreadTasks = defaultdict(list)
    if queue:
        room = _Room((sum(thread_load.values()) + len(queue)) // len(consumers), thread_load, assignment)
        skipped = _keep_with_previous_owner(queue, assignment, previous_tasks_by_lag, room, said)
        if room.fair_share > 0:
            _fill_in_turns(queue, assignment, consumers, room, said)
        if queue:
            _hand_out_rest(queue, assignment, consumers, skipped, room, said)
    for consumer, assigned in assignment.items():
        thread_load[consumer] = thread_load.get(consumer, 0) + len(assigned)
    return assignment


@dataclass(frozen=True, slots=True)
class _Room:
    """How many tasks a consumer may still get before it has its fair share; below zero when it has more. Most of
    thousands of threads are never looked at.
    """

    fair_share: int
    thread_load: Mapping[str, int]
    assignment: ThreadTasks

    def __call__(self, consumer: str) -> int:
        return self.fair_share - self.thread_load.get(consumer, 0) - len(self.assignment.get(consumer, ()))


def _all_to_one(
    tasks: Iterable[TaskId],
    previous_tasks_by_lag: Mapping[str, Sequence[TaskId]],
    consumer: str,
    thread_load: dict[str, int],
    said: Said,
) -> list[TaskId]:
    """The only thread is always below its fair share: the tasks it had come first, then the others in order."""
    rest, previous = list(tasks), previous_tasks_by_lag.get(consumer, ())
    assigned: list[TaskId] = []
    if rest and previous:
        left = set(rest)
        assigned = list(filter(left.__contains__, previous))
        left.difference_update(assigned)
        rest = [task for task in rest if task in left] if left else []
    rest.sort()
    said.append((DecisionKind.THREAD_PREVIOUS_OWNER, assigned, (consumer,) * len(assigned)))
    said.append((DecisionKind.THREAD_BALANCED, rest, (consumer,) * len(rest)))
    assigned = assigned + rest
    thread_load[consumer] = thread_load.get(consumer, 0) + len(assigned)
    return assigned


def _keep_with_previous_owner(
    queue: _TaskQueue,
    assignment: ThreadTasks,
    previous_tasks_by_lag: Mapping[str, Sequence[TaskId]],
    room: _Room,
    said: Said,
) -> dict[TaskId, str]:
    """Returns the tasks for which their previous owner had no room, with that owner (the last one asked)."""
    skipped: dict[TaskId, str] = {}
    kept: list[TaskId] = []
    keepers: list[str] = []
    rank_of, gone, removed = queue.ranks.get, queue.gone, queue.removed
    for consumer, previous in previous_tasks_by_lag.items():
        left = room(consumer)
        for task in previous:
            rank = rank_of(task)
            if rank is None or gone[rank]:
                continue
            if left <= 0:
                skipped[task] = consumer
                continue
            left -= 1
            gone[rank] = True
            removed.append(rank)
            assignment[consumer].append(task)
            kept.append(task)
            keepers.append(consumer)
    said.append((DecisionKind.THREAD_PREVIOUS_OWNER, kept, keepers))
    return skipped


def _fill_in_turns(
    queue: _TaskQueue, assignment: ThreadTasks, consumers: Sequence[str], room: _Room, said: Said
) -> None:
    to_fill = deque([consumer for consumer in consumers if room(consumer) > 0])
    filled: list[TaskId] = []
    fillers: list[str] = []
    said.append((DecisionKind.THREAD_BALANCED, filled, fillers))
    while to_fill:
        if not queue:
            raise TaskAssignmentError("Ran out of unassigned stateful tasks but some members were not at capacity")
        consumer = to_fill.popleft()
        task = queue.poll()
        assignment[consumer].append(task)
        filled.append(task)
        fillers.append(consumer)
        if room(consumer) > 0:
            to_fill.append(consumer)


def _hand_out_rest(
    queue: _TaskQueue,
    assignment: ThreadTasks,
    consumers: Sequence[str],
    skipped: Mapping[TaskId, str],
    room: _Room,
    said: Said,
) -> None:
    """Every thread has its fair share or one task more; those without the extra task take one each."""
    for task, consumer in sorted(skipped.items()):
        if room(consumer) == 0 and task in queue:
            assignment[consumer].append(task)
            queue.remove(task)
            said.append((DecisionKind.THREAD_PREVIOUS_OWNER, (task,), (consumer,)))
    rest = list(zip(queue, (consumer for consumer in consumers if room(consumer) == 0), strict=False))
    for task, consumer in rest:
        assignment[consumer].append(task)
    said.append((DecisionKind.THREAD_BALANCED, [task for task, _ in rest], [consumer for _, consumer in rest]))


class _TaskQueue:
    """A `java.util.PriorityQueue` of distinct tasks, from which tasks are polled and removed.

    Java searches for a task to remove from the front of the array, which makes the whole pass quadratic; here places
    are known. A task is taken out of the array when somebody looks at what is left: often all tasks stay where they
    were, and nothing is left. The layout is Java's whenever it shows. It does not depend on how a heap of distinct
    numbers is sifted, so `heapq` serves. Tasks are represented by their rank, the place in sorted order.
    """

    __slots__ = ("_heap", "_tasks", "gone", "ranks", "removed")

    def __init__(self, tasks: Iterable[TaskId]) -> None:
        as_given = tuple(tasks)
        self._tasks = sorted(as_given)
        self.ranks = dict(zip(self._tasks, range(len(as_given)), strict=True))
        self._heap = list(map(self.ranks.__getitem__, as_given))
        heapify(self._heap)
        self.gone = bytearray(len(as_given))
        self.removed: list[int] = []
        """Ranks that are still in the array, in the order in which they were removed."""

    def __len__(self) -> int:
        return len(self._heap) - len(self.removed)

    def __contains__(self, task: TaskId) -> bool:
        rank = self.ranks.get(task)
        return rank is not None and not self.gone[rank]

    def __iter__(self) -> Iterator[TaskId]:
        self._take_out()
        return (self._tasks[rank] for rank in self._heap)

    def poll(self) -> TaskId:
        if self.removed:
            self._take_out()
        first = heappop(self._heap)
        self.gone[first] = True
        return self._tasks[first]

    def remove(self, task: TaskId) -> None:
        rank = self.ranks[task]
        self.gone[rank] = True
        self.removed.append(rank)

    def _take_out(self) -> None:
        heap, removed = self._heap, self.removed.copy()
        self.removed.clear()
        if len(removed) == len(heap):
            heap.clear()
            return
        places = [0] * len(self._tasks) if removed else []
        for place, rank in enumerate(heap if removed else ()):
            places[rank] = place
        for rank in removed:
            place = places[rank]
            last = heap.pop()
            if place < len(heap):
                self._sift_down(places, place, last)
                if heap[place] == last:
                    self._sift_up(places, place, last)

    def _sift_down(self, places: list[int], place: int, rank: int) -> None:
        heap = self._heap
        half = len(heap) // 2
        while place < half:
            child = 2 * place + 1
            if child + 1 < len(heap) and heap[child + 1] < heap[child]:
                child += 1
            smallest = heap[child]
            if rank <= smallest:
                break
            heap[place] = smallest
            places[smallest] = place
            place = child
        heap[place] = rank
        places[rank] = place

    def _sift_up(self, places: list[int], place: int, rank: int) -> None:
        heap = self._heap
        while place > 0:
            parent = (place - 1) // 2
            if rank >= heap[parent]:
                break
            heap[place] = heap[parent]
            places[heap[parent]] = place
            place = parent
        heap[place] = rank
        places[rank] = place
