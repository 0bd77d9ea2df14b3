"""Within one process: which of its stream threads runs which task.

Three passes share one load per thread: stateful active, standby, stateless active tasks. In each pass a thread first
keeps what it had, smallest lag first, up to the fair share. Then threads below the fair share take turns with the
tasks in order. The tasks left over go to threads at exactly the fair share, previous owners first. The last tasks come
in the order in which they lie in the array of a `java.util.PriorityQueue`, so that array is kept exactly as Java would
keep it. Source: `StreamsPartitionAssignor.assignTasksToThreads`, KIP-441.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop
from itertools import chain, islice

from assignor.decisions import DecisionKind
from assignor.errors import TaskAssignmentError
from assignor.types import TaskId

ThreadTasks = dict[str, list[TaskId]]
"""Member id to its tasks, in the order assigned; a member that gets none may be missing."""

Said = list[tuple[DecisionKind, Sequence[TaskId], Sequence[str]]]
"""Choices of one kind each: tasks, each with its consumer."""

Walk = Callable[[Collection[TaskId]], Collection[TaskId]]
"""The tasks in the iteration order of the leader's Java collection, to which they were added in the order given."""


def assign_tasks_to_threads(
    tasks: Collection[TaskId],
    previous_tasks_by_lag: Mapping[str, Sequence[TaskId]],
    consumers: Sequence[str],
    thread_load: dict[str, int],
    said: Said,
    walk: Walk = tuple,
) -> ThreadTasks:
    """`tasks`: for a single consumer in any order. `walk`: called only where its order shows.
    `previous_tasks_by_lag`: by consumer, for those that had any, in the order of `consumers`, which are sorted; empty
    for stateless tasks. `thread_load`: tasks by consumer so far; updated here.
    """
    if len(consumers) == 1:
        return {consumers[0]: _all_to_one(tasks, previous_tasks_by_lag, consumers[0], thread_load, said)}
    queue = _TaskQueue(tasks, walk)
    assignment: ThreadTasks = defaultdict(list)
    if queue:
        threads = _Threads((sum(thread_load.values()) + len(queue)) // len(consumers), thread_load, assignment, said)
        skipped = _keep_with_previous_owner(queue, threads, previous_tasks_by_lag)
        if threads.fair_share > 0:
            _fill_in_turns(queue, threads, consumers)
        if queue:
            _hand_out_rest(queue, threads, consumers, skipped)
    return assignment


@dataclass(frozen=True, slots=True)
class _Threads:
    """What each has in this pass and, in `load`, with the passes before. One with less than `fair_share` has room.

    Most of thousands of threads are never looked at, and have no entry.
    """

    fair_share: int
    load: dict[str, int]
    assignment: ThreadTasks
    said: Said


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
    queue: _TaskQueue, threads: _Threads, previous_tasks_by_lag: Mapping[str, Sequence[TaskId]]
) -> dict[int, str]:
    """Returns the ranks of the tasks for which their previous owner had no room, with that owner (the last one
    asked).
    """
    skipped: dict[int, str] = {}
    kept: list[TaskId] = []
    keepers: list[str] = []
    assignment, load, fair_share = threads.assignment, threads.load, threads.fair_share
    rank_of, gone, removed = queue.ranks.get, queue.gone, queue.removed
    for consumer, previous in previous_tasks_by_lag.items():
        had = load.get(consumer, 0)
        has = had
        for task in previous:
            rank = rank_of(task)
            if rank is None or gone[rank]:
                continue
            if has >= fair_share:
                skipped[rank] = consumer
                continue
            has += 1
            gone[rank] = True
            removed.append(rank)
            assignment[consumer].append(task)
            kept.append(task)
            keepers.append(consumer)
        if has > had:
            load[consumer] = has
    threads.said.append((DecisionKind.THREAD_PREVIOUS_OWNER, kept, keepers))
    return skipped


def _fill_in_turns(queue: _TaskQueue, threads: _Threads, consumers: Sequence[str]) -> None:
    assignment, load, fair_share = threads.assignment, threads.load, threads.fair_share
    to_fill = deque([consumer for consumer in consumers if load.get(consumer, 0) < fair_share])
    filled: list[TaskId] = []
    fillers: list[str] = []
    threads.said.append((DecisionKind.THREAD_BALANCED, filled, fillers))
    while to_fill:
        if not queue:
            raise TaskAssignmentError("Ran out of unassigned stateful tasks but some members were not at capacity")
        consumer = to_fill.popleft()
        task = queue.poll()
        assignment[consumer].append(task)
        filled.append(task)
        fillers.append(consumer)
        load[consumer] = has = load.get(consumer, 0) + 1
        if has < fair_share:
            to_fill.append(consumer)


