"""Assigns the tasks of one process to its stream threads.

The tasks are assigned in three passes: stateful active tasks, standbys, stateless active tasks. The load of a thread is
the number of its tasks over all passes. The fair share is the number of tasks per thread, rounded down. Each pass
assigns its tasks in three steps:

1. A thread keeps the tasks that it had before, smallest lag first, up to the fair share.
2. Threads below the fair share take turns to get the next tasks in sorted order.
3. The remaining tasks go to threads whose load is exactly the fair share, first to previous owners. The last remaining
   tasks are assigned in the order of the array in a `java.util.PriorityQueue`. So the array must be the same as in
   Java.

Source: `StreamsPartitionAssignor.assignTasksToThreads`, KIP-441.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop
from itertools import chain, compress, islice, repeat
from operator import not_
from typing import NamedTuple

from assignor.clients.client_state import ClientState
from assignor.errors import TaskAssignmentError
from assignor.java.hash_codes import task_hash
from assignor.java.order import hash_set_order
from assignor.task_assignors.base import ClientPlacement
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.types import ProcessId, Role, TaskId

ThreadTasks = dict[str, list[TaskId]]
"""The tasks of each member, by member id, in the order of assignment. A member without tasks may be missing."""

ThreadDecisions = list[tuple[DecisionKind, Sequence[TaskId], Iterable[str]]]
"""A list of decisions. Each tuple contains a kind of decision, the tasks with this decision, and the consumer of each
of these tasks. The consumers of a tuple can be iterated over only once.
"""

Walk = Callable[[Collection[TaskId]], Collection[TaskId]]
"""A function that returns tasks in the iteration order of the leader's Java collection. The function gets the tasks in
the order in which they were added to the collection.
"""


class TasksOfThreads(NamedTuple):
    """The tasks of each consumer of one client. Consumers without tasks may be missing."""

    active: ThreadTasks
    standby: ThreadTasks


def tasks_of_threads(
    state: ClientState, placed: ClientPlacement, log: DecisionLog, drained_members: frozenset[str]
) -> TasksOfThreads:
    everybody = state.metadata.consumers
    consumers = everybody
    if drained_members:
        consumers = tuple([consumer for consumer in everybody if consumer not in drained_members]) or everybody
    active, standby = placed.active_in_order(), placed.standby_in_order()
    previous = state.previous_tasks_by_lag(consumers)
    stateful, stateless = state.lags.known_and_unknown(active)
    thread_load: dict[str, int] = {}
    decided: list[tuple[Role, ThreadDecisions]] = []

    def assign(
        tasks: Sequence[TaskId], previous: Mapping[str, Sequence[TaskId]], role: Role, walk: Walk = tuple
    ) -> ThreadTasks:
        choices: ThreadDecisions = []
        decided.append((role, choices))
        return assign_tasks_to_threads(tasks, previous, consumers, thread_load, choices, walk)

    active_of_threads = assign(stateful, previous, Role.ACTIVE, _hash_order)
    standby_of_threads = assign(standby, previous, Role.STANDBY)
    for consumer, tasks in assign(stateless, {}, Role.ACTIVE, _hash_order).items():
        active_of_threads[consumer] = [*active_of_threads.get(consumer, ()), *tasks]
    # no lambda: in a compiled module, a lambda would also refer to `log`, and so form a reference cycle
    log.later(partial(_decisions, decided, placed.warm_ups, state.metadata.process_id))
    return TasksOfThreads(active_of_threads, standby_of_threads)


def _hash_order(tasks: Collection[TaskId]) -> list[TaskId]:
    return hash_set_order(tasks, task_hash)


def _decisions(
    decided: Iterable[tuple[Role, ThreadDecisions]], warm_ups: frozenset[TaskId], process_id: ProcessId
) -> Iterator[Decision]:
    for role, choices in decided:
        for kind, tasks, consumers in choices:
            for task, consumer in zip(tasks, consumers, strict=True):
                is_warm_up = role is Role.STANDBY and task in warm_ups
                yield Decision(kind, task, Role.WARM_UP if is_warm_up else role, process_id, None, consumer)


def assign_tasks_to_threads(
    tasks: Collection[TaskId],
    previous_tasks_by_lag: Mapping[str, Sequence[TaskId]],
    consumers: Sequence[str],
    thread_load: dict[str, int],
    decided: ThreadDecisions,
    walk: Walk = tuple,
) -> ThreadTasks:
    """Runs one pass. `tasks`: the tasks in the order in which Java adds them to its collection; with a single consumer,
    in any order. `consumers`: the sorted member ids. `walk`: a function that returns the tasks in Java's iteration
    order. `walk` is called only if the iteration order changes the result. `previous_tasks_by_lag`: the previous tasks
    of each consumer, in the order of `consumers`; empty in the pass of stateless tasks. `thread_load`: the number of
    tasks that each consumer has already; this function adds the tasks of this pass.
    """
    if len(consumers) == 1:
        previous = previous_tasks_by_lag.get(consumers[0], ())
        return {consumers[0]: _all_to_one(tasks, previous, consumers[0], thread_load, decided)}
    queue = _TaskQueue(tasks, walk)
    assignment: ThreadTasks = defaultdict(list)
    if queue:
        threads = _Threads((sum(thread_load.values()) + len(queue)) // len(consumers), thread_load, assignment, decided)
        skipped = _keep_with_previous_owner(queue, threads, previous_tasks_by_lag)
        if threads.fair_share > 0:
            _fill_in_turns(queue, threads, consumers)
        if queue:
            _hand_out_rest(queue, threads, consumers, skipped)
    return assignment


@dataclass(frozen=True, slots=True)
class _Threads:
    """The threads in one pass. `assignment`: the tasks of this pass. `load`: the number of tasks of each thread in this
    pass and in the earlier passes. A thread with a load below `fair_share` has room.

    `load` and `assignment` have no entry for a thread without tasks. In a process of thousands of threads, most threads
    get no task.
    """

    fair_share: int
    load: dict[str, int]
    assignment: ThreadTasks
    decided: ThreadDecisions


def _all_to_one(
    tasks: Iterable[TaskId], previous: Sequence[TaskId], consumer: str, load: dict[str, int], decided: ThreadDecisions
) -> list[TaskId]:
    """Gives all tasks to the only thread: first its previous tasks, then all other tasks in sorted order."""
    rest = list(tasks)
    assigned: list[TaskId] = []
    if rest and previous:
        left = set(rest)
        assigned = list(filter(left.__contains__, previous))
        left.difference_update(assigned)
        rest = [task for task in rest if task in left] if left else []
    rest.sort()
    decided.append((DecisionKind.THREAD_PREVIOUS_OWNER, assigned, (consumer,) * len(assigned)))
    decided.append((DecisionKind.THREAD_BALANCED, rest, (consumer,) * len(rest)))
    assigned = assigned + rest
    load[consumer] = load.get(consumer, 0) + len(assigned)
    return assigned


def _keep_with_previous_owner(
    queue: _TaskQueue, threads: _Threads, previous_tasks_by_lag: Mapping[str, Sequence[TaskId]]
) -> dict[int, str]:
    """Carries out step 1: threads keep tasks that they had before. If the previous owner of a task has no room, the
    result maps the rank of the task to this owner. If a task has several previous owners without room, the result has
    the last of these owners.
    """
    skipped: dict[int, str] = {}
    kept: list[TaskId] = []
    keepers: list[str] = []
    counts: list[int] = []
    assignment, load, fair_share = threads.assignment, threads.load, threads.fair_share
    rank_of, gone = queue.ranks.get, queue.gone
    for consumer, previous in previous_tasks_by_lag.items():
        has = load.get(consumer, 0)
        # fast path: in a process of thousands of threads, most threads had one task, and have no room for it
        if has >= fair_share and len(previous) == 1:
            rank = rank_of(previous[0])
            if rank is not None and not gone[rank]:
                skipped[rank] = consumer
            continue
        wanted = [rank for rank in map(rank_of, previous) if rank is not None and not gone[rank]]
        room = max(fair_share - has, 0)
        if len(wanted) > room:
            skipped.update(dict.fromkeys(wanted[room:], consumer))
            del wanted[room:]
        if wanted:
            tasks = queue.remove_all(wanted)
            assignment[consumer] += tasks
            load[consumer] = has + len(tasks)
            kept += tasks
            keepers.append(consumer)
            counts.append(len(tasks))
    of_kept = chain.from_iterable(map(repeat, keepers, counts))
    threads.decided.append((DecisionKind.THREAD_PREVIOUS_OWNER, kept, of_kept))
    return skipped


def _fill_in_turns(queue: _TaskQueue, threads: _Threads, consumers: Sequence[str]) -> None:
    assignment, load, fair_share = threads.assignment, threads.load, threads.fair_share
    room = {consumer: fair_share - load.get(consumer, 0) for consumer in consumers}
    to_fill = [consumer for consumer in consumers if room[consumer] > 0]
    fillers: list[str] = []
    turn = 0
    while to_fill and len(fillers) <= len(queue):
        fillers += to_fill
        turn += 1
        to_fill = [consumer for consumer in to_fill if room[consumer] > turn]
    if len(fillers) > len(queue):
        raise TaskAssignmentError("Ran out of unassigned stateful tasks but some members were not at capacity")
    filled = queue.poll(len(fillers))
    for consumer, task in zip(fillers, filled, strict=True):
        assignment[consumer].append(task)
    load.update(dict.fromkeys(fillers, fair_share))
    threads.decided.append((DecisionKind.THREAD_BALANCED, filled, fillers))


def _hand_out_rest(queue: _TaskQueue, threads: _Threads, consumers: Sequence[str], skipped: Mapping[int, str]) -> None:
    """Carries out step 3 of a pass. When step 3 begins, every thread has its fair share or one task more. Each thread
    with exactly its fair share may get one more task.
    """
    assignment, load, fair_share = threads.assignment, threads.load, threads.fair_share
    ranks: list[int] = []
    keepers: list[str] = []
    for rank in sorted(skipped):
        consumer = skipped[rank]
        if load.get(consumer, 0) == fair_share and not queue.gone[rank]:
            load[consumer] = fair_share + 1
            keepers.append(consumer)
            ranks.append(rank)
    kept = queue.remove_all(ranks)
    free = (consumer for consumer in consumers if load.get(consumer, 0) == fair_share)
    rest, takers = list(queue), list(islice(free, len(queue)))
    for consumer, task in chain(zip(keepers, kept, strict=True), zip(takers, rest, strict=False)):
        assignment[consumer].append(task)
    load.update(dict.fromkeys(takers, fair_share + 1))
    threads.decided.append((DecisionKind.THREAD_PREVIOUS_OWNER, kept, keepers))
    threads.decided.append((DecisionKind.THREAD_BALANCED, rest[: len(takers)], takers))


class _TaskQueue:
    """A `java.util.PriorityQueue` of distinct tasks, from which tasks are polled and removed.

    The rank of a task is its index among the sorted tasks; the queue represents a task by its rank. `poll` returns the
    tasks with the lowest ranks. These tasks are known without the heap's array. The array is built only at the end, if
    more than two tasks are left, to iterate over these tasks. `heapq` builds and polls the heap. `heapq` and Java move
    elements differently, but give the same array because all ranks differ. To remove a task, Java searches the array
    from the front, so a whole pass takes quadratic time. This class stores the position of each rank and needs no
    search.
    """

    __slots__ = ("_as_given", "_polled", "_removed", "_tasks", "_walk", "gone", "ranks")

    def __init__(self, tasks: Collection[TaskId], walk: Walk) -> None:
        self._as_given, self._walk = tasks, walk
        self._tasks = sorted(tasks)
        self.ranks = dict(zip(self._tasks, range(len(tasks)), strict=True))
        self.gone = bytearray(len(tasks))
        self._removed: list[int] = []
        """The ranks that left the queue by a poll or a removal, in the order in which they left."""
        self._polled = slice(0, 0)
        """The elements of `_removed` in this slice were polled. All other elements of `_removed` left the queue by a
        removal.
        """

    def __len__(self) -> int:
        return len(self._tasks) - len(self._removed)

    def __iter__(self) -> Iterator[TaskId]:
        has_one_order = len(self) < 3  # a heap of two elements has only one possible order
        return map(self._tasks.__getitem__, self._left() if has_one_order else self._array())

    def poll(self, count: int) -> list[TaskId]:
        """Polls `count` tasks. A queue supports only one call of `poll`."""
        polled = self._left()[:count]
        self._polled = slice(len(self._removed), len(self._removed) + count)
        return self.remove_all(polled)

    def remove_all(self, ranks: Sequence[int]) -> list[TaskId]:
        gone = self.gone
        for rank in ranks:
            gone[rank] = True
        self._removed += ranks
        return list(map(self._tasks.__getitem__, ranks))

    def _left(self) -> list[int]:
        """Returns the ranks of the tasks that are still in the queue, sorted."""
        return list(compress(range(len(self.gone)), map(not_, self.gone))) if len(self) else []

    def _array(self) -> list[int]:
        """Returns the array of Java's heap. All tasks were added to the heap in the order of `walk`, and some tasks
        were then removed or polled.
        """
        heap = list(map(self.ranks.__getitem__, self._walk(self._as_given)))
        heapify(heap)
        removed, polled = self._removed, self._polled
        self._take_out(heap, removed[: polled.start])
        for _ in removed[polled]:
            heappop(heap)
        self._take_out(heap, removed[polled.stop :])
        return heap

    def _take_out(self, heap: list[int], removed: Sequence[int]) -> None:
        if not removed:
            return
        places = [0] * len(self._tasks)
        for place, rank in enumerate(heap):
            places[rank] = place
        for rank in removed:
            place = places[rank]
            last = heap.pop()
            if place < len(heap):
                _sift_down(heap, places, place, last)
                if heap[place] == last:
                    _sift_up(heap, places, place, last)


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
