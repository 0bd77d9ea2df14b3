"""The queue must draw what Java's PriorityQueue with changing weights draws, also after it has lost its order."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from assignor.java_order import hash_set_order
from assignor.java_priority_queue import JavaPriorityQueue
from assignor.task_assignors.constrained_priority_set import ConstrainedPrioritySet
from assignor.types import ProcessId


class PlainQueue:
    """The same, word by word as Kafka has it: live weights, one draw after the other."""

    def __init__(self, processes: list[ProcessId], load: list[float]) -> None:
        self._processes = processes
        self._queue: JavaPriorityQueue[int] = JavaPriorityQueue(lambda client: (load[client], client))
        self._queued: set[int] = set()
        for client in range(len(processes)):
            self._offer(client)

    def poll(self, accepted: list[int]) -> int | None:
        rejected: list[int] = []
        while (client := self._queue.poll()) is not None:
            self._queued.remove(client)
            if client in accepted:
                self._offer_in_hash_order(rejected)
                return client
            rejected.append(client)
        self._offer_in_hash_order(rejected)
        return None

    def offer_all(self, clients: list[int]) -> None:
        for client in clients:
            self._offer(client)

    def _offer_in_hash_order(self, clients: list[int]) -> None:
        for process in hash_set_order([self._processes[client] for client in clients]):
            self._offer(self._processes.index(process))

    def _offer(self, client: int) -> None:
        if client in self._queued:
            self._queue.remove(client)
        self._queued.add(client)
        self._queue.offer(client)


@dataclass(frozen=True)
class Move:
    """Poll one of `accepted`, take the first of `accepted` when none is found, and shift load as a movement does."""

    accepted: list[int]
    destination: int
    warm_up: bool


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[ProcessId], list[int], list[int], list[Move]]:
    """Processes, threads, tasks to start with, and moves. Low bits of few kinds make buckets crowded."""
    low_bits = draw(st.sampled_from([range(3), range(1000)]))
    lows = draw(st.lists(st.sampled_from(low_bits), min_size=2, max_size=90))
    processes = sorted({ProcessId(number << 32, low ^ number) for number, low in enumerate(lows)})
    clients = st.integers(0, len(processes) - 1)
    size = len(processes)
    threads = draw(st.lists(st.sampled_from([1, 1, 2, 3, 7]), min_size=size, max_size=size))
    counts = draw(st.lists(st.integers(3, 6), min_size=size, max_size=size))
    moves = st.builds(Move, st.lists(clients, max_size=3, unique=True), clients, st.booleans())
    return processes, threads, counts, draw(st.lists(moves, max_size=40))


@settings(max_examples=300, deadline=None)
@given(groups())
def test_should_draw_the_same_clients_as_javas_queue(
    group: tuple[list[ProcessId], list[int], list[int], list[Move]],
) -> None:
    processes, threads, counts, moves = group
    load = [count / thread for count, thread in zip(counts, threads, strict=True)]
    plain = PlainQueue(processes, load)
    queue = ConstrainedPrioritySet(processes, load.__getitem__)
    for move in moves:
        drawn = queue.poll(move.accepted)
        assert drawn == plain.poll(move.accepted)
        source = next(iter(move.accepted), None) if drawn is None else drawn
        if source is None or source == move.destination or counts[move.destination] == 0:
            source = drawn
            destinations: list[int] = []
        else:
            destinations = [move.destination]
        if source is None:
            continue
        counts[source] += 1
        for destination in destinations:
            counts[destination] -= 0 if move.warm_up else 1
        for client in (source, *destinations):
            load[client] = counts[client] / threads[client]
        queue.offer_all((source, *destinations))
        plain.offer_all([source, *destinations])


def test_should_put_nobody_out_when_nobody_is_accepted() -> None:
    queue = ConstrainedPrioritySet([ProcessId(0, number) for number in range(3)], [2.0, 1.0, 1.0].__getitem__)
    assert queue.poll([]) is None
    assert [queue.poll(range(3)) for _ in range(4)] == [1, 2, 0, None]