def _hand_out_rest(queue: _TaskQueue, threads: _Threads, consumers: Sequence[str], skipped: Mapping[int, str]) -> None:
    """Every thread has its fair share or one task more; those without the extra task take one each."""
    assignment, load, fair_share = threads.assignment, threads.load, threads.fair_share
    kept: list[TaskId] = []
    keepers: list[str] = []
    for rank in sorted(skipped):
        consumer = skipped[rank]
        if load.get(consumer, 0) == fair_share and not queue.gone[rank]:
            load[consumer] = fair_share + 1
            keepers.append(consumer)
            kept.append(queue.remove(rank))
    free = (consumer for consumer in consumers if load.get(consumer, 0) == fair_share)
    rest, takers = list(queue), list(islice(free, len(queue)))
    for consumer, task in chain(zip(keepers, kept, strict=True), zip(takers, rest, strict=False)):
        assignment[consumer].append(task)
    load.update(dict.fromkeys(takers, fair_share + 1))
    threads.said.append((DecisionKind.THREAD_PREVIOUS_OWNER, kept, keepers))
    threads.said.append((DecisionKind.THREAD_BALANCED, rest[: len(takers)], takers))


class _TaskQueue:
    """A `java.util.PriorityQueue` of distinct tasks, from which tasks are polled and removed.

    Java searches for a task to remove from the front of the array, which makes the whole pass quadratic; here places
    are known. The array is filled, and a task is taken out of it, when somebody looks at what is left: often all tasks
    stay where they were, and nothing is left. The layout is Java's whenever it shows. It does not depend on how a heap
    of distinct numbers is sifted, so `heapq` serves. Tasks are represented by their rank, the place in sorted order.
    """

    __slots__ = ("_as_given", "_heap", "_tasks", "_walk", "gone", "ranks", "removed")

    def __init__(self, tasks: Collection[TaskId], walk: Walk) -> None:
        self._as_given, self._walk = tasks, walk
        self._tasks = sorted(tasks)
        self.ranks = dict(zip(self._tasks, range(len(tasks)), strict=True))
        self._heap: list[int] | None = None
        self.gone = bytearray(len(tasks))
        self.removed: list[int] = []
        """Ranks that are still in the array, in the order in which they were removed."""

    def __len__(self) -> int:
        return len(self._tasks if self._heap is None else self._heap) - len(self.removed)

    def __iter__(self) -> Iterator[TaskId]:
        return map(self._tasks.__getitem__, self._up_to_date() if len(self) else ())

    def poll(self) -> TaskId:
        first = heappop(self._up_to_date())
        self.gone[first] = True
        return self._tasks[first]

    def remove(self, rank: int) -> TaskId:
        self.gone[rank] = True
        self.removed.append(rank)
        return self._tasks[rank]

    def _up_to_date(self) -> list[int]:
        """Java's array."""
        heap = self._heap
        if heap is None:
            heap = self._heap = list(map(self.ranks.__getitem__, self._walk(self._as_given)))
            heapify(heap)
        if self.removed:
            self._take_out(heap)
        return heap

    def _take_out(self, heap: list[int]) -> None:
        places = [0] * len(self._tasks)
        for place, rank in enumerate(heap):
            places[rank] = place
        for rank in self.removed:
            place = places[rank]
            last = heap.pop()
            if place < len(heap):
                _sift_down(heap, places, place, last)
                if heap[place] == last:
                    _sift_up(heap, places, place, last)
        self.removed.clear()


def _sift_down(heap: list[int], places: list[int], place: int, rank: int) -> None:
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


def _sift_up(heap: list[int], places: list[int], place: int, rank: int) -> None:
    while place > 0:
        parent = (place - 1) // 2
        if rank >= heap[parent]:
            break
        heap[place] = heap[parent]
        places[heap[parent]] = place
        place = parent
    heap[place] = rank
    places[rank] = place
